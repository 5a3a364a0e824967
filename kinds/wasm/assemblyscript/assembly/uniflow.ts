// What a module in AssemblyScript needs to be called by Uniflow: the exports, and a reader of JSON.
// Copy this file next to yours, which exports uniflow_call: see price.ts.

/** An error of your function: return fail(...). It becomes the error of the node. */
export class Failure {
  constructor(public message: string, public code: string = "", public status: i32 = 0, public isPublic: bool = false) {}
}

let failure: Failure | null = null;

/** Makes the call fail. Return what it returns. */
export function fail(message: string, code: string = "", status: i32 = 0, isPublic: bool = false): string {
  failure = new Failure(message, code, status, isPublic);
  return "null";
}

let input = new ArrayBuffer(1024);
let output = new ArrayBuffer(0);

export function uniflow_abi(): i32 {
  return 1;
}

export function uniflow_alloc(n: i32): usize {
  if (n > input.byteLength) input = new ArrayBuffer(n);
  return changetype<usize>(input);
}

const FAILED: u64 = 1 << 31;

/** Calls f with the n bytes that the host has written, and returns where its answer is. */
export function answer(n: i32, f: (text: string) => string): u64 {
  failure = null;
  let text = f(String.UTF8.decodeUnsafe(changetype<usize>(input), n));
  let flag: u64 = 0;
  const e = failure;
  if (e) {
    flag = FAILED;
    text = '{"message":' + quote(e.message) + ',"code":' + quote(e.code) + ',"status":' + e.status.toString() + ',"public":' + e.isPublic.toString() + "}";
  }
  output = String.UTF8.encode(text);
  return ((changetype<usize>(output) as u64) << 32) | (output.byteLength as u64) | flag;
}

@external("uniflow", "log")
declare function log(level: i32, ptr: usize, n: i32): void;

/** Writes to the log of the node. Levels: 0 debug, 1 info, 2 warn, 3 error. */
export function writeLog(level: i32, text: string): void {
  const bytes = String.UTF8.encode(text);
  log(level, changetype<usize>(bytes), bytes.byteLength);
}

/** What the compiler calls for throw and failed assertions. */
export function abort(message: string | null, file: string | null, line: u32, column: u32): void {
  writeLog(3, (message ? message : "abort") + " at " + (file ? file : "?") + ":" + line.toString() + ":" + column.toString());
  unreachable();
}

/** Returns a text as JSON writes it. */
export function quote(text: string): string {
  let s = '"';
  let from = 0;
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c >= 32 && c != 34 && c != 92) continue;
    s += text.substring(from, i) + (c < 32 ? "\\u00" + (c < 16 ? "0" : "") + c.toString(16) : "\\" + text.charAt(i));
    from = i + 1;
  }
  return s + text.substring(from) + '"';
}

/** A value of JSON: one of its fields is set, or none for null. */
export class Value {
  text: string | null = null;
  number: f64 = NaN;
  bool: bool = false;
  list: Value[] = [];
  names: string[] = []; // of the fields of a map, whose values are list

  /** Returns a field of a map; null if there is none. */
  get(name: string): Value {
    const i = this.names.indexOf(name);
    return i < 0 ? new Value() : this.list[i];
  }

  /** Returns a number as an integer; 0 if it is none. */
  int(): i64 {
    return isNaN(this.number) ? 0 : (this.number as i64);
  }
}

/** Reads a text. The host has checked it, so anything else throws. */
export function parse(text: string): Value {
  return new Parser(text).value();
}

class Parser {
  at: i32 = 0;

  constructor(private s: string) {}

  next(): i32 {
    while (this.at < this.s.length && this.s.charCodeAt(this.at) <= 32) this.at++;
    return this.at < this.s.length ? this.s.charCodeAt(this.at) : 0;
  }

  value(): Value {
    const v = new Value();
    const c = this.next();
    if (c == 0x7b || c == 0x5b) {
      this.at++;
      const close = c + 2; // of both kinds of brackets
      while (this.next() != close) {
        if (this.next() == 0x2c) this.at++;
        if (c == 0x7b) {
          this.next();
          v.names.push(this.string());
          assert(this.next() == 0x3a, "JSON: a colon is missing");
          this.at++;
        }
        v.list.push(this.value());
      }
      this.at++;
    } else if (c == 0x22) {
      v.text = this.string();
    } else {
      const from = this.at;
      while (this.at < this.s.length && ",]} \n\r\t".indexOf(this.s.charAt(this.at)) < 0) this.at++;
      const word = this.s.substring(from, this.at);
      assert(word.length > 0, "JSON: a value is missing");
      if (word == "true" || word == "false") v.bool = word == "true";
      else if (word != "null") v.number = parseFloat(word);
    }
    return v;
  }

  string(): string {
    let s = "";
    let from = ++this.at;
    for (;;) {
      assert(this.at < this.s.length, "JSON: a text does not end");
      const c = this.s.charCodeAt(this.at);
      if (c == 0x22) break;
      if (c != 0x5c) {
        this.at++;
        continue;
      }
      s += this.s.substring(from, this.at);
      const e = this.s.charAt(this.at + 1);
      this.at += 2;
      if (e == "u") {
        s += String.fromCharCode(parseInt(this.s.substring(this.at, this.at + 4), 16) as i32);
        this.at += 4;
      } else {
        const i = "nrtbf".indexOf(e);
        s += i < 0 ? e : "\n\r\t\b\f".charAt(i);
      }
      from = this.at;
    }
    s += this.s.substring(from, this.at++);
    return s;
  }
}
