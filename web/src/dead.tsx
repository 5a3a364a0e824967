// Dead letters of a source in a file: looked at, changed, and sent again.

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { DeadLetter, DeadLetters, Requeued } from "./api.gen";
import { status } from "./live";
import { Shown } from "./process";
import { ask, get, type Failure } from "./server";
import { plain, t } from "./text";

const outcomes = ["answered", "failed", "kept", "gone"] as const;
const said = { answered: "deadAnswered", failed: "deadFailed", kept: "deadKept", gone: "deadGone" } as const;

const same = (a: DeadLetter | null, b: DeadLetter) => a?.at === b.at && a.sum === b.sum;

/** The letters of a source, a page at a time. They are read when asked for: a file may be long. */
export function Dead({ id }: { id: string }) {
  const file = useSignal(0);
  const from = useSignal(0);
  const page = useSignal<DeadLetters | null>(null);
  const edited = useSignal<{ letter: DeadLetter; text: string } | null>(null);
  const busy = useSignal(false);
  const failure = useSignal("");
  const ended = useSignal<Requeued[]>([]);
  const path = `/api/v1/queues/${encodeURIComponent(id)}/dead`;
  const failed = (err: Failure) => void (failure.value = [err.message, err.hint].filter(Boolean).join(": "));
  const load = () => get<DeadLetters>(`${path}?file=${file.value}&from=${from.value}`).then((p) => void (page.value = p), failed);
  useEffect(() => {
    edited.value = null;
    void load();
  }, [id, file.value, from.value]);
  const again = async (letters: DeadLetter[], text?: string) => {
    busy.value = true;
    failure.value = "";
    ended.value = [];
    await ask<Requeued[]>(path, { file: file.value, letters: letters.map(({ at, sum }) => ({ at, sum, ...(text === undefined ? {} : { text }) })) }).then(
      (answer) => {
        ended.value = answer;
        edited.value = null;
      },
      failed,
    );
    await load();
    busy.value = false;
  };
  const read = () => {
    failure.value = "";
    ended.value = [];
    void load();
  };
  const p = page.value;
  const mayControl = status.value?.scope === "control";
  const number = (outcome: string) => ended.value.filter((e) => e.outcome === outcome).length;
  const errors = ended.value.filter((e) => e.error);
  const e = edited.value;
  return (
    <section class="dead" aria-label={t("dead")}>
      <p class="muted">{t("deadDoc")}</p>
      <div class="row">
        {p && p.files.length > 1 ? (
          <select aria-label={t("deadFile")} value={file.value} onChange={(ev) => ((from.value = 0), (file.value = Number(ev.currentTarget.value)))}>
            {p.files.map((name, i) => <option key={i} value={i}>{plain(name)}</option>)}
          </select>
        ) : p ? <code>{plain(p.files[0] ?? "")}</code> : null}
        <button onClick={read}>{t("readAgain")}</button>
        {from.value ? <button onClick={() => (from.value = 0)}>{t("firstPage")}</button> : null}
        {p?.next ? <button onClick={() => (from.value = p.next!)}>{t("nextPage")}</button> : null}
        {mayControl && p?.letters.length ? <button disabled={busy.value} onClick={() => void again(p.letters)}>{t("sendAll", p.letters.length)}</button> : null}
      </div>
      {p?.begun ? <p class="warm">● {t("deadBegun")}</p> : null}
      <div role="status">
        {failure.value ? <p class="hot">▲ {plain(failure.value)}</p> : null}
        {ended.value.length ? <p>{outcomes.filter(number).map((o) => t(said[o], number(o))).join(" ")}</p> : null}
        {errors.map((e) => <p key={e.at} class="hot">▲ {plain(e.error!)}</p>)}
      </div>
      {p && p.letters.length === 0 ? <p class="muted">{t("noDead")}</p> : null}
      {p?.letters.length ? (
        <table>
          <thead><tr><th>{t("deadWhen")}</th><th>{t("deadWhere")}</th><th>{t("deadWhy")}</th>{mayControl ? <th /> : null}</tr></thead>
          <tbody>
            {p.letters.map((l) => (
              <tr key={l.at + l.sum} aria-current={same(e?.letter ?? null, l) ? "true" : undefined}>
                <td><time title={l.time}>{l.time?.slice(0, 19).replace("T", " ")}</time></td>
                <td>{plain(l.failed ?? "")}<div class="muted"><code>{plain(l.place ?? "")}</code></div></td>
                <td>{plain(l.reason)}{l.payload ? <Shown of={l.payload} name="" /> : null}</td>
                {mayControl ? (
                  <td class="n">
                    <div class="row">
                      {l.payload?.text && !l.payload.cut ? <button disabled={busy.value} onClick={() => (edited.value = { letter: l, text: l.payload!.text! })}>{t("changeIt")}</button> : null}
                      <button disabled={busy.value} onClick={() => void again([l])}>{t("use")}</button>
                    </div>
                  </td>
                ) : null}
              </tr>
            ))}
          </tbody>
        </table>
      ) : null}
      {e ? (
        <form class="send" onSubmit={(ev) => (ev.preventDefault(), void again([e.letter], e.text))} onKeyDown={(ev) => ev.key === "Escape" && (ev.stopPropagation(), (edited.value = null))}>
          <h3>{t("changedLetter", e.letter.time?.slice(0, 19).replace("T", " ") ?? "")}</h3>
          <textarea key={e.letter.at} ref={focus} aria-label={t("payload")} rows={Math.min(20, e.text.split("\n").length)} spellcheck={false} value={e.text} onInput={(ev) => (edited.value = { ...e, text: ev.currentTarget.value })} required />
          {e.letter.payload?.text?.includes("[redacted]") ? <p class="muted">{t("hiddenStays")}</p> : null}
          <div class="row">
            <button disabled={busy.value}>{t("sendChanged")}</button>
            <button type="button" onClick={() => (edited.value = null)}>{t("discard")}</button>
            <span class="muted">{t("sendsForReal")}</span>
          </div>
        </form>
      ) : null}
    </section>
  );
}

/** Gives the focus to what has just appeared. */
const focus = (el: HTMLElement | null) => el?.focus();
