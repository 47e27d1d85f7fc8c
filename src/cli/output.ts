/**
 * Writes to descriptors 1 and 2. `process.stdout` is never touched: it costs 10 ms and leaves O_NONBLOCK on the
 * caller's descriptor.
 */
import { errorReason, isErrno } from "../base/errors.ts";
import { writeOnce } from "../base/files.ts";

export type Written = { kind: "whole" } | { kind: "reader_gone" } | { kind: "failed"; reason: string };

/** Writes everything, however slow the reader is. Never throws: the run behind the text is already over. */
export function writeAll(fd: number, text: string | Uint8Array): Written {
  const bytes = typeof text === "string" ? Buffer.from(text, "utf8") : text;
  for (let at = 0; at < bytes.length; ) {
    try {
      at += writeOnce(fd, at === 0 ? bytes : bytes.subarray(at));
    } catch (error) {
      // Somebody else made the shared descriptor non-blocking: wait for the reader.
      if (isErrno(error, "EAGAIN")) Bun.sleepSync(1);
      else if (isErrno(error, "EPIPE")) return { kind: "reader_gone" };
      else return { kind: "failed", reason: errorReason(error) };
    }
  }
  return { kind: "whole" };
}
