import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { Many } from "./actions";
import type { ProcessNode, Runs as Page } from "./api.gen";
import { every, Node, State, took, when } from "./facts";
import { useGraph } from "./graph";
import { status } from "./live";
import { usePoll } from "./poll";
import { Run } from "./run";
import { Failure, get } from "./server";
import { count, plain, t } from "./text";
import type { ViewProps } from "./view";

const states = ["running", "ok", "failed", "dead", "stuck", "diverged", "queued", "waiting", "cancelled", "paused", "parked"];
const aUUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** The durable runs of the journal, the latest first. */
export function Runs(props: ViewProps) {
  const { namespace, show, run, openRun } = props;
  useGraph(namespace);
  const page = useSignal<Page | null>(null);
  const failure = useSignal<Failure | null>(null);
  const state = useSignal("");
  const trigger = useSignal("");
  const id = useSignal("");
  const after = useSignal("");
  const triggers = useRef(new Map<string, ProcessNode>()); // of all runs that were seen
  const chosen = useSignal<ReadonlySet<string>>(new Set());
  const acted = useSignal(0); // counts what was done with runs
  const left = useRef(""); // the run that was shown last
  const query = new URLSearchParams({ limit: "100", state: state.value, trigger: trigger.value, after: after.value }).toString();
  const asked = useRef(query);
  asked.current = query;
  usePoll(every, async () => {
    if (run) return false;
    try {
      const now = await get<Page>("/api/v1/runs?" + query);
      if (asked.current !== query) return false; // another filter was chosen meanwhile
      for (const r of now.runs) triggers.current.set(r.trigger.id, r.trigger);
      page.value = now;
      failure.value = null;
    } catch (err) {
      if (!(err instanceof Failure)) throw err;
      if (asked.current === query) failure.value = err;
      return err.status >= 500; // any other failure is the same the next time
    }
    return true;
  }, query, !run, status.value?.started, acted.value);
  if (run) {
    left.current = run;
    return <Run key={run} {...props} close={() => openRun("")} />;
  }
  const refocus = (el: HTMLElement | null) => {
    if (el) left.current = "";
    el?.focus();
  };
  const p = page.value;
  const runs = (p?.runs ?? []).filter((r) => r.trigger.namespace === namespace);
  const shown = runs.filter((r) => r.id.includes(id.value));
  const filtered = state.value || trigger.value || id.value || after.value;
  const filter = (to: typeof state, value: string) => ((after.value = ""), (chosen.value = new Set()), (to.value = value));
  const control = status.value?.scope === "control";
  const ids = shown.filter((r) => chosen.value.has(r.id)).map((r) => r.id); // never one that is not seen
  const choose = (some: string[], on: boolean) => (chosen.value = new Set(on ? [...chosen.value, ...some] : [...chosen.value].filter((id) => !some.includes(id))));
  if (failure.value?.status === 409) return <section class="scroll"><p class="empty">{t("noJournal")} <code>uniflow start FILE --journal sqlite:runs.db</code></p></section>;
  return (
    <section class="scroll runs">
      <form class="row" onSubmit={(e) => (e.preventDefault(), aUUID.test(id.value) && openRun(id.value))}>
        <label>{t("state")} <select name="state" value={state.value} onChange={(e) => filter(state, e.currentTarget.value)}>
          <option value="">{t("all")}</option>
          {states.map((s) => <option key={s}>{s}</option>)}
        </select></label>
        <label>{t("trigger")} <select name="trigger" value={trigger.value} onChange={(e) => filter(trigger, e.currentTarget.value)}>
          <option value="">{t("all")}</option>
          {[...triggers.current.values()].filter((n) => n.namespace === namespace).map((n) => <option key={n.id} value={n.id}>{plain(n.name || n.id)}</option>)}
        </select></label>
        <input type="search" placeholder={t("findRun") + "  /"} aria-label={t("findRun")} onInput={(e) => (id.value = e.currentTarget.value.trim().toLowerCase())} />
        {after.value ? <button type="button" onClick={() => (after.value = "")}>{t("latest")}</button> : null}
        {p?.next ? <button type="button" onClick={() => (after.value = p.next!)}>{t("older")}</button> : null}
      </form>
      <p class="hot" role="status">{failure.value ? "▲ " + plain([failure.value.message, failure.value.hint].filter(Boolean).join(": ")) : ""}</p>
      {control ? <Many ids={ids} clear={() => (chosen.value = new Set())} changed={() => acted.value++} /> : null}
      {p && shown.length === 0 ? <p class="empty muted">{filtered || p.next ? t("noRunFits") : <>{t("noRuns")} <code>durability: {"{level: checkpoint}"}</code></>}</p> : null}
      {shown.length ? (
        <table>
          <thead><tr><th>{control ? <input type="checkbox" aria-label={t("chooseAll")} checked={ids.length === shown.length} onChange={(e) => choose(shown.map((r) => r.id), e.currentTarget.checked)} /> : null}{t("run")}</th><th>{t("state")}</th><th>{t("began")} (UTC)</th><th class="n">{t("took")}</th><th>{t("trigger")}</th><th>{t("level")}</th><th class="n">{t("resumed")}</th></tr></thead>
          <tbody>
            {shown.map((r) => (
              <tr key={r.id}>
                <td class="id">{control ? <input type="checkbox" aria-label={t("choose", r.id)} checked={chosen.value.has(r.id)} onChange={(e) => choose([r.id], e.currentTarget.checked)} /> : null}<button class="link" ref={r.id === left.current ? refocus : null} onClick={() => openRun(r.id)}><code>{r.id}</code></button></td>
                <td class="state"><State of={r} />{r.error ? <div class="muted cut" title={r.error}>{plain(r.error)}</div> : null}</td>
                <td><time title={r.began}>{when(r.began)}</time></td>
                <td class="n">{took(r)}</td>
                <td><Node of={r.trigger} show={show} /></td>
                <td>{r.level}</td>
                <td class="n">{r.resumed ? count(r.resumed) : ""}</td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : null}
    </section>
  );
}
