"""Frames of a page: their accessibility trees, cached while unchanged, and one capture of all of them."""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.browser.host import Transport
from tools.browser.page_text import (
    STYLES,
    Box,
    DocumentLayout,
    FrameCapture,
    NodeKey,
    is_seen,
    layouts,
    view_inside,
)

log = logging.getLogger(__name__)

Params = Mapping[str, Any]
Handler = Callable[[str, dict[str, Any]], None]
PATIENCE = 30.0
"""Seconds for the answer to one call."""
_LARGE = 1 << 16


class CdpError(Exception):
    """Raised if a call to the browser fails or times out. The text can come from the browser."""


class BrowserGoneError(CdpError):
    """Raised if the browser, or the connection to it, has ended."""


class Cdp:
    """A connection to a browser's DevTools that sends calls and receives events.

    `start` begins to read; `gone` is done when no more messages arrive.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._numbers = itertools.count(1)
        self._waiting: dict[int, tuple[str, asyncio.Future[dict[str, Any]]]] = {}
        self._handlers: dict[str, Handler] = {}
        self._reader: asyncio.Task[None] | None = None
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def start(self) -> None:
        """Start reading messages in the background."""
        self._reader = asyncio.create_task(self._read())

    def listen(self, session: str, handler: Handler) -> None:
        """Register `handler` for the events of a session. The browser itself has the empty session id."""
        self._handlers[session] = handler

    def forget(self, session: str) -> None:
        """Stop listening to a session and make the calls that wait for its answers raise `CdpError`."""
        self._handlers.pop(session, None)
        self.fail_calls(session, "the frame went away")

    def fail_calls(self, session: str, why: str) -> None:
        """Make the waiting calls to a session raise `CdpError`, because it no longer answers."""
        for number, (of, future) in list(self._waiting.items()):
            if of == session and session:
                del self._waiting[number]
                if not future.done():
                    future.set_exception(CdpError(why))

    async def call(
        self, method: str, params: Params | None = None, session: str = "", patience: float = PATIENCE
    ) -> dict[str, Any]:
        """Call a method and wait up to `patience` seconds for its answer. Raises `CdpError`."""
        if self.gone.done():
            raise BrowserGoneError("the browser has ended")
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": dict(params or {})}
        if session:
            message["sessionId"] = session
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = (session, future)
        try:
            self._transport.send(json.dumps(message).encode())
            async with asyncio.timeout(patience):
                return await future
        except TimeoutError:
            raise CdpError(f"the page did not answer to {method} within {patience:g} s") from None
        except OSError as error:
            raise BrowserGoneError("the browser has ended") from error
        finally:
            self._waiting.pop(number, None)

    def send(self, method: str, params: Params | None = None, session: str = "") -> None:
        """Call a method without waiting for its answer. A lost connection is ignored."""
        message: dict[str, Any] = {"id": next(self._numbers), "method": method, "params": dict(params or {})}
        if session:
            message["sessionId"] = session
        with suppress(OSError):
            self._transport.send(json.dumps(message).encode())

    async def close(self) -> None:
        """Stop reading and make the waiting calls fail."""
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        self._end()

    async def _read(self) -> None:
        try:
            while True:
                data = await self._transport.receive()
                # What takes a while to read must not hold up the screen.
                found = await asyncio.to_thread(json.loads, data) if len(data) > _LARGE else json.loads(data)
                self._take(found)
        except (EOFError, OSError, ValueError) as error:
            log.debug("the browser ended: %r", error)
        finally:
            self._end()

    def _take(self, message: dict[str, Any]) -> None:
        number = message.get("id")
        if number is None:
            handler = self._handlers.get(message.get("sessionId", ""))
            if handler is not None:
                try:
                    handler(message.get("method", ""), message.get("params") or {})
                except Exception:
                    log.exception("an event of the browser could not be taken")
            return
        _, future = self._waiting.pop(number, ("", None))
        if future is None or future.done():
            return
        if "error" in message:
            future.set_exception(CdpError(str(message["error"].get("message", "refused"))))
        else:
            future.set_result(message.get("result") or {})

    def _end(self) -> None:
        if not self.gone.done():
            self.gone.set_result(None)
        for _, future in self._waiting.values():
            if not future.done():
                future.set_exception(BrowserGoneError("the browser has ended"))
        self._waiting.clear()


WORLD = "hermes"
MOST_FRAMES = 60
"""The maximum number of frames read from one page."""
_DOMAINS = ("Inspector", "Page", "DOM", "Accessibility", "Runtime", "Network")


@functools.cache
def library() -> str:
    """Return the script that is loaded into the isolated world that Hermes creates in each frame."""
    return Path(__file__).with_name("in_page.js").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class FrameInfo:
    """The current state of a frame."""

    id: str
    loader: str
    session: str
    parent: str
    url: str


class Frames:
    """The frames of a tab, with their sessions and isolated worlds."""

    def __init__(self, cdp: Cdp, session: str) -> None:
        self._cdp = cdp
        self.main = session
        self._sessions: dict[str, str] = {}
        """For each session of a frame in a separate process, the session of the frame around it."""
        self._roots: dict[str, str] = {}
        """The root frame of each of these sessions."""
        self._worlds: dict[tuple[str, str, str], int] = {}

    @property
    def sessions(self) -> tuple[str, ...]:
        return (self.main, *self._sessions)

    async def enable(self, session: str) -> None:
        """Enable the events of a session and of frames below it. Raises `CdpError`."""
        attach = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}
        await asyncio.gather(
            *(self._cdp.call(f"{domain}.enable", {}, session) for domain in _DOMAINS),
            self._cdp.call("Target.setAutoAttach", attach, session),
        )

    def on_attached(self, session: str, frame: str, around: str) -> None:
        """Record that a frame now runs in its own process, with its own session."""
        self._sessions[session] = around
        self._roots[session] = frame

    def on_detached(self, session: str) -> None:
        """Record that a session ended."""
        self._sessions.pop(session, None)
        self._roots.pop(session, None)
        self._worlds = {key: world for key, world in self._worlds.items() if key[0] != session}

    def on_cleared(self, session: str) -> None:
        """Forget the isolated worlds of a session, because the browser has removed them."""
        self._worlds = {key: world for key, world in self._worlds.items() if key[0] != session}

    def around(self, session: str) -> str:
        """Return the session of the frame that contains a session's root frame."""
        return self._sessions.get(session, self.main)

    def root(self, session: str) -> str:
        """Return the id of the root frame of a session; empty for the main session."""
        return self._roots.get(session, "")

    async def infos(self) -> dict[str, FrameInfo]:
        """Return up to `MOST_FRAMES` frames by id, outer ones first. Raises `CdpError`."""
        found: dict[str, FrameInfo] = {}
        for session in self.sessions:
            try:
                tree = (await self._cdp.call("Page.getFrameTree", {}, session))["frameTree"]
            except CdpError:
                if session == self.main:
                    raise
                continue
            stack = [(tree, "")]
            while stack and len(found) < MOST_FRAMES:
                each, parent = stack.pop()
                frame = each["frame"]
                id, loader = frame["id"], frame["loaderId"]
                found[id] = FrameInfo(id, loader, session, parent or frame.get("parentId", ""), frame["url"])
                stack += [(child, id) for child in reversed(each.get("childFrames", ()))]
        return found

    async def capture(self) -> tuple[FrameCapture, dict[str, FrameInfo]]:
        """Capture what all frames show; return the capture, and all frames by id. Raises `CdpError`."""
        infos, layouts = await self.layouts()
        root = self.outermost(infos)
        captures = {info.id: self.captured(info, layouts.get(info.id)) for info in infos.values()}
        trees = await asyncio.gather(*(self._tree(info) for info in infos.values()))
        for info, nodes in zip(infos.values(), trees, strict=True):
            captures[info.id].nodes = nodes
        for id, owner in (await self.owners(infos, layouts)).items():
            if owner and infos[id].parent in captures:
                captures[infos[id].parent].children[owner] = captures[id]
        return captures[root.id], infos

    async def layouts(self) -> tuple[dict[str, FrameInfo], dict[str, DocumentLayout]]:
        """Return all frames, and the layouts of their documents, both by frame id. Raises `CdpError`."""
        infos, *snapshots = await asyncio.gather(self.infos(), *map(self._layout, self.sessions))
        found: dict[str, DocumentLayout] = {}
        for snapshot in snapshots:
            found |= layouts(snapshot)
        return infos, found

    def outermost(self, infos: Mapping[str, FrameInfo]) -> FrameInfo:
        """Return the frame around all others. Raises `CdpError`."""
        for info in infos.values():
            if info.session == self.main and not info.parent:
                return info
        raise CdpError("the tab shows no page")

    def captured(self, info: FrameInfo, layout: DocumentLayout | None) -> FrameCapture:
        """Return the capture of a frame that has a layout but no accessibility tree."""
        capture = FrameCapture(frame=info.id, loader=info.loader, session=info.session, url=info.url)
        if layout is not None:
            capture.boxes, capture.clickable, capture.passwords = (
                layout.boxes,
                layout.clickable,
                layout.passwords,
            )
            capture.scroll, capture.height = layout.scroll, layout.height
        return capture

    async def owners(
        self, infos: Mapping[str, FrameInfo], layouts: Mapping[str, DocumentLayout]
    ) -> dict[str, int]:
        """Return, by frame id, the backend node that contains the frame; 0 if that node is gone."""
        found = {frame: node for layout in layouts.values() for node, frame in layout.frames.items()}
        asked = [info for info in infos.values() if info.parent and info.id not in found]
        told = await asyncio.gather(*map(self.owner, asked))
        return found | {info.id: node for info, node in zip(asked, told, strict=True)}

    async def owner(self, info: FrameInfo) -> int:
        """Return the backend node that contains a frame; 0 if that node is gone."""
        around = self.around(info.session) if info.id == self.root(info.session) else info.session
        try:
            found = await self._cdp.call("DOM.getFrameOwner", {"frameId": info.id}, around)
        except CdpError:
            return 0
        return int(found.get("backendNodeId", 0))

    def owner_session(self, info: FrameInfo) -> str:
        """Return the session that the node containing a frame belongs to."""
        return self.around(info.session) if info.id == self.root(info.session) else info.session

    async def _layout(self, session: str) -> dict[str, Any]:
        try:
            return await self._cdp.call(
                "DOMSnapshot.captureSnapshot", {"computedStyles": list(STYLES)}, session
            )
        except CdpError as error:
            log.debug("no layout: %s", error)
            return {}

    async def _tree(self, info: FrameInfo) -> list[dict[str, Any]]:
        try:
            found = await self._cdp.call("Accessibility.getFullAXTree", {"frameId": info.id}, info.session)
        except CdpError as error:
            log.debug("no tree of a frame: %s", error)
            return []
        return found.get("nodes", [])

    async def world(self, session: str, frame: str, loader: str) -> int:
        """Return the id of Hermes's isolated world in a frame, created on first use. Raises `CdpError`."""
        key = session, frame, loader
        known = self._worlds.get(key)
        if known is not None:
            return known
        made = await self._cdp.call(
            "Page.createIsolatedWorld",
            {"frameId": frame, "worldName": WORLD, "grantUniveralAccess": False},
            session,
        )
        world = int(made["executionContextId"])
        await self._cdp.call("Runtime.evaluate", {"expression": library(), "contextId": world}, session)
        self._worlds[key] = world
        return world

    async def run(
        self, session: str, frame: str, loader: str, expression: str, patience: float = 15.0
    ) -> Any:
        """Evaluate an expression in the isolated world of a frame and return its value. Raises `CdpError`."""
        world = await self.world(session, frame, loader)
        done = await self._cdp.call(
            "Runtime.evaluate",
            {"expression": expression, "contextId": world, "awaitPromise": True, "returnByValue": True},
            session,
            patience,
        )
        return value_of(done)

    async def apply(self, session: str, object_id: str, function: str, *arguments: Any) -> Any:
        """Call a function of the script `library` with an element as its first argument.

        Raises `CdpError`.
        """
        given: list[dict[str, Any]] = [{"objectId": object_id}, *({"value": each} for each in arguments)]
        done = await self._cdp.call(
            "Runtime.callFunctionOn",
            {
                "functionDeclaration": f"function(...given) {{ return hermes.{function}(...given); }}",
                "objectId": object_id,
                "arguments": given,
                "awaitPromise": True,
                "returnByValue": True,
            },
            session,
        )
        return value_of(done)

    async def resolve(self, session: str, frame: str, loader: str, node: int) -> str:
        """Return the object id of a node in the isolated world. Raises `CdpError` if the node is gone."""
        world = await self.world(session, frame, loader)
        found = await self._cdp.call(
            "DOM.resolveNode", {"backendNodeId": node, "executionContextId": world}, session
        )
        object_id = found.get("object", {}).get("objectId")
        if not object_id:
            raise CdpError("the element is gone")
        return str(object_id)


