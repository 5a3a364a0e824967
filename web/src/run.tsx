import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Actions, Waits } from "./actions";
import type { RunDetail, RunRecord } from "./api.gen";
import { every, Node, over, State, took, when } from "./facts";
import { status } from "./live";
import { usePoll } from "./poll";
import { Shown } from "./process";
import { Failure, get } from "./server";
import { count, duration, elapsed, plain, t } from "./text";
import type { ViewProps } from "./view";

/** How long a run is looked at more often after something was done with it, in ms. */
const soon = 5000;

/** A durable run: what is known of it, and its records in time. */
export function Run({ run, show, openRun, close }: ViewProps & { close: () => void }) {
  const detail = useSignal<RunDetail | null>(null); // with the records of all pages that were read
  const has = useSignal<boolean | null>(false); // it has payloads; null if all is to be read again
  const acted = useSignal(0); // when something was done with it
  const failure = useSignal<Failure | null>(null);
  const payloads = useSignal(false);
  const path = "/api/v1/runs/" + encodeURIComponent(run);
  // Reads what follows the records that are there. Long runs are read further on demand.
  const read = async () => {
    const [before, wanted, since] = [detail.value, payloads.value, acted.value];
    const records = has.value === wanted ? (before?.records ?? []) : [];
    const now = await get<RunDetail>(`${path}?payloads=${wanted}&after=${records.at(-1)?.n ?? 0}`);
    if (payloads.value !== wanted || detail.value !== before || acted.value !== since) return; // another answer came first, or this one is of before
    detail.value = { ...now, records: [...records, ...now.records] };
    has.value = wanted;
    failure.value = null;
  };
  // What was done with a run shows within a moment, and a retry may take records away.
  const changed = async () => {
    acted.value = Date.now();
    has.value = null;
    await read().catch((err: Failure) => (failure.value = err));
  };
  usePoll(() => (Date.now() - acted.value < soon ? every / 8 : every), async () => {
    try {
      if (!detail.value?.next || has.value !== payloads.value) await read();
    } catch (err) {
      if (!(err instanceof Failure)) throw err;
      failure.value = err;
      return err.status >= 500;
    }
    return !detail.value || !over(detail.value.run) || Date.now() - acted.value < soon;
  }, run, payloads.value, acted.value);
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), []);
  const d = detail.value;
  const r = d?.run;
  const control = status.value?.scope === "control";
  return (
    <section class="scroll process run" onKeyDown={(e) => e.key === "Escape" && close()}>
      <div class="row">
        <button onClick={close}>‹ {t("runs")}</button>
        {status.value?.scope === "view" ? null : <button onClick={() => (payloads.value = !payloads.value)}>{t(payloads.value ? "hidePayloads" : "showPayloads")}</button>}
      </div>
      <div class="row">
        <h2 ref={heading} tabIndex={-1}><code>{run}</code></h2>
        <Copy text={run} />
      </div>
      {failure.value ? <p class="empty">{plain(failure.value.message)}<br /><span class="muted">{plain(failure.value.hint)}</span></p> : null}
      {d && r ? (
        <>
          {r.error ? <p class="hot">▲ {plain(r.error)}</p> : null}
          <dl class="facts">
            <div><dt>{t("state")}</dt><dd><State of={r} /></dd></div>
            <div><dt>{t("trigger")}</dt><dd><Node of={r.trigger} show={show} /></dd></div>
            <div><dt>{t("level")}</dt><dd>{r.level}</dd></div>
            <div><dt>{t("began")} (UTC)</dt><dd><time title={r.began}>{when(r.began)}</time></dd></div>
            <div><dt>{t(r.ended && !over(r) ? "asideSince" : "endedAt")} (UTC)</dt><dd>{r.ended ? <time title={r.ended}>{when(r.ended)}</time> : "–"}</dd></div>
            <div><dt>{t("took")}</dt><dd>{took(r) || "–"}</dd></div>
            <div><dt>{t("key")}</dt><dd>{t(r.keyed ? "yes" : "no")}</dd></div>
            <div><dt>{t("resumed")}</dt><dd>{count(r.resumed ?? 0)}</dd></div>
            <div><dt>{t("revision")}</dt><dd><code title={r.revision}>{r.revision.slice(0, 12)}</code></dd></div>
          </dl>
          {control ? <Actions of={r} changed={changed} opened={openRun} /> : null}
          <Waits of={r} may={control} changed={changed} name={(w) => (w.node ? <Node of={w.node} show={show} /> : null)} />
          {d.input ? <Shown of={d.input} name={t("beganWith")} /> : null}
          <h3>{t("records")}</h3>
          {d.records.length ? <Records d={d} show={show} /> : <p class="muted">{t("noRecords")}</p>}
          {d.next ? <button onClick={() => void read().catch((err: Failure) => (failure.value = err))}>{t("moreRecords")}</button> : null}
          {d.answer ? <Shown of={d.answer} name={t("response")} /> : null}
        </>
      ) : null}
    </section>
  );
}

/** A row for each record: a mark where it was made, light from the one before. */
function Records({ d, show }: { d: RunDetail; show: (node: string) => void }) {
  const at = d.records.map((rec) => elapsed(d.run.began, rec.at));
  const total = Math.max(1e-3, ...at, d.run.ended ? elapsed(d.run.began, d.run.ended) : 0);
  const copied = (rec: RunRecord) => Date.parse(rec.at) < Date.parse(d.run.began); // of the run that this one was restarted from
  const x = (time: number) => 99 * (time / total) + "%";
  return (
    <ol class="timeline records">
      {d.records.map((rec, i) => {
        const since = i ? at[i - 1]! : 0;
        return (
          <li key={rec.n} class={rec.outcome === "error" ? "failed" : undefined}>
            <span class="muted">{rec.n}</span>
            <div class="name"><Node of={rec.node} show={show} /></div>
            <span class={rec.outcome === "error" ? "hot" : "muted"}>{rec.outcome === "error" ? "▲ " : ""}{what(rec)}</span>
            <div class="bar" aria-hidden="true">
              <i class="queue" style={{ left: x(since), width: x(Math.max(0, at[i]! - since)) }} />
              <i class="run" style={{ left: x(at[i]!), width: "1%" }} />
            </div>
            <span class="n">{copied(rec) ? t("ofAnother") : "+" + (duration(at[i]!) || "0")}</span>
            {rec.payload ? <Shown of={rec.payload} name={t("payload")} /> : null}
          </li>
        );
      })}
    </ol>
  );
}

const what = (rec: RunRecord) => (rec.type !== "result" ? rec.type : rec.outcome === "send" ? `send out[${rec.port}]` : rec.outcome);

/** Copies a text. Pages that came over plain HTTP from another machine have no clipboard. */
function Copy({ text }: { text: string }) {
  const copied = useSignal("");
  if (!navigator.clipboard) return null;
  return <><button onClick={() => navigator.clipboard.writeText(text).then(() => (copied.value = t("copied")), (err: Error) => (copied.value = err.message))}>{t("copy")}</button><span class="muted" role="status">{copied.value}</span></>;
}
