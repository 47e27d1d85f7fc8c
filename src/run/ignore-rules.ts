/**
 * What a .gitignore says, as git reads it: byte by byte, quirks included. Text and paths are byte strings, one character
 * a byte (latin1). Pure. A match takes time in proportion to pattern times path, whatever the pattern.
 */

export interface IgnoreRule {
  negated: boolean;
  directoryOnly: boolean;
  /** Has no slash: it is about the name alone, at any depth. */
  byName: boolean;
  /** What the subject begins with, before the first wildcard. */
  literal: string;
  /** What follows it; null: nothing. */
  glob: readonly Token[] | null;
}

/** One step of a pattern: a set of bytes, or a run of them. */
type Token =
  | { kind: "bytes"; has: (byte: number) => boolean }
  /** Any bytes but slashes. */
  | { kind: "star" }
  /** Any bytes. */
  | { kind: "deep" }
  /** No bytes, or any that end with a slash. */
  | { kind: "directories" };

/** The rules that reach an entry, innermost directory first. */
export interface IgnoreChain {
  rules: readonly IgnoreRule[];
  /** Where, in an absolute path below the rules' own directory, the part begins that they are matched with. */
  base: number;
  outer: IgnoreChain | null;
}

const SLASH = 0x2f;

/** Parses a .gitignore; rules that can match nothing are left out. */
export function parseIgnoreRules(text: string): IgnoreRule[] {
  const lines = (text.startsWith("\xef\xbb\xbf") ? text.slice(3) : text).split("\n");
  return lines.map((line) => parseRule(line.replace(/\r$/, ""))).filter((rule) => rule !== null);
}

/** What `rules` say of a path relative to their directory: true ignored, false kept, null nothing. The last match counts. */
export function matchIgnoreRules(rules: readonly IgnoreRule[], path: string, isDirectory: boolean): boolean | null {
  const name = path.slice(path.lastIndexOf("/") + 1);
  for (let at = rules.length - 1; at >= 0; at -= 1) {
    const rule = rules[at]!;
    if (rule.directoryOnly && !isDirectory) continue;
    if (matchesRule(rule, rule.byName ? name : path)) return !rule.negated;
  }
  return null;
}

/** Tells whether an entry is ignored, by its absolute path; what an inner .gitignore says of it wins. */
export function isIgnored(chain: IgnoreChain | null, path: string, isDirectory: boolean): boolean {
  for (let link = chain; link !== null; link = link.outer) {
    const answer = matchIgnoreRules(link.rules, path.slice(link.base), isDirectory);
    if (answer !== null) return answer;
  }
  return false;
}

