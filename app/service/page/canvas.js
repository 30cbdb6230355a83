// What the agent shows beside the conversation: a frame without our origin, our cookie or a network.
import { byId, fill, make } from "./nodes.js";

export class CanvasPane {
  constructor(session, shown) {
    this.session = session;
    this.canvases = new Map(shown.map((each) => [each.name, each.versions]));
    this.name = shown.at(-1)?.name ?? "";
    this.at = -1;        // index of the version; -1: always the newest
    this.frame = null;
    byId("canvas-close").onclick = () => this.toggle(false);
    byId("canvas-open").onclick = () => this.toggle(byId("canvas").hidden);
    byId("canvas-back").onclick = () => this.go(-1);
    byId("canvas-on").onclick = () => this.go(1);
    byId("canvas-name").onchange = (event) => { this.name = event.target.value; this.at = -1; this.draw(); };
    this.toggle(false);
    if (this.name && !matchMedia("(max-width:70rem)").matches) this.toggle(true);
  }

  take(event) {
    if (event.type !== "canvas") return;
    const old = this.canvases.get(event.name);
    this.canvases.delete(event.name);
    if (event.versions.length) {
      this.canvases.set(event.name, event.versions);
      if (event.name !== this.name) this.at = -1;
      this.name = event.name;
      byId("said").textContent = `Canvas: ${event.versions.at(-1).title}. ${event.versions.at(-1).words}`;
      // On a phone the conversation stays; the button says that there is something to see.
      if (!old && !matchMedia("(max-width:70rem)").matches) this.toggle(true);
    } else if (event.name === this.name) {
      this.name = [...this.canvases.keys()].at(-1) ?? "";
      this.at = -1;
    }
    if (!this.canvases.size) this.toggle(false);
    this.draw();
  }

  go(step) {
    const versions = this.canvases.get(this.name);
    const at = Math.max(0, Math.min(versions.length - 1, (this.at < 0 ? versions.length - 1 : this.at) + step));
    this.at = at === versions.length - 1 ? -1 : at;
    this.draw();
  }

  toggle(open) {
    byId("canvas").hidden = !open;
    byId("canvas-open").setAttribute("aria-expanded", String(open));
    byId("frame").classList.toggle("with-canvas", open);
    this.draw();
  }

  draw() {
    const button = byId("canvas-open"), versions = this.canvases.get(this.name);
    button.hidden = !this.canvases.size;
    if (byId("canvas").hidden || !versions) { this.frame?.remove(); this.frame = null; this.shows = ""; return; }
    const at = this.at < 0 ? versions.length - 1 : Math.min(this.at, versions.length - 1), version = versions[at];
    fill(byId("canvas-name"), ...[...this.canvases].map(([name, all]) => make("option", { value: name }, all.at(-1).title || name)));
    byId("canvas-name").value = this.name;
    byId("canvas-version").textContent = `version ${version.version} of ${versions.at(-1).version}`;
    byId("canvas-back").disabled = at === 0;
    byId("canvas-on").disabled = at === versions.length - 1;
    byId("canvas-words").textContent = version.words;
    if (this.shows === version.sha256) return;
    this.shows = version.sha256;
    // A new frame each time: what ran in the old one ends with it.
    const frame = make("iframe", {
      sandbox: "allow-scripts", title: version.words || version.title, referrerpolicy: "no-referrer", tabindex: "0",
      allow: "camera 'none'; microphone 'none'; geolocation 'none'; clipboard-read 'none'; clipboard-write 'none'; fullscreen 'none'",
      src: `/api/sessions/${this.session}/canvas/${version.sha256}`,
    });
    fill(byId("canvas-place"), frame);
    this.frame = frame;
  }
}
