// Commands as they are typed: which texts are one, and what /help says.
const OWN = [
  ["help", "", "What can be written here."],
  ["new", "", "Begin a new session with the next message."],
  ["sessions", "", "Show the sessions."],
  ["resume", "[session]", "Go on with another session."],
  ["queue", "", "Bring the queued messages back into the prompt."],
  ["panes", "", "Show tasks, agents, files and timeline."],
  ["canvas", "", "Show what the agent draws."],
  ["skin", "<name>", "Choose how the page looks."],
];

const ALIASES = { clear: "new", theme: "skin" };

// `/name words` is a command; a path such as /etc/hosts is not, and `//` writes a slash.
export function called(text) {
  const [, name, rest] = /^\/([A-Za-z][\w:.-]*)(?:\s+([^]*))?$/.exec(text.trim()) || [];
  return name ? { name: ALIASES[name] || name, rest: (rest || "").trim() } : null;
}

export const shellCall = (text) => text.trimStart().startsWith("!");

export function helpText(commands, narrow) {
  const rows = [...OWN, ...commands.map((each) => [each.name, each.hint, each.help])].map(([name, hint, help]) => [`/${name} ${hint}`.trim(), help]);
  const width = Math.max(...rows.map(([name]) => name.length));
  return [...rows.map(([name, help]) => narrow ? `${name}: ${help}` : `${name.padEnd(width)}  ${help}`), "", "Skills and commands of plugins work by their names as well; the terminal has more."].join("\n");
}
