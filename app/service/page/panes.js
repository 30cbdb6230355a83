// What stands beside the conversation: tasks, agents, files, the way through the session.
import { byId, fill, glyph, make } from "./nodes.js";
import { diff } from "./conversation.js";

export class Panes {
  // `show` brings a message of the person into view, by its node.
  constructor(show) { this.show = show; this.agents = new Map(); this.files = new Map(); this.said = []; this.todos([]); this.drawAgents(); this.drawFiles(); this.drawTimeline(); }

  take(event) {
    switch (event.type) {
      case "todos": if (event.agent === "main") this.todos(event.items); break;
      case "agent_started": this.agents.set(event.agent, { name: event.name, state: "pending", action: event.goal }); this.drawAgents(); break;
      case "agent_progress": this.agent(event.agent, { state: event.state, action: event.action, tokens: event.tokens }); break;
      case "agent_ended": this.agent(event.agent, { state: event.outcome, action: event.summary, tokens: event.tokens }); break;
      case "tool_finished": this.fromCall(event); break;
      case "files_changed": for (const file of event.files) this.file(file, event.by); this.drawFiles(); break;
      case "user_message": if (event.agent === "main") { this.said.push(event); this.drawTimeline(); } break;
      default:
    }
  }

  todos(items) {
    const done = items.filter((each) => each.status === "completed").length;
    byId("todo-count").textContent = items.length ? `${done}/${items.length}` : "";
    fill(byId("todo"), ...(items.length ? items.map((each) => make("li", {}, `${glyph(each.status)} ${each.content}`)) : [empty("no tasks yet")]));
  }

  agent(id, change) {
    const known = this.agents.get(id);
    if (!known) return;
    Object.assign(known, change);
    this.drawAgents();
  }

  drawAgents() {
    const all = [...this.agents.values()];
    byId("agent-count").textContent = all.length ? `${all.filter((each) => ["running", "waiting", "pending"].includes(each.state)).length} live` : "";
    fill(byId("agents"), ...(all.length ? all.map((each) => make("li", {}, `${glyph(each.state)} ${each.name}  ${each.action || ""}${each.tokens ? ` · ${each.tokens}` : ""}`)) : [empty("none were sent")]));
  }

  file({ path, kind, added, removed, diff: text }, by) {
    const known = this.files.get(path) || { added: 0, removed: 0 };
    this.files.delete(path);
    this.files.set(path, { kind, by, added: known.added + added, removed: known.removed + removed, text: text || known.text });
    if (this.files.size > 100) this.files.delete(this.files.keys().next().value);
  }

  // Of calls before this page was there only their results are known.
  fromCall(event) {
    const text = event.display.detail?.diff;
    if (!text || event.parent || event.seq || event.outcome !== "done") return;
    for (const part of text.split(/^(?=--- )/m)) {
      const path = /^\+\+\+ (?:b\/)?(.*)$/m.exec(part)?.[1];
      if (!path) continue;
      const count = (sign) => part.split("\n").slice(2).filter((line) => line[0] === sign).length;
      this.file({ path, kind: part.startsWith("--- /dev/null") ? "added" : "modified", added: count("+"), removed: count("-"), diff: part }, "agent");
    }
    this.drawFiles();
  }

  drawFiles() {
    const rows = [...this.files].reverse().map(([path, file]) => make("li", {}, make("details", {},
      make("summary", {}, `${{ added: "+", modified: "~", removed: "−" }[file.kind]} ${path} +${file.added} −${file.removed}${file.by === "others" ? " (you)" : ""}`),
      file.text ? diff(file.text) : "")));
    fill(byId("files"), ...(rows.length ? rows : [empty("none changed")]));
  }

  drawTimeline() {
    const rows = this.said.slice(-50).map((event) => make("li", {}, make("a", { href: `#node-${event.node}`, on: { click: (click) => {
      click.preventDefault();
      this.show(event.node);
    } } }, event.text.slice(0, 60))));
    fill(byId("timeline"), ...(rows.length ? rows : [empty("nothing was said")]));
  }
}

const empty = (words) => make("li", { class: "touches" }, words);
