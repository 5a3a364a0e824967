import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { LogLine } from "./api.gen";
import { graph, useGraph } from "./graph";
import { status } from "./live";
import { usePoll } from "./poll";
import { Failure, get, post } from "./server";
import { plain, t } from "./text";
import type { ViewProps } from "./view";

/** How many lines the page keeps, as the program does. */
const most = 2000;
const levels = ["debug", "info", "warn", "error"];

/** The last lines of the log. */
export function Logs({ namespace, show }: ViewProps) {
  useGraph(namespace);
  const lines = useSignal<LogLine[] | null>(null);
  const failure = useSignal<Failure | null>(null);
  const level = useSignal("info");
  const of = [level.value, status.value?.started]; // a program that starts again counts from 1
  useEffect(() => {
    lines.value = null;
  }, of);
  usePoll(1000, async () => {
    try {
      const known = lines.value ?? [];
      const more = await get<LogLine[]>(`/api/v1/logs?level=${level.value}&after=${known.at(-1)?.seq ?? 0}`);
      if (more.length || !lines.value) lines.value = [...known, ...more].slice(-most);
      failure.value = null;
    } catch (err) {
      if (err instanceof Failure) failure.value = err;
    }
    return failure.value?.status !== 403;
  }, ...of);
  if (failure.value) return <More failure={failure.value} />;
  return (
    <section class="scroll">
      <div class="row">
        <label>{t("level")}{" "}
          <select value={level.value} onChange={(e) => (level.value = e.currentTarget.value)}>
            {levels.map((name) => <option key={name}>{name}</option>)}
          </select>
        </label>
        {status.value?.scope === "control" ? <button onClick={() => void post("/api/v1/reload")}>{t("reload")}</button> : null}
      </div>
      {lines.value?.length === 0 ? <p class="empty">{t("noLogs")}</p> : null}
      <ol class="log" aria-label={t("logs")}>
        {(lines.value ?? []).toReversed().map((line) => (
          <li key={line.seq}>
            <time title={line.time}>{line.time.slice(11, 23)}</time>
            <b class={line.level === "ERROR" ? "hot" : line.level === "WARN" ? "warm" : ""}>{line.level}</b>
            <Line line={line} show={show} />
          </li>
        ))}
      </ol>
    </section>
  );
}

/** The message and what belongs to it: the name of a node leads to it. */
export function Line({ line, show }: { line: LogLine; show: ((id: string) => void) | null }) {
  const nodes = graph.value?.diagram.nodes ?? [];
  return (
    <span>
      {plain(line.message)}{" "}
      {(line.attrs ?? []).map((a) => {
        const node = show && a.key === "node" ? nodes.find((n) => n.path === a.value) : undefined;
        return <i key={a.key}>{a.key}={node ? <button class="link" onClick={() => show!(node.id)}>{plain(a.value)}</button> : <span>{plain(a.value)}</span>} </i>;
      })}
    </span>
  );
}

/** What is missing, and how to get it. */
export function More({ failure }: { failure: Failure }) {
  const said = useSignal("");
  return (
    <div class="empty">
      <p>{failure.status === 403 ? t("noScope") : failure.message}</p>
      <p class="muted">{failure.hint}</p>
      {failure.status === 403 ? (
        <button onClick={() => post("/api/v1/code").then(() => (said.value = t("asked")), (err: Error) => (said.value = err.message))}>{t("askCode")}</button>
      ) : null}
      <p role="status">{said.value}</p>
    </div>
  );
}
