"""Captures of frames, as data: the accessibility tree, and where its nodes lie. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

_WHOLES = frozenset({"SELECT", "INPUT", "TEXTAREA", "BUTTON", "OBJECT", "CANVAS", "svg", "IMG"})

STYLES = ("cursor", "visibility")
"""The computed styles that a layout is asked for with."""
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
    sizes: list[int]
    """For each of them, of how many nodes it and all that it holds are."""
    wholes: frozenset[int]
    """Places of controls and drawings: what is in them belongs to them."""
    frames: dict[int, str]
    """Frames of the same process by the node that holds them."""
    nodes: Mapping[str, Any]
    """What the browser said of the nodes, by place; texts are places in `strings`."""
    drawn: Mapping[str, Any]
    """What it said of those that have a box."""
    strings: list[str]


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
    """The documents of `DOMSnapshot.captureSnapshot`, asked with `STYLES`, by frame."""
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
    hand = _places(strings, "pointer")
    for place, bounds, styles in zip(layout["nodeIndex"], layout["bounds"], layout["styles"], strict=False):
        left, top, width, height = bounds
        boxes[backend[place]] = (left, top, width, height)
        if styles and styles[0] in hand:
            pointing.add(place)
    # The hand is inherited: the outermost element that shows it is the one that is meant.
    clickable = {backend[place] for place in pointing if parents[place] not in pointing}
    clickable |= {backend[place] for place in nodes.get("isClickable", {}).get("index", ())}
    names = nodes["nodeName"]
    whole, outer = _places(strings, *_WHOLES), _places(strings, "HTML", "BODY")
    clickable -= {backend[place] for place, name in enumerate(names) if name in outer}
    sizes = [1] * len(backend)
    for place in range(len(backend) - 1, 0, -1):
        if parents[place] >= 0:
            sizes[parents[place]] += sizes[place]
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
        sizes=sizes,
        wholes=frozenset(place for place, name in enumerate(names) if name in whole),
        frames={
            backend[place]: frames[value] for place, value in zip(inner["index"], inner["value"], strict=True)
        },
        nodes=nodes,
        drawn=layout,
        strings=strings,
    )


def _passwords(nodes: Mapping[str, Any], strings: list[str]) -> Iterable[int]:
    type_ = _places(strings, "type")
    secret = {place for place, each in enumerate(strings) if each.strip().lower() == "password"}
    if not type_ or not secret:
        return
    for place, attributes in enumerate(nodes.get("attributes", ())):
        for at in range(0, len(attributes) - 1, 2):
            if attributes[at] in type_ and attributes[at + 1] in secret:
                yield nodes["backendNodeId"][place]


def _places(strings: list[str], *wanted: str) -> frozenset[int]:
    """Where in the table of strings some stand."""
    return frozenset(strings.index(each) for each in wanted if each in strings)


def _string(strings: list[str], place: int) -> str:
    return strings[place] if 0 <= place < len(strings) else ""
