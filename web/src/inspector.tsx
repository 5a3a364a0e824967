import { signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Diagram, DiagramNode, KindDetail, LogLine, NodeDetail, NodePacket, NodePackets, Sent } from "./api.gen";
import { debug, setBreakpoints } from "./debugger";
import { documents, readDocuments } from "./drafts";
import { keyOf, rows, status } from "./live";
import { Line } from "./logs";
import { Markdown } from "./markdown";
import { usePoll } from "./poll";
import { addTest } from "./record";
import { Shown } from "./process";
import { ask, get, type Failure } from "./server";
import { count, duration, lines, plain, rate, t } from "./text";

/** What is known of a node. */
export function Inspector({ d, node, select, edit }: { d: Diagram; node: number; select: (id: string) => void; edit: (file: string, line: number) => void }) {
  const n = d.nodes[node]!;
  const row = rows.value.get(keyOf(n.kind, n.namespace, n.path));
  const kind = useSignal<KindDetail | null>(null);
  useEffect(() => {
    kind.value = null;
    get<KindDetail>("/api/v1/kinds/" + encodeURIComponent(n.kind)).then((k) => (kind.value = k), () => undefined); // a template has no page
  }, [n.kind]);
  const others = (out: boolean) =>
    d.links
      .filter((l) => (out ? l.from : l.to) === node)
      .map((l, i) => {
        const other = d.nodes[out ? l.to : l.from]!;
        return (
          <li key={i}>
            <code>{plain(out ? l.out : l.in)}</code> <button class="link" onClick={() => select(other.id)}>{plain(other.name || other.kind)}</button>
          </li>
        );
      });
  const [to, from] = [others(true), others(false)];
  const place = `${plain(n.file ?? "")}:${n.line}:${n.col}`;
  return (
    <aside aria-label={n.name || n.kind}>
      <button class="close" aria-label={t("close")} onClick={() => select("")}>×</button>
      <h2>{plain(n.name || n.kind)}</h2>
      <p class="muted">{n.kind}{n.file ? <> · {status.value?.scope === "view" ? <code>{place}</code> : <button class="link" onClick={() => edit(n.file!, n.line!)}><code>{place}</code></button>}</> : null}</p>
      {row ? (
        <>
          <dl>
            <Figure name={t("rate")} value={rate(row.rate)} />
            <Figure name={t("failing")} value={rate(row.failing)} hot={row.failing > 0} />
            <Figure name={t("p50")} value={duration(row.p50) || "–"} />
            <Figure name={t("p99")} value={duration(row.p99) || "–"} />
            <Figure name={t("packets")} value={count(row.packets)} />
            <Figure name={t("errors")} value={count(row.errors)} hot={row.errors > 0} />
            <Figure name={t("load")} value={Math.round(row.load * 100) + " %"} />
          </dl>
          <Past values={row.past} />
        </>
      ) : null}
      {status.value?.scope === "view" ? null : <Packets key={n.id} n={n} edit={edit} />}
      <Send key={n.id} id={n.id} />
      <Warnings path={n.path ?? ""} />
      {from.length ? <><h3>{t("comesFrom")}</h3><ul>{from}</ul></> : null}
      {to.length ? <><h3>{t("leadsTo")}</h3><ul>{to}</ul></> : null}
      <Config key={n.id} id={n.id} />
      {kind.value ? <><h3>{n.kind}</h3><p>{kind.value.summary}</p><Markdown text={kind.value.doc} /></> : null}
    </aside>
  );
}

const mayControl = () => status.value?.scope === "control";

/** The payload that a reader writes: it stays while another node is chosen. */
const draft = signal("");

