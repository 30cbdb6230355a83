// Plays dialogues with the client of npm @agentclientprotocol/sdk. Reads what to do as JSON from standard
// input: {command, environ, folder, kind, dialogues, server}; writes {name: what went wrong} to standard output.
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk/unstable";

const given = JSON.parse(readFileSync(0, "utf8"));
const PATIENCE = 60_000;
let state;
let agent;

function reset(work) {
  state = {
    work, sessions: {}, updates: [], called: [], choice: "allow_once", form: "accept",
    buffers: {}, terminals: {}, shown: [], cancelOn: {},
  };
}

async function heard(what, session) {
  if (state.cancelOn[session] !== what) return false;
  delete state.cancelOn[session];
  await agent.notify("session/cancel", { sessionId: session });
  return true;
}

const app = acp
  .client({ name: "suite" })
  .onNotification("session/update", async ({ params }) => {
    state.updates.push([params.sessionId, params.update]);
    await heard(params.update.sessionUpdate, params.sessionId);
  })
  .onRequest("session/request_permission", async ({ params }) => {
    state.called.push("session/request_permission");
    const cancelled = await heard("session/request_permission", params.sessionId);
    if (cancelled || state.choice === "cancelled") return { outcome: { outcome: "cancelled" } };
    const found = params.options.find((each) => each.kind === state.choice);
    return { outcome: { outcome: "selected", optionId: found ? found.optionId : "nonsense" } };
  })
  .onRequest("fs/read_text_file", async ({ params }) => {
    state.called.push("fs/read_text_file");
    await heard("fs/read_text_file", params.sessionId);
    return { content: state.buffers[params.path] ?? readFileSync(params.path, "utf8") };
  })
  .onRequest("fs/write_text_file", async ({ params }) => {
    state.called.push("fs/write_text_file");
    await heard("fs/write_text_file", params.sessionId);
    state.buffers[params.path] = params.content;
    writeFileSync(params.path, params.content);
    return {};
  })
  .onRequest("terminal/create", async ({ params }) => {
    state.called.push("terminal/create");
    await heard("terminal/create", params.sessionId);
    const child = spawn(params.command, params.args ?? [], { cwd: params.cwd ?? undefined });
    const terminal = { child, shown: "", ended: null };
    child.stdout.on("data", (data) => (terminal.shown += data));
    terminal.ended = new Promise((done) => child.on("close", (code) => done(code)));
    const terminalId = `terminal-${Object.keys(state.terminals).length}`;
    state.terminals[terminalId] = terminal;
    return { terminalId };
  })
  .onRequest("terminal/wait_for_exit", async ({ params }) => {
    const here = state;
    here.called.push("terminal/wait_for_exit");
    const terminal = here.terminals[params.terminalId];
    const code = await terminal.ended;
    here.shown.push([terminal.shown, code]);
    return { exitCode: code };
  })
  .onRequest("terminal/release", async ({ params }) => {
    state.called.push("terminal/release");
    state.terminals[params.terminalId]?.child.kill();
    return {};
  })
  .onRequest("elicitation/create", async ({ params }) => {
    state.called.push("elicitation/create");
    await heard("elicitation/create", params.sessionId ?? "");
    return state.form === "accept" ? { action: "accept", content: { answer: "Ada" } } : { action: state.form };
  });

function matches(told, wanted) {
  if (Array.isArray(wanted))
    return Array.isArray(told) && wanted.every((each) => told.some((one) => matches(one, each)));
  if (wanted !== null && typeof wanted === "object")
    return told !== null && typeof told === "object" && Object.entries(wanted).every(([key, each]) => key in told && matches(told[key], each));
  return told === wanted;
}

function check(holds, what) {
  if (!holds) throw new Error(what);
}

async function step(one) {
  if (one.error === undefined) return await act(one);
  let error;
  try {
    await act(one);
  } catch (found) {
    error = found;
  }
  check(error !== undefined, "there was no error");
  check(error.code === one.error && error.message, `the error was ${error.code} (${error.message})`);
}

