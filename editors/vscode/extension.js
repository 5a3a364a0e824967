// The extension starts uniflow lsp for YAML and JSON, and uniflow dap for the debugger.
const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

function program() {
  const settings = vscode.workspace.getConfiguration("uniflow");
  return { path: settings.get("path"), args: settings.get("arguments") };
}

async function start() {
  const { path, args } = program();
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
  client = new LanguageClient(
    "uniflow",
    "Uniflow",
    { command: path, args: ["lsp", ...args], options: { cwd: folder } },
    { documentSelector: [{ language: "yaml" }, { language: "json" }] },
  );
  await client.start();
}

exports.activate = async (context) => {
  context.subscriptions.push(
    vscode.debug.registerDebugAdapterDescriptorFactory("uniflow", {
      createDebugAdapterDescriptor: () => new vscode.DebugAdapterExecutable(program().path, ["dap"]),
    }),
    vscode.workspace.onDidChangeConfiguration(async (change) => {
      if (!change.affectsConfiguration("uniflow")) return;
      await client?.stop().catch(() => {}); // it may have ended
      await start();
    }),
  );
  await start();
};

exports.deactivate = () => client?.stop();
