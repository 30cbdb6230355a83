#!/bin/sh
# @xterm/headless answers questions about itself (device attributes, modes) but not the one for its name and version,
# so a program in it cannot learn what it runs in but by variables.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts @xterm/headless@6.0.0
cat > ask.cjs <<'JS'
const { Terminal } = require("@xterm/headless");
const terminal = new Terminal({ allowProposedApi: true });
let said = "";
terminal.onData((text) => (said += text));
const ask = (question) => new Promise((done) => { said = ""; terminal.write(question, () => done(JSON.stringify(said))); });
(async () => {
  const [name, mode, device] = [await ask("\x1b[>q"), await ask("\x1b[?2026$p"), await ask("\x1b[c")];
  console.log("xterm.js", require("@xterm/headless/package.json").version, { name, mode, device });
  if (name !== '""' || mode === '""' || device === '""') process.exit(1);
})();
JS
node ask.cjs
