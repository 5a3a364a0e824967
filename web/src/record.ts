// A test of a node, made of a packet that came to it and of the answer that it gave.

import type { Pin } from "./api.gen";
import { documents, drafts } from "./drafts";

/** A name that is free in a document. */
function freeName(text: string, name: string): string {
  for (let n = 1; ; n++) {
    const free = `${name} ${n}`;
    if (!text.includes(JSON.stringify(free))) return free;
  }
}

const block = (json: string, first: string) => first + JSON.stringify(JSON.parse(json), null, 2).split("\n").join("\n    ");

/** Adds a test to the draft of a file, whose mocks are the pins, and returns the line that it begins at; 0 if the file is not there. */
export function addTest(file: string, node: { name: string; namespace: string }, payload: string, answer: string, pins: Pin[] = []): number {
  const doc = documents.value?.documents.find((d) => d.file === file);
  if (!doc) return 0;
  const text = drafts.value[file] ?? doc.text;
  const name = freeName(text, node.name);
  const [input, right] = [name + " input", name + " is right"];
  const spec = (kind: string, called: string) =>
    `- kind: ${kind}\n  name: ${JSON.stringify(called)}\n` + (node.namespace === "default" ? "" : `  namespace: ${JSON.stringify(node.namespace)}\n`);
  const above = text === "" || text.endsWith("\n") ? text : text + "\n";
  drafts.value = {
    ...drafts.value,
    [file]: above + "\n" +
      spec("test", name) + `  ports: {"out[0]": ${JSON.stringify(input)}, "out[1]": ${JSON.stringify(right)}}\n` +
      (pins.length ? "  mocks:\n" : "") + pins.map((p) => `    - {node: ${JSON.stringify(p.node)}, language: json, code: ${JSON.stringify(p.text)}}\n`).join("") + "\n" +
      spec("snippet", input) + `  language: json\n  code: |\n    ${block(payload, "")}\n  ports: {out: ${JSON.stringify(node.name)}}\n\n` +
      spec("assert", right) + `  expect: |\n    ${block(answer, "self == ")}\n`,
  };
  return above.split("\n").length + 1;
}
