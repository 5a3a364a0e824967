import { render } from "preact";
import { signal, useComputed, useSignal, useSignalEffect } from "@preact/signals";
import { DebugView } from "./debug";
import { debug } from "./debugger";
import { Editor } from "./editor";
import { Events } from "./events";
import { Flow } from "./flow";
import { Logs } from "./logs";
import { Nodes } from "./nodes";
import { Processes } from "./processes";
import { Queues } from "./queues";
import { Runs } from "./runs";
import { enterToken, follow, heard, refused, status, total } from "./live";
import { count, t } from "./text";

const views = { flow: Flow, nodes: Nodes, processes: Processes, runs: Runs, queues: Queues, logs: Logs, debug: DebugView, edit: Editor, events: Events };
type View = keyof typeof views;

/** The state of the page is in the address, after #. */
const at = signal(new URLSearchParams(location.hash.slice(1)));
addEventListener("hashchange", () => (at.value = new URLSearchParams(location.hash.slice(1))));

function go(changes: Record<string, string>): void {
  const next = new URLSearchParams(at.value);
  for (const [key, value] of Object.entries(changes)) value ? next.set(key, value) : next.delete(key);
  next.delete("code");
  location.hash = next.toString();
}

function App() {
  const view = useComputed<View>(() => {
    const name = at.value.get("view") ?? "";
    return name in views ? (name as View) : "flow";
  });
  const namespace = useComputed(() => at.value.get("ns") ?? status.value?.namespace ?? "default");
  const Content = views[view.value];
  return (
    <>
      <a class="skip" href="#content" onClick={(e) => (e.preventDefault(), document.getElementById("content")!.focus())}>{t("skip")}</a>
      <Bar namespace={namespace.value} />
      <nav aria-label="uniflow">
        {(Object.keys(views) as View[]).map((name) => (
          <button key={name} aria-current={name === view.value ? "page" : undefined} onClick={() => go({ view: name, process: "", run: "" })}>
            <Sign of={name} />
            {t(name)}{name === "debug" && debug.value.held.length ? ` ${debug.value.held.length}` : ""}
          </button>
        ))}
      </nav>
      <main id="content" tabIndex={-1}>
        {refused.value ? <Enter /> : status.value ? <Content namespace={namespace.value} selected={at.value.get("node") ?? ""} select={(id) => go({ node: id })} show={(id) => go({ node: id, view: "flow", process: "", run: "" })} process={at.value.get("process") ?? ""} open={(id) => go({ process: id })} path={(id) => go({ process: id, view: "flow", node: "" })} run={at.value.get("run") ?? ""} openRun={(id) => go({ run: id })} file={at.value.get("file") ?? ""} line={Number(at.value.get("line") ?? 0)} edit={(file, line) => go({ view: "edit", file, line: line ? String(line) : "" })} /> : null}
      </main>
    </>
  );
}

const signs: Record<View, string> = {
  flow: "M2 4.5h3.5c3 0 2 7 5 7H14M2 11.5h3.5c3 0 2-7 5-7H14",
  nodes: "M2.5 3.5h11M2.5 8h11M2.5 12.5h11",
  processes: "M2.5 3.5h6M5.5 8h6M8.5 12.5h5",
  runs: "M13.5 8a5.5 5.5 0 1 1-1.8-4.1M13.5 2v3h-3M8 5v3l2 1.5",
  queues: "M2.5 3h11v10h-11zM6.2 3v10M9.9 3v10",
  logs: "M2.5 3.5h8M2.5 8h11M2.5 12.5h5",
  debug: "M5 3v10M11 3v10",
  events: "M2.5 13V9M6.2 13V3M9.9 13V7M13.5 13v-3",
  edit: "M3 13l1-3.5 6.5-6.5 2.5 2.5-6.5 6.5z",
};

function Sign({ of }: { of: View }) {
  return (
    <svg viewBox="0 0 16 16" aria-hidden="true">
      <path d={signs[of]} />
    </svg>
  );
}

function Bar({ namespace }: { namespace: string }) {
  const now = status.value;
  const quiet = useAge();
  return (
    <header>
      <strong>uniflow</strong>
      {now && now.namespaces.length > 1 ? (
        <select aria-label={t("namespace")} value={namespace} onChange={(e) => go({ ns: e.currentTarget.value, node: "" })}>
          {now.namespaces.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
      ) : null}
      <span class="gap" />
      {now ? (
        <>
          <span class="wide">{t("generation")} {now.generation}</span>
          <span class="wide">{count(total.value.running)} {t("running")}</span>
          <span class={now.ready ? "ok" : "hot"} title={now.waiting_for?.join("\n")}>{now.ready ? "● " + t("ready") : "▲ " + t("notReady")}</span>
        </>
      ) : (
        <span>{t("connecting")}</span>
      )}
      {quiet > 3 ? <span class="warm" role="status">{t("stale", quiet)}</span> : null}
      {now?.reload && !now.reload.successful ? (
        <details class="failed">
          <summary>▲ {t("reloadFailed")}</summary>
          <pre>{[now.reload.error, ...(now.reload.findings ?? []).map((f) => `${f.file ?? ""}:${f.line ?? ""}:${f.col ?? ""}: ${f.message} [${f.code}]${f.hint ? "\n  hint: " + f.hint : ""}`)].filter(Boolean).join("\n")}</pre>
        </details>
      ) : null}
    </header>
  );
}

/** How many seconds ago the last event came. */
function useAge(): number {
  const age = useSignal(0);
  useSignalEffect(() => {
    const since = heard.value;
    age.value = 0;
    if (!since) return;
    const timer = setInterval(() => (age.value = Math.round((Date.now() - since) / 1000)), 1000);
    return () => clearInterval(timer);
  });
  return age.value;
}

function Enter() {
  const wrong = useSignal("");
  const submit = (e: Event) => {
    e.preventDefault();
    const field = (e.currentTarget as HTMLFormElement).elements.namedItem("token") as HTMLInputElement;
    enterToken(field.value).catch((err: Error) => (wrong.value = err.message));
  };
  return (
    <form class="empty" onSubmit={submit}>
      <p>{t("needToken")}</p>
      <label>{t("token")} <input name="token" type="password" autocomplete="off" required /></label>
      <button>{t("enter")}</button>
      <p role="alert" class="hot">{wrong.value}</p>
    </form>
  );
}

addEventListener("keydown", (e) => {
  const to = e.composedPath()[0];
  if (to instanceof HTMLInputElement || to instanceof HTMLTextAreaElement || (to instanceof HTMLElement && to.isContentEditable) || e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.key === "/") {
    document.querySelector<HTMLInputElement>("input[type=search]")?.focus();
    e.preventDefault();
  }
});

render(<App />, document.getElementById("app")!);
void follow();
