"""Captures of frames, as data: the accessibility tree, and where its nodes lie. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_WHOLES = frozenset({"SELECT", "INPUT", "TEXTAREA", "BUTTON", "OBJECT", "CANVAS", "svg", "IMG"})

Box = tuple[float, float, float, float]
"""Left, top, width and height in pixels, from the beginning of the frame's document."""


@dataclass(slots=True, kw_only=True)
class FrameCapture:
    """One frame. `children` are frames by the node that holds them."""

    frame: str
    loader: str
    session: str
    url: str = ""
    nodes: list[dict[str, Any]] = field(default_factory=list)
    """Its accessibility nodes, as the protocol gives them."""
    children: dict[int, FrameCapture] = field(default_factory=dict)
    boxes: dict[int, Box] = field(default_factory=dict)
    clickable: frozenset[int] = frozenset()
    passwords: frozenset[int] = frozenset()
    scroll: tuple[float, float] = (0.0, 0.0)
    height: float = 0.0
    """Of the whole document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentLayout:
    """Where the nodes of one document lie, by backend node."""

    boxes: dict[int, Box]
    clickable: frozenset[int]
    passwords: frozenset[int]
    scroll: tuple[float, float]
    height: float
    url: str
    title: str
    order: list[int]
    """All nodes in the order of the document."""
    parents: list[int]
    """For each of them, the place of what holds it in that order; -1 for none."""
    wholes: frozenset[int]
    """Places of controls and drawings: what is in them belongs to them."""
    frames: dict[int, str]
    """Frames of the same process by the node that holds them."""


def is_seen(box: Box, view: Box) -> bool:
    """Whether a box touches the part of a document that is shown."""
    left, top, width, height = view
    x, y, wide, high = box
    touches = x < left + width and x + wide >= left and y < top + height and y + high >= top
    return touches and width > 0 and height > 0


def view_inside(box: Box | None, view: Box, scroll: tuple[float, float]) -> Box:
    """The part of a frame's document that is shown, by the box of the frame and what is shown around it."""
    if box is None:
        return (*scroll, 0.0, 0.0)
    left, top = max(box[0], view[0]), max(box[1], view[1])
    right = min(box[0] + box[2], view[0] + view[2])
    bottom = min(box[1] + box[3], view[1] + view[3])
    return (
        scroll[0] + left - box[0],
        scroll[1] + top - box[1],
        max(0.0, right - left),
        max(0.0, bottom - top),
    )


def layouts(snapshot: Mapping[str, Any]) -> dict[str, DocumentLayout]:
    """The documents of `DOMSnapshot.captureSnapshot`, asked with the style `cursor`, by frame."""
    strings: list[str] = snapshot.get("strings", [])
    documents = snapshot.get("documents", [])
    names = [_string(strings, document.get("frameId", -1)) for document in documents]
    return {name: _layout(document, strings, names) for name, document in zip(names, documents, strict=True)}


def _layout(document: Mapping[str, Any], strings: list[str], frames: list[str]) -> DocumentLayout:
    nodes, layout = document["nodes"], document["layout"]
    backend: list[int] = nodes["backendNodeId"]
    parents: list[int] = nodes["parentIndex"]
    boxes: dict[int, Box] = {}
    pointing: set[int] = set()
    for place, bounds, styles in zip(layout["nodeIndex"], layout["bounds"], layout["styles"], strict=False):
        left, top, width, height = bounds
        boxes[backend[place]] = (left, top, width, height)
        if styles and _string(strings, styles[0]) == "pointer":
            pointing.add(place)
    # The hand is inherited: the outermost element that shows it is the one that is meant.
    clickable = {backend[place] for place in pointing if parents[place] not in pointing}
    clickable |= {backend[place] for place in nodes.get("isClickable", {}).get("index", ())}
    types, names = nodes["nodeType"], nodes["nodeName"]
    wholes: set[int] = set()
    for place, name in enumerate(names):
        if types[place] != 1:
            continue
        tag = _string(strings, name)
        if tag in ("HTML", "BODY"):
            clickable.discard(backend[place])
        elif tag in _WHOLES:
            wholes.add(place)
    inner = nodes.get("contentDocumentIndex", {"index": (), "value": ()})
    return DocumentLayout(
        boxes=boxes,
        clickable=frozenset(clickable),
        passwords=frozenset(_passwords(nodes, strings)),
        scroll=(document.get("scrollOffsetX", 0.0), document.get("scrollOffsetY", 0.0)),
        height=document.get("contentHeight", 0.0),
        url=_string(strings, document.get("documentURL", -1)),
        title=_string(strings, document.get("title", -1)),
        order=backend,
        parents=parents,
        wholes=frozenset(wholes),
        frames={
            backend[place]: frames[value] for place, value in zip(inner["index"], inner["value"], strict=True)
        },
    )


def _passwords(nodes: Mapping[str, Any], strings: list[str]) -> Iterable[int]:
    for place, attributes in enumerate(nodes.get("attributes", ())):
        for at in range(0, len(attributes) - 1, 2):
            if _string(strings, attributes[at]) != "type":
                continue
            if _string(strings, attributes[at + 1]).strip().lower() == "password":
                yield nodes["backendNodeId"][place]


def _string(strings: list[str], place: int) -> str:
    return strings[place] if 0 <= place < len(strings) else ""