function parseRule(line: string): IgnoreRule | null {
  if (line.startsWith("#")) return null;
  let pattern = trimTrailingSpaces(line);
  const negated = pattern.startsWith("!");
  if (negated) pattern = pattern.slice(1);
  const directoryOnly = pattern.endsWith("/");
  if (directoryOnly) pattern = pattern.slice(0, -1);
  const byName = !pattern.includes("/");
  if (pattern.startsWith("/")) pattern = pattern.slice(1);
  if (pattern === "") return null;
  const special = pattern.search(/[*?[\\]/);
  if (special < 0) return { negated, directoryOnly, byName, literal: pattern, glob: null };
  const glob = parseGlob(pattern.slice(special), !byName);
  return glob === null ? null : { negated, directoryOnly, byName, literal: pattern.slice(0, special), glob };
}

/** Spaces at the end go, unless a backslash is in front. */
function trimTrailingSpaces(line: string): string {
  let end = 0;
  for (let at = 0; at < line.length; at += 1) {
    if (line[at] === "\\") at += 1;
    else if (line[at] === " ") continue;
    end = at + 1;
  }
  return line.slice(0, end);
}

/**
 * Parses a pattern from its first wildcard on; null when it can match nothing. As in git, what precedes that wildcard
 * does not count when `**` asks for a slash in front of it: `a**` + `/b` reaches as deep as `a/**` + `/b` would.
 */
function parseGlob(glob: string, isPath: boolean): Token[] | null {
  const tokens: Token[] = [];
  for (let at = 0; at < glob.length; ) {
    const char = glob[at]!;
    if (char === "*") {
      let end = at + 1;
      while (glob[end] === "*") end += 1;
      const bounded = (at === 0 || glob[at - 1] === "/") && /^(?:$|\/|\\\/)/.test(glob.slice(end, end + 2));
      if (!isPath || end - at === 1 || !bounded) tokens.push({ kind: "star" });
      else if (glob[end] === "/") {
        tokens.push({ kind: "directories" });
        end += 1;
      } else tokens.push({ kind: "deep" });
      at = end;
    } else if (char === "?") {
      tokens.push({ kind: "bytes", has: (byte) => byte !== SLASH });
      at += 1;
    } else if (char === "[") {
      const set = parseSet(glob, at);
      if (set === null) return null;
      tokens.push({ kind: "bytes", has: set.has });
      at = set.end;
    } else {
      if (char === "\\") at += 1;
      if (at === glob.length) return null;
      const wanted = glob.charCodeAt(at);
      tokens.push({ kind: "bytes", has: (byte) => byte === wanted });
      at += 1;
    }
  }
  return tokens;
}

const CLASSES = new Map([
  ["alnum", /[A-Za-z0-9]/],
  ["alpha", /[A-Za-z]/],
  ["blank", /[ \t]/],
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the control characters
  ["cntrl", /[\0-\x1f\x7f]/],
  ["digit", /[0-9]/],
  ["graph", /[!-~]/],
  ["lower", /[a-z]/],
  ["print", /[ -~]/],
  ["punct", /[!-/:-@[-`{-~]/],
  ["space", /[ \t\r\n]/],
  ["upper", /[A-Z]/],
  ["xdigit", /[A-Fa-f0-9]/],
]);

/** Parses the set that begins at `start`; null when it is never closed or names an unknown class. No set has the slash. */
function parseSet(glob: string, start: number): { has: (byte: number) => boolean; end: number } | null {
  const members = new Uint8Array(256);
  let at = start + 1;
  const negated = glob[at] === "!" || glob[at] === "^";
  if (negated) at += 1;
  // The first byte of a range; 0: a `-` here is itself.
  let from = 0;
  for (let first = true; first || glob[at] !== "]"; first = false) {
    if (at >= glob.length) return null;
    let code = glob.charCodeAt(at);
    const closing = glob[at] === "[" && glob[at + 1] === ":" ? glob.indexOf("]", at + 2) : 0;
    if (closing < 0) return null;
    if (glob[at] === "\\") {
      at += 1;
      if (at >= glob.length) return null;
      code = glob.charCodeAt(at);
      members[code] = 1;
    } else if (glob[at] === "-" && from !== 0 && at + 1 < glob.length && glob[at + 1] !== "]") {
      at += glob[at + 1] === "\\" ? 2 : 1;
      if (at >= glob.length) return null;
      members.fill(1, from, Math.max(from, glob.charCodeAt(at) + 1));
      code = 0;
    } else if (closing > at + 2 && glob[closing - 1] === ":") {
      const named = CLASSES.get(glob.slice(at + 2, closing - 1));
      if (named === undefined) return null;
      for (let byte = 0; byte < 256; byte += 1) if (named.test(String.fromCharCode(byte))) members[byte] = 1;
      at = closing;
      code = 0;
    } else members[code] = 1;
    from = code;
    at += 1;
  }
  const wanted = negated ? 0 : 1;
  return { has: (byte) => byte !== SLASH && members[byte] === wanted, end: at + 1 };
}

function matchesRule({ literal, glob }: IgnoreRule, subject: string): boolean {
  if (glob === null) return subject === literal;
  return subject.startsWith(literal) && matchesGlob(glob, subject, literal.length);
}

/** Before a token, with nothing of it matched yet. */
const ENTRY = 1;
/** Inside a `directories`, which ends only behind a slash. */
const INSIDE = 2;

/** Follows all ways through the pattern at once: `reached[i]` says how the bytes so far can lead to token i. */
function matchesGlob(tokens: readonly Token[], subject: string, start: number): boolean {
  let reached = new Uint8Array(tokens.length + 1);
  let next = new Uint8Array(tokens.length + 1);
  reached[0] = ENTRY;
  skipOptional(tokens, reached);
  for (let at = start; at < subject.length; at += 1) {
    const byte = subject.charCodeAt(at);
    next.fill(0);
    for (let i = 0; i < tokens.length; i += 1) {
      const token = tokens[i]!;
      if (reached[i] === 0) continue;
      if (token.kind === "bytes") {
        if (token.has(byte)) next[i + 1] = ENTRY;
      } else if (token.kind === "directories") {
        next[i]! |= INSIDE;
        if (byte === SLASH) next[i + 1] = ENTRY;
      } else if (token.kind === "deep" || byte !== SLASH) next[i] = ENTRY;
    }
    skipOptional(tokens, next);
    [reached, next] = [next, reached];
  }
  return reached[tokens.length] !== 0;
}

/** Everything but a set may also match no bytes at all. */
function skipOptional(tokens: readonly Token[], reached: Uint8Array): void {
  for (let i = 0; i < tokens.length; i += 1) {
    if ((reached[i]! & ENTRY) !== 0 && tokens[i]!.kind !== "bytes") reached[i + 1]! |= ENTRY;
  }
}
