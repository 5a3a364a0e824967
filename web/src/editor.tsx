import { useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Applied, NodeChange, Revision } from "./api.gen";
import type { Code, Command } from "./code";
import { against, apply, changed, check, definition, discard, documents, drafts, format, plan, planned, readDocuments, rename, rollback, runTests, tests } from "./drafts";
import { Findings } from "./findings";
import { status } from "./live";
import { More } from "./logs";
import { Failure, get } from "./server";
import { duration, plain, t } from "./text";
import { Trial } from "./trial";
import type { ViewProps } from "./view";

/** How long the author must not type before the drafts are checked, in milliseconds. */
const quiet = 200;

/** The documents of the program, what a change of them would do, and doing it. */
export function Editor({ namespace, file, line, edit }: ViewProps) {
  const place = useRef<HTMLDivElement>(null);
  const code = useSignal<Code | null>(null);
  const scope = status.value?.scope;
  const may = scope === "inspect" || scope === "control";
  const names = documents.value?.documents.map((d) => d.file) ?? [];
  const current = names.includes(file) ? file : names[0] ?? "";
  const editable = documents.value?.editable ?? false;
  useEffect(() => {
    if (may) void readDocuments();
  }, [may, scope, status.value?.generation]);
  const go = (to: string, at: number) => {
    if (to === current && at === line) code.value?.go(at, 1); // else the effect below goes: twice would move what is typed meanwhile
    edit(to, at);
  };
  const run = useRef(async (_: Command) => {}); // of the last picture: the editor stays
  run.current = async (what) => {
    const at = code.value?.place();
    if (!at || (!editable && what !== "definition")) return;
    if (what === "format") return format(at.file);
    if (what === "definition") {
      const found = await definition(at);
      if (found) go(found.file, found.line);
      return;
    }
    const before = drafts.value;
    const name = await code.value!.name(t("newName"), t("rename"));
    if (name && drafts.value === before) await rename(at, name);
  };
  useEffect(() => {
    if (!current || !place.current) return;
    let open = true;
    let timer = 0;
    const parent = place.current;
    void import("./code").then(({ openCode }) => {
      if (!open) return;
      code.value = openCode(parent, t("edit"), (text) => {
        drafts.value = { ...drafts.value, [parent.dataset["file"]!]: text };
        clearTimeout(timer);
        timer = setTimeout(() => void check(), quiet);
      }, (what) => void run.current(what));
    });
    return () => {
      open = false;
      clearTimeout(timer);
      code.value?.close();
      code.value = null;
    };
  }, [current !== ""]);
  useSignalEffect(() => {
    const text = documents.value?.documents.find((d) => d.file === current)?.text;
    if (code.value && text !== undefined) code.value.open(current, drafts.value[current] ?? text, editable);
    code.value?.find(plan.value?.findings ?? []);
  });
  useEffect(() => {
    const text = documents.value?.documents.find((d) => d.file === current)?.text;
    if (!code.value || text === undefined) return;
    code.value.open(current, drafts.value[current] ?? text, editable);
    code.value.find(plan.value?.findings ?? []);
    if (line) code.value.go(line, 1);
  }, [code.value, current, line]);
  if (!may) return <More failure={new Failure(403, t("noScope"))} />;
  if (!documents.value) return <p class="empty" role="status">{against.value ? plain(against.value.message) : t("connecting")}</p>;
  const wrong = (of: string) => (plan.value?.findings ?? []).filter((f) => f.finding.file === of && f.finding.severity === "error").length;
  return (
    <section class="editor">
      <ul class="files" aria-label={t("documents")}>
        {names.map((name) => (
          <li key={name}>
            <button aria-current={name === current ? "true" : undefined} title={name} onClick={() => edit(name, 0)}>
              {plain(short(name, names))}{changed.value.some((d) => d.file === name) ? " *" : ""}{wrong(name) ? <span class="hot"> ▲ {wrong(name)}</span> : null}
            </button>
          </li>
        ))}
      </ul>
      <div class="code" ref={place} data-file={current} />
      <div class="plan">
        {against.value ? (
          <p class="hot" role="alert">
            ▲ {plain(against.value.message)}{against.value.hint ? ": " + plain(against.value.hint) : ""}{" "}
            {against.value.status === 409 ? <button onClick={() => void readDocuments()}>{t("readAgain")}</button> : null}
          </p>
        ) : null}
        {editable ? (
          <p class="row">
            {(Object.keys(keys) as Command[]).map((what) => <button key={what} onClick={() => void run.current(what)}>{t(what)} <kbd>{keys[what]}</kbd></button>)}
          </p>
        ) : null}
        {editable ? <Plan go={go} /> : <p class="muted">{t(scope === "control" ? "readOnly" : "readOnlyScope")}</p>}
        {editable ? <Trial namespace={namespace} go={go} /> : null}
        {editable ? <Tests go={go} /> : null}
        {editable ? <Revisions /> : null}
      </div>
    </section>
  );
}