def value_of(done: dict[str, Any]) -> Any:
    """Return the value of an evaluation. Raises `CdpError` with the page's error if the evaluation failed."""
    if "exceptionDetails" in done:
        details = done["exceptionDetails"]
        said = details.get("exception", {}).get("description") or details.get("text", "failed")
        raise CdpError(str(said).splitlines()[0][:300])
    return done.get("result", {}).get("value")


def ancestry(info: FrameInfo, infos: dict[str, FrameInfo]) -> Iterator[FrameInfo]:
    """Yield a frame and the frames around it, from the inside out, without the outermost."""
    seen: set[str] = set()
    while info.parent and info.parent in infos and info.id not in seen:
        seen.add(info.id)
        yield info
        info = infos[info.parent]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TELLING = _words(
    "A ABBR ADDRESS ARTICLE ASIDE B BDI BDO BIG BLOCKQUOTE BR BUTTON CAPTION CENTER CITE CODE COL "
    "COLGROUP DD DEL DFN DIV DL DT EM FIGCAPTION FIGURE FONT FOOTER H1 H2 H3 H4 H5 H6 HEADER HGROUP HR "
    "I IMG INS KBD LI MAIN MARK MENU NAV NOBR OL P PICTURE PRE Q S SAMP SECTION SMALL SOURCE SPAN "
    "STRONG SUB SUP TABLE TBODY TD TFOOT TH THEAD TIME TR TT U UL VAR WBR svg g path circle rect line "
    "polyline polygon ellipse defs title text tspan ::before ::after ::marker"
)
"""Elements fully described by the layout."""
_POINTING = _words(
    "aria-labelledby aria-describedby aria-owns aria-controls aria-activedescendant aria-details aria- "
    "errormessage aria-flowto popovertarget commandfor command interestfor usemap contenteditable slot "
    "is"
)
"""Attributes by which an element refers to others."""
_CHOSEN = _words("option tab treeitem gridcell row listitem radio menuitemradio")
"""Roles whose state may depend on the focus."""

