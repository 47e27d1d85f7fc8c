import { mkdtempSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A fresh directory of one test, removed with everything in it when the block that holds it ends. */
export class TempDirectory implements Disposable {
  readonly path = realpathSync(mkdtempSync(join(tmpdir(), "ash-test-")));

  /** A path below it. */
  at(...names: string[]): string {
    return join(this.path, ...names);
  }

  bytesAt(...names: string[]): Buffer {
    return Buffer.from(this.at(...names));
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true });
  }
}
