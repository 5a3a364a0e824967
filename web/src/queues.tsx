import { useSignal } from "@preact/signals";
import type { Figure, Queue } from "./api.gen";
import { Dead } from "./dead";
import { graph, useGraph } from "./graph";
import { get } from "./server";
import { count, duration, plain, t } from "./text";
import { usePoll } from "./poll";
import type { ViewProps } from "./view";

/** What nodes report of themselves: what waits, lags, is held or was lost. */
export function Queues({ namespace, show }: ViewProps) {
  useGraph(namespace);
  const queues = useSignal<Queue[] | null>(null);
  const opened = useSignal(""); // the source whose dead letters are shown
  usePoll(1000, async () => {
    queues.value = await get<Queue[]>("/api/v1/queues");
    return true;
  });
  const shown = (queues.value ?? []).filter((q) => q.node.namespace === namespace);
  return (
    <section class="scroll cards">
      {queues.value && shown.length === 0 ? <p class="empty">{t("noQueues")}</p> : null}
      {shown.map((q) => (
        <article key={q.id} class={opened.value === q.id ? "opened" : undefined} aria-label={q.node.name || q.node.kind}>
          <h2>
            {graph.value?.diagram.nodes.some((n) => n.id === q.id) ? <button class="link" onClick={() => show(q.id)}>{plain(q.node.name || q.node.kind)}</button> : plain(q.node.name || q.node.kind)}
          </h2>
          <p class="muted">{q.node.kind}</p>
          {q.waiting ? <p class="hot">▲ {t("notReady")}: {plain(q.waiting)}</p> : null}
          <table>
            <tbody>
              {q.figures.map((f, i) => {
                const again = i > 0 && q.figures[i - 1]!.name === f.name;
                return (
                  <tr key={i} title={f.name} class={again ? "again" : undefined}>
                    <td>
                      {again ? null : plain(f.help.replace(/\.$/, ""))}
                      {f.labels ? <div class="muted">{plain(Object.values(f.labels).join(", "))}</div> : null}
                    </td>
                    <td class="n">{figure(f)}</td>
                  </tr>
                );
              })}
            </tbody>
          </table>
          {q.dead || opened.value === q.id ? <p class="row"><button aria-expanded={opened.value === q.id} onClick={() => (opened.value = opened.value === q.id ? "" : q.id)}>{t(opened.value === q.id ? "hideDead" : "showDead")}</button></p> : null}
          {opened.value === q.id ? <Dead key={q.id} id={q.id} /> : null}
        </article>
      ))}
    </section>
  );
}

/** The number, with the unit that its name says. */
function figure(f: Figure): string {
  const number = (value: number) => (f.name.endsWith("_seconds") ? duration(value) || "0" : f.name.endsWith("_bytes") ? count(value) + " B" : count(value));
  if (f.type !== "histogram") return number(f.value);
  return f.value ? `${count(f.value)}, ⌀ ${number(f.mean ?? 0)}` : "0";
}