Signature = tuple[Any, ...]
Tree = list[dict[str, Any]]


class KeptTrees:
    """Cached accessibility trees of the parts of one tab that were in view at the last capture."""

    def __init__(self) -> None:
        self.is_trusted = True
        """Whether the page was unchanged, so that a tree belongs to the layout read before it."""
        self._kept: dict[tuple[str, str, int], tuple[Signature, Tree]] = {}
        self._next: dict[tuple[str, str, int], tuple[Signature, Tree]] = {}
        self._noted: dict[tuple[str, str, int], Signature] = {}

    def reusable_trees(
        self, info: FrameInfo, layout: DocumentLayout, parts: Sequence[int]
    ) -> tuple[list[Tree], list[int]]:
        """Return the cached trees of unchanged parts, and the indexes of the parts to request."""
        reader = _Reader(layout)
        trees: list[Tree] = []
        asked: list[int] = []
        for place in parts:
            key = (info.id, info.loader, layout.order[place])
            signature = reader.signature(place) if self.is_trusted else None
            before = self._kept.get(key)
            if signature is not None and before is not None and before[0] == signature:
                trees.append(before[1])
                self._next[key] = before
                continue
            asked.append(place)
            if signature is not None:
                self._noted[key] = signature
        return trees, asked

    def keep(self, info: FrameInfo, trees: Mapping[int, Tree]) -> None:
        """Cache the requested trees, given by the nodes of their parts, unless a part has no signature."""
        for node, tree in trees.items():
            key = (info.id, info.loader, node)
            if tree and key in self._noted:
                self._next[key] = (self._noted[key], tree)

    def forget_others(self) -> None:
        """Drop the trees of all parts that were not in view at the last capture."""
        self._kept, self._next = self._next, {}
        self._noted.clear()


