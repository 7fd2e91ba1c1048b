#!/usr/bin/env node
// Lists and calls every tool of hands-mcp with the public TypeScript SDK.
//
//     typescript_client.mjs FOLDER-OF-THE-PROGRAMS NODE_MODULES
//
// Both lines of the SDK in use are tried: `@modelcontextprotocol/client` (2.x, probes
// server/discover) and `@modelcontextprotocol/sdk` (1.x, initialize). Each gets a temporary home
// and workspace. Every effect is looked for on disk, not only in the answer. Exits 1 at the first
// difference, saying which.

import { execFileSync, spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const TOOLS = ["bash", "edit", "read_file", "write_file"];
const TIMEOUT_MS = 30_000;

class Difference extends Error {}

/** Throws unless something holds. */
function must(holds, what, got) {
  if (!holds) throw new Difference(`NOT TRUE: ${what}; got: ${JSON.stringify(got)}`);
}

/** The same, and says so. */
function check(holds, what, got) {
  must(holds, what, got);
  console.log(`  ${what}`);
}

/** Waits until a condition holds. */
async function until(condition, what) {
  for (let left = TIMEOUT_MS / 50; left > 0; left -= 1) {
    if (condition()) return;
    await sleep(50);
  }
  throw new Difference(`NOT TRUE within ${TIMEOUT_MS} ms: ${what}`);
}

/** Whether a process has this word on its command line. */
function runs(marker) {
  return execFileSync("ps", ["-A", "-o", "args="], { encoding: "utf8" }).includes(marker);
}

/** A line of the SDK: how it connects, and what differs in its calls. */
async function sdkLines(modules) {
  const load = (path) => import(pathToFileURL(join(modules, "@modelcontextprotocol", path)));
  const info = { name: "typescript-client", version: "1.0.0" };
  const [v2, v2stdio] = [await load("client/dist/index.mjs"), await load("client/dist/stdio.mjs")];
  const v1 = await load("sdk/dist/esm/client/index.js");
  const v1stdio = await load("sdk/dist/esm/client/stdio.js");
  return [
    {
      name: "client 2.x",
      era: "modern",
      client: () => new v2.Client(info, { versionNegotiation: { mode: "auto" } }),
      transport: (options) => new v2stdio.StdioClientTransport(options),
      call: (client, params, options) => client.callTool(params, options),
    },
    {
      name: "sdk 1.x",
      era: "legacy",
      client: () => new v1.Client(info),
      transport: (options) => new v1stdio.StdioClientTransport(options),
      call: (client, params, options) => client.callTool(params, undefined, options),
    },
  ];
}

/** A connection, and the workspace behind it. */
class Hands {
  constructor(line, client, workspace) {
    Object.assign(this, { line, client, workspace });
  }

  send(tool, args, options = {}) {
    return this.line.call(this.client, { name: tool, arguments: args }, { timeout: TIMEOUT_MS, ...options });
  }

  /** Calls a tool; its code must be this one. Gives its structured content. */
  async call(tool, args, code, options) {
    const result = await this.send(tool, args, options);
    const facts = result.structuredContent;
    must(facts.code === code, `${tool} answers ${code}`, facts);
    must(facts.ok === (code === "ok"), "`ok` agrees with the code", facts);
    must(result.isError === !["ok", "process"].includes(code), "isError agrees with the code", result);
    must(result.content[0].type === "text", "there is text for the model", result);
    console.log(`  ${tool} answers ${code}`);
    return facts;
  }

  path(name) {
    return join(this.workspace, name);
  }

  text(name) {
    return readFileSync(this.path(name), "utf8");
  }
}

async function lists(hands) {
  const { tools } = await hands.client.listTools();
  const names = tools.map((tool) => tool.name).sort();
  check(JSON.stringify(names) === JSON.stringify(TOOLS), "the four tools are listed, and no others", names);
  for (const tool of tools) {
    const whole = tool.description && tool.inputSchema && tool.outputSchema && tool.annotations;
    must(whole, `${tool.name} has description, schemas and annotations`, tool);
  }
}

async function readsAndWrites(hands) {
  mkdirSync(hands.path("papers"));
  writeFileSync(hands.path("papers/old.txt"), "naïve\n");
  const read = await hands.call("read_file", { path: "papers/old.txt" }, "ok");
  check(read.text === "naïve\n", "read_file gives the text", read);

  await hands.call("write_file", { path: hands.path("new.txt"), content: "one\n" }, "ok");
  check(hands.text("new.txt") === "one\n", "write_file made the file");

  const change = { path: "papers/old.txt", content: "replaced\n", overwrite: true };
  const refused = await hands.call("write_file", change, "permission_required");
  check(hands.text("papers/old.txt") === "naïve\n", "nothing changed without consent");
  await hands.call("write_file", { ...change, nonce: refused.nonce }, "ok");
  check(hands.text("papers/old.txt") === "replaced\n", "the file changed with the nonce");
  const elsewhere = { path: "new.txt", content: "no", overwrite: true, nonce: refused.nonce };
  await hands.call("write_file", elsewhere, "permission_required");
  check(hands.text("new.txt") === "one\n", "a used nonce opens no other folder");

  const edit = { path: "papers/old.txt", old: "replaced", new: "edited" };
  await hands.call("edit", edit, "ok");
  check(hands.text("papers/old.txt") === "edited\n", "edit changed the file");
  await hands.call("edit", edit, "conflict");
}

async function runsCommands(hands) {
  const both = await hands.call("bash", { command: "echo hello; echo oops >&2" }, "ok");
  check(both.stdout === "hello\n" && both.stderr === "oops\n", "both streams are told", both);
  const failed = await hands.call("bash", { command: "exit 3" }, "process");
  check(failed.exit_code === 3, "the exit code is told", failed);
  // It was there before, though `edit` has written it anew; `new.txt` is the session's own.
  await hands.call("bash", { command: "rm papers/old.txt" }, "delete_blocked");
  check(existsSync(hands.path("papers/old.txt")), "the file is still there");
  await hands.call("bash", { command: "rm new.txt" }, "ok");
  check(!existsSync(hands.path("new.txt")), "what the session made is gone");
}

async function tellsProgress(hands) {
  const news = [];
  const slow = { command: "for i in 1 2 3 4 5; do echo line $i; sleep 0.4; done" };
  await hands.call("bash", slow, "ok", { onprogress: (now) => news.push(now) });
  check(news.length > 0 && news.at(-1).message.includes("line "), "progress shows the last line", news);
}

async function cancels(hands) {
  const marker = `cancel-${randomUUID()}`;
  const gone = new AbortController();
  const call = hands.send("bash", { command: `bash -c 'sleep 60; :' ${marker}` }, { signal: gone.signal });
  const ended = call.then(() => "answered", () => "given up");
  await until(() => runs(marker), "the command runs");
  gone.abort();
  check((await ended) === "given up", "the call was given up");
  await until(() => !runs(marker), "the command of a cancelled call is gone");
  console.log("  a cancelled call's command is gone");
  await hands.call("bash", { command: "true" }, "ok");
}

async function refusesNonsense(hands) {
  const facts = await hands.call("read_file", { path: "new.txt", limits: 3 }, "validation");
  check(facts.hint.includes("`limit`"), "an unknown parameter is named with the nearest", facts);
  const error = await hands.send("no_such_tool", {}).then(() => undefined, (error) => error);
  check(error?.code === -32602, "an unknown tool is the protocol's error", String(error));
}

async function session(line, programs, folder) {
  const [home, workspace] = [join(folder, "home"), join(folder, "workspace")];
  mkdirSync(workspace);
  const transport = line.transport({
    command: join(programs, "hands-mcp"),
    args: ["--standalone"],
    env: { HOME: process.env.HOME, PATH: process.env.PATH, HANDS_HOME: home, HANDS_WORKSPACES: workspace },
    stderr: "ignore",
  });
  const client = line.client();
  await client.connect(transport);
  try {
    check(client.getServerVersion()?.name === "hands", "the server says its name", client.getServerVersion());
    const era = client.getProtocolEra?.() ?? "legacy";
    check(era === line.era, `the ${line.era} protocol is spoken`, era);
    const hands = new Hands(line, client, workspace);
    await lists(hands);
    await readsAndWrites(hands);
    await runsCommands(hands);
    await tellsProgress(hands);
    await cancels(hands);
    await refusesNonsense(hands);
  } finally {
    await client.close();
  }
  const verify = spawnSync(join(programs, "handsctl"), ["--home", home, "logs", "verify"], { encoding: "utf8" });
  check(verify.status === 0, "the trail is whole", verify);
}

async function main() {
  const [programs, modules] = process.argv.slice(2).map((path) => realpathSync(path));
  for (const line of await sdkLines(modules)) {
    console.log(`typescript client, ${line.name}:`);
    const folder = realpathSync(mkdtempSync(join(tmpdir(), "hands-")));
    try {
      await session(line, programs, folder);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }
  console.log("typescript client: all as expected");
}

main().catch((error) => {
  console.error(`typescript client: ${error instanceof Difference ? error.message : error.stack}`);
  process.exit(1);
});