/** Sends a packet to a node, for those who may. */
function Send({ id }: { id: string }) {
  const node = useNode(id);
  const port = useSignal(0);
  const busy = useSignal(false);
  const sent = useSignal<Sent | null>(null);
  const failure = useSignal("");
  if (!mayControl() || !node) return null;
  const submit = (e: Event) => {
    e.preventDefault();
    busy.value = true;
    sent.value = null;
    failure.value = "";
    ask<Sent>(`/api/v1/nodes/${encodeURIComponent(id)}/packets`, { port: port.value, text: draft.value })
      .then((answer) => (sent.value = answer), (err: Failure) => (failure.value = [err.message, err.hint].filter(Boolean).join(": ")))
      .finally(() => (busy.value = false));
  };
  return (
    <>
      <h3>{t("send")}</h3>
      {node.in === 0 ? <p class="muted">{t("sendsItself")}</p> : (
        <form class="send" onSubmit={submit}>
          <p><button type="button" onClick={() => void setBreakpoints([...debug.value.breakpoints, { node: id, point: "in" }])} disabled={debug.value.breakpoints.some((b) => b.node === id)}>❚❚ {t("holdHere")}</button></p>
          <textarea aria-label={t("payload")} rows={Math.min(12, 2 + draft.value.split("\n").length)} spellcheck={false} value={draft.value} placeholder='{"name": "tea"}' onInput={(e) => (draft.value = e.currentTarget.value)} required />
          <div class="row">
            {node.in > 1 ? (
              <select aria-label={t("port")} value={port.value} onChange={(e) => (port.value = Number(e.currentTarget.value))}>
                {Array.from({ length: node.in }, (_, i) => <option key={i} value={i}>in[{i}]</option>)}
              </select>
            ) : null}
            <button disabled={busy.value}>{t("sendIt")}</button>
            <span class="muted">{t("sendsForReal")}</span>
          </div>
          <div role="status">
            {failure.value ? <p class="hot">▲ {plain(failure.value)}</p> : null}
            {sent.value ? <Shown of={sent.value.payload} name={(sent.value.failed ? "▲ " : "") + t("response")} /> : null}
          </div>
        </form>
      )}
    </>
  );
}

/** What the program says of a node, or null until it has. */
function useNode(id: string): NodeDetail | null {
  const answer = useSignal<NodeDetail | null>(null);
  const generation = status.value?.generation;
  useEffect(() => {
    get<NodeDetail>("/api/v1/nodes/" + encodeURIComponent(id)).then((n) => (answer.value = n), () => undefined); // one that is not served any more
  }, [id, generation]);
  return answer.value;
}

/** The config of a node: what its document has, and the defaults below. */
function Config({ id }: { id: string }) {
  const node = useNode(id);
  if (!node?.settings.length) return null;
  const table = (given: boolean) => {
    const settings = node.settings.filter((s) => s.given === given);
    return settings.length ? (
      <dl class="config">
        {settings.map((s) => <div key={s.path}><dt><code>{plain(s.path)}</code></dt><dd class={given ? undefined : "muted"}><pre>{lines(worded(s.text))}</pre></dd></div>)}
      </dl>
    ) : null;
  };
  return (
    <>
      <h3>{t("config")}</h3>
      {table(true)}
      {node.settings.some((s) => !s.given) ? <details><summary>{t("defaults")}</summary>{table(false)}</details> : null}
    </>
  );
}

/** A text as the document has it, and all else as JSON. */
function worded(json: string): string {
  try {
    const v: unknown = JSON.parse(json);
    return typeof v === "string" ? v : json;
  } catch {
    return json; // it was cut, or is hidden
  }
}

