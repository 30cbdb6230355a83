// What waits for the person: approvals, questions, forms, forecasts, ceilings. They never cover the draft.
import { byId, fill, glyph, make, revealed } from "./nodes.js";

const KINDS = new Set(["approval", "question", "form", "forecast", "ceiling"]);
const ARMED = 500; // milliseconds: a tap meant for something else says no yes

export class Requests {
  constructor(answer, may) {
    this.open = new Map();
    this.answer = answer;
    this.may = may;
    this.draw();
  }

  reset(events) { this.open.clear(); for (const each of events) this.open.set(each.id, { ...each, since: Date.now() }); this.draw(); }

  take(event) {
    if (KINDS.has(event.type)) {
      this.open.set(event.id, { ...event, since: Date.now() });
      byId("alert").textContent = `Waiting for you: ${headline(event)}`;
      this.draw();
      return true;
    }
    if (event.type === "request_resolved" && this.open.delete(event.id)) {
      if (event.by) byId("said").textContent = `${event.outcome}, by ${event.by}`;
      this.draw();
    }
    if (event.type === "session_opened") { this.open.clear(); this.draw(); }
    return false;
  }

  draw() {
    const badge = byId("attention");
    badge.hidden = !this.open.size;
    byId("waiting").textContent = this.open.size ? `${this.open.size} waiting` : "";
    badge.onclick = () => byId("requests").querySelector("button, input")?.focus();
    const focus = document.activeElement?.dataset?.key;
    const [first] = this.open.values();
    fill(byId("requests"), first ? this.card(first) : null);
    if (focus) byId("requests").querySelector(`[data-key="${CSS.escape(focus)}"]`)?.focus();
  }

  card(event) {
    const failed = make("p", { role: "alert" });
    const give = async (answer, feedback) => {
      if (Date.now() - event.since < ARMED) return;
      try { await this.answer(event.id, answer, feedback); } catch (error) { failed.textContent = error.message; }
    };
    const who = event.agent === "main" ? "" : ` (${event.agent})`;
    const card = make("section", { class: "request", "aria-label": `${headline(event)}` }, make("h3", {}, `${glyph("waiting")} ${title(event)}${who}`), ...body(event));
    if (!this.may(event.type === "question" ? "talk" : "approve")) {
      card.append(make("p", { class: "touches" }, "This device may look but not answer."));
      return card;
    }
    card.append(event.type === "question" ? choices(event, give) : event.type === "form" ? fields(event, give) : verdicts(event, give), failed);
    return card;
  }
}

function headline(event) {
  return event.headline || event.question || event.message || (event.forecast ? event.forecast.goals.join("; ") : "") || event.owner || event.type;
}

function title(event) {
  return { approval: `${event.tool} asks for a yes`, question: "A question", form: `${event.server} asks for data`, forecast: "Agents are about to be sent", ceiling: "A ceiling is reached" }[event.type];
}

function body(event) {
  if (event.type === "approval") {
    const marked = (event.parts || []).filter((part) => part.kind !== "allow");
    const told = new Set(marked.map((part) => part.reason));
    const where = [
      event.folder ? `in ${event.folder}` : "", event.undo || "",
      event.touches.length ? `will touch: ${event.touches.join(", ")}` : "",
      event.network ? `network: ${event.network}` : "", event.sandbox ? `sandbox: ${event.sandbox}` : "",
    ].filter(Boolean).join(" · ");
    return [
      event.sentence ? make("p", { class: "sentence" }, revealed(event.sentence)) : null,
      make("pre", { tabindex: "0" }, revealed(event.headline)),
      make("ul", {}, ...event.reasons.filter((reason) => !told.has(reason)).map((reason) => make("li", {}, revealed(reason))),
        ...marked.map((part) => make("li", { class: `part-${part.kind}` }, `${revealed(part.text)}: ${revealed(part.reason)}`))),
      where ? make("p", { class: "touches" }, revealed(where)) : null,
      make("p", { class: "touches" }, event.rule ? `a yes for the session or always covers: ${revealed(event.rule)}` : "a yes counts for this one time"),
    ];
  }
  if (event.type === "question") return [make("p", {}, revealed(event.question))];
  if (event.type === "form") return [make("p", {}, revealed(event.message)), make("p", { class: "touches" }, "What you write goes to this server; no password belongs here.")];
  if (event.type === "forecast") {
    const { goals, tokens } = event.forecast;
    return [make("ul", {}, ...goals.map((goal) => make("li", {}, revealed(goal)))), make("p", { class: "touches" }, `tokens: ${tokens.low} to ${tokens.high}`)];
  }
  return [make("p", {}, `${event.owner}: ${event.used} of ${event.ceiling} (${event.measure}); the next request needs ${event.needed}.`)];
}

