import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import type { Payload, Span, Timeline } from "./api.gen";
import { Failure, get } from "./server";
import { count, duration, lines, plain, t } from "./text";

/** A process that has ended: its packets in time, or summed up by node. */
export function Process({ id, show, path, close }: { id: string; show: (node: string) => void; path: () => void; close: () => void }) {
  const answer = useSignal<Timeline | null>(null);
  const failure = useSignal<Failure | null>(null);
  const summed = useSignal(false);
  useEffect(() => {
    answer.value = failure.value = null;
    get<Timeline>("/api/v1/processes/" + encodeURIComponent(id)).then((a) => (answer.value = a), (err) => err instanceof Failure && (failure.value = err));
  }, [id]);
  const a = answer.value;
  const p = a?.process;
  return (
    <section class="scroll process">
      <div class="row">
        <button onClick={close}>‹ {t("processes")}</button>
        <div class="tabs" role="group" aria-label={t("process")}>
          <button aria-pressed={!summed.value} onClick={() => (summed.value = false)}>{t("timeline")}</button>
          <button aria-pressed={summed.value} onClick={() => (summed.value = true)}>{t("byNode")}</button>
        </div>
        <button onClick={path}>{t("showPath")}</button>
      </div>
      {failure.value ? <p class="empty">{failure.value.message}<br /><span class="muted">{failure.value.hint}</span></p> : null}
      {a && p ? (
        <>
          <h2>{plain(p.name || p.trigger.name || p.trigger.kind)}</h2>
          <p class="muted">
            <Outcome failed={p.failed} outcome={p.outcome} /> · {duration(p.duration) || "0"} · <time title={p.start}>{p.start.slice(11, 23)}</time> · <code>{p.id}</code>
          </p>
          {p.error ? <p class="hot">▲ {plain(p.error)}</p> : null}
          {summed.value ? <ByNode a={a} show={show} /> : <Packets a={a} show={show} />}
          {a.unrecorded ? <p class="muted">{t("morePackets", count(a.unrecorded))}</p> : null}
          {a.first ? <Shown of={a.first} name={t("began")} /> : null}
          {a.response ? <Shown of={a.response} name={t("response")} /> : null}
        </>
      ) : null}
    </section>
  );
}

export function Outcome({ failed, outcome }: { failed: boolean; outcome: string }) {
  const good = outcome === "answered" || outcome === "nothing"; // what fails by what its client asked for is no fault of the program
  return <span class={failed ? "hot" : good ? "ok" : "warm"}>{failed ? "▲" : good ? "●" : "◆"} {outcome}</span>;
}

/** A payload, which opens. */
export function Shown({ of, name, children }: { of: Payload; name: string; children?: ComponentChildren }) {
  if (!of.text) return <p class="muted">{name}: {of.kind === "none" ? t("noPayload") : of.size ? t("notKept", count(of.size)) : t("notKeptHere")}</p>;
  return (
    <details class="payload">
      <summary>{name} <code>{plain(of.text.replace(/\s+/g, " ").slice(0, 120))}</code></summary>
      <pre tabIndex={0}>{lines(of.text)}{of.cut ? "…" : ""}</pre>
      {children}
    </details>
  );
}

/** How deep each packet is below the trigger. */
function depths(packets: Span[]): number[] {
  const all: number[] = [];
  for (const s of packets) all.push(s.parent >= 0 ? (all[s.parent] ?? 0) + 1 : 0);
  return all;
}

const foldFrom = 0.2; // share of the process's time in which nothing ran
const folded = 0.04;

/** Where a time is, from 0 to 1. Long gaps in which no node worked are folded. */
function axis(a: Timeline): { at: (time: number) => number; gaps: { at: number; time: number }[] } {
  const total = Math.max(a.process.duration, 1e-9);
  const busy = a.packets.map((s) => [s.start, s.end] as const).sort((x, y) => x[0] - y[0]);
  const pieces: { from: number; to: number; gap: boolean }[] = [];
  let until = 0;
  for (const [from, to] of [...busy, [total, total] as const]) {
    if (from > until) pieces.push({ from: until, to: from, gap: from - until > foldFrom * total });
    if (to > until) pieces.push({ from: Math.max(from, until), to, gap: false });
    until = Math.max(until, to);
  }
  const gaps = pieces.filter((p) => p.gap);
  const left = 1 - folded * gaps.length;
  const rest = Math.max(1e-9, pieces.reduce((sum, p) => sum + (p.gap ? 0 : p.to - p.from), 0));
  const width = (p: { from: number; to: number; gap: boolean }) => (p.gap ? folded : (left * (p.to - p.from)) / rest);
  const at = (time: number) => {
    let x = 0;
    for (const p of pieces) {
      if (time >= p.to) x += width(p);
      else return x + (width(p) * Math.max(0, time - p.from)) / (p.to - p.from);
    }
    return Math.min(1, x);
  };
  return { at, gaps: gaps.map((p) => ({ at: at(p.from) + folded / 2, time: p.to - p.from })) };
}

