"""Captures of frames, as data: the accessibility tree, and where its nodes lie. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

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


@dataclass(frozen=True, slots=True)
class DocumentLayout:
    """Where the nodes of one document lie, by backend node."""

    boxes: dict[int, Box]
    clickable: frozenset[int]
    passwords: frozenset[int]
    scroll: tuple[float, float]
    height: float


def layouts(snapshot: Mapping[str, Any]) -> dict[str, DocumentLayout]:
    """The documents of `DOMSnapshot.captureSnapshot`, asked with the style `cursor`, by frame."""
    strings: list[str] = snapshot.get("strings", [])
    return {
        _string(strings, document.get("frameId", -1)): _layout(document, strings)
        for document in snapshot.get("documents", [])
    }


def _layout(document: Mapping[str, Any], strings: list[str]) -> DocumentLayout:
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
    for place in range(len(backend)):
        if types[place] == 1 and _string(strings, names[place]) in ("HTML", "BODY"):
            clickable.discard(backend[place])
    return DocumentLayout(
        boxes,
        frozenset(clickable),
        frozenset(_passwords(nodes, strings)),
        (document.get("scrollOffsetX", 0.0), document.get("scrollOffsetY", 0.0)),
        document.get("contentHeight", 0.0),
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
