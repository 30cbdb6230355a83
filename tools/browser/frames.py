"""The frames of one tab: which session of the protocol each lives in, and what each shows.

A frame of another site runs in a process of its own and has a session of its own. Everything else is
asked of the session of the frame around it.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.browser.capture import STYLES, DocumentLayout, FrameCapture, layouts
from tools.browser.cdp import Cdp, CdpError

log = logging.getLogger(__name__)

WORLD = "hermes"
MOST_FRAMES = 60
"""Frames of one page that are read."""
_DOMAINS = ("Inspector", "Page", "DOM", "Accessibility", "Runtime", "Network")


@functools.cache
def library() -> str:
    """What is run in the world of ours in each frame."""
    return Path(__file__).with_name("in_page.js").read_text(encoding="utf-8")


@dataclass(frozen=True, slots=True)
class FrameInfo:
    """A frame as it is now."""

    id: str
    loader: str
    session: str
    parent: str
    url: str


class Frames:
    """The frames below the main session of a tab."""

    def __init__(self, cdp: Cdp, session: str) -> None:
        self._cdp = cdp
        self.main = session
        self._sessions: dict[str, str] = {}
        """Sessions of frames with a process of their own, with the session around each."""
        self._roots: dict[str, str] = {}
        """The frame that each of these sessions is for."""
        self._worlds: dict[tuple[str, str, str], int] = {}

    @property
    def sessions(self) -> tuple[str, ...]:
        return (self.main, *self._sessions)

    async def enable(self, session: str) -> None:
        """Have a session tell of what happens in it, and of frames below it. Raises `CdpError`."""
        attach = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}
        await asyncio.gather(
            *(self._cdp.call(f"{domain}.enable", {}, session) for domain in _DOMAINS),
            self._cdp.call("Target.setAutoAttach", attach, session),
        )

    def attached(self, session: str, frame: str, around: str) -> None:
        """A frame got a process of its own."""
        self._sessions[session] = around
        self._roots[session] = frame

    def detached(self, session: str) -> None:
        """A session is over."""
        self._sessions.pop(session, None)
        self._roots.pop(session, None)
        self._worlds = {key: world for key, world in self._worlds.items() if key[0] != session}

    def cleared(self, session: str) -> None:
        """The worlds of a session are gone."""
        self._worlds = {key: world for key, world in self._worlds.items() if key[0] != session}

    def around(self, session: str) -> str:
        """The session of the frames around a session's."""
        return self._sessions.get(session, self.main)

    def root(self, session: str) -> str:
        """The frame that a session is for; empty for the main one."""
        return self._roots.get(session, "")

    async def infos(self) -> dict[str, FrameInfo]:
        """All frames, outer ones first. Raises `CdpError`."""
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
        """What all frames show. Raises `CdpError`."""
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
        """All frames, and where their nodes lie. Raises `CdpError`."""
        infos, *snapshots = await asyncio.gather(self.infos(), *map(self._layout, self.sessions))
        found: dict[str, DocumentLayout] = {}
        for snapshot in snapshots:
            found |= layouts(snapshot)
        return infos, found

    def outermost(self, infos: Mapping[str, FrameInfo]) -> FrameInfo:
        """The frame around all others. Raises `CdpError`."""
        for info in infos.values():
            if info.session == self.main and not info.parent:
                return info
        raise CdpError("the tab shows no page")

    def captured(self, info: FrameInfo, layout: DocumentLayout | None) -> FrameCapture:
        """A capture of a frame that has its places, and no tree yet."""
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
        """The nodes that hold frames, by frame; 0 for one that is gone."""
        found = {frame: node for layout in layouts.values() for node, frame in layout.frames.items()}
        asked = [info for info in infos.values() if info.parent and info.id not in found]
        told = await asyncio.gather(*map(self.owner, asked))
        return found | {info.id: node for info, node in zip(asked, told, strict=True)}

    async def owner(self, info: FrameInfo) -> int:
        """The node that holds a frame, in the frame around it; 0 if it is gone."""
        around = self.around(info.session) if info.id == self.root(info.session) else info.session
        try:
            found = await self._cdp.call("DOM.getFrameOwner", {"frameId": info.id}, around)
        except CdpError:
            return 0
        return int(found.get("backendNodeId", 0))

    def owner_session(self, info: FrameInfo) -> str:
        """The session in which that node lives."""
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
        """Our world in a frame, made when first needed. Raises `CdpError`."""
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
        """Evaluate an expression in our world of a frame and wait for its value. Raises `CdpError`."""
        world = await self.world(session, frame, loader)
        done = await self._cdp.call(
            "Runtime.evaluate",
            {"expression": expression, "contextId": world, "awaitPromise": True, "returnByValue": True},
            session,
            patience,
        )
        return value_of(done)

    async def apply(self, session: str, object_id: str, function: str, *arguments: Any) -> Any:
        """Call a function of our library with an element first. Raises `CdpError`."""
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
        """A node as an object in our world. Raises `CdpError` if it is gone."""
        world = await self.world(session, frame, loader)
        found = await self._cdp.call(
            "DOM.resolveNode", {"backendNodeId": node, "executionContextId": world}, session
        )
        object_id = found.get("object", {}).get("objectId")
        if not object_id:
            raise CdpError("the element is gone")
        return str(object_id)


def value_of(done: dict[str, Any]) -> Any:
    """What an evaluation gave. Raises `CdpError` with the error of the page."""
    if "exceptionDetails" in done:
        details = done["exceptionDetails"]
        said = details.get("exception", {}).get("description") or details.get("text", "failed")
        raise CdpError(str(said).splitlines()[0][:300])
    return done.get("result", {}).get("value")


def ancestry(info: FrameInfo, infos: dict[str, FrameInfo]) -> Iterator[FrameInfo]:
    """A frame and those around it, without the outermost."""
    seen: set[str] = set()
    while info.parent and info.parent in infos and info.id not in seen:
        seen.add(info.id)
        yield info
        info = infos[info.parent]
