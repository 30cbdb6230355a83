// The page: pairing, the list of sessions, one open session, the prompt.
import { Conversation } from "./conversation.js";
import { CanvasPane } from "./canvas.js";
import { called, helpText, shellCall } from "./commands.js";
import { byId, fill, glyph, make } from "./nodes.js";
import { Panes } from "./panes.js";
import { Requests } from "./requests.js";
import { EventSocket, Refused, ask } from "./service.js";

const SCOPES = ["look", "talk", "approve"];
const page = { scope: "look", session: null, socket: null, busy: false, queue: [], steering: [], images: [], commands: [], workspace: "", home: "" };

// Beginning

async function begin() {
  byId("folder").value = localStorage.folder || "";
  dress();
  if ("serviceWorker" in navigator) navigator.serviceWorker.register("/sw.js").catch(() => {});
  try {
    const found = await (await fetch("/page.json")).json();
    fill(byId("skin"), make("option", { value: "auto" }, "auto"), ...found.skins.map((name) => make("option", { value: name }, name)));
    byId("skin").value = localStorage.skin || "auto";
  } catch { /* away: the list of skins can wait */ }
  const code = /^#pair=([A-Z0-9-]+)$/i.exec(location.hash)?.[1];
  if (code) {
    history.replaceState(null, "", "/");
    try { await ask("/api/pair", { code, name: nameOfDevice(), cookie: true }); } catch (error) { pairing(error.message); return; }
  }
  await enter();
}

// A link of `hermes serve pair` opened where the page is already.
addEventListener("hashchange", () => { if (location.hash) location.reload(); });

async function enter() {
  try {
    const me = await ask("/api/me");
    Object.assign(page, { scope: me.scope, commands: me.commands, home: me.workspace });
    byId("folder").placeholder = me.workspace;
  } catch (error) {
    if (error instanceof Refused && error.status === 401) pairing(); else retry();
    return;
  }
  document.body.classList.remove("unpaired");
  for (const id of ["prompt", "begin"]) byId(id).hidden = !may("talk");
  await list();
  const wanted = location.hash.startsWith("#session=") ? location.hash.slice(9) : localStorage.session;
  const sessions = page.sessions;
  const id = sessions.find((each) => each.id === wanted)?.id ?? sessions[0]?.id;
  if (id) await open(id, true); else fresh(true);
}

function retry() { linked(false); setTimeout(enter, 2000); }

const may = (scope) => SCOPES.indexOf(page.scope) >= SCOPES.indexOf(scope);

function nameOfDevice() {
  const found = /(iPhone|iPad|Android|Windows|Macintosh|Linux)/.exec(navigator.userAgent);
  return found ? found[1] : "browser";
}

function pairing(error) {
  document.body.classList.add("unpaired");
  byId("title").textContent = document.title = "Hermes";
  const field = make("input", { id: "code", autocomplete: "one-time-code", autocapitalize: "characters", spellcheck: "false", placeholder: "ABCD-EFGH-JKMN" });
  const words = make("p", { role: "alert" }, error || "");
  const form = make("form", { class: "welcome" },
    make("p", {}, "This device is not paired. On the machine of the service run"),
    make("pre", {}, "hermes serve pair --scope approve"),
    make("p", {}, "and open its link here, or type the code."),
    make("label", { for: "code" }, "Code "), field, " ", make("button", {}, "Pair"), words);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await ask("/api/pair", { code: field.value.trim(), name: nameOfDevice(), cookie: true });
      fill(byId("conversation"));
      await enter();
    } catch (problem) { words.textContent = problem.message; }
  });
  byId("prompt").hidden = byId("begin").hidden = true;
  fill(byId("conversation"), form);
  field.focus();
}

// No session is open: the first message begins one.
function fresh(along = false) {
  turn("", along);
  page.socket?.close();
  page.conversation?.close();
  Object.assign(page, { socket: null, conversation: null, workspace: page.workspace || byId("folder").value.trim() || page.home, queue: [], steering: [] });
  byId("title").textContent = document.title = "Hermes";
  byId("facts").textContent = "";
  history.replaceState(null, "", "/");
  busy(false);
  mark();
  new Panes(() => {});
  fill(byId("conversation"), make("p", { class: "welcome" }, may("talk")
    ? `Write below what should be done: the first message begins a session in ${page.workspace}. Another folder is chosen under Sessions; /help lists the commands.`
    : "No session yet."));
  if (may("talk")) byId("draft").focus();
}

