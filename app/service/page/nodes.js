// Elements made from data. Text only ever becomes a text node.
export function make(name, options = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(options)) {
    if (key === "class") node.className = value;
    else if (key === "on") for (const [event, act] of Object.entries(value)) node.addEventListener(event, act);
    else if (key in node && typeof value !== "string") node[key] = value;
    else node.setAttribute(key, value);
  }
  for (const child of children) if (child !== null && child !== undefined) node.append(child);
  return node;
}

export const byId = (id) => document.getElementById(id);

// States as in themes/states.py: the words of events, and their glyphs.
const GLYPHS = { pending: "○", paused: "○", running: "▶", in_progress: "▶", waiting: "◆", done: "✓", completed: "✓", failed: "✗",
  exit: "!", denied: "⊘", interrupted: "■", stopping: "■", budget: "■", skipped: "·", cancelled: "·" };

export function glyph(word, exit) { return GLYPHS[word === "done" && exit ? "exit" : word] || "·"; }

export function fill(node, ...children) { node.replaceChildren(...children.filter((each) => each !== null)); }

// Characters that cannot be seen, spelled out, where a yes depends on the text.
export function revealed(text) {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g,
    (found) => "\\u" + found.charCodeAt(0).toString(16).padStart(4, "0"));
}
