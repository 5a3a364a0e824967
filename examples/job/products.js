// Products 1 to 250 and 1001 to 1100, as the API has them; what comes after 1100 fails.
export default function ({ query }) {
  const after = Number(query.after);
  if (after >= 1100) throw { message: "the service has answered with status 503", status: 503 };
  const last = after < 1000 ? 250 : 1100;
  const products = [];
  for (let id = after + 1; id <= last && products.length < Number(query.limit); id++) {
    products.push({ id, name: "product " + id, price: id });
  }
  return { status: 200, body: { products } };
}