// Sessions

async function list() {
  page.sessions = (await ask("/api/sessions")).sessions;
  fill(byId("list"), ...page.sessions.map((each) => make("li", {}, make("button", {
    "aria-current": String(each.id === page.session), on: { click: () => open(each.id) },
  }, `${each.waits ? `${glyph("waiting")} ` : each.busy ? `${glyph("running")} ` : ""}${each.title || "untitled"}`, make("small", { title: each.workspace }, each.workspace.split("/").slice(-2).join("/"))))));
}

async function open(id, along = false) {
  if (id !== page.session) { tell(""); turn(id, along); }
  toggle("sessions", byId("menu"), false);
  page.socket?.close();
  page.conversation?.close();
  page.socket = null;
  localStorage.session = id;
  history.replaceState(null, "", `#session=${id}`);
  let told;
  try { told = await ask(`/api/sessions/${id}/history?limit=100`); } catch (error) {
    if (error.status === 401) { pairing(error.message); return; }
    // Nobody chose it: what is written here begins another one.
    if (error.status && along) { fresh(true); complain(error); return; }
    fill(byId("conversation"), make("p", { class: "welcome" }, error.message));
    if (!error.status) setTimeout(() => page.session === id && open(id), 2000);
    return;
  }
  if (page.session !== id) return;
  page.conversation = new Conversation(id);
  const { conversation } = page;
  page.panes = new Panes((node) => { toggle("side", byId("more"), false); conversation.show(node); });
  page.canvas = new CanvasPane(id, told.state.canvases);
  page.requests = new Requests((request, answer, feedback) =>
    page.socket.send({ type: "answer", request, answer, ...(feedback ? { feedback } : {}) }), may);
  page.conversation.begin(told);
  for (const event of told.events) page.panes.take(event);
  state(told.state);
  page.requests.reset(told.state.requests);
  page.socket = new EventSocket(id, told.state.seq, {
    hear, linked, lost: () => open(id),
    out: () => { pairing("This device was revoked."); },
  });
  mark();
}

function mark() {
  for (const [at, each] of page.sessions.entries()) byId("list").children[at]?.firstChild.setAttribute("aria-current", String(each.id === page.session));
}

function state(told) {
  byId("title").textContent = told.title || "hermes";
  document.title = told.title ? `${told.title} · Hermes` : "Hermes";
  page.facts = { model: told.model.split("/").pop(), folder: told.workspace.split("/").pop(), mode: told.mode };
  page.workspace = told.workspace;
  page.queue = told.queued;
  page.steering = [];
  busy(told.busy);
  facts();
}

function facts() {
  const { model, folder, mode, context } = page.facts;
  byId("facts").textContent = [folder, model, mode === "normal" ? "" : mode, context].filter(Boolean).join(" · ");
}

function hear(event) {
  page.conversation.take(event);
  page.panes.take(event);
  page.canvas.take(event);
  const asks = page.requests.take(event);
  if (asks) notify(event.headline || event.question || "Something waits for you");
  if (event.agent !== "main") return;
  switch (event.type) {
    case "turn_started": busy(true); break;
    case "turn_ended":
      busy(false);
      byId("said").textContent = `${event.outcome === "done" ? "Done" : event.outcome}. ${event.text.slice(0, 300)}`;
      if (event.outcome === "done") notify(event.text.slice(0, 120) || "Done", true);
      list().catch(() => {});
      break;
    case "queue_changed": arrived(event.queued); page.queue = event.queued; page.steering = event.steering; hint(); break;
    case "mode_changed": page.facts.mode = event.mode; facts(); break;
    case "user_message": busy(true); arrived([event.text]); if (byId("title").textContent === "hermes") byId("title").textContent = event.text.split("\n")[0].slice(0, 60); break;
    case "usage":
      if (event.context_window) page.facts.context = `${Math.round(100 * event.context_used / event.context_window)}%`;
      if (event.session_cost) page.facts.context = `${page.facts.context || ""} $${event.session_cost.toFixed(2)}`;
      facts();
      break;
    case "session_opened": busy(false); break;
    case "branch": moved(event); break;
    default:
  }
}

