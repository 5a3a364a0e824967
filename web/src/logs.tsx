import { useSignal } from "@preact/signals";
import type { LogLine } from "./api.gen";
import { status } from "./live";
import { usePoll } from "./poll";
import { Failure, get, post } from "./server";
import { plain, t } from "./text";

const levels = ["debug", "info", "warn", "error"];

/** The last lines of the log. */
export function Logs() {
  const lines = useSignal<LogLine[] | null>(null);
  const failure = useSignal<Failure | null>(null);
  const level = useSignal("info");
  usePoll(async () => {
    try {
      lines.value = await get<LogLine[]>("/api/v1/logs?level=" + level.value);
      failure.value = null;
    } catch (err) {
      if (err instanceof Failure) failure.value = err;
    }
    return failure.value?.status !== 403;
  }, level.value);
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
        {(lines.value ?? []).toReversed().map((line, i) => (
          <li key={i}>
            <time title={line.time}>{line.time.slice(11, 23)}</time>
            <b class={line.level === "ERROR" ? "hot" : line.level === "WARN" ? "warm" : ""}>{line.level}</b>
            <span>{plain(line.message)} {(line.attrs ?? []).map((a) => <i key={a.key}>{a.key}=<span>{plain(a.value)}</span> </i>)}</span>
          </li>
        ))}
      </ol>
    </section>
  );
}

/** What is missing, and how to get it. */
function More({ failure }: { failure: Failure }) {
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
