// An editor's debugger, as the client of Microsoft's tests: it holds a process, changes its packet and lets it go on.
const { DebugClient } = require("@vscode/debugadapter-testsupport");
const assert = require("node:assert");
const [how, to, address, token, cwd] = process.argv.slice(2);

/** Returns a function that waits for an event of which something holds. */
function events(editor, name) {
  const came = [];
  const waiting = [];
  editor.on(name, (e) => {
    came.push(e.body);
    waiting.splice(0).forEach((go) => go());
  });
  return async (is) => {
    for (;;) {
      const at = came.findIndex(is);
      if (at >= 0) return came.splice(at, 1)[0];
      await new Promise((go) => waiting.push(go));
    }
  };
}

/** Attaches to a program that runs, over TCP. */
async function attach() {
  const editor = new DebugClient("node", "", "uniflow");
  await editor.start(Number(to));
  const stopped = events(editor, "stopped");
  const printed = events(editor, "output");

  const able = await editor.initializeRequest({ adapterID: "uniflow" });
  assert.ok(able.body.supportsConditionalBreakpoints && able.body.supportsSetVariable);
  await assert.rejects(editor.threadsRequest().then(() => editor.stackTraceRequest({ threadId: 9 })), /not attached/);
  await assert.rejects(editor.launchRequest({}), /launch needs "specs"/);
  await assert.rejects(editor.attachRequest({ address: "127.0.0.1:1" }), /refused/);
  const ready = editor.waitForEvent("initialized");
  await editor.attachRequest({ address, token, cwd });
  await ready;

  const source = { path: cwd + "/flow.yaml" };
  const wrong = await editor.setBreakpointsRequest({ source: { path: "/other.yaml" }, breakpoints: [{ line: 3 }] });
  assert.equal(wrong.body.breakpoints[0].verified, false);
  await assert.rejects(editor.setBreakpointsRequest({ source, breakpoints: [{ line: 7, condition: "n >" }] }), /when:1:1/);
  const set = await editor.setBreakpointsRequest({ source, breakpoints: [{ line: 7, condition: "n == 3", hitCondition: "2" }] });
  assert.deepEqual(set.body.breakpoints.map((b) => [b.verified, b.line]), [[true, 5]]);
  const named = await editor.setFunctionBreakpointsRequest({ breakpoints: [{ name: "log:error" }, { name: "nowhere" }, { name: "one:out[x]" }] });
  assert.deepEqual(named.body.breakpoints.map((b) => b.verified), [true, false, false]);
  await editor.setFunctionBreakpointsRequest({ breakpoints: [] });
  await editor.configurationDoneRequest();

  const { threadId } = await stopped((s) => s.reason === "breakpoint");
  const threads = (await editor.threadsRequest()).body.threads;
  assert.equal(threads[0].id, 1);
  assert.ok(threads.some((t) => t.id === threadId && /^process [0-9a-f-]{36}$/.test(t.name)));
  const { stackFrames } = (await editor.stackTraceRequest({ threadId })).body;
  assert.deepEqual([stackFrames[0].name, stackFrames[0].line, stackFrames[0].source.path], ["price in", 5, source.path]);
  assert.equal(stackFrames.at(-1).name, "start");
  const frameId = stackFrames[0].id;
  const scope = (await editor.scopesRequest({ frameId })).body.scopes[0];
  const payload = (await editor.variablesRequest({ variablesReference: scope.variablesReference })).body.variables[0];
  const fields = (await editor.variablesRequest({ variablesReference: payload.variablesReference })).body.variables;
  assert.deepEqual(fields.map((v) => [v.name, v.value]), [["n", "3"], ["list", '["a"]']]);
  await assert.rejects(editor.setVariableRequest({ variablesReference: payload.variablesReference, name: "n", value: "{" }), /JSON/);
  await editor.setVariableRequest({ variablesReference: payload.variablesReference, name: "n", value: "41" });
  assert.equal((await editor.evaluateRequest({ expression: "payload.n", frameId, context: "watch" })).body.result, "41");
  await assert.rejects(editor.evaluateRequest({ expression: "payload.none", frameId }), /there is no "none"/);

  await editor.nextRequest({ threadId });
  await stopped((s) => s.reason === "step" && s.threadId === threadId);
  const after = (await editor.stackTraceRequest({ threadId })).body.stackFrames[0];
  assert.equal(after.name, "price answer");
  const answer = (await editor.scopesRequest({ frameId: after.id })).body.scopes[0];
  assert.equal((await editor.variablesRequest({ variablesReference: answer.variablesReference })).body.variables[0].value, "42");
  await editor.continueRequest({ threadId });
  await assert.rejects(editor.continueRequest({ threadId }), /not held/);

  const other = await stopped((s) => s.threadId !== threadId);
  const frame = (await editor.stackTraceRequest({ threadId: other.threadId })).body.stackFrames[0];
  await editor.evaluateRequest({ expression: "answer 99", frameId: frame.id, context: "repl" });
  await editor.setBreakpointsRequest({ source, breakpoints: [{ line: 7, logMessage: "n is {n}, doubled {n * 2}" }] });
  await printed((e) => e.category === "console" && e.output === "price: n is 3, doubled 6\n");
  await editor.setBreakpointsRequest({ source, breakpoints: [] });
  await editor.setExceptionBreakpointsRequest({ filters: ["failures"] });
  const failed = await stopped((s) => s.reason === "exception");
  const why = (await editor.customRequest("exceptionInfo", { threadId: failed.threadId })).body;
  assert.equal(why.exceptionId, "doom fails");
  assert.match(why.description, /no such key: none/);
  await editor.setExceptionBreakpointsRequest({ filters: [] });
  await editor.pauseRequest({ threadId: 1 });
  const paused = await stopped((s) => s.reason === "pause");
  await editor.stepOutRequest({ threadId: paused.threadId });
  await editor.disconnectRequest();
}

/** Starts a program over stdio, and ends it. */
async function launch() {
  process.env[token] = "1"; // so that the test's program is uniflow
  const editor = new DebugClient(to, "dap", "uniflow");
  await editor.start();
  const stopped = events(editor, "stopped");
  const printed = events(editor, "output");
  await editor.initializeRequest({ adapterID: "uniflow" });
  await assert.rejects(editor.launchRequest({ specs: ["none.yaml"], cwd }), /ended with 1 before it served|ended with 2 before it served/);
  await printed((e) => e.category === "stderr" && /none.yaml/.test(e.output));
  await editor.disconnectRequest();

  const other = new DebugClient(to, "dap", "uniflow");
  await other.start();
  const held = events(other, "stopped");
  const lines = events(other, "output");
  const ended = events(other, "exited");
  await other.initializeRequest({ adapterID: "uniflow" });
  const ready = other.waitForEvent("initialized");
  await other.launchRequest({ specs: ["flow.yaml"], cwd, args: ["--log-format", "json"], env: { MORE: "x" } });
  await ready;
  await lines((e) => e.category === "stderr" && /"msg":"ready"/.test(e.output));
  await other.setBreakpointsRequest({ source: { path: cwd + "/flow.yaml" }, breakpoints: [{ line: 5 }] });
  await other.configurationDoneRequest();
  const { threadId } = await held((s) => s.reason === "breakpoint");
  assert.equal((await other.stackTraceRequest({ threadId })).body.stackFrames[0].name, "price in");
  await other.disconnectRequest();
  assert.equal((await ended(() => true)).exitCode, 0);
}

({ attach, launch })[how]().then(() => process.exit(0), (err) => {
  console.error(err);
  process.exit(1);
});