const MOVED = { undo: "A turn was taken back.", redo: "A turn was done again.", rewind: "The conversation went back.", fork: "The conversation goes on on another branch.", switch: "The conversation goes on on another branch." };

async function moved(event) {
  await open(page.session);
  // The head that asked for it is told more by the answer to its command.
  if (byId("told").hidden) tell(MOVED[event.reason]);
}

// One sentence or a list above the prompt: what a command did, or why something was not done.
function tell(words, of = "") {
  byId("told-words").textContent = words;
  byId("told").dataset.of = of;
  byId("told").hidden = !words;
  if (words) byId(of === "error" ? "alert" : "said").textContent = words;
}

const complain = (error) => tell(error.message, "error");

function linked(there) {
  const line = byId("link");
  line.hidden = there;
  line.textContent = there ? "" : "No connection to the service; trying again. What you write is kept.";
}

function busy(is) {
  page.busy = is;
  byId("stop").hidden = byId("steer").hidden = !is || !may("talk");
  byId("send").textContent = is ? "Queue" : "Send";
  hint();
}

function hint() {
  const empty = !byId("draft").value.trim() && !page.images.length, waits = page.queue.length;
  const enter = page.busy ? "⏎ queue · ctrl+⏎ steer · esc stop"
    : waits && empty ? `⏎ send what waits (${waits})` : "⏎ send · shift+⏎ new line";
  const parts = [waits && !(empty && !page.busy) ? `queued ${waits}` : "",
    page.images.length ? `${page.images.length} image${page.images.length > 1 ? "s" : ""}` : "", enter];
  byId("hint").textContent = parts.filter(Boolean).join(" · ");
  byId("undo").hidden = byId("redo").hidden = !page.session || page.busy || !may("talk");
  const row = (mark, text, ...buttons) => make("li", {}, make("span", { "aria-hidden": "true" }, mark), make("span", { class: "text", title: text }, text), ...buttons);
  fill(byId("queue"), ...page.steering.map((text) => row("↪", text)),
    ...page.queue.map((text) => row(glyph("pending"), text, may("talk") ? make("button", { class: "plain", "aria-label": `Take back: ${text.slice(0, 60)}`, on: { click: () => takeBack(text) } }, "✕") : null)),
    waits && !page.busy && may("talk") ? make("li", {}, make("button", { on: { click: sendQueue } }, waits > 1 ? `Send these ${waits}` : "Send it")) : null);
}

const sendQueue = () => ask(`/api/sessions/${page.session}/queue`, { send: true }).catch(complain);

// A queued message comes back into the prompt, before what is written there.
async function takeBack(text) {
  try {
    await ask(`/api/sessions/${page.session}/queue`, { take_back: text });
    byId("draft").value = [text, byId("draft").value].filter((each) => each.trim()).join("\n\n");
    byId("draft").focus();
    grow();
  } catch (error) { complain(error); }
}

// The prompt

const GROWS = CSS.supports("field-sizing", "content");

function keep() {
  clearTimeout(page.keeping);
  // Null until the page knows its session, "" where there is none.
  if (page.session !== null && !document.body.classList.contains("unpaired")) sessionStorage[`draft ${page.session}`] = byId("draft").value;
}
addEventListener("pagehide", keep);

// Another session with its own draft, before anything else can be typed. `along`: what is written is meant for that one.
function turn(id, along) {
  const draft = byId("draft"), written = along ? draft.value : "";
  if (!along) keep();
  page.session = id;
  draft.value = [...new Set([sessionStorage[`draft ${id}`] || "", written])].filter(Boolean).join("\n\n");
  grow();
}

function grow() {
  const draft = byId("draft");
  if (!GROWS) {
    draft.style.height = "auto";
    draft.style.height = `${draft.scrollHeight + 2}px`;
  }
  clearTimeout(page.keeping);
  page.keeping = setTimeout(keep, 200);
}

