// The page: pairing, the list of sessions, one open session, the prompt.
import { Conversation } from "./conversation.js";
import { CanvasPane } from "./canvas.js";
import { byId, fill, make } from "./nodes.js";
import { Panes } from "./panes.js";
import { Requests } from "./requests.js";
import { EventSocket, Refused, ask } from "./service.js";

const SCOPES = ["look", "talk", "approve"];
const page = { scope: "look", session: "", socket: null, busy: false, queued: 0, images: [] };

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

async function enter() {
  try {
    page.scope = (await ask("/api/me")).scope;
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
  if (id) await open(id); else welcome();
}

function retry() { linked(false); setTimeout(enter, 2000); }

const may = (scope) => SCOPES.indexOf(page.scope) >= SCOPES.indexOf(scope);

function nameOfDevice() {
  const found = /(iPhone|iPad|Android|Windows|Macintosh|Linux)/.exec(navigator.userAgent);
  return found ? found[1] : "browser";
}

function pairing(error) {
  document.body.classList.add("unpaired");
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

function welcome() {
  fill(byId("conversation"), make("p", { class: "welcome" }, may("talk") ? "No session yet: name a folder under Sessions and begin one." : "No session yet."));
  if (matchMedia("(max-width:70rem)").matches && may("talk")) toggle("sessions", byId("menu"), true);
}

// Sessions

async function list() {
  page.sessions = (await ask("/api/sessions")).sessions;
  fill(byId("list"), ...page.sessions.map((each) => make("li", {}, make("button", {
    "aria-current": String(each.id === page.session), on: { click: () => open(each.id) },
  }, `${each.waits ? "◆ " : each.busy ? "▸ " : ""}${each.title || "untitled"}`, make("small", { title: each.workspace }, each.workspace.split("/").slice(-2).join("/"))))));
}

async function open(id) {
  keep();
  toggle("sessions", byId("menu"), false);
  page.socket?.close();
  page.conversation?.close();
  page.socket = null;
  page.session = id;
  localStorage.session = id;
  history.replaceState(null, "", `#session=${id}`);
  let told;
  try { told = await ask(`/api/sessions/${id}/history?limit=100`); } catch (error) {
    if (error.status === 401) { pairing(error.message); return; }
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
  byId("draft").value = sessionStorage[`draft ${id}`] || "";
  grow();
  mark();
}

function mark() {
  for (const [at, each] of page.sessions.entries()) byId("list").children[at]?.firstChild.setAttribute("aria-current", String(each.id === page.session));
}

function state(told) {
  byId("title").textContent = told.title || "hermes";
  document.title = told.title ? `${told.title} · Hermes` : "Hermes";
  page.facts = { model: told.model.split("/").pop(), folder: told.workspace.split("/").pop(), mode: told.mode };
  page.queued = told.queued.length;
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
    case "queue_changed": arrived(event.queued); page.queued = event.queued.length + event.steering.length; hint(); break;
    case "mode_changed": page.facts.mode = event.mode; facts(); break;
    case "user_message": arrived([event.text]); if (byId("title").textContent === "hermes") byId("title").textContent = event.text.split("\n")[0].slice(0, 60); break;
    case "usage":
      if (event.context_window) page.facts.context = `${Math.round(100 * event.context_used / event.context_window)}%`;
      if (event.session_cost) page.facts.context = `${page.facts.context || ""} $${event.session_cost.toFixed(2)}`;
      facts();
      break;
    case "session_opened": busy(false); break;
    case "branch": open(page.session); break;
    default:
  }
}

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
  const parts = [page.queued ? `queued ${page.queued}` : "", page.images.length ? `${page.images.length} image${page.images.length > 1 ? "s" : ""}` : "",
    page.busy ? "⏎ queue · ctrl+⏎ steer · esc stop" : "⏎ send · shift+⏎ new line"];
  byId("hint").textContent = parts.filter(Boolean).join(" · ");
}

// The prompt

const GROWS = CSS.supports("field-sizing", "content");

function keep() {
  clearTimeout(page.keeping);
  if (page.session) sessionStorage[`draft ${page.session}`] = byId("draft").value;
}
addEventListener("pagehide", keep);

function grow() {
  const draft = byId("draft");
  if (!GROWS) {
    draft.style.height = "auto";
    draft.style.height = `${draft.scrollHeight + 2}px`;
  }
  clearTimeout(page.keeping);
  page.keeping = setTimeout(keep, 200);
}

// What begins with one of these words is done here; everything else is a message.
async function order(text) {
  const [, word, rest] = /^\s*\/(move|stop|steer)(?:\s+([^]*))?$/.exec(text) || [];
  if (!word) return false;
  if (word === "stop") await page.socket.send({ type: "interrupt" });
  else if (!rest?.trim()) throw new Error(word === "move" ? "Write where it goes on: /move telegram, or /move here." : "Write what is to be read behind /steer.");
  else if (word === "steer") await page.socket.send({ type: "message", text: rest, how: "steer" });
  else {
    const { told } = await page.socket.send({ type: "move", to: rest.trim() });
    byId("hint").textContent = byId("said").textContent = told;
  }
  return true;
}

// A draft whose sending broke off had arrived after all.
function arrived(texts) {
  if (!page.unsure || !texts.includes(page.unsure) || byId("draft").value !== page.unsure) return;
  byId("draft").value = page.unsure = "";
  grow();
}

async function send(how) {
  const draft = byId("draft"), text = draft.value;
  if (!text.trim() && !page.images.length) return;
  const images = page.images;
  try {
    if (!images.length && await order(text)) { draft.value = ""; grow(); return; }
    if (images.length) await ask(`/api/sessions/${page.session}/messages`, { text, how, images });
    else { draft.value = ""; await page.socket.send({ type: "message", text, how }); }
    if (images.length) draft.value = "";
    page.images = [];
    grow();
    hint();
    page.conversation.toEnd();
  } catch (error) {
    if (!draft.value) draft.value = text;
    page.unsure = error.status ? "" : text;
    byId("hint").textContent = error.message;
    byId("alert").textContent = error.message;
  }
}

const stop = () => page.socket?.send({ type: "interrupt" }).catch((error) => { byId("hint").textContent = error.message; });

byId("prompt").addEventListener("submit", (event) => { event.preventDefault(); send(page.busy ? "queue" : "prompt"); });
byId("steer").onclick = () => send("steer");
byId("stop").onclick = stop;
byId("draft").addEventListener("input", grow);
byId("draft").addEventListener("keydown", (event) => {
  if (event.isComposing) return;
  if (event.key === "Enter" && !event.shiftKey) {
    event.preventDefault();
    send(page.busy ? (event.ctrlKey || event.metaKey ? "steer" : "queue") : "prompt");
  }
});
addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  if (!byId("canvas").hidden && matchMedia("(max-width:70rem)").matches) { page.canvas.toggle(false); byId("canvas-open").focus(); }
  else if (byId("side").classList.contains("open")) toggle("side", byId("more"), false);
  else if (byId("sessions").classList.contains("open")) toggle("sessions", byId("menu"), false);
  else if (page.busy && may("talk")) stop();
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
    const { session } = await ask("/api/sessions", { workspace });
    localStorage.folder = workspace;
    await list();
    await open(session);
    byId("draft").focus();
  } catch (error) { byId("alert").textContent = error.message; byId("hint").textContent = error.message; byId("folder").setCustomValidity(error.message); byId("folder").reportValidity(); byId("folder").setCustomValidity(""); }
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
  const options = { body: words.slice(0, 200), tag: `hermes ${page.session}`, silent: Boolean(quiet), icon: "/assets/icon.svg" };
  const worker = await navigator.serviceWorker?.getRegistration();
  if (worker) worker.showNotification("Hermes", options).catch(() => {}); else new Notification("Hermes", options);
}

addEventListener("error", (event) => { byId("link").hidden = false; byId("link").textContent = `The page has a fault: ${event.message}`; });
addEventListener("unhandledrejection", (event) => { byId("link").hidden = false; byId("link").textContent = `The page has a fault: ${event.reason?.message || event.reason}`; });
begin();
