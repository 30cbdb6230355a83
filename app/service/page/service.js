// The way to the service: requests as JSON, and one socket per session that goes on where it broke off.
export class Refused extends Error {
  constructor(status, sentence) { super(sentence); this.status = status; }
}

export async function ask(path, data) {
  const options = data === undefined ? {} :
    { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(data) };
  let answer;
  try { answer = await fetch(path, { credentials: "same-origin", cache: "no-store", ...options }); } catch { throw new Refused(0, "There is no connection to the service; what you wrote is kept."); }
  let told = {};
  try { told = await answer.json(); } catch { /* an answer without words */ }
  if (!answer.ok) throw new Refused(answer.status, told.error || `The service answered ${answer.status}.`);
  return told;
}

const BUDGET = 6; // milliseconds of a frame that events may take; keys come before what is left

// Events between two frames, pieces of one text put together, so that a flood of them is drawn at once.
export class Inbox {
  constructor(hear) { this.hear = hear; this.waiting = []; this.at = 0; this.asked = false; this.closed = false; }

  add(event) {
    const last = this.waiting.at(-1);
    if (last && this.at < this.waiting.length && (event.type === "text" || event.type === "reasoning") &&
      last.type === event.type && last.agent === event.agent && last.text.length < 4000) last.text += event.text;
    else this.waiting.push(event);
    this.soon();
  }

  soon() {
    if (this.asked) return;
    // A page in the background has no frames, or will have none from now on.
    const frame = document.hidden ? 0 : requestAnimationFrame(() => go(BUDGET));
    const timer = setTimeout(() => go(Infinity), document.hidden ? 0 : 1000);
    const go = (budget) => { cancelAnimationFrame(frame); clearTimeout(timer); this.asked = false; this.work(budget); };
    this.asked = true;
  }

  work(budget) {
    const begin = performance.now();
    while (!this.closed && this.at < this.waiting.length) {
      this.hear(this.waiting[this.at++]);
      if (performance.now() - begin > budget) break;
    }
    if (!this.closed && this.at < this.waiting.length) this.soon();
    else { this.waiting = []; this.at = 0; }
  }
}

export class EventSocket {
  // `hear` gets each event once, in order; `linked` whether there is a connection; `lost` that events are gone.
  constructor(session, after, { hear, linked, lost, out }) {
    Object.assign(this, { session, after, linked, lost, out });
    this.inbox = new Inbox(hear);
    this.pause = 250;
    this.closed = false;
    this.waiting = new Map();
    this.refs = 0;
    this.open();
    this.wake = () => { if (!document.hidden && !this.isOpen) this.again(0); };
    addEventListener("online", this.wake);
    document.addEventListener("visibilitychange", this.wake);
  }

  get isOpen() { return this.socket && this.socket.readyState === WebSocket.OPEN; }

  open() {
    if (this.closed) return;
    const base = location.origin.replace(/^http/, "ws");
    const socket = this.socket = new WebSocket(`${base}/api/sessions/${this.session}/ws?after=${this.after}`);
    socket.onopen = () => { this.pause = 250; this.linked(true); };
    socket.onmessage = (message) => { if (socket === this.socket) this.take(JSON.parse(message.data)); };
    socket.onclose = (event) => {
      if (socket !== this.socket || this.closed) return;
      for (const { no } of this.waiting.values()) no(new Refused(0, "The connection broke off."));
      this.waiting.clear();
      this.linked(false);
      if (event.code === 4401) { this.close(); this.out(); return; }
      this.again(this.pause);
      this.pause = Math.min(this.pause * 2, 8000);
    };
  }

  again(after) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => { if (!this.isOpen && !this.closed) this.open(); }, after);
  }

  take(frame) {
    if (frame.seq !== undefined) {
      if (frame.seq <= this.after) return;
      this.after = frame.seq;
      this.inbox.add(frame);
    } else if (frame.type === "gap") this.lost();
    else if (this.waiting.has(frame.ref)) {
      const { yes, no } = this.waiting.get(frame.ref);
      this.waiting.delete(frame.ref);
      if (frame.type === "ok") yes(frame); else no(new Refused(frame.status, frame.error));
    }
  }

  send(frame) {
    if (!this.isOpen) return Promise.reject(new Refused(0, "There is no connection; what you wrote is kept."));
    const ref = ++this.refs;
    return new Promise((yes, no) => {
      this.waiting.set(ref, { yes, no });
      this.socket.send(JSON.stringify({ ...frame, ref }));
    });
  }

  close() {
    this.closed = this.inbox.closed = true;
    clearTimeout(this.timer);
    removeEventListener("online", this.wake);
    document.removeEventListener("visibilitychange", this.wake);
    if (this.socket) this.socket.close();
  }
}