const keys: Record<Command, string> = { format: "⇧⌥F", rename: "F2", definition: "F12" };

/** A file without the folders that all have. */
function short(name: string, all: string[]): string {
  const parts = name.split("/");
  let common = 0;
  while (common < parts.length - 1 && all.every((other) => other.split("/")[common] === parts[common])) common++;
  return parts.slice(common).join("/");
}

function Plan({ go }: { go: (file: string, line: number) => void }) {
  const last = useSignal<Applied | null>(null);
  const busy = useSignal(false);
  const why = useSignal("");
  const p = plan.value;
  const errors = p?.findings.filter((f) => f.finding.severity === "error") ?? [];
  const submit = async (e: Event) => {
    e.preventDefault();
    busy.value = true;
    last.value = await apply(why.value);
    busy.value = false;
    if (last.value?.ok) why.value = "";
  };
  return (
    <>
      <Findings list={(p?.findings ?? []).map((f) => f.finding)} go={go} />
      {changed.value.length ? (
        <>
          <h3>{t("wouldChange")}</h3>
          {!planned.value ? <p class="muted">{t("checking")}</p> : p?.changes.length ? <ul class="changes">{p.changes.map((c) => <Change key={c.what + c.id} c={c} go={go} />)}</ul> : <p class="muted">{t(errors.length ? "unknownChanges" : "sameMeaning")}</p>}
          {planned.value && p?.in_flight ? <p class="muted">{t("runOn", p.in_flight)}</p> : null}
          <form class="row" onSubmit={(e) => void submit(e)}>
            <label>{t("why")} <input value={why.value} onInput={(e) => (why.value = e.currentTarget.value)} /></label>
            <button class="main" disabled={busy.value || errors.length > 0 || !planned.value}>{t("apply")}</button>
            <button type="button" onClick={discard}>{t("discard")}</button>
          </form>
        </>
      ) : <p class="muted">{t("noDrafts")}</p>}
      <p role="status" class={last.value?.ok ? "ok" : "hot"}>
        {last.value ? (last.value.ok ? t("applied", last.value.generation) : `▲ ${t("notApplied")} ${plain(last.value.error ?? last.value.findings.map((f) => f.message).join("; "))}`) : ""}
      </p>
    </>
  );
}

const marks: Record<string, string> = { added: "+", removed: "−", changed: "~" };

function Change({ c, go }: { c: NodeChange; go: (file: string, line: number) => void }) {
  const label = `${marks[c.what]} ${c.name || c.kind}`;
  return (
    <li>
      {c.what === "removed" ? <b>{plain(label)}</b> : <button class="link" onClick={() => go(c.file, c.line)}>{plain(label)}</button>}
      <span class="muted"> {c.kind} {t(c.what === "added" ? "added" : c.what === "removed" ? "removed" : "changed")}</span>
      {(c.fields ?? []).map((f) => (
        <div class="field" key={f.path}><code>{plain(f.path)}</code> <del>{plain(f.before || "–")}</del> → <ins>{plain(f.after || "–")}</ins></div>
      ))}
    </li>
  );
}

/** Runs the tests in the documents as they are written here. */
function Tests({ go }: { go: (file: string, line: number) => void }) {
  const busy = useSignal(false);
  const run = async () => {
    busy.value = true;
    await runTests("");
    busy.value = false;
  };
  const done = tests.value;
  return (
    <section>
      <h3>{t("tests")}</h3>
      <p class="row">
        <button disabled={busy.value} onClick={() => void run()}>{t(busy.value ? "running" : "runTests")}</button>
        {done ? <span class="muted" role="status">{t("covered", done.nodes.used, done.nodes.of, done.links.used, done.links.of)}</span> : null}
      </p>
      <ul class="findings">
        {(done?.tests ?? []).map((test) => (
          <li key={test.name}>
            <b class={test.passed ? "ok" : "hot"}>{test.passed ? "✓" : "▲"} {t(test.passed ? "testPassed" : "testFailed")}</b>{" "}
            <button class="link" onClick={() => go(test.file, test.line)}>{plain(test.name)}</button> <span class="muted">{duration(test.seconds)}</span>
            {test.text ? <pre>{test.text.split("\n").map(plain).join("\n")}</pre> : null}
          </li>
        ))}
      </ul>
    </section>
  );
}

function Revisions() {
  const all = useSignal<Revision[]>([]);
  const load = async () => (all.value = await get<Revision[]>("/api/v1/revisions").catch(() => []));
  return (
    <details onToggle={(e) => e.currentTarget.open && void load()}>
      <summary>{t("revisions")}</summary>
      <table>
        <tbody>
          {all.value.map((r, i) => (
            <tr key={r.id}>
              <td><time>{r.since.slice(0, 19).replace("T", " ")}</time></td>
              <td>{plain(r.why ?? "")}</td>
              <td class="n">{i === 0 ? t("now") : <button onClick={() => void rollback(r.id).then(load)}>{t("goBack")}</button>}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  );
}
