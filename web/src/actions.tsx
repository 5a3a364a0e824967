// What people do with durable runs: signals, and pause, resume, cancel, retry and restart of one or of many.

import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Run, RunDetail, RunJob, RunWait } from "./api.gen";
import { over, when } from "./facts";
import { graph } from "./graph";
import { Failure, ask, get, said } from "./server";
import { count, plain, t } from "./text";

export const verbs = ["pause", "resume", "cancel", "retry", "restart"] as const;
export type Verb = (typeof verbs)[number];

/** Why something cannot be done with a run, or nothing. The program decides: this only saves an attempt. */
export function against(verb: Verb | "latest", r: Run): "" | "cancelRuns" | "cancelEnded" | "retryOnly" | "pauseOnly" | "resumeOnly" {
  if (verb === "cancel") return over(r) ? "cancelEnded" : r.state === "running" && !r.waits?.length ? "cancelRuns" : "";
  if (verb === "pause") return ["queued", "running", "waiting"].includes(r.state) ? "" : "pauseOnly";
  if (verb === "resume") return r.state === "paused" ? "" : "resumeOnly";
  if (verb === "latest" && ["waiting", "paused"].includes(r.state)) return "";
  if (verb === "retry" || verb === "latest") return ["stuck", "diverged", "failed", "dead"].includes(r.state) ? "" : "retryOnly";
  return "";
}

/** What is said when something was done. */
export const done = { pause: "pausedN", resume: "resumedN", cancel: "cancelledN", retry: "retriedN", restart: "restartedN" } as const;

/** A question that must be answered before something is done. It has the focus until then. */
export function Confirm({ text, yes, answer }: { text: string; yes: string; answer: (yes: boolean) => void }) {
  const own = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    own.current?.showModal();
    return () => void (before instanceof HTMLElement && before.isConnected && before.focus());
  }, []);
  return (
    <dialog ref={own} aria-label={text} onCancel={(e) => (e.preventDefault(), answer(false))} onKeyDown={(e) => e.key === "Escape" && (e.preventDefault(), e.stopPropagation(), answer(false))}>
      <p>{text}</p>
      <div class="row">
        <button class="hot" onClick={() => answer(true)}>{yes}</button>
        <button autofocus onClick={() => answer(false)}>{t("leaveIt")}</button>
      </div>
    </dialog>
  );
}

/** A form with JSON, which is checked before it is sent, as it is written. */
export function Json({ label, first, yes, note, send, close }: { label: string; first: string; yes: string; note?: string; send: (text: string) => Promise<void>; close: () => void }) {
  const text = useSignal(first);
  const wrong = useSignal("");
  const busy = useSignal(false);
  const submit = async (e: Event) => {
    e.preventDefault();
    wrong.value = "";
    try {
      JSON.parse(text.value);
    } catch (err) {
      wrong.value = t("noJSON") + " " + (err as Error).message;
      return;
    }
    busy.value = true;
    await send(text.value).catch((err: Failure) => (wrong.value = said(err)));
    busy.value = false;
  };
  return (
    <form class="send" aria-label={label} onSubmit={(e) => void submit(e)} onKeyDown={(e) => e.key === "Escape" && (e.stopPropagation(), close())}>
      <h3>{label}</h3>
      <textarea ref={focus} aria-label={label} aria-invalid={wrong.value !== ""} rows={Math.min(20, 1 + text.value.split("\n").length)} spellcheck={false} value={text.value} onInput={(e) => (text.value = e.currentTarget.value)} />
      {note ? <p class="muted">{note}</p> : null}
      <p class="hot" role="alert">{wrong.value ? "▲ " + plain(wrong.value) : ""}</p>
      <div class="row">
        <button class="main" disabled={busy.value}>{yes}</button>
        <button type="button" onClick={close}>{t("discard")}</button>
      </div>
    </form>
  );
}

