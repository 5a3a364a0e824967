// What a durable run looks like, in the list and by itself.

import type { ProcessNode, Run } from "./api.gen";
import { graph } from "./graph";
import { duration, elapsed, plain } from "./text";

export const every = 2000; // ms between two looks at the journal

/** A time to the second. */
export const when = (time: string) => time.slice(0, 19).replace("T", " ");

/** Whether a run has ended, and was not only put aside. */
export const over = (r: Run) => ["ok", "failed", "cancelled", "dead"].includes(r.state);

/** How long a run took; an empty text if it has not ended. */
export const took = (r: Run) => (r.ended && over(r) ? duration(elapsed(r.began, r.ended)) || "0" : "");

export function State({ of }: { of: Run }) {
  const [look, sign] = ["failed", "dead", "stuck", "diverged"].includes(of.state) ? ["hot", "▲"] : of.state === "ok" ? ["ok", "●"] : of.state === "running" ? ["going", "○"] : ["warm", "◆"];
  return <span class={look}>{sign} {of.state}</span>;
}

/** A node, which leads to the flow if it is served. */
export function Node({ of, show }: { of: ProcessNode; show: (id: string) => void }) {
  const name = plain(of.name || of.kind || of.id);
  return graph.value?.diagram.nodes.some((n) => n.id === of.id) ? <button class="link" onClick={() => show(of.id)}>{name}</button> : <span>{name}</span>;
}
