"""Captures of what is in view only: after an action nothing else of a page is told.

Writing down the accessibility tree of a whole page takes a browser hundreds of milliseconds. Where things lie
it says at once, and so only the parts of the tree that are in view are asked for, in one go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tools.browser.capture import Box, DocumentLayout, FrameCapture, is_seen, view_inside
from tools.browser.cdp import Cdp, CdpError
from tools.browser.frames import FrameInfo, Frames
from tools.browser.kept_trees import KeptTrees
from tools.browser.refs import NodeKey

SMALL, LARGE = 40, 400
"""Nodes of a part that is taken whole where some of it is in view, and where all of it is."""
MOST_PARTS = 200
"""With more parts in view, the whole tree is no dearer."""
_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class ViewCapture:
    """What is in view of a page and its frames."""

    root: FrameCapture
    infos: dict[str, FrameInfo]
    views: dict[str, Box]
    """The part of each frame's document that is shown."""
    layouts: dict[str, DocumentLayout]

    def is_elsewhere(self, key: NodeKey) -> bool:
        """Whether an element is on the page, though out of view."""
        layout, view = self.layouts.get(key.frame), self.views.get(key.frame)
        box = None if layout is None else layout.boxes.get(key.node)
        return box is not None and (view is None or not is_seen(box, view))


async def capture_view(
    cdp: Cdp, frames: Frames, width: float, height: float, kept: KeptTrees
) -> ViewCapture | None:
    """What is in view; None where only a capture of everything tells. Raises `CdpError`."""
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
    """Places of the nodes whose trees together hold all that is in view, outermost where small. Pure."""
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
    """The accessibility nodes of these parts of a frame, with all that holds them."""
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
                # What holds a frame is told by the frame around it.
                tree.append({**node, "parentId": ""})
                if method == "getAXNodeAndAncestors":
                    break
            elif node.get("parentId"):  # what is not in the tree is answered with a node that nothing holds
                tree.append(_plain(node))
        return tree

    def take(found: Iterable[list[dict[str, Any]]]) -> None:
        for tree in found:
            nodes.update({node["nodeId"]: node for node in tree})

    known, asked = kept.known(info, layout, parts)
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
    """A node as the whole tree has it: of what is ignored there is neither role nor name."""
    if not node.get("ignored"):
        return node
    kept = ("nodeId", "parentId", "childIds", "backendDOMNodeId", "ignored")
    return {name: node[name] for name in kept if name in node}
