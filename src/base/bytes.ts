/** Byte strings of the system (arguments, paths): mostly UTF-8, not always. */

/** A byte string in JSON: plain text where it is UTF-8, else base64, so that it round-trips. */
export type ByteText = string | { base64: string };

/** Decodes UTF-8 strictly; null when the bytes are not UTF-8. A byte order mark is kept. */
export function decodeUtf8(bytes: Uint8Array): string | null {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");
  // The decoder writes U+FFFD for invalid bytes; a real U+FFFD in the input is told apart by encoding back.
  if (text.includes("\uFFFD") && Buffer.compare(Buffer.from(text, "utf8"), bytes) !== 0) return null;
  return text;
}

/**
 * Any bytes as text that `encodeEscaped` turns back: what is not UTF-8 becomes a lone surrogate, U+DC80 to U+DCFF, which
 * no valid text holds.
 */
export function decodeEscaped(bytes: Uint8Array): string {
  return mapBytes(bytes, (byte) => String.fromCharCode(0xdc00 + byte));
}

export function encodeEscaped(text: string): Buffer {
  if (!/[\udc80-\udcff]/.test(text)) return Buffer.from(text, "utf8");
  const parts: Buffer[] = [];
  for (const character of text) {
    const code = character.codePointAt(0)!;
    parts.push(code >= 0xdc80 && code <= 0xdcff ? Buffer.from([code - 0xdc00]) : Buffer.from(character, "utf8"));
  }
  return Buffer.concat(parts);
}

export function toByteText(bytes: Uint8Array): ByteText {
  return decodeUtf8(bytes) ?? { base64: Buffer.from(bytes).toString("base64") };
}

export function fromByteText(text: ByteText): Buffer {
  return typeof text === "string" ? Buffer.from(text, "utf8") : Buffer.from(text.base64, "base64");
}

/** For a person: UTF-8 as it is, every other byte as `\xNN`. */
export function displayBytes(bytes: Uint8Array): string {
  return mapBytes(bytes, (byte) => `\\x${byte.toString(16).padStart(2, "0")}`);
}

/** UTF-8 decoded, and every byte that is none of it by `invalid`. */
function mapBytes(bytes: Uint8Array, invalid: (byte: number) => string): string {
  const whole = decodeUtf8(bytes);
  if (whole !== null) return whole;
  let out = "";
  for (let at = 0; at < bytes.length; ) {
    const length = utf8Length(bytes, at);
    if (length === 0) {
      out += invalid(bytes[at]!);
      at += 1;
    } else {
      out += Buffer.from(bytes.subarray(at, at + length)).toString("utf8");
      at += length;
    }
  }
  return out;
}

/** Length of the valid UTF-8 character at `at`, or 0 when there is none. */
function utf8Length(bytes: Uint8Array, at: number): number {
  const lead = bytes[at]!;
  const length =
    lead < 0x80 ? 1 : lead >= 0xc2 && lead < 0xe0 ? 2 : lead < 0xe0 ? 0 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  if (length === 0 || at + length > bytes.length) return 0;
  return decodeUtf8(bytes.subarray(at, at + length)) === null ? 0 : length;
}
