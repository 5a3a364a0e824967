// Prices an order: {"id", "lines": [{"count", "price"}]} becomes {"id", "total", "average"}.

import { answer, fail, parse, quote } from "./uniflow";
export { uniflow_abi, uniflow_alloc } from "./uniflow";

export function uniflow_call(ptr: usize, n: i32): u64 {
  return answer(n, price);
}

export function uniflow_config(ptr: usize, n: i32): u64 {
  return answer(n, configure);
}

let tax: i64 = 0; // in percent

function configure(text: string): string {
  const v = parse(text).get("tax");
  if (isNaN(v.number)) return fail("tax must be a number");
  tax = v.int();
  return "null";
}

function price(text: string): string {
  const order = parse(text);
  const lines = order.get("lines").list;
  if (lines.length == 0) return fail("the order has no lines", "empty", 422, true);
  let total: i64 = 0;
  let pieces: i64 = 0;
  for (let i = 0; i < lines.length; i++) {
    const count = lines[i].get("count").int();
    pieces += count;
    total += count * lines[i].get("price").int();
  }
  total += (total * tax) / 100;
  const id = order.get("id").text;
  return '{"id":' + quote(id ? id : "") + ',"total":' + total.toString() + ',"average":' + (total / pieces).toString() + "}";
}
