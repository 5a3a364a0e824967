import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Trail } from "./api.gen";
import { status } from "./live";
import { More } from "./logs";
import { ask, Failure, get } from "./server";
import { plain, t } from "./text";

// What the program answers: uniflow trail query --json.
interface Step { event: string; users: number }
type Cell = string | number | boolean | null;
interface Answer {
  steps?: Step[];
  groups?: ({ steps: Step[] } & Record<string, unknown>)[];
  cohorts?: { start: string; size: number; periods: number[] }[];
  rows?: Record<string, Cell>[];
  paths?: { path: string[]; users: number }[];
  stats: { events_read: number; elapsed_us: number; through?: string };
}

/** A number as it is: events are counted, not estimated. */
const count = (n: number) => n.toLocaleString("en");

const kinds = ["funnel", "retention", "segment", "paths"] as const;
type Kind = (typeof kinds)[number];

/** What the builder has of a question. */
interface Question {
  kind: Kind;
  events: string[]; // the steps; the start and the return; the one event
  by: string;
  every: string;
  within: string;
  direction: string;
}

/** A question as the program reads it. */
function written(q: Question): string {
  const name = (e: string | undefined) => JSON.stringify(e ?? "");
  const by = q.by ? `\n  by: ${name(q.by)}` : "";
  switch (q.kind) {
    case "funnel":
      return `funnel:\n  steps: [${q.events.map(name).join(", ")}]\n  within: ${q.within || "none"}${by}\n`;
    case "retention":
      return `retention:\n  start: ${name(q.events[0])}\n  return: ${name(q.events[1] ?? q.events[0])}\n  every: ${q.every}\n  periods: 8\n`;
    case "segment":
      return `segment:\n  event: ${name(q.events[0])}\n  bucket: ${q.every}${by}\n`;
    case "paths":
      return `paths:\n  anchor: ${name(q.events[0])}\n  direction: ${q.direction}\n  steps: 3\n`;
  }
}

/** Questions about stores of events: a builder that writes them, and their answers as charts and tables. */
export function Events() {
  const scope = status.value?.scope;
  const may = scope === "inspect" || scope === "control";
  const trails = useSignal<Trail[] | null>(null);
  const folder = useSignal("");
  const question = useSignal<Question>({ kind: "funnel", events: [], by: "", every: "week", within: "7d", direction: "next" });
  const text = useSignal("");
  const answer = useSignal<Answer | null>(null);
  const failure = useSignal<Failure | null>(null);
  const asked = useSignal(""); // what the answer answers
  const busy = useSignal(false);
  const build = (changes: Partial<Question>) => {
    question.value = { ...question.value, ...changes };
    text.value = written(question.value);
  };
  const choose = (to: string) => {
    folder.value = to;
    answer.value = null;
    const names = trails.value?.find((s) => s.folder === to)?.events.map((e) => e.name) ?? [];
    build({ events: names.slice(0, 3), by: "" });
  };
  useEffect(() => {
    if (!may) return;
    get<Trail[]>("/api/v1/trails").then((all) => {
      trails.value = all;
      if (all.length && !folder.value) choose(all[0]!.folder);
    }, (err: Failure) => (failure.value = err));
  }, [may, status.value?.generation]);
  if (!may) return <More failure={new Failure(403, t("noScope"))} />;
  if (!trails.value) return <p class="empty" role="status">{failure.value ? plain(failure.value.message) : t("connecting")}</p>;
  if (trails.value.length === 0) return <div class="empty"><p>{t("noTrails")}</p><pre>{"- kind: trail_append\n  name: keep\n  db: shop.trail"}</pre></div>;
  const store = trails.value.find((s) => s.folder === folder.value) ?? trails.value[0]!;
  const q = question.value;
  const submit = async (e: Event) => {
    e.preventDefault();
    busy.value = true;
    failure.value = null;
    answer.value = await ask<Answer>("/api/v1/trails/query", { folder: store.folder, query: text.value }).catch((err: Failure) => ((failure.value = err), null));
    asked.value = text.value;
    busy.value = false;
  };
  const pick = (at: number, label: string) => (
    <label key={at}>{label}{" "}
      <select value={q.events[at] ?? q.events[0] ?? ""} onChange={(e) => build({ events: Object.assign([...q.events], { [at]: e.currentTarget.value }) })}>
        {store.events.map((e) => <option key={e.name} value={e.name}>{plain(e.name)}</option>)}
      </select>
    </label>
  );
  const choice = (label: string, value: string, of: readonly string[], set: (to: string) => void) => (
    <label>{label}{" "}
      <select value={value} onChange={(e) => set(e.currentTarget.value)}>
        {of.map((word) => <option key={word} value={word}>{word ? plain(word) : t("nothing")}</option>)}
      </select>
    </label>
  );
  return (
    <section class="scroll events">
      <div class="row">
        {trails.value.length > 1 ? choice(t("store"), store.folder, trails.value.map((s) => s.folder), choose) : <strong>{plain(store.folder)}</strong>}
        <span class="muted">{store.error ? <span class="hot">▲ {plain(store.error)}</span> : t("holds", count(store.rows), count(store.users), store.from?.slice(0, 10) ?? "–", store.to?.slice(0, 10) ?? "–")}</span>
      </div>
      <form onSubmit={(e) => void submit(e)}>
        <div class="row build">
          <span class="tabs" role="group" aria-label={t("question")}>
            {kinds.map((kind) => <button type="button" key={kind} aria-pressed={kind === q.kind} onClick={() => build({ kind })}>{t(kind)}</button>)}
          </span>
          {q.kind === "funnel" ? (
            <>
              {q.events.map((_, i) => pick(i, String(i + 1)))}
              <button type="button" onClick={() => build({ events: [...q.events, store.events[0]?.name ?? ""] })} disabled={q.events.length >= 8}>+</button>
              <button type="button" aria-label={t("fewer")} onClick={() => build({ events: q.events.slice(0, -1) })} disabled={q.events.length <= 1}>−</button>
              {choice(t("within"), q.within, ["none", "1h", "1d", "7d", "30d"], (within) => build({ within }))}
            </>
          ) : null}
          {q.kind === "retention" ? <>{pick(0, t("start"))}{pick(1, t("comesBack"))}</> : null}
          {q.kind === "segment" || q.kind === "paths" ? pick(0, t("event")) : null}
          {q.kind === "retention" || q.kind === "segment" ? choice(t("every"), q.every, ["day", "week", "month"], (every) => build({ every })) : null}
          {q.kind === "paths" ? choice(t("direction"), q.direction, ["next", "previous"], (direction) => build({ direction })) : null}
          {q.kind === "funnel" || q.kind === "segment" ? choice(t("by"), q.by, ["", ...store.properties], (by) => build({ by })) : null}
        </div>
        <textarea aria-label={t("question")} rows={6} spellcheck={false} value={text.value} onInput={(e) => (text.value = e.currentTarget.value)} />
        <div class="row"><button class="main" disabled={busy.value}>{t("askIt")}</button></div>
      </form>
      {failure.value ? <p class="hot" role="alert">▲ {failure.value.message.split("\n").map((line, i) => <span key={i}>{plain(line)}<br /></span>)}{plain(failure.value.hint)}</p> : null}
      {answer.value ? <Shown a={answer.value} of={asked.value} /> : null}
    </section>
  );
}