const button = (id, label, kind, act) => make("button", { type: "button", class: kind, "data-key": `${id}-${label}`, on: { click: act } }, label);

function choices(event, give) {
  const row = make("form", { class: "answers" }, ...event.choices.map((choice) => button(event.id, revealed(choice), "", () => give(choice))));
  if (event.allow_freetext || !event.choices.length) {
    const field = make("input", { "aria-label": "Your answer", "data-key": `${event.id}-words` });
    row.append(field, make("button", {}, "Answer"));
    row.addEventListener("submit", (submit) => { submit.preventDefault(); if (field.value.trim()) give(field.value.trim()); });
  } else row.addEventListener("submit", (submit) => submit.preventDefault());
  row.append(button(event.id, "No answer", "", () => give(null)));
  return row;
}

function fields(event, give) {
  const form = make("form", { class: "fields" });
  const inputs = event.fields.map((field, at) => {
    const id = `field-${at}`, input = entry(field, id, `${event.id}-${field.name}`);
    form.append(make("label", { for: id }, `${revealed(field.label)}${field.required ? " *" : ""}`), input);
    return [field.name, input];
  });
  form.append(make("div", { class: "answers" }, button(event.id, "Decline", "", () => give(null)), make("button", {}, "Send")));
  form.addEventListener("submit", (submit) => {
    submit.preventDefault();
    give(Object.fromEntries(inputs.map(([name, input]) => [name, input.value])));
  });
  return form;
}

// One field as text, the way the terminal takes it: choices by what a person reads, several with commas.
function entry(field, id, key) {
  const options = { id, "data-key": key, ...(field.required ? { required: true } : {}) };
  const labels = field.kind === "yes-no" ? ["yes", "no"] : field.choices.map(([, label]) => label);
  const named = (value) => field.choices.find(([known]) => known === value)?.[1] ?? String(value);
  const start = field.kind === "yes-no" ? { true: "yes", false: "no" }[field.default] : [].concat(field.default ?? []).map(named).join(", ");
  const several = field.kind === "choices";
  const input = labels.length && !several
    ? make("select", options, make("option", { value: "" }, "–"), ...labels.map((label) => make("option", { value: label }, revealed(label))))
    : make("input", { ...options, ...(several ? { placeholder: labels.join(", ") } : {}) });
  input.value = start ?? "";
  return input;
}

function verdicts(event, give) {
  const why = make("input", { "aria-label": "Why not", placeholder: "why not (optional)", "data-key": `${event.id}-why` });
  const words = event.type === "approval" ? ["Deny", "Allow once"] : event.type === "forecast" ? ["Do not send", "Send them"] : ["Stop here", "Raise it once"];
  const row = make("form", { class: "answers" }, button(event.id, words[0], "deny", () => give("deny", why.value.trim())), button(event.id, words[1], "", () => give("once")));
  if ((event.type === "approval" && event.rule) || event.type === "forecast") row.append(button(event.id, "For this session", "", () => give("session")));
  if (event.type === "approval" && event.rule) row.append(button(event.id, "Always", "", () => give("always")));
  if (event.type === "approval") row.append(why);
  row.addEventListener("submit", (submit) => { submit.preventDefault(); give("deny", why.value.trim()); });
  return row;
}