/** A row for each packet: light while it waited, solid while the node ran, hatched while it waited for something. */
function Packets({ a, show }: { a: Timeline; show: (node: string) => void }) {
  const { at, gaps } = axis(a);
  const depth = depths(a.packets);
  const bar = (from: number, time: number, kind: string) =>
    time > 0 ? <i class={kind} style={{ left: 100 * at(from) + "%", width: Math.max(0.15, 100 * (at(from + time) - at(from))) + "%" }} /> : null;
  return (
    <>
      <p class="key muted"><i class="queue" /> {t("queued")} <i class="run" /> {t("ran")} <i class="wait" /> {t("waited")}</p>
      <ol class="timeline">
        {a.packets.map((s, i) => (
          <li key={i} class={s.error ? "failed" : undefined}>
            <div class="name" style={{ paddingLeft: Math.min(depth[i]!, 12) * 10 + "px" }}>
              <button class="link" onClick={() => show(s.node.id)}>{plain(s.node.name || s.node.kind)}</button>{s.replayed ? <span class="warm"> ◆ {t("replayed")}</span> : null}
            </div>
            <div class="bar" role="img" aria-label={`${duration(s.start) || "0"} – ${duration(s.end) || "0"}`}>
              {bar(s.start, s.queue, "queue")}
              {bar(s.start + s.queue, s.run, "run")}
              {bar(Math.max(s.start + s.queue, s.end - s.wait), s.wait, "wait")}
              {gaps.map((g) => <span class="fold" style={{ left: 100 * g.at + "%" }} title={duration(g.time)} />)}
            </div>
            <span class="n">{duration(s.queue + s.run + s.wait) || "0"}</span>
            {s.error ? <p class="hot">▲ {plain(s.error)}</p> : null}
            {s.payload ? <Shown of={s.payload} name={t("payload")} /> : null}
          </li>
        ))}
      </ol>
      {gaps.length ? <p class="muted">{t("foldedGaps", gaps.map((g) => duration(g.time)).join(", "))}</p> : null}
    </>
  );
}

function ByNode({ a, show }: { a: Timeline; show: (node: string) => void }) {
  const nodes = new Map<string, { of: Span["node"]; n: number; sum: number; run: number; wait: number; most: number; failed: number }>();
  for (const s of a.packets) {
    const row = nodes.get(s.node.id) ?? { of: s.node, n: 0, sum: 0, run: 0, wait: 0, most: 0, failed: 0 };
    const own = s.queue + s.run + s.wait;
    nodes.set(s.node.id, { ...row, n: row.n + 1, sum: row.sum + own, run: row.run + s.run, wait: row.wait + s.wait, most: Math.max(row.most, own), failed: row.failed + (s.error ? 1 : 0) });
  }
  const all = [...nodes.values()].sort((x, y) => y.sum - x.sum);
  return (
    <table>
      <thead><tr><th>{t("name")}</th><th class="n">{t("packets")}</th><th class="n">{t("errors")}</th><th class="n">{t("sum")}</th><th class="n">{t("ran")}</th><th class="n">{t("waited")}</th><th class="n">{t("longest")}</th></tr></thead>
      <tbody>
        {all.map((r) => (
          <tr key={r.of.id}>
            <td><button class="link" onClick={() => show(r.of.id)}>{plain(r.of.name || r.of.kind)}</button></td>
            <td class="n">{count(r.n)}</td>
            <td class={r.failed ? "n hot" : "n"}>{r.failed ? "▲ " : ""}{count(r.failed)}</td>
            <td class="n">{duration(r.sum) || "0"}</td>
            <td class="n">{duration(r.run) || "0"}</td>
            <td class="n">{duration(r.wait) || "0"}</td>
            <td class="n">{duration(r.most) || "0"}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
