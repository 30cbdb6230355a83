// The conversation: items made from events. Only a window of a long session is in the page.
import { GrowingText, markdown } from "./markdown.js";
import { byId, glyph, make, revealed } from "./nodes.js";
import { ask } from "./service.js";

const MOST = 400;          // items in the page
const LIVE = 8000;         // characters of live output of a call
const REPLACED = new Set(["user_message", "assistant_message", "tool_finished", "notice"]);

export class Conversation {
  constructor(session) {
    this.session = session;
    this.root = byId("conversation");
    this.scroll = byId("scroll");
    this.root.replaceChildren();
    this.seen = new Set();
    this.calls = new Map();
    this.first = 0;
    this.more = false;
    this.answer = null;
    this.thought = null;
    this.follows = true;
    this.frame = 0;
    this.loading = null;
    this.scrolled = () => this.onScroll();
    this.scroll.addEventListener("scroll", this.scrolled, { passive: true });
    // A phone that is turned, or a panel that opens, leaves the end in view.
    this.resized = new ResizeObserver(() => this.follow());
    this.resized.observe(this.scroll);
    byId("down").onclick = () => this.toEnd();
  }

  close() { this.scroll.removeEventListener("scroll", this.scrolled); this.resized.disconnect(); this.closed = true; }

  begin(history) {
    this.first = history.first;
    this.more = history.more;
    this.older();
    for (const event of history.events) this.take(event);
    if (!history.events.length) this.root.append(make("p", { class: "welcome" }, "Nothing was said yet. Write below; it asks before it does what could hurt."));
    this.toEnd();
  }

  // Events

  take(event) {
    if (event.agent !== "main" || event.parent) return;
    if (event.node && REPLACED.has(event.type)) {
      const key = `${event.type} ${event.node}`;
      if (this.seen.has(key)) return;
      this.seen.add(key);
    }
    switch (event.type) {
      case "user_message": this.add(this.said(event)); break;
      case "text": this.piece(event.text); break;
      case "reasoning": this.thinks(event.text); break;
      case "assistant_message": this.complete(event); break;
      case "reply_cut": this.cut(event.reason); break;
      case "tool_started": this.call(event); break;
      case "tool_progress": this.progress(event); break;
      case "tool_finished": this.finished(event); break;
      case "notice": this.note(event.kind, event.text, event.detail); break;
      case "retry": this.note("warning", retried(event)); break;
      case "session_opened": this.ended(); break;
      case "turn_ended":
        this.ended();
        if (event.outcome !== "done" && event.outcome !== "denied") this.note("warning", event.error || (event.outcome === "interrupted" ? "Stopped." : event.outcome));
        break;
      default:
    }
  }

  said(event) {
    const images = (event.attachments || []).map((each) => `[image: ${each.name}]`).join(" ");
    const item = this.item("user", "❯", make("div", { class: "body" }, [event.text, images].filter(Boolean).join("\n")));
    item.id = `node-${event.node}`;
    item.dataset.words = event.text;
    return item;
  }

  piece(text) {
    this.thought = null;
    if (!this.answer) {
      const body = make("div", { class: "body" });
      this.answer = { item: this.item("answer", "", body), grows: new GrowingText(body) };
      this.add(this.answer.item);
    }
    this.answer.grows.add(text);
    this.soon();
  }

  thinks(text) {
    if (!this.thought) {
      const body = make("div", { class: "text" });
      const fold = make("details", { class: "thought body" }, make("summary", {}, "Thinking…"), body);
      this.thought = { fold, body: document.createTextNode("") };
      body.append(this.thought.body);
      this.add(this.item("reasoning", "▸", fold));
    }
    this.thought.body.appendData(text);
    this.thought.fold.firstChild.textContent = "Thought";
  }

