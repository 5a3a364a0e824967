export default function ({ path }) {
  if (path === "/8") throw new Error("the service is down");
  return { status: 200, body: ["good tea"] };
}
