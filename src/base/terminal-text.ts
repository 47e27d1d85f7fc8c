/**
 * Child text made safe to show: no output can move the cursor, set a title, hide text or forge a line of ours. Pure.
 * Carriage return, backspace and erase-line act on the line as a terminal would; other sequences are removed; what
 * is left of control and invisible formatting characters is shown as an escape.
 */

/** One logical line, without its line ending, as a person may safely see it. */
export function renderTerminalLine(line: string): string {
  if (isPlain(line)) return line;
  const screen: Screen = { cells: [], column: 0 };
  let at = 0;
  for (const match of line.matchAll(sequences())) {
    write(screen, line.slice(at, match.index));
    if ((match[2] ?? match[4]) === "K") eraseInLine(screen, match[1] ?? match[3] ?? "");
    at = match.index + match[0].length;
  }
  write(screen, line.slice(at));
  return makeVisible(screen.cells.join(""));
}

/** Control and invisible formatting characters as `\xNN` or `\u{N}`; tab stays. */
export function makeVisible(text: string): string {
  if (isPlain(text)) return text;
  return text.replace(invisible(), (character) => {
    const code = character.codePointAt(0)!;
    // A byte that is not UTF-8, as decodeEscaped writes it.
    if (code >= 0xdc80 && code <= 0xdcff) return `\\x${(code - 0xdc00).toString(16)}`;
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u{${code.toString(16)}}`;
  });
}

// The expressions are made when they are needed: compiling them costs a start 0.3 ms.

/** CSI with any parameters, OSC/DCS/SOS/PM/APC up to BEL or ST, charset selections, other two-byte escapes. */
function sequences(): RegExp {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: terminal sequences begin with control characters
  return /\u001b(?:\[([0-?]*)[ -/]*([@-~])|[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\|$)|[ -/]+[0-~]|[0-~])|\u009b([0-?]*)[ -/]*([@-~])/g;
}

/** C0 but tab, DEL, C1, soft hyphen, zero-width, bidirectional and other invisible formatting, line separators, tags. */
function invisible(): RegExp {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to make visible
  return /[\u0000-\u0008\u000a-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e007f}]|\u034f/gu;
}

function isPlain(text: string): boolean {
  for (let i = 0; i < text.length; i += 1) {
    const code = text.charCodeAt(i);
    if ((code < 0x20 && code !== 0x09) || code > 0x7e) return false;
  }
  return true;
}

interface Screen {
  cells: string[];
  column: number;
}

function write(screen: Screen, text: string): void {
  for (const character of text) {
    if (character === "\r") screen.column = 0;
    else if (character === "\b") screen.column = Math.max(0, screen.column - 1);
    else {
      while (screen.cells.length < screen.column) screen.cells.push(" ");
      screen.cells[screen.column] = character;
      screen.column += 1;
    }
  }
}

function eraseInLine(screen: Screen, parameter: string): void {
  if (parameter === "1") screen.cells.fill(" ", 0, screen.column + 1);
  else if (parameter === "2") screen.cells = [];
  else screen.cells.length = Math.min(screen.cells.length, screen.column);
}
