export default function (order) {
  let total = 0;
  let pieces = 0;
  for (const { count, price } of order.lines) {
    pieces += count;
    total += count * price;
  }
  total += Math.trunc((total * 20) / 100);
  return { id: order.id, total, average: Math.trunc(total / pieces) };
}
