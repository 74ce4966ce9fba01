// A program that runs several threads at once with the Codex SDK, and then stays.
//
//     node codex.mjs SDK '{"projects": […], "prompts": […]}'
//
// Prints [project, thread] for each thread, and "idle" once all have had all their prompts.

const [sdk, words] = process.argv.slice(2);
const { projects, prompts } = JSON.parse(words);
const { Codex } = await import(sdk);

const print = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);

async function runThread(codex, workingDirectory) {
  const thread = codex.startThread({ workingDirectory });
  for (const prompt of prompts) await thread.run(prompt);
  print([workingDirectory, thread.id]);
}

const codex = new Codex();
await Promise.all(projects.map((project) => runThread(codex, project)));
print("idle");
setInterval(() => {}, 1 << 30);