// What the page does itself; the service does or refuses every other command. Nothing of it is a message.
const OWN = {
  help: () => tell(helpText(page.commands, matchMedia("(max-width:40rem)").matches), "command"),
  new: () => fresh(),
  sessions: () => toggle("sessions", byId("menu"), true),
  resume: (rest) => {
    const found = page.sessions.find((each) => rest && (each.id.startsWith(rest) || each.title === rest));
    if (found) open(found.id); else toggle("sessions", byId("menu"), true);
  },
  skin: (rest) => {
    const names = [...byId("skin").options].map((each) => each.value);
    if (!names.includes(rest)) throw new Error(`/skin takes one of ${names.join(", ")}.`);
    byId("skin").value = localStorage.skin = rest;
    dress();
  },
  panes: () => toggle("side", byId("more"), true),
  canvas: () => { if (byId("canvas-open").hidden) throw new Error("There is no canvas in this session."); page.canvas.toggle(true); },
  queue: async () => { for (const text of [...page.queue].reverse()) await takeBack(text); },
};
const ALIASES = { clear: "new", theme: "skin", todo: "panes", agents: "panes", files: "panes", timeline: "panes" };

async function order({ name, rest }) {
  const word = name.toLowerCase(), own = OWN[ALIASES[word] || word];
  tell("");
  if (own) { await own(rest); return; }
  if (!page.session) throw new Error("No session is open yet: write what should be done, then /help lists the commands.");
  const told = await ask(`/api/sessions/${page.session}/commands`, { text: `${name} ${rest}` });
  if (name === "model" && rest) await open(page.session);
  if (told.draft && !byId("draft").value.trim()) { byId("draft").value = told.draft; grow(); }
  tell(told.told, "command");
  if (name === "title") list().catch(() => {});
}

const undo = (name) => order({ name, rest: "" }).catch(complain);

// A draft whose sending broke off had arrived after all.
function arrived(texts) {
  const draft = byId("draft");
  if (!page.unsure || !texts.includes(page.unsure) || !draft.value.startsWith(page.unsure)) return;
  draft.value = draft.value.slice(page.unsure.length).trimStart();
  page.unsure = "";
  grow();
}

