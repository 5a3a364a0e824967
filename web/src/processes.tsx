import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import type { Process as Waiting, ProcessNode, Processes as Answer } from "./api.gen";
import { status } from "./live";
import { usePoll } from "./poll";
import { Outcome, Process } from "./process";
import { get, post } from "./server";
import { count, duration, plain, t } from "./text";
import type { ViewProps } from "./view";

const filters = { all: "", failed: "failed", slow: "slow" };

/** The processes that wait, and those that have ended since the page looks. */
export function Processes({ namespace, show, process, open, path }: ViewProps) {
  const answer = useSignal<Answer | null>(null);
  const failure = useSignal("");
  const filter = useSignal<keyof typeof filters>("all");
  const seen = useRef(new Map<string, number>()); // when each came into sight
  usePoll(1000, async () => { // also while one is read: the program forgets them when no one asks
    const now = await get<Answer>("/api/v1/processes?only=" + filters[filter.value]);
    seen.current = new Map(now.list.map((p) => [p.id, seen.current.get(p.id) ?? Date.now()]));
    answer.value = now;
    return true;
  }, filter.value);
  if (process) return <Process id={process} show={show} path={() => path(process)} close={() => open("")} />;
  const cancel = (id: string) => post(`/api/v1/processes/${encodeURIComponent(id)}/cancel`).then(() => (failure.value = ""), (err: Error) => (failure.value = err.message));
  const age = (p: Waiting) => Math.floor((Date.now() - seen.current.get(p.id)!) / 1000);
  const name = (n: ProcessNode) => <button class="link" onClick={() => show(n.id)}>{plain(n.name || n.kind)}</button>;
  const a = answer.value;
  const waiting = new Map<string, Waiting[]>(); // by where they began and wait, the longest first
  for (const p of (a?.list ?? []).filter((p) => p.trigger.namespace === namespace).sort((x, y) => age(y) - age(x))) {
    const key = [p.trigger, ...p.at].map((n) => n.id).join();
    waiting.set(key, [...(waiting.get(key) ?? []), p]);
  }
  const ended = (a?.ended ?? []).filter((p) => p.trigger.namespace === namespace);
  const longest = Math.max(1e-9, ...ended.map((p) => p.duration));
  return (
    <section class="scroll">
      {a ? <p>{t("inFlight", count(a.in_flight), count(a.waiting))}</p> : null}
      {waiting.size ? (
        <table>
          <thead><tr><th>{t("trigger")}</th><th>{t("waitsIn")}</th><th class="n">{t("number")}</th><th class="n">{t("seenFor")}</th><th>{t("longestOf")}</th></tr></thead>
          <tbody>
            {[...waiting].map(([key, [p, ...more]]) => p && (
              <tr key={key}>
                <td>{name(p.trigger)}</td>
                <td>{p.at.map((n, i) => <span key={i}>{i ? ", " : ""}{name(n)}</span>)}</td>
                <td class="n">{count(1 + more.length)}</td>
                <td class="n">{age(p)} s</td>
                <td><code>{p.id}</code>{status.value?.scope === "control" && p.at.length ? <> <button onClick={() => void cancel(p.id)}>{t("cancel")}</button></> : null}</td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : null}
      <p class="hot" role="status">{failure.value ? "▲ " + plain(failure.value) : ""}</p>
      <div class="row ended">
        <h2>{t("ended")}</h2>
        <div class="tabs" role="group" aria-label={t("ended")}>
          {(Object.keys(filters) as (keyof typeof filters)[]).map((f) => <button key={f} aria-pressed={filter.value === f} onClick={() => (filter.value = f)}>{t(f)}</button>)}
        </div>
      </div>
      {a?.unrecorded ? <p class="muted">{t("unrecorded", count(a.unrecorded))}</p> : null}
      {a && ended.length === 0 ? <p class="empty muted">{t("noEnded", a.since.slice(11, 19))}</p> : null}
      {ended.length ? (
        <table>
          <thead><tr><th>{t("began")}</th><th>{t("process")}</th><th>{t("outcome")}</th><th class="n">{t("took")}</th><th aria-hidden="true" /><th>{t("trigger")}</th><th class="n">{t("packets")}</th></tr></thead>
          <tbody>
            {ended.map((p) => (
              <tr key={p.id}>
                <td><time title={p.start}>{p.start.slice(11, 23)}</time></td>
                <td><button class="link" onClick={() => open(p.id)}>{plain(p.name || p.trigger.name || p.trigger.kind)}</button></td>
                <td><Outcome failed={p.failed} outcome={p.outcome} />{p.error ? <div class="muted cut" title={p.error}>{plain(p.error)}</div> : null}</td>
                <td class="n">{duration(p.duration) || "0"}</td>
                <td class="took" aria-hidden="true"><i class={p.failed ? "bad" : ""} style={{ width: Math.max(1, (100 * p.duration) / longest) + "%" }} /></td>
                <td>{name(p.trigger)}</td>
                <td class="n">{count(p.spans)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : null}
    </section>
  );
}
