import { useSignal } from "@preact/signals";
import { graph, useGraph } from "./graph";
import { keyOf, rows } from "./live";
import { count, duration, plain, rate, t } from "./text";
import type { ViewProps } from "./view";

/** The nodes as a list, the busiest first. */
export function Nodes({ namespace, show }: ViewProps) {
  useGraph(namespace);
  const find = useSignal("");
  const shown = (graph.value?.diagram.nodes ?? [])
    .map((node) => ({ node, row: rows.value.get(keyOf(node.kind, node.namespace, node.path)) }))
    .filter(({ node }) => `${node.path ?? ""} ${node.kind}`.includes(find.value))
    .sort((a, b) => (b.row?.rate ?? 0) - (a.row?.rate ?? 0) || (b.row?.packets ?? 0) - (a.row?.packets ?? 0));
  return (
    <section class="scroll">
      <input type="search" placeholder={t("find") + "  /"} aria-label={t("find")} onInput={(e) => (find.value = e.currentTarget.value)} />
      <table>
        <thead>
          <tr>
            <th>{t("name")}</th><th>{t("kind")}</th>
            <th class="n">{t("rate")}</th><th class="n">{t("failing")}</th><th class="n">{t("p50")}</th><th class="n">{t("p99")}</th>
            <th class="n">{t("load")}</th><th class="n">{t("packets")}</th><th class="n">{t("errors")}</th>
          </tr>
        </thead>
        <tbody>
          {shown.map(({ node, row }) => (
            <tr key={node.id}>
              <td><button class="link" onClick={() => show(node.id)}>{plain(node.path || node.kind)}</button></td>
              <td>{node.kind}</td>
              <td class="n">{row ? rate(row.rate) : ""}</td>
              <td class={row && row.failing > 0 ? "n hot" : "n"}>{row ? rate(row.failing) : ""}</td>
              <td class="n">{row ? duration(row.p50) : ""}</td>
              <td class="n">{row ? duration(row.p99) : ""}</td>
              <td class="n">{row ? Math.round(row.load * 100) + " %" : ""}</td>
              <td class="n">{row ? count(row.packets) : ""}</td>
              <td class="n">{row ? count(row.errors) : ""}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
