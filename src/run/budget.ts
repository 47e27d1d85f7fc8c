/** How many bytes may still be kept. Pure. */
export class Budget {
  private bytesLeft: number | null;

  /** null: no budget. */
  constructor(bytes: number | null) {
    this.bytesLeft = bytes;
  }

  /** How many of `bytes` are granted. Fewer than asked for means that the budget is reached. */
  take(bytes: number): number {
    if (this.bytesLeft === null) return bytes;
    const granted = Math.min(bytes, this.bytesLeft);
    this.bytesLeft -= granted;
    return granted;
  }

  get left(): number | null {
    return this.bytesLeft;
  }
}