  complete(event) {
    if (this.answer) {
      // What was streamed is as good as what is complete, unless a piece of it was missed.
      if (event.text === this.answer.grows.text) this.answer.grows.draw();
      else if (event.text) this.answer.item.lastChild.replaceChildren(...markdown(event.text));
      else this.answer.item.remove();
      this.answer = null;
    } else {
      if (event.reasoning && !this.thought) { this.thinks(event.reasoning); }
      if (event.text) this.add(this.item("answer", "", make("div", { class: "body" }, ...markdown(event.text))));
    }
    this.thought = null;
    this.follow();
  }

  cut(reason) {
    if (this.answer) { this.answer.grows.draw(); this.answer = null; }
    this.thought = null;
    this.note("warning", `The answer was cut off: ${reason}`);
  }

  call(event) {
    if (this.calls.has(event.call)) return;
    this.answer = null;
    const item = this.card(event.call, event.display, "running");
    this.calls.set(event.call, { item, output: "" });
    this.add(item);
  }

  card(id, display, outcome, seconds) {
    const item = this.item("call", glyph(outcome, display.exit_code), make("details", { class: "body" }));
    this.dress(item, display, outcome, seconds);
    return item;
  }

  dress(item, display, outcome, seconds) {
    item.className = `item call ${outcome}`;
    item.firstChild.textContent = glyph(outcome, display.exit_code);
    const fold = item.lastChild;
    const head = make("summary", {},
      make("span", { class: "verb" }, display.verb), make("span", { class: "subject" }, display.subject),
      make("span", { class: "summary" }, display.summary ? `· ${display.summary}` : ""),
      make("span", { class: "seconds" }, seconds === undefined ? "" : `${seconds.toFixed(1)} s`),
      outcome === "done" ? null : make("span", { class: "hidden" }, outcome));
    fold.replaceChildren(head);
    if (outcome === "failed" || outcome === "denied") fold.open = true;
  }

  progress(event) {
    const known = this.calls.get(event.call);
    if (!known) return;
    known.output = (known.output + event.text).slice(-LIVE);
    if (!known.live) { known.live = make("pre", { tabindex: "0" }); known.item.lastChild.append(known.live); }
    known.live.textContent = known.output;
  }

  finished(event) {
    const known = this.calls.get(event.call);
    const item = known ? known.item : this.card(event.call, event.display, event.outcome, event.seconds);
    if (known) this.dress(item, event.display, event.outcome, event.seconds);
    else this.add(item);
    this.calls.delete(event.call);
    const fold = item.lastChild;
    const open = () => {
      if (fold.childNodes.length < 2) fold.append(detail(event));
    };
    fold.addEventListener("toggle", open);
    if (fold.open) open();
    this.follow();
  }

  note(kind, text, more) {
    // A long list is for who asks for it.
    if (!more && text.length > 400) [text, more] = [`${text.slice(0, 200).trimEnd()} …`, text];
    const body = more ? make("details", { class: "body" }, make("summary", {}, text), make("pre", { class: "words" }, more)) : make("div", { class: "body" }, text);
    this.add(this.item(`notice ${kind}`, "┊", body));
  }

  ended() {
    if (this.answer) { this.answer.grows.draw(); this.answer = null; }
    this.thought = null;
    for (const { item } of this.calls.values()) { item.classList.remove("running"); item.firstChild.textContent = GLYPHS.interrupted; }
    this.calls.clear();
  }

  // The window

  item(kind, glyph, body) {
    return make("div", { class: `item ${kind}` }, make("span", { class: "glyph", "aria-hidden": "true" }, glyph), body);
  }

  add(item) {
    this.root.querySelector(".welcome")?.remove();
    this.target ? this.target.append(item) : this.root.append(item);
    if (this.target) return;
    if (this.follows && this.root.childElementCount > MOST) this.prune();
    this.follow();
  }

  prune() {
    while (this.root.childElementCount > MOST * 0.75) {
      this.root.firstElementChild.remove();
    }
    // What went comes again from the service: the window begins at a message of the person.
    while (this.root.firstElementChild && !this.root.firstElementChild.id && this.root.childElementCount > 1) this.root.firstElementChild.remove();
    const id = this.root.firstElementChild?.id;
    if (id) {
      this.first = Number(id.slice(5));
      this.more = true;
      this.older();
    }
  }