class _Reader:
    """The signatures of the parts of one layout, computed on request."""

    def __init__(self, layout: DocumentLayout) -> None:
        self._layout = layout
        nodes, drawn = layout.nodes, layout.drawn
        self._names: list[int] = nodes["nodeName"]
        self._types: list[int] = nodes["nodeType"]
        self._values: list[int] = nodes["nodeValue"]
        self._attributes: list[list[int]] = nodes["attributes"]
        self._shown = {place: at for at, place in enumerate(drawn["nodeIndex"])}
        strings = layout.strings
        self._bad = frozenset(at for at, each in enumerate(strings) if each.lower() in _POINTING)
        self._role = frozenset(at for at, each in enumerate(strings) if each.lower() == "role")
        self._above: dict[int, Signature | None] = {-1: ()}
        # A dialog that is open may shut everything else off.
        self._page = tuple(
            layout.order[place]
            for place, name in enumerate(self._names)
            if strings[name] == "DIALOG" and place in self._shown
        )

    def signature(self, place: int) -> Signature | None:
        """Return a value that differs whenever the tree of a part can differ.

        Returns None if the tree depends on more than the layout shows.
        """
        above = self._holding(self._layout.parents[place])
        if above is None:
            return None
        found: list[Any] = [self._page, above]
        for at in range(place, place + self._layout.sizes[place]):
            each = self._one(at)
            if each is None:
                return None
            found.append(each)
        return tuple(found)

    def _holding(self, place: int) -> Signature | None:
        """Return the signature of the nodes around a part, up to the document; None as in `signature`."""
        if place not in self._above:
            strings = self._layout.strings
            name = strings[self._names[place]]
            outer = self._holding(self._layout.parents[place])
            if outer is None or name == "LABEL":
                self._above[place] = None
            else:
                # Whether a table is one of data is judged by all of it.
                rows = self._layout.sizes[place] if name == "TABLE" else 0
                attributes = tuple(strings[at] for at in self._attributes[place])
                self._above[place] = (outer, name, attributes, rows)
        return self._above[place]

    def _one(self, place: int) -> Signature | None:
        strings, kind = self._layout.strings, self._types[place]
        at = self._shown.get(place)
        looks: Signature = ()
        if at is not None:
            drawn = self._layout.drawn
            text = drawn["text"][at]
            looks = (strings[text] if text >= 0 else "", *(strings[style] for style in drawn["styles"][at]))
        value = self._values[place]
        node = self._layout.order[place]
        if kind != 1:
            known = kind in (3, 8)
            return (node, strings[value] if value >= 0 else "", looks) if known else None
        attributes = self._attributes[place]
        if strings[self._names[place]] not in _TELLING or self._depends(attributes):
            return None
        return (node, tuple(strings[each] for each in attributes), looks)

    def _depends(self, attributes: Sequence[int]) -> bool:
        strings = self._layout.strings
        for at in range(0, len(attributes) - 1, 2):
            if attributes[at] in self._bad:
                return True
            if attributes[at] in self._role and _CHOSEN & _words(strings[attributes[at + 1]].lower()):
                return True
        return False


