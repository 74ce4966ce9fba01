// A program that runs several sessions at once with the Claude Agent SDK, and then stays.
//
//     node claude_agent.mjs SDK '{"projects": […], "prompts": […], "command": […]}'
//
// Prints [project, session] for each session, and "idle" once all have had all their prompts.

const [sdk, words] = process.argv.slice(2);
const { projects, prompts, command } = JSON.parse(words);
const { query } = await import(sdk);
const mcpServers = { probe: { type: "stdio", command: command[0], args: command.slice(1) } };

const print = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

function runSession(cwd) {
  return new Promise((resolve, reject) => {
    let goOn;

    // The session stays open until this generator returns, which it never does.
    async function* ask() {
      for (const content of prompts) {
        yield { type: "user", message: { role: "user", content }, parent_tool_use_id: null };
        await new Promise((answered) => (goOn = answered));
      }
      resolve();
      await new Promise(() => {});
    }

    async function listen() {
      const options = { cwd, mcpServers, strictMcpConfig: true, allowedTools: ["mcp__probe"] };
      const messages = query({ prompt: ask(), options: { ...options, settingSources: [] } });
      for await (const message of messages) {
        if (message.subtype === "init") print([cwd, message.session_id]);
        if (message.type === "result") goOn();
      }
    }

    listen().catch(reject);
  });
}

await Promise.all(projects.map(runSession));
print("idle");