async function send(how) {
  const draft = byId("draft"), text = draft.value, images = page.images;
  if (!text.trim() && !images.length) {
    if (!page.busy && page.queue.length) sendQueue();
    return;
  }
  const command = called(text), before = page.sending;
  let done;
  page.sending = new Promise((yes) => { done = yes; });
  try {
    draft.value = "";
    // One after the other; what is sent before the page has its session is for that session.
    await before;
    if (shellCall(text)) throw new Error("A command of your own behind `!` runs in the terminal only; without the `!` it is a message.");
    if (command) { done(); grow(); await order(command); return; }
    tell("");
    const begins = !page.session;
    if (begins) await start();
    const message = { text: text.replace(/^\s*\/\//, "/"), how };
    // Until the socket is there a request does the same.
    if (images.length || begins || !page.socket?.isOpen) await ask(`/api/sessions/${page.session}/messages`, { ...message, images });
    else await page.socket.send({ type: "message", ...message });
    page.images = [];
    grow();
    hint();
    page.conversation?.toEnd();
  } catch (error) {
    draft.value = [text, draft.value].filter((each) => each.trim()).join("\n\n");
    page.unsure = error.status || command ? "" : text;
    grow();
    complain(error);
  } finally { done(); }
}

// The first message begins a session, in the folder that is named under Sessions or that of the service.
async function start(workspace = page.workspace) {
  const { session } = await ask("/api/sessions", { workspace });
  await list();
  await open(session, true);
  delete sessionStorage["draft "];
}

const stop = () => page.socket?.send({ type: "interrupt" }).catch(complain);

byId("prompt").addEventListener("submit", (event) => { event.preventDefault(); send(page.busy ? "queue" : "prompt"); });
byId("steer").onclick = () => send("steer");
byId("stop").onclick = stop;
byId("undo").onclick = () => undo("undo");
byId("redo").onclick = () => undo("redo");
byId("told-close").onclick = () => { tell(""); byId("draft").focus(); };
byId("draft").addEventListener("input", () => { grow(); hint(); });
byId("draft").addEventListener("keydown", (event) => {
  if (event.isComposing) return;
  if (event.key === "Enter" && !event.shiftKey) {
    event.preventDefault();
    send(page.busy ? (event.ctrlKey || event.metaKey ? "steer" : "queue") : "prompt");
  }
});
addEventListener("keydown", (event) => {
  const moves = event.altKey && !event.ctrlKey && !event.metaKey && { KeyU: "undo", KeyY: "redo" }[event.code];
  if (moves && !byId(moves).hidden) { event.preventDefault(); undo(moves); return; }
  if (event.key !== "Escape") return;
  if (!byId("canvas").hidden && matchMedia("(max-width:70rem)").matches) { page.canvas.toggle(false); byId("canvas-open").focus(); }
  else if (byId("side").classList.contains("open")) toggle("side", byId("more"), false);
  else if (byId("sessions").classList.contains("open")) toggle("sessions", byId("menu"), false);
  else {
    // Also between two turns, of which the page has not heard the second yet; at rest it stops nothing.
    if (may("talk") && (page.busy || byId("told").hidden)) stop();
    if (!page.busy) tell("");
  }
});
byId("image").addEventListener("change", async (event) => {
  for (const file of [...event.target.files].slice(0, 10)) {
    const data = await new Promise((yes, no) => {
      const reader = new FileReader();
      reader.onload = () => yes(reader.result.split(",", 2)[1]);
      reader.onerror = no;
      reader.readAsDataURL(file);
    });
    page.images.push({ name: file.name, data });
  }
  event.target.value = "";
  hint();
});
byId("begin").addEventListener("submit", async (event) => {
  event.preventDefault();
  const workspace = byId("folder").value.trim();
  try {
    await start(workspace);
    localStorage.folder = workspace;
    byId("draft").focus();
  } catch (error) { complain(error); byId("folder").setCustomValidity(error.message); byId("folder").reportValidity(); byId("folder").setCustomValidity(""); }
});

// Looks

function dress() {
  const skin = localStorage.skin || "auto";
  document.documentElement.dataset.skin = skin;
  const color = getComputedStyle(document.documentElement).getPropertyValue("--background").trim();
  if (color) document.querySelector("meta[name=theme-color]").content = color;
}
byId("skin").addEventListener("change", (event) => { localStorage.skin = event.target.value; dress(); });

function toggle(id, button, open) {
  const is = byId(id).classList.toggle("open", open);
  button.setAttribute("aria-expanded", String(is));
  if (is) byId(id).querySelector("button, a, input, select")?.focus(); else if (document.activeElement === document.body) button.focus();
}
byId("menu").onclick = () => toggle("sessions", byId("menu"));
byId("more").onclick = () => toggle("side", byId("more"));

// Notifications: only while the page is open or in the background

byId("notify").checked = localStorage.notify === "yes" && "Notification" in window && Notification.permission === "granted";
byId("notify").addEventListener("change", async (event) => {
  if (event.target.checked && "Notification" in window) event.target.checked = await Notification.requestPermission() === "granted";
  localStorage.notify = event.target.checked ? "yes" : "no";
});
async function notify(words, quiet) {
  if (!byId("notify").checked || !document.hidden) return;
  const options = { body: words.slice(0, 200), tag: `hermes ${page.session}`, silent: Boolean(quiet), renotify: !quiet, icon: "/assets/icon.svg" };
  const worker = await navigator.serviceWorker?.getRegistration();
  if (worker) worker.showNotification("Hermes", options).catch(() => {}); else new Notification("Hermes", options);
}

addEventListener("error", (event) => { byId("link").hidden = false; byId("link").textContent = `The page has a fault: ${event.message}`; });
addEventListener("unhandledrejection", (event) => { byId("link").hidden = false; byId("link").textContent = `The page has a fault: ${event.reason?.message || event.reason}`; });
page.sending = begin();
