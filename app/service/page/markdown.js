// Markdown as DOM nodes. Nothing is ever parsed as HTML: what is not markdown of ours stays text.
import { make } from "./nodes.js";

const INLINE = /\\([!-/:-@[-`{-~])|( {2,}\n|\\\n)|&(amp|lt|gt|quot|nbsp|#39);|<(https?:\/\/[^\s<>]{1,2000})>|(?<![\w_])_(?=[^\s_])([^_\n]*?[^\s_])_(?![\w_])|(`+)([\s\S]*?[^`])\6(?!`)|\*\*(?=\S)([\s\S]*?\S)\*\*|__(?=\S)([\s\S]*?\S)__|\*(?=[^\s*])([^*\n]*?[^\s*])\*|~~(?=\S)([\s\S]*?\S)~~|!?\[([^\]\n]{0,500})\]\(([^()\s]{1,2000}(?:\([^()\s]*\)[^()\s]*)?)\)|(https?:\/\/[^\s<>"'`)\]]{1,2000})/g;
const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', nbsp: "\u00a0", "#39": "'" };
const DEEPEST = 6;

export function inline(text, into, depth = 0) {
  if (depth > DEEPEST || text.length > 100000) { into.append(text); return into; }
  let at = 0;
  for (const found of text.matchAll(INLINE)) {
    if (found.index > at) into.append(text.slice(at, found.index));
    at = found.index + found[0].length;
    const [whole, escaped, hard, entity, auto, low, , code, strong, strong2, weak, gone, label, target, bare] = found;
    if (escaped !== undefined) into.append(escaped);
    else if (hard !== undefined) into.append(make("br"));
    else if (entity !== undefined) into.append(ENTITIES[entity]);
    else if (auto !== undefined) into.append(link(auto, auto, whole));
    else if (low !== undefined) into.append(inline(low, make("em"), depth + 1));
    else if (code !== undefined) into.append(make("code", {}, code));
    else if (strong !== undefined || strong2 !== undefined) into.append(inline(strong ?? strong2, make("strong"), depth + 1));
    else if (weak !== undefined) into.append(inline(weak, make("em"), depth + 1));
    else if (gone !== undefined) into.append(inline(gone, make("del"), depth + 1));
    else if (target !== undefined) into.append(link(target, label, whole));
    else into.append(link(bare, bare, whole));
  }
  if (at < text.length) into.append(text.slice(at));
  return into;
}

function link(target, label, whole) {
  let url;
  try { url = new URL(target); } catch { return document.createTextNode(whole); }
  if (url.protocol !== "http:" && url.protocol !== "https:") return document.createTextNode(whole);
  const node = make("a", { href: url.href, rel: "noopener noreferrer nofollow", target: "_blank" }, label || target);
  // Where it leads is seen where the words say something else.
  if (label !== target && !label.includes(url.host)) node.title = url.href;
  return node;
}

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+#.-]*)[^`]*$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;

// Blocks of a text, each with the lines it is made of, so that a stream draws only its last block anew.
export function blocks(text) {
  const lines = text.split("\n"), found = [];
  let at = 0, offset = 0, counted = 0;
  while (at < lines.length) {
    while (counted < at) offset += lines[counted++].length + 1;
    const start = at, begin = offset, line = lines[at], fence = FENCE.exec(line);
    let kind = "p";
    if (fence) {
      kind = "pre";
      at += 1;
      const end = new RegExp(`^ {0,3}${fence[1][0]}{${fence[1].length},}\\s*$`);
      while (at < lines.length && !end.test(lines[at])) at += 1;
      at += 1;
    } else if (!line.trim()) { at += 1; continue; }
    else if (/^#{1,6}\s/.test(line)) { kind = "h"; at += 1; }
    else if (/^\s*([-*_])(\s*\1){2,}\s*$/.test(line)) { kind = "hr"; at += 1; }
    else if (/^\s*>/.test(line)) { kind = "quote"; while (at < lines.length && /^\s*>/.test(lines[at])) at += 1; }
    else if (ITEM.test(line)) {
      kind = "list";
      at += 1;
      const first = ITEM.exec(line), ordered = /\d/.test(first[2]);
      const other = (found) => found && found[1].length <= first[1].length && /\d/.test(found[2]) !== ordered;
      while (at < lines.length && !other(ITEM.exec(lines[at])) && (ITEM.test(lines[at]) || /^\s{2,}\S/.test(lines[at]) ||
        (!lines[at].trim() && at + 1 < lines.length && (ITEM.test(lines[at + 1]) || /^\s{2,}\S/.test(lines[at + 1]))))) at += 1;
    } else if (line.includes("|") && at + 1 < lines.length && /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/.test(lines[at + 1])) {
      kind = "table";
      at += 2;
      while (at < lines.length && lines[at].includes("|")) at += 1;
    } else {
      at += 1;
      while (at < lines.length && lines[at].trim() && !FENCE.test(lines[at]) && !/^(#{1,6}\s|\s*>)/.test(lines[at]) && !ITEM.test(lines[at])) at += 1;
      const under = lines.findIndex((line, n) => n > start && n < at && /^ {0,3}(=+|-{2,})\s*$/.test(line));
      if (under > 0) { at = under + 1; kind = "setext"; }
    }
    found.push({ kind, begin, text: lines.slice(start, at).join("\n") });
  }
  return found;
}

export function drawn({ kind, text }, depth = 0) {
  const lines = text.split("\n");
  if (kind === "pre") {
    const fence = FENCE.exec(lines[0]);
    const closed = lines.length > 1 && new RegExp(`^ {0,3}${fence[1][0]}{${fence[1].length},}\\s*$`).test(lines.at(-1));
    const code = make("code", {}, lines.slice(1, closed ? -1 : undefined).join("\n"));
    return make("pre", { tabindex: "0", "aria-label": fence[2] ? `Code, ${fence[2]}` : "Code" }, code);
  }
  if (kind === "h") {
    const level = /^#+/.exec(text)[0].length;
    return inline(text.slice(level).trim().replace(/\s#+$/, ""), make(`h${Math.min(level + 2, 6)}`));
  }
  if (kind === "setext") return inline(lines.slice(0, -1).join("\n").trim(), make(lines.at(-1).includes("=") ? "h3" : "h4"));
  if (kind === "hr") return make("hr");
  if (kind === "quote") {
    const node = make("blockquote");
    const inner = lines.map((line) => line.replace(/^\s*>\s?/, "")).join("\n");
    if (depth > DEEPEST) node.append(inner); else node.append(...blocks(inner).map((each) => drawn(each, depth + 1)));
    return node;
  }
  if (kind === "list") return list(lines, depth);
  if (kind === "table") return table(lines);
  return inline(text, make("p"));
}

function list(lines, depth) {
  const first = ITEM.exec(lines[0]), indent = first[1].length;
  const node = make(/\d/.test(first[2]) ? "ol" : "ul");
  if (node.tagName === "OL") node.start = parseInt(first[2], 10);
  let item = [];
  const flush = () => {
    if (!item.length) return;
    const entry = make("li"), [head, ...rest] = item;
    const box = /^\[([ xX])\]\s/.exec(head);
    inline(box ? (box[1] === " " ? "☐ " : "☑ ") + head.slice(4) : head, entry);
    const inner = rest.join("\n").replace(/\n+$/, "");
    if (inner.trim() && depth <= DEEPEST) {
      const least = Math.min(...rest.filter((line) => line.trim()).map((line) => /^\s*/.exec(line)[0].length));
      entry.append(...blocks(rest.map((line) => line.slice(least)).join("\n")).map((each) => drawn(each, depth + 1)));
    } else if (inner.trim()) entry.append(inner);
    node.append(entry);
    item = [];
  };
  for (const line of lines) {
    const found = ITEM.exec(line);
    if (found && found[1].length <= indent) { flush(); item = [found[3]]; } else item.push(line);
  }
  flush();
  return node;
}

function table(lines) {
  const cells = (line) => line.trim().replace(/^\||(?<!\\)\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll("\\|", "|"));
  const sides = cells(lines[1]).map((cell) => cell.endsWith(":") ? (cell.startsWith(":") ? "middle" : "right") : "");
  // As many cells as the head has: what is missing is empty, what is more is left out.
  const row = (line, name) => { const found = cells(line); return make("tr", {}, ...sides.map((side, at) => inline(found[at] ?? "", make(name, { class: side })))); };
  return make("table", {}, make("thead", {}, row(lines[0], "th")), make("tbody", {}, ...lines.slice(2).map((line) => row(line, "td"))));
}

export function markdown(text) { return blocks(text).map((each) => drawn(each)); }

// Draws a text that grows: complete blocks stay as they are, only what is behind them is drawn again.
export class GrowingText {
  constructor(node) { this.node = node; this.text = ""; this.kept = 0; this.start = 0; }

  // Characters that are drawn again each time.
  get unfinished() { return this.text.length - this.start; }

  add(piece) { this.text += piece; }

  draw() {
    const found = blocks(this.text.slice(this.start));
    while (this.node.childNodes.length > this.kept) this.node.lastChild.remove();
    this.node.append(...found.map((each) => drawn(each)));
    if (found.length > 2) {
      // No later line can change a block behind which another one is complete.
      this.kept += found.length - 2;
      this.start += found.at(-2).begin;
    }
  }
}
