// An editor that writes a workflow, with Microsoft's library of the protocol, over the standard input and output.
const rpc = require("vscode-languageserver-protocol/node");
const assert = require("node:assert");
const fs = require("node:fs");
const path = require("node:path");
const { spawn } = require("node:child_process");
const { pathToFileURL } = require("node:url");
const [program, dir] = process.argv.slice(2);

async function edit() {
  const server = spawn(program, ["lsp", "--stdio"], { cwd: dir, stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise((end) => server.on("exit", end));
  const editor = rpc.createProtocolConnection(new rpc.StreamMessageReader(server.stdout), new rpc.StreamMessageWriter(server.stdin));

  /** Waits until the findings of a file are as wanted. */
  const findings = new Map();
  const waiting = [];
  editor.onNotification(rpc.PublishDiagnosticsNotification.type, (p) => {
    findings.set(p.uri, p);
    waiting.splice(0).forEach((go) => go());
  });
  const until = async (uri, is) => {
    for (;;) {
      const p = findings.get(uri);
      if (p && is(p.diagnostics)) return p;
      await new Promise((go) => waiting.push(go));
    }
  };
  const messages = [];
  const spoken = [];
  editor.onNotification(rpc.ShowMessageNotification.type, (p) => {
    messages.push(p);
    spoken.splice(0).forEach((go) => go());
  });
  const registered = new Promise((go) => editor.onRequest(rpc.RegistrationRequest.type, (p) => go(p)));
  editor.listen();

  const folder = pathToFileURL(dir).toString();
  const able = await editor.sendRequest(rpc.InitializeRequest.type, {
    processId: process.pid,
    rootUri: folder,
    workspaceFolders: [{ uri: folder, name: "project" }],
    capabilities: {
      workspace: { didChangeWatchedFiles: { dynamicRegistration: true } },
      textDocument: { completion: { completionItem: { snippetSupport: true } } },
    },
  });
  assert.equal(able.serverInfo.name, "uniflow");
  await editor.sendNotification(rpc.InitializedNotification.type, {});
  assert.equal((await registered).registrations[0].method, "workspace/didChangeWatchedFiles");

  const uri = pathToFileURL(path.join(dir, "shop.yaml")).toString();
  const other = pathToFileURL(path.join(dir, "prices.yaml")).toString();
  const text = fs.readFileSync(path.join(dir, "shop.yaml"), "utf8");
  let version = 1;
  await editor.sendNotification(rpc.DidOpenTextDocumentNotification.type, { textDocument: { uri, languageId: "yaml", version, text } });
  const change = (contentChanges) =>
    editor.sendNotification(rpc.DidChangeTextDocumentNotification.type, { textDocument: { uri, version: ++version }, contentChanges });
  const at = (line, character) => ({ textDocument: { uri }, position: { line, character } });

  // What is wrong is shown where it is, and put right. The emoji is two units of UTF-16.
  const { diagnostics, version: of } = await until(uri, (d) => d.length === 1);
  assert.equal(of, 1);
  assert.equal(diagnostics[0].code, "F3001");
  const character = text.split("\n")[6].indexOf("pric");
  assert.deepEqual(diagnostics[0].range, { start: { line: 6, character }, end: { line: 6, character: character + 4 } });
  assert.match(diagnostics[0].message, /did you mean "price"/);
  const [fix] = await editor.sendRequest(rpc.CodeActionRequest.type, { textDocument: { uri }, range: diagnostics[0].range, context: { diagnostics } });
  assert.deepEqual(fix.edit.changes[uri], [{ range: diagnostics[0].range, newText: "price" }]);
  await change([{ range: fix.edit.changes[uri][0].range, text: fix.edit.changes[uri][0].newText }]);
  assert.equal((await until(uri, (d) => d.length === 0)).version, 2);

  // Names lead across files.
  const place = await editor.sendRequest(rpc.DefinitionRequest.type, at(6, character + 1));
  assert.deepEqual([place.uri, place.range.start], [other, { line: 1, character: 8 }]);
  const uses = await editor.sendRequest(rpc.ReferencesRequest.type, { ...at(6, character + 1), context: { includeDeclaration: true } });
  assert.deepEqual(uses.map((u) => u.uri).sort(), [other, other, uri]);
  assert.match((await editor.sendRequest(rpc.HoverRequest.type, at(6, character + 1))).contents.value, /\*\*price\*\* snippet, prices.yaml:1/);
  assert.match((await editor.sendRequest(rpc.HoverRequest.type, at(0, 10))).contents.value, /^\*\*listener\*\*/);
  assert.equal(await editor.sendRequest(rpc.HoverRequest.type, at(99, 0)), null);
  assert.equal((await editor.sendRequest(rpc.PrepareRenameRequest.type, at(6, character + 1))).placeholder, "price");
  const renamed = await editor.sendRequest(rpc.RenameRequest.type, { ...at(6, character + 1), newName: "cost" });
  assert.deepEqual(Object.keys(renamed.changes).sort(), [other, uri]);
  await assert.rejects(editor.sendRequest(rpc.RenameRequest.type, { ...at(6, character + 1), newName: "prices" }), /has a node "prices" already/);

  // A new node is written from what is offered.
  const end = text.split("\n").length - 1;
  await change([{ range: { start: { line: end, character: 0 }, end: { line: end, character: 0 } }, text: "- kind: " }]);
  const kinds = await editor.sendRequest(rpc.CompletionRequest.type, at(end, 8));
  const snippet = kinds.find((k) => k.label === "snippet");
  assert.deepEqual([snippet.textEdit.newText, snippet.insertTextFormat], ["snippet\n  code: $1", 2]);
  await change([{ range: snippet.textEdit.range, text: "snippet\n  la" }]);
  await until(uri, (d) => d.some((one) => one.code === "F1001")); // there may be those of the text before it
  const fields = await editor.sendRequest(rpc.CompletionRequest.type, at(end + 1, 4));
  assert.ok(fields.some((f) => f.label === "language" && f.textEdit.newText === "language: "));
  assert.ok(!fields.some((f) => f.label === "kind"));
  await change([{ text: text.replace("pric}", "price}") }]); // the whole document
  await until(uri, (d) => d.length === 0);

  const symbols = await editor.sendRequest(rpc.DocumentSymbolRequest.type, { textDocument: { uri } });
  assert.deepEqual(symbols.map((s) => [s.name, s.detail]), [["web", "listener"], ["router", "router"]]);
  const found = await editor.sendRequest(rpc.WorkspaceSymbolRequest.type, { query: "PRI" });
  assert.deepEqual(found.map((s) => s.name).sort(), ["price", "prices"]);
  const [formatted] = await editor.sendRequest(rpc.DocumentFormattingRequest.type, { textDocument: { uri }, options: { tabSize: 2, insertSpaces: true } });
  assert.match(formatted.newText, /^- kind: listener\n  name: web\n/);

  // A test runs from its lens.
  await editor.sendNotification(rpc.DidOpenTextDocumentNotification.type, {
    textDocument: { uri: other, languageId: "yaml", version: 1, text: fs.readFileSync(path.join(dir, "prices.yaml"), "utf8") },
  });
  const [lens] = await editor.sendRequest(rpc.CodeLensRequest.type, { textDocument: { uri: other } });
  assert.equal(lens.command.title, "run test");
  await editor.sendRequest(rpc.ExecuteCommandRequest.type, { command: lens.command.command, arguments: lens.command.arguments });
  if (messages.length === 0) await new Promise((go) => spoken.push(go));
  assert.deepEqual([messages[0].type, /PASS|ok|pass/.test(messages[0].message)], [3, true], messages[0].message);

  // A file that is added on disk counts; one that is no workflow is left alone.
  fs.writeFileSync(path.join(dir, "more.yaml"), "- {kind: log, name: extra, message: hi}\n");
  await editor.sendNotification(rpc.DidChangeWatchedFilesNotification.type, {
    changes: [{ uri: pathToFileURL(path.join(dir, "more.yaml")).toString(), type: 1 }],
  });
  assert.deepEqual((await editor.sendRequest(rpc.WorkspaceSymbolRequest.type, { query: "extra" })).map((s) => s.name), ["extra"]);
  const compose = pathToFileURL(path.join(dir, "compose.yaml")).toString();
  await editor.sendNotification(rpc.DidOpenTextDocumentNotification.type, {
    textDocument: { uri: compose, languageId: "yaml", version: 1, text: "services:\n  web: {image: x}\n" },
  });
  assert.deepEqual((await until(compose, () => true)).diagnostics, []);
  assert.deepEqual(await editor.sendRequest(rpc.CompletionRequest.type, { textDocument: { uri: compose }, position: { line: 1, character: 2 } }), []);

  await editor.sendRequest(rpc.ShutdownRequest.type);
  await editor.sendNotification(rpc.ExitNotification.type);
  assert.equal(await ended, 0);
}

setTimeout(() => {
  console.error("the editor waits for something that does not come");
  process.exit(1);
}, 60_000).unref();
edit().then(
  () => process.exit(0),
  (err) => {
    console.error(err);
    process.exit(1);
  },
);
