// A remote control for tests: does in VS Code what a user or another extension would do.
//
// Connects to the socket in TESTS_SOCKET. Each line there is a request, [id, deed, ...words], and
// each line back is an answer, [id, result, error].

const net = require("node:net");
const readline = require("node:readline");
const vscode = require("vscode");

const MODEL = {
  id: "tests",
  name: "Tests",
  family: "tests",
  version: "1",
  maxInputTokens: 100000,
  maxOutputTokens: 10000,
  isDefault: true,
  isUserSelectable: true,
  capabilities: { toolCalling: true },
};

// A chat wants a model, though our participant never asks it.
const MODELS = {
  provideLanguageModelChatInformation: async () => [MODEL],
  provideLanguageModelChatResponse: async () => {},
  provideTokenCount: async () => 1,
};

// In milliseconds: between two looks at what VS Code has no event for.
const INTERVAL = 50;

// The prompt of a turn that does not end.
const STAY = "stay";

// After so many looks servers are started again: VS Code may not have read its files before.
const ROUNDS = 10;

// By prompt: what to do with the answer to a chat.
const chats = new Map();

// By chat: the token of its turn, for turns that do not end.
const turns = new Map();

const DEEDS = {
  // Start all servers, and wait until one of them offers this tool.
  async start(tool) {
    for (let round = 0; !find(tool); round++) {
      // Not awaited: it waits until the user closes the message about one that cannot be started.
      if (round % ROUNDS === 0) startServers();
      await sleep();
    }
  },

  // Call a tool as an extension does that has no chat.
  call: (tool) => invoke(tool, undefined),

  // Ask for a tool in a chat, the last one or a new one; return the chat's id and the answer.
  chat: (tool, isNew, number) => ask(`${tool} ${number}`, isNew),

  // Begin a turn in a new chat that does not end; return the chat's id.
  begin: (number) => ask(`${STAY} ${number}`, true),

  // Call a tool in a turn that was begun.
  callIn: (chat, tool) => invoke(tool, turns.get(chat)),

  // Execute one of VS Code's own commands.
  execute: (...words) => vscode.commands.executeCommand(...words),
};

exports.activate = (context) => {
  const participant = vscode.chat.createChatParticipant("tests.remote-control", answerChat);
  context.subscriptions.push(participant);
  vscode.lm.registerLanguageModelChatProvider("tests", MODELS);
  const socket = net.connect(process.env.TESTS_SOCKET);
  socket.write(`${JSON.stringify([0, process.pid])}\n`);
  readline.createInterface({ input: socket }).on("line", async (line) => {
    const [id, deed, ...words] = JSON.parse(line);
    const answer = await DEEDS[deed](...words).then(
      (result) => [id, result ?? null],
      (error) => [id, null, String(error)],
    );
    socket.write(`${JSON.stringify(answer)}\n`);
  });
};

async function ask(prompt, isNew) {
  while ((await vscode.lm.selectChatModels({ vendor: "tests" })).length === 0) await sleep();
  if (isNew) await vscode.commands.executeCommand("workbench.action.chat.newChat");
  const answer = new Promise((resolve) => chats.set(prompt, resolve));
  await vscode.commands.executeCommand("workbench.action.chat.open", {
    query: `@tests ${prompt}`,
  });
  return answer;
}

async function answerChat(request, _context, stream) {
  const [tool] = request.prompt.split(" ");
  if (tool === STAY) {
    turns.set(request.sessionId, request.toolInvocationToken);
    chats.get(request.prompt)(request.sessionId);
    return new Promise(() => {});
  }
  const answer = await invoke(tool, request.toolInvocationToken).catch(String);
  stream.markdown("done");
  chats.get(request.prompt)([request.sessionId, answer]);
}

async function invoke(tool, toolInvocationToken) {
  const options = { input: {}, toolInvocationToken };
  const { content } = await vscode.lm.invokeTool(find(tool).name, options);
  return content.map((part) => part.value ?? "").join("\n");
}

function startServers() {
  const options = { autoTrustChanges: true, waitForLiveTools: true };
  return vscode.commands.executeCommand("workbench.mcp.startServer", "*", options);
}

function find(tool) {
  return vscode.lm.tools.find(({ name }) => name.endsWith(`_${tool}`));
}

function sleep() {
  return new Promise((resolve) => setTimeout(resolve, INTERVAL));
}
