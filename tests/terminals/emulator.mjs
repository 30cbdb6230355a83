// An emulator of npm behind lines of JSON, as emulator.py; the folder with its node_modules is the current one.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import process from "node:process";

const require = createRequire(process.cwd() + "/");
const [name, columns, rows] = [process.argv[2], ...process.argv.slice(3).map(Number)];

function xterm(module) {
  const { Terminal } = require(module);
  const terminal = new Terminal({ cols: columns, rows, allowProposedApi: true, scrollback: 100 });
  let said = "";
  terminal.onData((text) => (said += text));
  return {
    feed: (data) => new Promise((done) => terminal.write(data, () => { done(Buffer.from(said)); said = ""; })),
    rows: () => Array.from({ length: terminal.rows }, (_, at) =>
      terminal.buffer.active.getLine(terminal.buffer.active.baseY + at)?.translateToString(false, 0, terminal.cols) ?? ""),
    size: (c, r) => terminal.resize(c, r),
  };
}

function terminalJs() {
  const Terminal = require("terminal.js");
  const terminal = new Terminal({ columns, rows });
  let said = "";
  terminal.on("data", (text) => (said += text));
  return {
    feed: (data) => { terminal.write(data); const out = Buffer.from(said); said = ""; return out; },
    rows: () => terminal.toString().split("\n"),
    size: (c, r) => terminal.state.resize({ columns: c, rows: r }),
  };
}

function ansiTerminal() {
  const { AnsiTerminal } = require("node-ansiterminal");
  const Parser = require("node-ansiparser");
  const terminal = new AnsiTerminal(columns, rows, 100);
  let said = "";
  terminal.send = (text) => (said += text);
  const parser = new Parser(terminal);
  const decoder = new TextDecoder();
  return {
    feed: (data) => { parser.parse(decoder.decode(data, { stream: true })); const out = Buffer.from(said); said = ""; return out; },
    rows: () => terminal.screen.buffer.map((row) => row.cells.map((cell) => cell.c || " ").join("")),
    size: (c, r) => terminal.resize(c, r),
  };
}

async function ghosttyWeb() {
  const { Ghostty } = await import(require.resolve("ghostty-web").replace(/\.umd\.cjs$/, ".js"));
  const file = require.resolve("ghostty-web/ghostty-vt.wasm");
  const made = await WebAssembly.instantiate(readFileSync(file), { env: { log: () => {} } });
  const terminal = new Ghostty(made.instance).createTerminal(columns, rows);
  let [width, height] = [columns, rows];
  return {
    feed: (data) => {
      terminal.write(data);
      const out = terminal.readResponse?.();
      return Buffer.from(out ?? "");
    },
    rows: () => {
      terminal.update();
      const cells = terminal.getViewport();
      return Array.from({ length: height }, (_, at) => cells.slice(at * width, (at + 1) * width)
        .map((cell) => (cell.width === 0 ? "" : String.fromCodePoint(cell.codepoint || 32))).join(""));
    },
    size: (c, r) => { [width, height] = [c, r]; terminal.resize(c, r); },
  };
}

const emulator = name === "terminal.js" ? terminalJs() : name === "node-ansiterminal" ? ansiTerminal()
  : name === "ghostty-web" ? await ghosttyWeb() : xterm(name);
for await (const line of createInterface({ input: process.stdin })) {
  const [what, ...words] = JSON.parse(line);
  let answer = null;
  if (what === "feed") answer = (await emulator.feed(Buffer.from(words[0], "base64"))).toString("base64");
  else if (what === "rows") answer = emulator.rows();
  else emulator.size(...words);
  process.stdout.write(JSON.stringify(answer) + "\n");
}