function Shown({ a, of }: { a: Answer; of: string }) {
  return (
    <>
      {a.steps ? <Steps steps={a.steps} name={t("all")} /> : null}
      {(a.groups ?? []).map(({ steps, ...by }, i) => <Steps key={i} steps={steps} name={Object.values(by).map(String).join(", ")} />)}
      {a.cohorts ? <Cohorts all={a.cohorts} every={/every: *"?(\w+)/.exec(of)?.[1] ?? ""} through={a.stats.through} /> : null}
      {a.rows ? <Rows rows={a.rows} /> : null}
      {a.paths ? <Paths all={a.paths} /> : null}
      <p class="muted" role="status">{t("readIn", count(a.stats.events_read), (a.stats.elapsed_us / 1000).toFixed(1))}</p>
    </>
  );
}

const percent = (part: number, of: number) => (of ? ((100 * part) / of).toFixed(1) + " %" : "–");

function Steps({ steps, name }: { steps: Step[]; name: string }) {
  const first = steps[0]?.users ?? 0;
  return (
    <table class="chart">
      <caption>{plain(name)}</caption>
      <thead><tr><th>{t("event")}</th><th class="n">{t("users")}</th><th class="n">{t("ofFirst")}</th><th class="n">{t("ofBefore")}</th><th class="took" /></tr></thead>
      <tbody>
        {steps.map((s, i) => (
          <tr key={i}>
            <td>{plain(s.event)}</td><td class="n">{count(s.users)}</td><td class="n">{percent(s.users, first)}</td>
            <td class="n">{i ? percent(s.users, steps[i - 1]!.users) : ""}</td><td class="took"><i style={{ width: first ? (100 * s.users) / first + "%" : "0" }} /></td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const day = 24 * 3600e3;

/** About how long a period is, in milliseconds; 0 if that is not known. */
function lengthOf(every: string): number {
  const units: Record<string, number> = { hour: day / 24, day, week: 7 * day, week_sunday: 7 * day, month: 28 * day, h: day / 24, d: day, w: 7 * day };
  const [, n, unit] = /^(\d*)(\w+)$/.exec(every) ?? [];
  return (Number(n || 1) || 1) * (units[unit ?? ""] ?? 0);
}

/** A period that has not begun when the last event came has no number: no one could have come back. */
function Cohorts({ all, every, through }: { all: { start: string; size: number; periods: number[] }[]; every: string; through: string | undefined }) {
  const begun = (start: string, i: number) => !through || Date.parse(start) + i * lengthOf(every) <= Date.parse(through);
  const periods = Math.max(0, ...all.map((c) => c.periods.length));
  return (
    <table class="chart heat">
      <thead><tr><th>{t("start")}</th><th class="n">{t("users")}</th>{Array.from({ length: periods }, (_, i) => <th class="n" key={i}>{i}</th>)}</tr></thead>
      <tbody>
        {all.map((c) => (
          <tr key={c.start}>
            <td>{c.start}</td><td class="n">{count(c.size)}</td>
            {Array.from({ length: periods }, (_, i) => {
              const share = c.size ? (c.periods[i] ?? 0) / c.size : 0;
              if (!c.periods[i] && !begun(c.start, i)) return <td class="n muted" key={i} title={t("notBegun")}>–</td>;
              return <td class="n" key={i} style={{ background: `color-mix(in srgb, var(--accent) ${Math.round(share * 40)}%, transparent)` }} title={count(c.periods[i] ?? 0)}>{percent(c.periods[i] ?? 0, c.size)}</td>;
            })}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const colours = ["--accent", "--ok", "--trigger", "--net", "--warm", "--hot"];

/** The values by time, a line for each group, and the table of them. */
function Rows({ rows }: { rows: Record<string, Cell>[] }) {
  const keys = [...new Set(rows.flatMap((r) => Object.keys(r)))];
  const groupOf = (r: Record<string, Cell>) => keys.filter((k) => k !== "bucket" && k !== "value" && k !== "ci").map((k) => String(r[k] ?? "–")).join(", ");
  const buckets = [...new Set(rows.map((r) => String(r["bucket"] ?? "")))].sort();
  const groups = [...new Set(rows.map(groupOf))];
  const most = Math.max(1, ...rows.map((r) => Number(r["value"] ?? 0)));
  const [width, height] = [720, 160];
  const x = (bucket: string) => (buckets.length > 1 ? (width * buckets.indexOf(bucket)) / (buckets.length - 1) : 0);
  return (
    <>
      {buckets.length > 1 ? (
        <figure class="lines">
          <svg viewBox={`0 -4 ${width} ${height + 8}`} preserveAspectRatio="none" role="img" aria-label={t("byTime")}>
            {groups.slice(0, colours.length).map((g, i) => (
              <polyline key={g} fill="none" stroke={`var(${colours[i]})`} stroke-width="2" vector-effect="non-scaling-stroke" points={rows.filter((r) => groupOf(r) === g).map((r) => `${x(String(r["bucket"]))},${height - (height * Number(r["value"] ?? 0)) / most}`).join(" ")} />
            ))}
          </svg>
          <figcaption>{groups.length > 1 ? groups.slice(0, colours.length).map((g, i) => <span key={g}><i style={{ background: `var(${colours[i]})` }} /> {plain(g)} </span>) : null}{groups.length > colours.length ? t("moreGroups", groups.length - colours.length) : null}</figcaption>
        </figure>
      ) : null}
      <table class="chart">
        <thead><tr>{keys.map((k) => <th key={k} class={k === "value" ? "n" : undefined}>{plain(k)}</th>)}<th class="took" /></tr></thead>
        <tbody>
          {rows.slice(0, 500).map((r, i) => (
            <tr key={i}>
              {keys.map((k) => <td key={k} class={k === "value" ? "n" : undefined}>{typeof r[k] === "number" ? count(r[k]) : plain(String(r[k] ?? "–"))}</td>)}
              <td class="took"><i style={{ width: (100 * Number(r["value"] ?? 0)) / most + "%" }} /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

function Paths({ all }: { all: { path: string[]; users: number }[] }) {
  const most = Math.max(1, ...all.map((p) => p.users));
  return (
    <table class="chart">
      <thead><tr><th>{t("path")}</th><th class="n">{t("users")}</th><th class="took" /></tr></thead>
      <tbody>
        {all.map((p, i) => (
          <tr key={i}><td>{p.path.map(plain).join(" → ")}</td><td class="n">{count(p.users)}</td><td class="took"><i style={{ width: (100 * p.users) / most + "%" }} /></td></tr>
        ))}
      </tbody>
    </table>
  );
}
