import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import type { Process, ProcessNode, Processes as Answer } from "./api.gen";
import { usePoll } from "./poll";
import { get } from "./server";
import { count, plain, t } from "./text";
import type { ViewProps } from "./view";

/** The processes that wait: the longest first, as far as the page has seen them. */
export function Processes({ namespace, show }: ViewProps) {
  const answer = useSignal<Answer | null>(null);
  const seen = useRef(new Map<string, number>()); // when each came into sight
  usePoll(async () => {
    const now = await get<Answer>("/api/v1/processes");
    seen.current = new Map(now.list.map((p) => [p.id, seen.current.get(p.id) ?? Date.now()]));
    answer.value = now;
    return true;
  });
  const age = (p: Process) => Math.floor((Date.now() - seen.current.get(p.id)!) / 1000);
  const name = (n: ProcessNode) => (
    <button class="link" onClick={() => show(n.id)}>{plain(n.name || n.kind)}</button>
  );
  const shown = (answer.value?.list ?? []).filter((p) => p.trigger.namespace === namespace).sort((a, b) => age(b) - age(a));
  return (
    <section class="scroll">
      {answer.value ? <p>{t("inFlight", count(answer.value.in_flight), count(answer.value.waiting))}</p> : null}
      {answer.value && shown.length === 0 ? <p class="empty muted">{t("noProcesses")}</p> : null}
      {shown.length ? (
        <table>
          <thead>
            <tr><th>{t("trigger")}</th><th>{t("waitsIn")}</th><th class="n">{t("seenFor")}</th><th>{t("process")}</th></tr>
          </thead>
          <tbody>
            {shown.map((p) => (
              <tr key={p.id}>
                <td>{name(p.trigger)}</td>
                <td>{p.at.map((n, i) => <span key={i}>{i ? ", " : ""}{name(n)}</span>)}</td>
                <td class="n">{age(p)} s</td>
                <td><code>{p.id}</code></td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : null}
    </section>
  );
}
