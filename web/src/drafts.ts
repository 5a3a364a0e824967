// The documents of the program, and what the author has written in their place. Drafts are kept while the
// page is open, whatever it shows.

import { batch, computed, signal } from "@preact/signals";
import type { Applied, Definition, Document, Documents, Formatted, Plan, Tests } from "./api.gen";
import { ask, Failure, get } from "./server";

export const documents = signal<Documents | null>(null);
export const drafts = signal<Record<string, string>>({});
/** What the drafts would change, as far as the program was asked: see planned. */
export const plan = signal<Plan | null>(null);
export const tests = signal<Tests | null>(null);
export const against = signal<Failure | null>(null);

/** The files whose lines end with \r\n. The page has \n in all, as the editor does. */
let carriages = new Set<string>();

/** The drafts that differ from the documents. */
export const changed = computed(() =>
  (documents.value?.documents ?? [])
    .filter((d) => (drafts.value[d.file] ?? d.text) !== d.text)
    .map((d) => ({ file: d.file, text: carriages.has(d.file) ? drafts.value[d.file]!.replaceAll("\n", "\r\n") : drafts.value[d.file]! })));

const asked = signal<typeof changed.value | null>(null);

/** Whether the plan is one of the drafts as they are now. */
export const planned = computed(() => plan.value !== null && asked.value === changed.value);

/** Tells of a failure, and returns the answer if there is none. A conflict stays until the documents are read again. */
export async function told<T>(answer: Promise<T>, read = false): Promise<T | null> {
  try {
    const value = await answer;
    if (read || against.value?.status !== 409) against.value = null;
    return value;
  } catch (err) {
    against.value = err instanceof Failure ? err : new Failure(0, String(err));
    return null;
  }
}

/** Reads the documents again. Drafts stay. */
export async function readDocuments(): Promise<void> {
  const read = await told(get<Documents>("/api/v1/documents"), true);
  if (read) {
    carriages = new Set(read.documents.filter((d) => d.text.includes("\r\n")).map((d) => d.file));
    documents.value = { ...read, documents: read.documents.map((d) => ({ ...d, text: d.text.replace(/\r\n?/g, "\n") })) };
  }
  if (read?.editable) await check();
}

/** Puts texts of the program in the place of drafts. */
export function replaceDrafts(docs: Document[]): void {
  drafts.value = { ...drafts.value, ...Object.fromEntries(docs.map((d) => [d.file, d.text.replace(/\r\n?/g, "\n")])) };
  void check();
}

/** Gives the node at a place of a draft another name, in all drafts. */
export async function rename(at: { file: string; line: number; col: number }, name: string): Promise<void> {
  const before = drafts.value;
  const docs = await told(ask<Document[]>("/api/v1/rename", { at: { drafts: changed.value, ...at }, name }));
  if (docs && drafts.value === before) replaceDrafts(docs); // else the author has typed meanwhile
}

/** Where the node at a place of a draft has its name; null if that is nowhere. */
export async function definition(at: { file: string; line: number; col: number }): Promise<Definition | null> {
  const found = await told(ask<Definition>("/api/v1/definition", { drafts: changed.value, ...at }));
  return found?.file ? found : null;
}

/** Writes a draft in its canonical form, if it can be read. */
export async function format(file: string): Promise<void> {
  const text = drafts.value[file] ?? documents.value?.documents.find((d) => d.file === file)?.text ?? "";
  const before = drafts.value;
  const formatted = await told(ask<Formatted>("/api/v1/format", { draft: { file, text } }));
  if (formatted && formatted.text !== text && drafts.value === before) replaceDrafts([{ file, text: formatted.text }]);
}

let checks = 0;

/** Asks what the drafts would change. An answer that is overtaken is dropped. */
export async function check(): Promise<void> {
  const number = ++checks;
  const of = changed.value;
  const answer = await told(ask<Plan>("/api/v1/plan", { drafts: of }));
  if (!answer || number !== checks) return;
  batch(() => {
    plan.value = answer;
    asked.value = of;
  });
}

/** Runs the tests in the drafts, or one of them. */
export async function runTests(run: string): Promise<void> {
  const ran = await told(ask<Tests>("/api/v1/tests", { drafts: changed.value, run }));
  if (ran) tests.value = ran;
}

export function discard(): void {
  drafts.value = {};
  void check();
}

/** Serves the drafts. What came of it is returned, and the documents are read again. */
export async function apply(why: string): Promise<Applied | null> {
  const applied = await told(ask<Applied>("/api/v1/apply", { revision: documents.value!.revision, drafts: changed.value, why }));
  if (applied?.ok) drafts.value = {};
  if (applied) await readDocuments();
  return applied;
}

/** Goes back to a revision. */
export async function rollback(id: string): Promise<Applied | null> {
  const applied = await told(ask<Applied>("/api/v1/revisions/" + id, {}));
  if (applied?.ok) drafts.value = {};
  if (applied) await readDocuments();
  return applied;
}
