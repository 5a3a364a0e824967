// A packet through the drafts, which are not served: nothing outside changes.

import { signal } from "@preact/signals";
import type { DiagramNode, Pin, Step, Tried } from "./api.gen";
import { changed, told } from "./drafts";
import { Findings } from "./findings";
import { graph, useGraph } from "./graph";
import { Shown } from "./process";
import { addTest } from "./record";
import { ask } from "./server";
import { duration, plain, t } from "./text";

const node = signal("");
const text = signal("null");
const pins = signal<Pin[]>([]);
const allow = signal<string[]>([]);
const busy = signal(false);
const tried = signal<{ of: string; payload: string; pins: Pin[]; allowed: boolean; got: Tried } | null>(null);

async function run(e: Event) {
  e.preventDefault();
  busy.value = true;
  const of = { node: node.value.trim(), text: text.value, pins: pins.value, allow: allow.value };
  const got = await told(ask<Tried>("/api/v1/try", { drafts: changed.value, ...of }));
  if (got) tried.value = { of: of.node, payload: of.text, pins: of.pins, allowed: of.allow.length > 0, got };
  busy.value = false;
}

const pinned = (name: string) => pins.value.some((p) => p.node === name);

function pin(step: Step) {
  pins.value = [...pins.value.filter((p) => p.node !== step.from), { node: step.from, text: step.payload.kind === "error" ? "null" : step.payload.text ?? "null" }];
}

/** Tries a packet, with pins for what nodes answer. */
export function Trial({ namespace, go }: { namespace: string; go: (file: string, line: number) => void }) {
  const done = tried.value;
  useGraph(namespace);
  const nodes = (graph.value?.diagram.nodes ?? []).filter((n) => n.name && n.name === n.path); // no link leads to others
  const named = (n: DiagramNode) => (n.namespace === "default" ? n.name! : `${n.namespace}/${n.name}`);
  const of = nodes.find((n) => (done?.of === n.name || done?.of === named(n)) && n.group !== "trigger");
  const test = () => {
    const line = addTest(of!.file!, { name: of!.name!, namespace: of!.namespace }, done!.payload, done!.got.answer.text!, done!.pins);
    if (line) go(of!.file!, line);
  };
  return (
    <section class="send">
      <h3>{t("try")}</h3>
      <p class="muted">{t("tryDoc")}</p>
      <form onSubmit={(e) => void run(e)}>
        <label>{t("tryNode")} <input required list="targets" value={node.value} onInput={(e) => (node.value = e.currentTarget.value)} /></label>
        <datalist id="targets">{nodes.map((n) => <option key={n.id} value={named(n)} />)}</datalist>
        <label>{t("payload")} <textarea rows={3} spellcheck={false} value={text.value} onInput={(e) => (text.value = e.currentTarget.value)} /></label>
        {pins.value.map((p, i) => (
          <label key={p.node}>
            {t("pinned", plain(p.node))} <button type="button" class="link" onClick={() => (pins.value = pins.value.filter((other) => other !== p))}>{t("unpin")}</button>
            <textarea rows={2} spellcheck={false} value={p.text} onInput={(e) => (pins.value = pins.value.map((other, j) => (j === i ? { ...p, text: e.currentTarget.value } : other)))} />
          </label>
        ))}
        {allow.value.map((name) => (
          <p key={name}><span class="warm">●</span> {t("allowed", plain(name))} <button type="button" class="link" onClick={() => (allow.value = allow.value.filter((other) => other !== name))}>{t("forbid")}</button></p>
        ))}
        <div class="row"><button class="main" disabled={busy.value}>{t(busy.value ? "running" : "try")}</button></div>
      </form>
      {done ? (
        <div role="status">
          <b class={done.got.failed ? "hot" : "ok"}>{done.got.failed ? "▲ " + t("tryFailed") : "✓ " + t("tryAnswered")}</b> <span class="muted">{duration(done.got.seconds)}</span>
          <Findings list={done.got.findings} go={go} />
          {done.got.failed ? null : <Shown of={done.got.answer} name="" />}
          {!done.got.failed && !done.allowed && of?.file && done.got.answer.text && !done.got.answer.cut ? <button onClick={test}>{t("toTest")}</button> : null}
          {done.got.skipped ? <p class="muted">{t("skipped", done.got.skipped)}</p> : null}
          <ol class="packets">
            {done.got.steps.map((step, i) => (
              <li key={i}>
                {step.from ? `${plain(step.from)}.${step.out}` : t("yourPacket")} <span class="muted">{step.to.length ? "→ " + step.to.map(plain).join(", ") : t("isAnswer")}</span>
                <Shown of={step.payload} name="" />
                {step.named && !step.payload.cut && !pinned(step.from) ? <button onClick={() => pin(step)}>{t("pin")}</button> : null}
                {step.named && step.out === "error" && !allow.value.includes(step.from) ? <button onClick={() => (allow.value = [...allow.value, step.from])}>{t("allow")}</button> : null}
              </li>
            ))}
          </ol>
          {done.got.log ? <pre>{done.got.log.split("\n").map(plain).join("\n")}</pre> : null}
        </div>
      ) : null}
    </section>
  );
}