SMALL, LARGE = 40, 400
"""The most nodes of a part that is taken as a whole: if it is partly in view, and if it is fully in view."""
MOST_PARTS = 200
"""The number of parts above which taking the whole tree costs no more."""
_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class ViewCapture:
    """The visible part of a page and its frames."""

    root: FrameCapture
    infos: dict[str, FrameInfo]
    views: dict[str, Box]
    """The visible part of each frame's document."""
    layouts: dict[str, DocumentLayout]

    def is_elsewhere(self, key: NodeKey) -> bool:
        """Return whether an element is on the page but out of view."""
        layout, view = self.layouts.get(key.frame), self.views.get(key.frame)
        box = None if layout is None else layout.boxes.get(key.node)
        return box is not None and (view is None or not is_seen(box, view))


async def capture_view(
    cdp: Cdp, frames: Frames, width: float, height: float, kept: KeptTrees
) -> ViewCapture | None:
    """Capture what is in view. Returns None if a full capture is needed. Raises `CdpError`."""
    infos, layouts = await frames.layouts()
    root = frames.outermost(infos)
    # What an element owns from afar lies in its part of the tree, wherever it is on the page.
    if root.id not in layouts or any("aria-owns" in layout.strings for layout in layouts.values()):
        return None
    captures: dict[str, FrameCapture] = {}
    views: dict[str, Box] = {root.id: (*layouts[root.id].scroll, width, height)}
    wanted: list[tuple[FrameInfo, list[int]]] = []
    owners = await frames.owners(infos, layouts)
    for info in infos.values():
        layout = layouts.get(info.id)
        if layout is None:
            continue
        captures[info.id] = capture = frames.captured(info, layout)
        if info.id != root.id:
            outer = captures.get(info.parent)
            owner = owners.get(info.id, 0)
            if outer is None or not owner:
                continue
            outer.children[owner] = capture
            around = views.get(info.parent, (0.0, 0.0, 0.0, 0.0))
            views[info.id] = view_inside(outer.boxes.get(owner), around, capture.scroll)
        wanted.append((info, parts(layout, views[info.id])))
    if sum(len(places) for _, places in wanted) > MOST_PARTS:
        return None
    trees = await asyncio.gather(
        *(_tree(cdp, info, layouts[info.id], places, kept) for info, places in wanted)
    )
    kept.forget_others()
    for (info, _), tree in zip(wanted, trees, strict=True):
        captures[info.id].nodes = tree
    return ViewCapture(captures[root.id], infos, views, layouts)