async function act(one) {
  const session = state.sessions[one.in] ?? "";
  const cwd = state.work;
  const updates = state.updates.filter(([name]) => name === session).map(([, update]) => update);
  switch (one.do) {
    case "new": {
      const mcpServers = one.servers ? [given.server] : [];
      state.sessions[one.as] = (await agent.request("session/new", { cwd, mcpServers })).sessionId;
      return;
    }
    case "prompt": {
      const prompt = [{ type: "text", text: one.text }, ...(one.blocks ?? [])];
      if (one.cancel_on && one.cancel_on !== "now") state.cancelOn[session] = one.cancel_on;
      const asking = agent.request("session/prompt", { sessionId: session, prompt });
      if (one.cancel_on === "now") await agent.notify("session/cancel", { sessionId: session });
      const ended = await asking;
      check(one.stop.split("|").includes(ended.stopReason), `it ended as ${ended.stopReason}`);
      return;
    }
    case "both":
      await Promise.all(one.of.map(step));
      return;
    case "cancel":
      return void (await agent.notify("session/cancel", { sessionId: session }));
    case "load":
    case "resume":
      return void (await agent.request(`session/${one.do}`, { sessionId: session, cwd, mcpServers: [] }));
    case "fork":
      state.sessions[one.as] = (await agent.request("session/fork", { sessionId: session, cwd, mcpServers: [] })).sessionId;
      return;
    case "close":
    case "delete":
      return void (await agent.request(`session/${one.do}`, { sessionId: session }));
    case "list": {
      const { sessions } = await agent.request("session/list", { cwd });
      check(sessions.length === one.count, `${sessions.length} sessions are listed`);
      return;
    }
    case "mode":
      return void (await agent.request("session/set_mode", { sessionId: session, modeId: one.value }));
    case "option":
      return void (await agent.request("session/set_config_option", { sessionId: session, configId: one.id, value: one.value }));
    case "request":
      return void (await agent.request(one.method, one.params));
    case "choose":
      state.choice = one.kind;
      return;
    case "form":
      state.form = one.action;
      return;
    case "forget":
      state.updates.length = 0;
      return;
    case "write":
      return writeFileSync(join(cwd, one.path), one.text);
    case "buffer":
      state.buffers[join(cwd, one.path)] = one.text;
      return;
    case "file":
      return check(readFileSync(join(cwd, one.path), "utf8") === one.text, "the file is another");
    case "missing":
      return check(!existsSync(join(cwd, one.path)), "the file is there");
    case "asked": {
      const count = state.called.filter((each) => each === "session/request_permission").length;
      return check(count === one.count, `it asked ${count} times`);
    }
    case "called":
      return check(state.called.includes(one.method), `it called ${state.called}`);
    case "terminal": {
      const [shown, code] = state.shown.at(-1) ?? ["", null];
      return check(shown.includes(one.shows) && code === one.code, `${JSON.stringify(shown)} and ${code}`);
    }
    case "said": {
      const said = updates.filter((each) => each.sessionUpdate === "agent_message_chunk").map((each) => each.content.text).join("");
      return check(said === one.text, `it said ${JSON.stringify(said)}`);
    }
    case "seen": {
      const some = updates.filter((each) => each.sessionUpdate === one.update);
      return check(some.some((each) => matches(each, one.where)), `there were ${JSON.stringify(some.slice(-3)).slice(0, 600)}`);
    }
    default:
      throw new Error(`no step is called ${one.do}`);
  }
}

function late(work) {
  return Promise.race([
    work,
    new Promise((_, fail) => setTimeout(() => fail(new Error(`it took more than ${PATIENCE / 1000} s`)), PATIENCE).unref()),
  ]);
}

const child = spawn(given.command[0], given.command.slice(1), { env: given.environ, stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
const found = {};
reset("");
const connection = app.connect(stream);
agent = connection.agent;
const rich = { fs: { readTextFile: true, writeTextFile: true }, terminal: true, elicitation: { form: {} } };
await agent.request("initialize", { protocolVersion: 1, clientCapabilities: given.kind === "rich" ? rich : {} });
for (const [at, dialogue] of given.dialogues.entries()) {
  const work = join(given.folder, `node-${given.kind}-${at}`);
  mkdirSync(work, { recursive: true });
  reset(realpathSync(work));
  let current;
  try {
    for (const each of JSON.parse(JSON.stringify(dialogue.steps).replaceAll("$WORK", state.work))) {
      current = each;
      await late(step(each));
    }
    found[dialogue.name] = "";
  } catch (error) {
    found[dialogue.name] = `${error.message} at ${JSON.stringify(current).slice(0, 300)}`;
  }
}
console.log(JSON.stringify(found));
child.stdin.end();
child.on("close", () => process.exit(0));