/** A form that asks from which node a run is done again. */
function From({ namespace, send, close }: { namespace: string; send: (name: string) => Promise<void>; close: () => void }) {
  const name = useSignal("");
  const nodes = (graph.value?.diagram.nodes ?? []).filter((n) => n.namespace === namespace && n.name && n.group !== "trigger");
  const wrong = useSignal("");
  const busy = useSignal(false);
  const submit = async (e: Event) => {
    e.preventDefault();
    busy.value = true;
    wrong.value = "";
    await send(name.value.trim()).catch((err: Failure) => (wrong.value = said(err)));
    busy.value = false;
  };
  return (
    <form class="send" aria-label={t("restartFrom")} onSubmit={(e) => void submit(e)} onKeyDown={(e) => e.key === "Escape" && (e.stopPropagation(), close())}>
      <h3>{t("restartFrom")}</h3>
      <label>{t("restartNode")} <input ref={focus} required list="restartable" aria-invalid={wrong.value !== ""} value={name.value} onInput={(e) => (name.value = e.currentTarget.value)} /></label>
      <datalist id="restartable">{nodes.map((n) => <option key={n.id} value={n.name} />)}</datalist>
      <p class="muted">{t("restartFromDoc")}</p>
      <p class="hot" role="alert">{wrong.value ? "▲ " + plain(wrong.value) : ""}</p>
      <div class="row">
        <button class="main" disabled={busy.value}>{t("restart")}</button>
        <button type="button" onClick={close}>{t("discard")}</button>
      </div>
    </form>
  );
}

/** Gives the focus to what has just appeared. */
const focus = (el: HTMLElement | null) => el?.focus();

/** The buttons of a run. changed is called when something was done with it, opened with another run that was started. */
export function Actions({ of, changed, opened }: { of: Run; changed: () => Promise<void>; opened: (id: string) => void }) {
  const busy = useSignal(false);
  const asking = useSignal(false);
  const failure = useSignal("");
  const last = useSignal("");
  const input = useSignal<string | null>(null); // that is edited
  const from = useSignal(false); // a node is asked for
  const path = "/api/v1/runs/" + encodeURIComponent(of.id);
  const during = async (f: () => Promise<void>) => {
    busy.value = true;
    failure.value = last.value = "";
    await f().catch((err: Failure) => (failure.value = said(err)));
    busy.value = false;
  };
  const act = (verb: Verb, body: unknown = null) => during(async () => {
    try {
      const run = await ask<Run>(`${path}/${verb}`, body);
      if (verb === "restart") return opened(run.id);
      last.value = verb === "pause" && run.state === "running" ? t("pausesSoon") : t(done[verb], 1);
    } finally {
      if (verb !== "restart") await changed();
    }
  });
  const edit = () => during(async () => {
    const d = await get<RunDetail>(`${path}?payloads=true&after=${2 ** 31 - 1}`);
    if (d.input?.cut) throw new Failure(0, t("tooLarge"));
    from.value = false;
    input.value = d.input?.text || "null";
  });
  const restartFrom = async (name: string) => opened((await ask<Run>(path + "/restart", { from: name })).id);
  const restart = async (text: string) => opened((await ask<Run>(path + "/restart", `{"input": ${text}}`)).id);
  const off = (v: Verb | "latest") => busy.value || against(v, of) !== ""; // a button that is disabled would lose the focus
  const reasons = new Set(verbs.map((v) => against(v, of)).filter((why) => why !== ""));
  return (
    <section class="actions" aria-label={t("actions")}>
      <div class="row">
        {verbs.map((v) => <button key={v} aria-disabled={off(v)} aria-describedby={against(v, of) || undefined} onClick={() => (off(v) ? undefined : v === "cancel" ? (asking.value = true) : void act(v))}>{t(v)}</button>)}
        <button aria-disabled={off("latest")} aria-describedby={against("latest", of) || undefined} onClick={() => off("latest") || void act("retry", { latest: true })}>{t("retryLatest")}</button>
        <button aria-disabled={busy.value} onClick={() => busy.value || void edit()}>{t("restartEdited")}</button>
        {of.level === "checkpoint" && !of.queue ? <button aria-disabled={busy.value} onClick={() => busy.value || ((input.value = null), (from.value = true))}>{t("restartFrom")}</button> : null}
      </div>
      {[...reasons].map((why) => <p key={why} id={why} class="muted">{t(why)}</p>)}
      <div role="status">
        {failure.value ? <p class="hot">▲ {plain(failure.value)}</p> : last.value ? <p class="ok">● {last.value}</p> : null}
      </div>
      {asking.value ? <Confirm text={t("cancelAskOne")} yes={t("cancelIt")} answer={(yes) => ((asking.value = false), yes && void act("cancel"))} /> : null}
      {from.value ? <From namespace={of.trigger.namespace} send={restartFrom} close={() => (from.value = false)} /> : null}
      {input.value !== null ? <Json label={t("newInput")} first={input.value} yes={t("restart")} note={[t("restartDoc"), input.value.includes("[redacted]") ? t("hiddenStays") : ""].join(" ")} send={restart} close={() => (input.value = null)} /> : null}
    </section>
  );
}

