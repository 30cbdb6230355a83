// Runs in a world of its own inside each frame: the page cannot see or change it.
globalThis.hermes = globalThis.hermes || (() => {
  const name = (el) => {
    if (!el) return "something else";
    let text = el.tagName ? el.tagName.toLowerCase() : el.nodeName;
    if (el.id) text += "#" + el.id;
    else if (el.classList && el.classList.length) text += "." + el.classList[0];
    const said = ((el.getAttribute && el.getAttribute("aria-label")) || el.innerText || el.value || "").trim();
    return said && el.type !== "password" ? text + ' "' + said.replace(/\s+/g, " ").slice(0, 60) + '"' : text;
  };
  const element = (node) => (node.nodeType === 1 ? node : node.parentElement || node.parentNode.host);
  const boxes = (el) => [...el.getClientRects()].filter((box) => box.width >= 1 && box.height >= 1);
  const middle = (el) => {
    for (const box of boxes(el)) {
      const left = Math.max(box.left, 0), right = Math.min(box.right, innerWidth);
      const top = Math.max(box.top, 0), bottom = Math.min(box.bottom, innerHeight);
      if (right - left >= 1 && bottom - top >= 1) return [(left + right) / 2, (top + bottom) / 2];
    }
    return null;
  };
  // Where an element without a box is clicked instead: its label, or what it contains.
  const stand = (el) => {
    if (boxes(el).length) return el;
    for (const label of el.labels || []) if (boxes(label).length) return label;
    for (const child of el.children) { const found = stand(child); if (found) return found; }
    return null;
  };
  const above = (node) => node.assignedSlot || node.parentNode || node.host || null;
  const within = (el, node) => {
    for (let at = node; at; at = above(at)) if (at === el) return true;
    return false;
  };
  const same = (el, hit) => {
    if (within(el, hit)) return true;
    for (let at = hit; at; at = above(at)) if (at.tagName === "LABEL" && at.control === el) return true;
    return false;
  };
  const hit = (el, x, y) => {
    // From the inside out: each tree must show, at this point, what holds the element.
    let target = el;
    for (;;) {
      const root = target.getRootNode();
      const found = root.elementFromPoint ? root.elementFromPoint(x, y) : null;
      if (!found) return null;
      if (!same(target, found)) return found;
      if (!root.host) return true;
      target = root.host;
    }
  };
  // Something covers the middle: a point beside it that shows the element, as a person would find one.
  const beside = (el) => {
    for (const box of boxes(el)) {
      const left = Math.max(box.left, 0), right = Math.min(box.right, innerWidth);
      const top = Math.max(box.top, 0), bottom = Math.min(box.bottom, innerHeight);
      if (right - left < 1 || bottom - top < 1) continue;
      for (const down of [0.5, 0.2, 0.8, 0.05, 0.95])
        for (const across of [0.5, 0.2, 0.8, 0.05, 0.95]) {
          const point = [left + (right - left) * across, top + (bottom - top) * down];
          if (hit(el, ...point) === true) return point;
        }
    }
    return null;
  };
  const frame = () => new Promise((done) => {
    const late = setTimeout(done, 60);
    requestAnimationFrame(() => { clearTimeout(late); done(); });
  });
  // The next press of a button must reach the element, or nothing.
  let unguard = () => {};
  const guard = (el) => {
    unguard();
    const state = { seen: false, hit: false, clicked: /^(SELECT|OPTION)$/.test(el.tagName), other: "" };
    const ends = ["click", "auxclick", "contextmenu"];
    const kinds = ["pointerdown", "mousedown", "pointerup", "mouseup", ...ends];
    const look = (event) => {
      if (!event.isTrusted) return;
      let target = event.composedPath()[0];
      let host = el;
      for (let root = host.getRootNode(); root.host; root = host.getRootNode()) {
        if (within(host, target)) break;
        host = root.host;
      }
      if (!state.seen) {
        state.seen = true;
        state.hit = same(host, target);
        if (!state.hit) state.other = name(target);
      }
      if (!state.hit) { event.preventDefault(); event.stopImmediatePropagation(); }
      if (ends.includes(event.type)) {
        // Let go over something else, the event belongs to what holds both.
        state.clicked = state.hit && same(host, target);
        if (!state.clicked) { event.preventDefault(); event.stopImmediatePropagation(); }
        stop();
      }
    };
    const stop = unguard = () => kinds.forEach((kind) => removeEventListener(kind, look, true));
    kinds.forEach((kind) => addEventListener(kind, look, true));
    setTimeout(stop, 3000);
    globalThis.hermesGuard = state;
  };
  return {
    // Where an element can be pressed; with `guards` the next press must reach it, or nothing.
    async ready(node, guards) {
      const given = element(node);
      if (!given || !given.isConnected) return { gone: true };
      const disabled = given.matches(":disabled") || given.closest('[aria-disabled="true"]');
      if (disabled) return { why: "is disabled" };
      const el = stand(given);
      if (!el) return { why: "is not visible" };
      const style = getComputedStyle(el);
      if (style.visibility !== "visible" && style.visibility !== "") return { why: "is not visible" };
      let point = middle(el), moved = false;
      const show = () => {
        const was = el.getBoundingClientRect();
        el.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
        const now = el.getBoundingClientRect();
        moved = moved || was.left !== now.left || was.top !== now.top;
      };
      if (!point) {
        show();
        point = middle(el);
      }
      for (let tries = 0; tries < 20; tries++) {
        await frame();
        const now = middle(el);
        const still = now && point && Math.abs(now[0] - point[0]) < 1 && Math.abs(now[1] - point[1]) < 1;
        point = now;
        if (still) break;
        if (tries === 19) return { why: "does not keep still" };
      }
      if (!given.isConnected) return { gone: true };
      if (!point) return { why: "cannot be scrolled into view" };
      let found = hit(el, ...point);
      if (found !== true) {
        show();
        await frame();
        point = middle(el) || point;
        found = hit(el, ...point);
      }
      if (found !== true) {
        const free = beside(el);
        if (!free) return { covered: name(found) };
        point = free;
      }
      if (guards) guard(el);
      return { x: point[0], y: point[1], moved };
    },
    guarded() { return globalThis.hermesGuard || null; },
    through(owner, x, y) {
      const box = owner.getBoundingClientRect();
      const wide = owner.offsetWidth ? box.width / owner.offsetWidth : 1;
      const high = owner.offsetHeight ? box.height / owner.offsetHeight : 1;
      const style = getComputedStyle(owner);
      const px = box.left + (owner.clientLeft + parseFloat(style.paddingLeft) + x) * wide;
      const py = box.top + (owner.clientTop + parseFloat(style.paddingTop) + y) * high;
      if (px < 0 || py < 0 || px > innerWidth || py > innerHeight) {
        owner.scrollIntoView({ block: "center", behavior: "instant" });
        return { again: true };
      }
      const found = hit(owner, px, py);
      return found === true ? { x: px, y: py } : { covered: name(found) };
    },
    kind(node) {
      const el = element(node);
      if (!el || !el.isConnected) return { gone: true };
      const type = (el.getAttribute("type") || "").toLowerCase();
      const set = ["date", "time", "datetime-local", "month", "week", "color", "range"];
      return {
        tag: el.tagName.toLowerCase(), type, editable: el.isContentEditable,
        sets: el.tagName === "INPUT" && set.includes(type), password: type === "password",
        text: el.isContentEditable || el.tagName === "TEXTAREA" ||
          (el.tagName === "INPUT" && !["checkbox", "radio", "button", "submit", "reset", "file", "image", "hidden"].includes(type)),
        readonly: !!el.readOnly, disabled: el.matches(":disabled"), multiple: !!el.multiple,
      };
    },
    // Into view and the focus to a field, with what it holds chosen.
    enter(node) {
      const el = element(node);
      if (!el || !el.isConnected) return { gone: true };
      if (!stand(el) || getComputedStyle(el).visibility === "hidden") return { why: "is not visible" };
      if (el.matches(":disabled")) return { why: "is disabled" };
      if (el.readOnly) return { why: "is read-only" };
      const was = el.getBoundingClientRect();
      if (!middle(el)) el.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
      const now = el.getBoundingClientRect();
      el.focus({ preventScroll: true });
      const root = el.getRootNode();
      if (el.isContentEditable) {
        const range = document.createRange();
        range.selectNodeContents(el);
        const chosen = getSelection();
        chosen.removeAllRanges();
        chosen.addRange(range);
      } else if (el.select) el.select();
      const focused = root.activeElement === el || within(el, root.activeElement);
      return { focused, moved: was.left !== now.left || was.top !== now.top };
    },
    fill(node, value) {
      const el = element(node);
      el.focus({ preventScroll: true });
      const own = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value");
      own.set.call(el, value);
      el.dispatchEvent(new Event("input", { bubbles: true, composed: true }));
      el.dispatchEvent(new Event("change", { bubbles: true }));
      return el.value === value || (el.value !== "" && el.type !== "date");
    },
    value(node) { const el = element(node); return el.isContentEditable ? el.innerText : el.value; },
    choose(node, wanted) {
      const el = element(node);
      if (!el.isConnected) return { gone: true };
      if (el.tagName !== "SELECT") return { why: "is not a list of options" };
      if (el.disabled) return { why: "is disabled" };
      const flat = (text) => text.trim().replace(/\s+/g, " ");
      const options = [...el.options];
      const chosen = [];
      for (const each of wanted) {
        const found = options.find((option) => flat(option.label || option.text) === flat(each)) ||
          options.find((option) => option.value === each) ||
          options.find((option) => flat(option.label || option.text).toLowerCase() === flat(each).toLowerCase());
        if (!found || found.disabled)
          return { missing: each, options: options.map((option) => flat(option.label || option.text)).slice(0, 60) };
        chosen.push(found);
      }
      if (chosen.length > 1 && !el.multiple) return { why: "takes one option only" };
      options.forEach((option) => { option.selected = chosen.includes(option); });
      el.dispatchEvent(new Event("input", { bubbles: true, composed: true }));
      el.dispatchEvent(new Event("change", { bubbles: true }));
      return { chosen: chosen.map((option) => flat(option.label || option.text)) };
    },
    // Resolves when the document has kept still for `quiet` milliseconds, after `most` at the latest; whether it has.
    settle(quiet, most) {
      return new Promise((done) => {
        let timer = 0;
        const end = (still) => { watch.disconnect(); clearTimeout(timer); clearTimeout(late); done(still); };
        const again = () => { clearTimeout(timer); timer = setTimeout(end, quiet, true); };
        const watch = new MutationObserver(again);
        watch.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
        const late = setTimeout(end, most, false);
        again();
      });
    },
    scroll(node, x, y) {
      let el = node && node.nodeType === 1 ? node : null;
      for (; el; el = above(el)) {
        if (el.nodeType !== 1) continue;
        const style = getComputedStyle(el);
        const can = (over, size, full) => /auto|scroll/.test(over) && full > size + 1;
        if (y && can(style.overflowY, el.clientHeight, el.scrollHeight)) break;
        if (x && can(style.overflowX, el.clientWidth, el.scrollWidth)) break;
      }
      const at = el || document.scrollingElement || document.documentElement;
      const before = [at.scrollLeft, at.scrollTop];
      const step = el ? [el.clientWidth, el.clientHeight] : [innerWidth, innerHeight];
      at.scrollBy({ left: x * step[0], top: y * step[1], behavior: "instant" });
      return { moved: at.scrollLeft !== before[0] || at.scrollTop !== before[1],
        top: Math.round(at.scrollTop), of: Math.round(at.scrollHeight - (el ? el.clientHeight : innerHeight)) };
    },
    images() {
      const found = [];
      const walk = (root) => {
        for (const img of root.querySelectorAll("img, svg[aria-label], [role=img]")) {
          const box = img.getBoundingClientRect();
          if (box.width < 2 || box.height < 2) continue;
          found.push({ src: (img.currentSrc || img.src || "").slice(0, 2000), alt: img.alt || img.getAttribute("aria-label") || "",
            width: img.naturalWidth || Math.round(box.width), height: img.naturalHeight || Math.round(box.height) });
          if (found.length >= 100) return;
        }
        for (const el of root.querySelectorAll("*")) if (el.shadowRoot) walk(el.shadowRoot);
      };
      walk(document);
      return found;
    },
    holds(text) { return (document.body ? document.body.innerText : "").includes(text); },
  };
})();