  older() {
    const place = byId("older");
    place.replaceChildren();
    if (this.more) place.append(make("button", { on: { click: () => this.loadOlder().catch(() => {}) } }, "Earlier messages"));
  }

  loadOlder() {
    if (!this.more) return Promise.resolve();
    this.loading ??= this.loadWindow().finally(() => { this.loading = null; });
    return this.loading;
  }

  async loadWindow() {
    const told = await ask(`/api/sessions/${this.session}/history?before=${this.first}&limit=100`);
    if (this.closed) return;
    const below = this.scroll.scrollHeight - this.scroll.scrollTop;
    const seen = this.seen, state = [this.answer, this.thought, this.calls];
    this.seen = new Set();
    [this.answer, this.thought, this.calls] = [null, null, new Map()];
    this.target = document.createDocumentFragment();
    for (const event of told.events) this.take(event);
    this.root.prepend(this.target);
    this.target = null;
    [this.answer, this.thought, this.calls] = state;
    this.seen = new Set([...this.seen, ...seen]);
    this.first = told.first;
    this.more = told.more;
    this.older();
    this.scroll.scrollTop = this.scroll.scrollHeight - below;
  }

  // Brings a message of the person into view, and into the page if it is not there any more.
  async show(node) {
    try {
      while (!document.getElementById(`node-${node}`) && this.more && !this.closed) await this.loadOlder();
    } catch { /* away: what is there is shown */ }
    this.follows = false;
    document.getElementById(`node-${node}`)?.scrollIntoView();
  }

  onScroll() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroll;
    this.follows = scrollHeight - scrollTop - clientHeight < 60;
    byId("down").hidden = this.follows;
    if (scrollTop < 200 && this.more) this.loadOlder().catch(() => {});
  }

  soon() {
    if (this.frame) return;
    const draw = () => {
      this.frame = 0;
      if (this.answer) this.answer.grows.draw();
      this.follow();
    };
    // A block that grows very long is drawn less often, so that keys do not wait for it.
    const large = this.answer && this.answer.grows.unfinished > 6000;
    this.frame = large ? setTimeout(draw, 40 + this.answer.grows.unfinished / 200) : requestAnimationFrame(draw);
  }

  follow() { if (this.follows && !this.target) this.scroll.scrollTop = this.scroll.scrollHeight; }

  toEnd() { this.follows = true; byId("down").hidden = true; this.follow(); requestAnimationFrame(() => this.follow()); }
}

// The cause in full at first, then without its details.
function retried({ reason, attempt, delay, model }) {
  if (attempt === 1) return `${reason} Going on with ${model}.`;
  const said = attempt === 2 ? reason : `${reason.split(/[:;] /)[0].replace(/\.$/, "")}.`;
  return `${said} Trying again in ${delay.toFixed(1)} s.`;
}

function detail(event) {
  const shown = event.display.detail;
  if (shown && shown.diff !== undefined) return diff(shown.diff);
  if (shown && shown.text !== undefined) return make("pre", { tabindex: "0" }, revealed(shown.text));
  const text = sentence(event.result);
  return make("pre", { tabindex: "0", class: text === event.result ? "" : "words" }, revealed(text));
}

// A tool that fails answers {"error": sentence, …}: the sentence first, then what else it says, one line a field.
function sentence(result) {
  let told;
  try { told = JSON.parse(result); } catch { return result; }
  if (typeof told?.error !== "string") return result;
  // What is only there for the model is left out.
  const { error, status, outcome, note, ...more } = told;
  const lines = Object.entries(more).map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`);
  return [error, ...lines].join("\n");
}

export function diff(text) {
  const lines = text.replace(/\n$/, "").split("\n").map((line) => {
    const kind = /^(\+\+\+|---|@@|diff )/.test(line) ? "at" : line[0] === "+" ? "add" : line[0] === "-" ? "del" : "";
    return make("span", { class: kind }, revealed(line) || " ");
  });
  return make("pre", { class: "diff", tabindex: "0", "aria-label": "Changes" }, ...lines);
}
