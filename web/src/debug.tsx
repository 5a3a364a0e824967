import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Breakpoint, Held } from "./api.gen";
import { against, debug, look, move, setBreakpoints } from "./debugger";
import { graph, useGraph } from "./graph";
import { status } from "./live";
import { More } from "./logs";
import { Shown } from "./process";
import { Failure } from "./server";
import { duration, plain, t } from "./text";
import type { ViewProps } from "./view";

const points = ["in", "out", "error", "answer"] as const;

/** Where processes are held, and those that are. */
export function DebugView({ namespace, show }: ViewProps) {
  useGraph(namespace);
  const may = status.value?.scope === "control";
  useEffect(() => {
    if (may) void look();
  }, [may]);
  if (!may) return <More failure={new Failure(403, t("noScope"))} />;
  const nodes = graph.value?.diagram.nodes ?? [];
  const name = (id: string) => {
    const n = nodes.find((n) => n.id === id);
    return id ? <button class="link" onClick={() => show(id)}>{plain(n?.path || n?.kind || id)}</button> : t("everyNode");
  };
  const { breakpoints, held, skipped, messages, untold } = debug.value;
  return (
    <section class="scroll debug">
      {against.value ? <p class="hot" role="alert">▲ {plain(against.value)}</p> : null}
      {held.map((h, i) => <Paused key={h.id} h={h} first={i === 0} show={show} />)}
      {skipped ? <p class="warm">{t("passed", skipped)}</p> : null}
      <h2>{t("breakpoints")}</h2>
      {breakpoints.length ? (
        <table>
          <thead><tr><th>{t("name")}</th><th>{t("point")}</th><th>{t("when")}</th><th class="n">{t("hits")}</th><th /></tr></thead>
          <tbody>
            {breakpoints.map((b, i) => (
              <tr key={i}>
                <td>{name(b.node)}</td>
                <td>{b.port === undefined ? b.point : b.port < 0 ? "error" : `out[${b.port}]`}</td>
                <td>{b.when ? <code>{plain(b.when)}</code> : null}{b.log ? <div class="muted">{t("tells")}: <code>{plain(b.log)}</code></div> : null}{b.faulty ? <div class="hot">▲ {plain(b.faulty)}</div> : null}</td>
                <td class="n">{b.hits ?? 0}</td>
                <td class="n"><button onClick={() => void setBreakpoints(breakpoints.filter((other) => other !== b))}>{t("remove")}</button></td>
              </tr>
            ))}
          </tbody>
        </table>
      ) : <p class="muted">{t("noBreakpoints")}</p>}
      <Add nodes={nodes.filter((n) => n.group !== "trigger")} all={breakpoints} />
      {messages.length ? (
        <ol class="log" aria-label={t("messages")}>
          {messages.toReversed().map((m) => (
            <li key={m.number}><time title={m.time}>{m.time.slice(11, 23)}</time>{name(m.node.id)}<span>{plain(m.text)}</span></li>
          ))}
        </ol>
      ) : null}
      {untold ? <p class="warm">{t("untold", untold)}</p> : null}
    </section>
  );
}

function Add({ nodes, all }: { nodes: { id: string; path?: string; kind: string }[]; all: Breakpoint[] }) {
  const submit = (e: Event) => {
    e.preventDefault();
    const form = new FormData(e.currentTarget as HTMLFormElement);
    const at = String(form.get("point"));
    const point = at === "error" ? { point: "out", port: -1 } : { point: at };
    void setBreakpoints([...all, { ...point, node: String(form.get("node")), when: String(form.get("when")), log: String(form.get("log")) }]);
  };
  return (
    <form class="row add" onSubmit={submit}>
      <label>{t("name")} <select name="node">{nodes.map((n) => <option key={n.id} value={n.id}>{plain(n.path || n.kind)}</option>)}<option value="">{t("everyNode")}</option></select></label>
      <label>{t("point")} <select name="point">{points.map((p) => <option key={p} value={p}>{t(("point_" + p) as "point_in")}</option>)}</select></label>
      <label class="when">{t("when")} <input name="when" placeholder="body.count > 9" autocomplete="off" spellcheck={false} /></label>
      <label class="when">{t("tellText")} <input name="log" placeholder={"n is ${self.body.count}"} autocomplete="off" spellcheck={false} /></label>
      <button>{t("addBreakpoint")}</button>
    </form>
  );
}

const keys: Record<string, "continue" | "into" | "over"> = { F8: "continue", F11: "into", F10: "over" };

/** A process that is held, with what it goes on with. */
function Paused({ h, first, show }: { h: Held; first: boolean; show: (node: string) => void }) {
  const at = h.answer ?? h.sends?.[0]?.payload ?? h.came;
  const shown = at.cut ? "" : at.text ?? "";
  const text = useSignal(shown);
  const own = useRef<HTMLTextAreaElement>(null);
  const several = (h.sends?.length ?? 0) > 1;
  const go = (what: string) => {
    const edited = text.value !== shown && !several;
    void move(h.id, what === "answer" || what === "fail" || (edited && what !== "drop") ? { do: what, text: text.value } : { do: what });
  };
  useEffect(() => {
    if (!first) return;
    const onKey = (e: KeyboardEvent) => {
      const what = keys[e.key];
      if (!what) return;
      e.preventDefault();
      go(what);
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  });
  const button = (n: Held["node"]) => <button class="link" onClick={() => show(n.id)}>{plain(n.name || n.kind)}</button>;
  const place = h.point === "in" ? `in[${h.port}]` : h.point === "out" ? (h.port < 0 ? "error" : `out[${h.port}]`) : "answer";
  return (
    <article class="held" aria-label={t("held")}>
      <h2>❚❚ {button(h.node)} <code>{place}</code> <span class="muted">{t(("point_" + h.point) as "point_in")}{h.step ? " · " + t("step") : ""}</span></h2>
      <p class="muted">{t("callers")}: {h.callers.map((n, i) => <span key={i}>{i ? " ‹ " : ""}{button(n)}</span>)} · {t("goesOnIn", duration(Math.max(0, Math.round(h.left))) || "0 s")} · <code>{h.process}</code></p>
      {h.point === "in" ? null : <Shown of={h.came} name={t("came")} />}
      {several ? h.sends!.map((p, i) => <Shown key={i} of={p.payload} name={p.port < 0 ? "error" : `out[${p.port}]`} />) : (
        <textarea ref={own} aria-label={t("payload")} spellcheck={false} rows={Math.min(16, 1 + text.value.split("\n").length)} value={text.value} onInput={(e) => (text.value = e.currentTarget.value)} />
      )}
      {at.cut ? <p class="muted">{t("tooLarge")}</p> : null}
      <div class="row moves">
        <button class="main" onClick={() => go("continue")}>{t("goOn")} <kbd>F8</kbd></button>
        <button onClick={() => go("into")}>{t("into")} <kbd>F11</kbd></button>
        <button onClick={() => go("over")}>{t("over")} <kbd>F10</kbd></button>
        <button onClick={() => go("out")}>{t("stepOut")}</button>
        <span class="muted">{t("orInstead")}</span>
        <button onClick={() => go("answer")}>{t("answerThis")}</button>
        <button onClick={() => go("fail")}>{t("failThis")}</button>
        <button onClick={() => go("drop")}>{t("drop")}</button>
      </div>
    </article>
  );
}
