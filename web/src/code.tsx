// A document in CodeMirror, which is loaded when it is first shown. It lives in a shadow root: there its
// styles are adopted sheets, which the policy of the page allows.

import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { HighlightStyle, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, lintKeymap, setDiagnostics, type Diagnostic } from "@codemirror/lint";
import { searchKeymap } from "@codemirror/search";
import { EditorState, type Text } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, hoverTooltip, keymap, lineNumbers, showDialog } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { render } from "preact";
import type { Completion, Hover, PlanFinding } from "./api.gen";
import { changed } from "./drafts";
import { Markdown } from "./markdown";
import { ask } from "./server";

export interface Code {
  /** Shows a text in place of the one that is there, without a change. */
  open(file: string, text: string, editable: boolean): void;
  find(findings: PlanFinding[]): void;
  go(line: number, col: number): void;
  /** What is asked about the place of the cursor. */
  place(): { file: string; line: number; col: number };
  /** Asks the author for a name. It is null if there is none. */
  name(label: string, submit: string): Promise<string | null>;
  close(): void;
}

// The program counts characters, the editor units of UTF-16.
const unitsTo = (line: string, col: number) => [...line].slice(0, col - 1).join("").length;
const colAt = (line: string, units: number) => [...line.slice(0, units)].length + 1;

function offset(doc: Text, line: number, col: number): number {
  const at = doc.line(Math.max(1, Math.min(line, doc.lines)));
  return at.from + Math.min(unitsTo(at.text, col), at.length);
}

/** The one change that makes a text of another. What both begin and end with stays, and so does a cursor there. */
function between(before: string, after: string): { from: number; to: number; insert: string } {
  const least = Math.min(before.length, after.length);
  let from = 0;
  while (from < least && before[from] === after[from]) from++;
  let end = 0;
  while (end < least - from && before.at(-1 - end) === after.at(-1 - end)) end++;
  return { from, to: before.length - end, insert: after.slice(from, after.length - end) };
}

const style = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--accent)" },
  { tag: [tags.string, tags.content, tags.special(tags.string)], color: "var(--text)" },
  { tag: [tags.comment, tags.lineComment], color: "var(--muted)", fontStyle: "italic" },
  { tag: [tags.punctuation, tags.separator, tags.squareBracket, tags.brace], color: "var(--muted)" },
  { tag: [tags.keyword, tags.meta, tags.labelName], color: "var(--trigger)" },
]);