/** What a run waits for, and sending it. */
export function Waits({ of, may, name, changed }: { of: Run; may: boolean; name: (w: RunWait) => ComponentChildren; changed: () => Promise<void> }) {
  const open = useSignal<RunWait | null>(null);
  const sent = useSignal("");
  const send = (w: RunWait) => async (text: string) => {
    const to = { namespace: w.node?.namespace ?? of.trigger.namespace, event: w.event, key: w.key };
    await ask("/api/v1/signals", JSON.stringify(to).slice(0, -1) + `, "payload": ${text}}`);
    open.value = null;
    sent.value = t("signalSent", w.event!, w.key!);
    await changed();
  };
  if (!of.waits?.length && !sent.value) return null;
  return (
    <section class="waits">
      <h3>{t("waitsFor")}</h3>
      <ul>
        {(of.waits ?? []).map((w, i) => (
          <li key={i}>
            <span class="row">
              {name(w)}
              {w.event ? <span>{t("event")} <code>{plain(w.event)}</code>{w.key ? <> <code>{plain(w.key)}</code></> : null}</span> : null}
              {w.token ? <span class="muted">{t(w.event && w.key ? "orToken" : "onlyToken")}</span> : null}
              {w.due ? <span class="muted">{t("until")} <time title={w.due}>{when(w.due)}</time> UTC</span> : null}
              {may && w.event && w.key ? <button onClick={() => ((sent.value = ""), (open.value = w))}>{t("sendSignal")}</button> : null}
            </span>
          </li>
        ))}
      </ul>
      {open.value ? <Json key={open.value.event! + "\0" + open.value.key} label={t("signalPayload", plain(open.value.event!), plain(open.value.key!))} first="null" yes={t("sendIt")} note={t("signalDoc")} send={send(open.value)} close={() => (open.value = null)} /> : null}
      <p class="ok" role="status">{sent.value ? "● " + sent.value : ""}</p>
    </section>
  );
}

/** What is done with the runs that are chosen in a list. */
export function Many({ ids, clear, changed }: { ids: string[]; clear: () => void; changed: () => void }) {
  const asking = useSignal<Verb | "">("");
  const busy = useSignal(false);
  const ended = useSignal<{ verb: Verb; job: RunJob } | null>(null);
  const failure = useSignal("");
  const act = async (verb: Verb) => {
    busy.value = true;
    failure.value = "";
    try {
      let job: RunJob = await ask("/api/v1/runs/bulk", { do: verb, ids });
      for (ended.value = { verb, job }; job.state === "running"; ended.value = { verb, job }) { // the program goes on without the page
        await new Promise((later) => setTimeout(later, 300));
        job = await get<RunJob>("/api/v1/runs/bulk/" + job.id);
      }
      failure.value = job.error ?? "";
      clear();
    } catch (err) {
      if (!(err instanceof Failure)) throw err;
      failure.value = said(err);
    } finally {
      busy.value = false;
      changed();
    }
  };
  const e = ended.value;
  const refused = e?.job.refused ?? [];
  const n = refused.reduce((sum, r) => sum + r.runs, 0);
  return (
    <div class="many">
      {ids.length ? (
        <div class="row">
          <span>{t("chosen", ids.length)}</span>
          {verbs.map((v) => <button key={v} disabled={busy.value} onClick={() => (v === "cancel" || v === "restart" ? (asking.value = v) : void act(v))}>{t(v)}</button>)}
          <button disabled={busy.value} onClick={clear}>{t("chooseNone")}</button>
        </div>
      ) : null}
      <div role="status">
        {e && (e.job.done || n) ? <p>{t(done[e.verb], count(e.job.done))} {n ? t("refusedN", count(n)) : ""}</p> : null}
        {refused.map((r) => <p key={r.message} class="warm">◆ {r.runs}: {plain(r.message)}</p>)}
        {failure.value ? <p class="hot">▲ {plain(failure.value)}</p> : null}
      </div>
      {asking.value ? <Confirm text={t(asking.value === "cancel" ? "cancelAsk" : "restartAsk", ids.length)} yes={t(asking.value === "cancel" ? "cancelIt" : "restart")} answer={(yes) => {
        const verb = asking.value;
        asking.value = "";
        if (yes && verb) void act(verb);
      }} /> : null}
    </div>
  );
}