def parts(layout: DocumentLayout, view: Box) -> list[int]:
    """Return the indexes of nodes whose trees together cover the view, outer nodes before inner ones.

    A node whose tree is small enough is returned instead of the nodes in it.
    """
    parents, sizes, boxes = layout.parents, layout.sizes, layout.boxes
    left, top, width, height = view
    taken = bytearray(len(parents))
    found: list[int] = []
    for place, node in enumerate(layout.order):
        if parents[place] >= 0 and taken[parents[place]]:
            taken[place] = 1
            continue
        box = boxes.get(node)
        if box is None or not is_seen(box, view):
            continue
        x, y, wide, high = box
        is_inside = x >= left and y >= top and x + wide <= left + width and y + high <= top + height
        if sizes[place] <= (LARGE if is_inside else SMALL) or place in layout.wholes:
            taken[place] = 1
            found.append(place)
    return found


async def _tree(
    cdp: Cdp, info: FrameInfo, layout: DocumentLayout, parts: list[int], kept: KeptTrees
) -> list[dict[str, Any]]:
    """Return, by id, the accessibility nodes of the given parts of a frame and of their ancestors."""
    nodes: dict[str, dict[str, Any]] = {}
    document = layout.order[0]

    async def ask(method: str, backend: int) -> list[dict[str, Any]]:
        try:
            found = await cdp.call(f"Accessibility.{method}", {"backendNodeId": backend}, info.session)
        except CdpError:
            return []  # it has just gone, or has no place in the tree
        tree: list[dict[str, Any]] = []
        for node in found.get("nodes", []):
            if node.get("backendDOMNodeId") == document:
                # The node that contains a frame is known to the frame around it.
                tree.append({**node, "parentId": ""})
                if method == "getAXNodeAndAncestors":
                    break
            elif node.get("parentId"):  # what is not in the tree is answered with a node that nothing holds
                tree.append(_plain(node))
        return tree

    def take(found: Iterable[list[dict[str, Any]]]) -> None:
        for tree in found:
            nodes.update({node["nodeId"]: node for node in tree})

    known, asked = kept.reusable_trees(info, layout, parts)
    # What holds the first part in each parent holds the others there as well.
    firsts = {layout.parents[place]: layout.order[place] for place in reversed(parts)}
    found = await asyncio.gather(
        *(ask("getAXNodeAndAncestors", node) for node in firsts.values()),
        *(ask("queryAXTree", layout.order[place]) for place in asked),
    )
    asked_trees = zip(asked, found[len(firsts) :], strict=True)
    kept.keep(info, {layout.order[place]: tree for place, tree in asked_trees})
    take([*found, *known])
    for _ in range(_ROUNDS):
        lost = {
            node["parentId"]: node.get("backendDOMNodeId", 0)
            for node in nodes.values()
            if node.get("parentId") and node["parentId"] not in nodes
        }
        if not any(lost.values()):
            break
        take(await asyncio.gather(*(ask("getAXNodeAndAncestors", each) for each in lost.values() if each)))
    return list(nodes.values())


def _plain(node: dict[str, Any]) -> dict[str, Any]:
    """Return a node in the form of the full tree, in which ignored nodes have neither role nor name."""
    if not node.get("ignored"):
        return node
    kept = ("nodeId", "parentId", "childIds", "backendDOMNodeId", "ignored")
    return {name: node[name] for name in kept if name in node}