const look = EditorView.theme({
  "&": { height: "100%", color: "var(--text)", backgroundColor: "var(--surface)", fontSize: "13px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "20px" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--surface)", color: "var(--muted)", border: "0" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "color-mix(in srgb, var(--accent) 7%, transparent)" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground": { backgroundColor: "color-mix(in srgb, var(--accent) 25%, transparent)" },
  ".cm-tooltip, .cm-panels": { backgroundColor: "var(--surface)", color: "var(--text)", border: "1px solid var(--edge)", borderRadius: "6px", overflow: "auto", maxWidth: "520px", maxHeight: "320px" },
  ".cm-tooltip .markdown, .cm-diagnostic, .cm-completionInfo": { padding: "4px 12px", font: "13px/20px Inter, system-ui, sans-serif", whiteSpace: "normal" },
  ".cm-diagnosticText": { whiteSpace: "pre-wrap" },
  ".cm-tooltip pre": { whiteSpace: "pre-wrap", font: "12px/18px var(--mono)" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "2px 8px" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--surface)" },
  ".cm-completionDetail": { color: "var(--muted)", fontStyle: "normal" },
  "li[aria-selected] .cm-completionDetail": { color: "inherit" },
  ".cm-completionIcon": { display: "none" },
  // In place of pictures in data URLs, which the policy of the page forbids.
  ".cm-lint-marker": { width: "1em" },
  ".cm-lint-marker-error, .cm-lint-marker-warning": { content: "normal" },
  ".cm-lint-marker-error::before": { content: '"▲"', color: "var(--hot)" },
  ".cm-lint-marker-warning::before": { content: '"●"', color: "var(--warm)" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--hot)" },
  ".cm-lintRange-warning": { backgroundImage: "none", textDecoration: "underline wavy var(--warm)" },
});

/** What the author may ask for with a key. */
export type Command = "rename" | "definition" | "format";

/** Opens an editor in an element. on is called with each text that the author makes, and command for a key. */
export function openCode(parent: HTMLElement, label: string, on: (text: string) => void, command: (what: Command) => void): Code {
  const root = parent.shadowRoot ?? parent.attachShadow({ mode: "open" });
  let file = "";
  let quiet = false;
  const place = (state: EditorState, pos: number) => {
    const line = state.doc.lineAt(pos);
    return { drafts: changed.value, file, line: line.number, col: colAt(line.text, pos - line.from) };
  };

  async function complete(context: CompletionContext): Promise<CompletionResult | null> {
    const line = context.state.doc.lineAt(context.pos);
    if (!context.explicit && !/[\w:[{-]\s?$/.test(line.text.slice(0, context.pos - line.from))) return null;
    const items = await ask<Completion[]>("/api/v1/complete", place(context.state, context.pos)).catch(() => []); // the bar says that the program is gone
    if (context.aborted || items.length === 0) return null;
    return {
      from: line.from + unitsTo(line.text, items[0]!.from),
      to: line.from + unitsTo(line.text, items[0]!.to),
      options: items.map((item, i) => ({
        label: item.label, detail: item.detail ?? "", boost: -i / 100, apply: item.text,
        ...(item.doc ? { info: () => shown(item.doc!) } : {}),
      })),
      validFor: /^[\w[\]./-]*$/,
    };
  }

  const hover = hoverTooltip(async (view, pos) => {
    const { doc } = await ask<Hover>("/api/v1/hover", place(view.state, pos)).catch(() => ({ doc: "" })); // likewise
    return doc ? { pos, create: () => ({ dom: shown(doc) }) } : null;
  });

  const extensions = (editable: boolean) => [
    lineNumbers(), history(), drawSelection(), indentOnInput(), highlightActiveLine(), yaml(), syntaxHighlighting(style), look,
    keymap.of([
      { key: "F2", run: () => (command("rename"), true) }, { key: "F12", run: () => (command("definition"), true) }, { key: "Shift-Alt-f", run: () => (command("format"), true) },
      ...closeBracketsKeymap, ...completionKeymap, ...lintKeymap, ...searchKeymap, ...historyKeymap, ...defaultKeymap,
    ]),
    EditorView.lineWrapping, EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
    editable ? [lintGutter(), closeBrackets(), autocompletion({ override: [complete] }), hover] : [EditorState.readOnly.of(true)],
    EditorView.updateListener.of((update) => {
      if (update.docChanged && !quiet) on(update.state.doc.toString());
    }),
  ];
  const view = new EditorView({ root, parent: root, state: EditorState.create({ extensions: extensions(false) }) });
  return {
    open(name, text, editable) {
      if (name === file && text === view.state.doc.toString()) return;
      const again = name === file;
      file = name;
      quiet = true;
      if (again) view.dispatch({ changes: between(view.state.doc.toString(), text) });
      else view.setState(EditorState.create({ doc: text, extensions: extensions(editable) }));
      quiet = false;
    },
    find(findings) {
      const doc = view.state.doc;
      const list: Diagnostic[] = findings.filter((f) => f.finding.file === file && f.finding.line).map(({ finding: f, end }) => {
        const from = offset(doc, f.line!, f.col ?? 1);
        const fix = f.fix;
        return {
          from, to: Math.max(from, offset(doc, f.line!, end)), severity: f.severity === "warning" ? "warning" : "error",
          message: `${f.message} [${f.code}]${f.hint ? "\n" + f.hint : ""}`,
          actions: fix ? [{ name: fix.new, apply: (v, at) => {
            const rest = v.state.doc.sliceString(at, at + fix.old.length + 1);
            const begin = at + (rest.startsWith(fix.old) ? 0 : 1); // behind a quote
            if (v.state.doc.sliceString(begin, begin + fix.old.length) === fix.old) v.dispatch({ changes: { from: begin, to: begin + fix.old.length, insert: fix.new } });
          } }] : [],
        };
      });
      view.dispatch(setDiagnostics(view.state, list));
    },
    go(line, col) {
      const at = offset(view.state.doc, line, col);
      view.dispatch({ selection: { anchor: at }, effects: EditorView.scrollIntoView(at, { y: "center" }) });
      view.focus();
    },
    place() {
      const { file, line, col } = place(view.state, view.state.selection.main.head);
      return { file, line, col };
    },
    name: (label, submit) => showDialog(view, { label, input: { name: "name" }, submitLabel: submit, focus: true, top: true }).result.then((form) => {
      view.focus();
      return form ? String(new FormData(form).get("name")) : null;
    }),
    close: () => view.destroy(),
  };
}

/** A text of the program as an element. */
function shown(doc: string): HTMLElement {
  const dom = document.createElement("div");
  render(<Markdown text={doc} />, dom);
  return dom;
}