/** The last packets of a node. They are recorded only while the reader asks for them. */
function Packets({ n, edit }: { n: DiagramNode; edit: (file: string, line: number) => void }) {
  const id = n.id;
  const failure = useSignal("");
  const answer = useSignal<NodePackets | null>(null);
  const open = useSignal(false);
  usePoll(1000, async () => {
    if (open.value) answer.value = await get<NodePackets>(`/api/v1/nodes/${encodeURIComponent(id)}/packets`);
    return open.value;
  }, open.value);
  const a = answer.value;
  /** The answer to a packet that came, if a test can be made of both: a node of a sub-graph is not reached by a link. */
  const answerTo = (p: NodePacket) => {
    const of = (a?.list ?? []).filter((other) => other.process === p.process && (other.direction === "answered" || other.direction === "received"));
    const answered = of.find((other) => other.direction === "answered");
    const whole = [p, answered].every((one) => one?.payload.text && !one.payload.cut && one.payload.kind !== "error");
    return p.direction === "received" && p.port === 0 && of.length === 2 && whole && n.name && n.name === n.path ? answered! : null;
  };
  const record = async (p: NodePacket, answered: NodePacket) => {
    await readDocuments();
    const line = documents.value?.editable ? addTest(n.file!, { name: n.name!, namespace: n.namespace }, p.payload.text!, answered.payload.text!) : 0;
    failure.value = line ? "" : t("readOnly");
    if (line) edit(n.file!, line);
  };
  const port = (p: NodePacket) => (p.port === -2 ? "" : p.port === -1 ? "error" : p.direction === "sent" ? `out[${p.port}]` : `in[${p.port}]`);
  return (
    <>
      <h3>{t("packets")}</h3>
      <button aria-expanded={open.value} onClick={() => (open.value = !open.value)}>{open.value ? t("hidePackets") : t("showPackets")}</button>
      {open.value && a?.list.length === 0 ? <p class="muted">{t("noPackets")}</p> : null}
      {open.value && a?.skipped ? <p class="muted">{t("skipped", count(a.skipped))}</p> : null}
      <p role="status" class="hot">{failure.value}</p>
      {open.value && a ? (
        <ol class="packets">
          {a.list.map((p) => (
            <li key={p.time + p.direction + p.port}>
              <time title={p.time}>{p.time.slice(11, 23)}</time> <span class="muted">{t(p.direction as "received" | "sent" | "answered")} {port(p)}</span>{p.replayed ? <span class="warm"> ◆ {t("replayed")}</span> : null}
              <Shown of={p.payload} name="">{mayControl() && p.payload.text && !p.payload.cut ? <button onClick={() => (draft.value = p.payload.text!)}>{t("use")}</button> : null}{mayControl() && answerTo(p) ? <button onClick={() => void record(p, answerTo(p)!)}>{t("toTest")}</button> : null}</Shown>
            </li>
          ))}
        </ol>
      ) : null}
    </>
  );
}

const mostWarnings = 5;

/** The last warnings and errors that the log has of a node, for those who may read it. */
function Warnings({ path }: { path: string }) {
  const lines = useSignal<LogLine[]>([]);
  const of = [path, status.value?.scope, status.value?.started]; // a program that starts again counts from 1
  useEffect(() => {
    lines.value = [];
  }, of);
  usePoll(1000, async () => {
    if (!path || status.value?.scope === "view") return false;
    const more = await get<LogLine[]>(`/api/v1/logs?level=warn&node=${encodeURIComponent(path)}&after=${lines.value.at(-1)?.seq ?? 0}`);
    if (more.length) lines.value = [...lines.value, ...more].slice(-mostWarnings);
    return true;
  }, ...of);
  if (lines.value.length === 0) return null;
  return (
    <>
      <h3>{t("warnings")}</h3>
      <ol class="log">
        {lines.value.toReversed().map((line) => (
          <li key={line.seq}>
            <time title={line.time}>{line.time.slice(11, 19)}</time>
            <b class={line.level === "ERROR" ? "hot" : "warm"}>{line.level}</b>
            <Line line={line} show={null} />
          </li>
        ))}
      </ol>
    </>
  );
}

function Figure({ name, value, hot }: { name: string; value: string; hot?: boolean }) {
  return <div><dt>{name}</dt><dd class={hot ? "hot" : undefined}>{hot ? "▲ " : ""}{value}</dd></div>;
}

/** The rates of the last minute, a bar a second. */
function Past({ values }: { values: number[] }) {
  const most = Math.max(...values, 1e-9);
  return (
    <figure>
      <figcaption>{t("minute")}: {rate(Math.max(...values, 0))}</figcaption>
      <svg viewBox="0 0 240 40" preserveAspectRatio="none" aria-hidden="true">
        {values.map((v, i) => <rect key={i} x={240 - 4 * (values.length - i)} y={40 - (38 * v) / most} width="3" height={Math.max(0.5, (38 * v) / most)} />)}
      </svg>
    </figure>
  );
}
