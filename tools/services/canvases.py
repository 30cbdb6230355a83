"""Canvases: pictures and small pages that an agent shows next to the conversation.

A canvas has a name and versions; its content is in a private file in Hermes's home folder, named by its hash.
The versions are read from the call results in the conversation, like the task list.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast, get_args

from tools.services.service import Service

CanvasKind = Literal["html", "svg", "image"]
KINDS: tuple[CanvasKind, ...] = get_args(CanvasKind)
ENDINGS: Mapping[CanvasKind, str] = {"html": ".html", "svg": ".svg", "image": ".png"}
"""File endings of each kind, for files the user may open."""


@dataclass(frozen=True, slots=True)
class CanvasVersion:
    """One state of a canvas."""

    version: int
    """The number, from 1."""
    title: str
    kind: CanvasKind
    sha256: str
    """The hash of the shown document."""
    size: int
    """Its size in bytes."""
    words: str = ""
    """A description for people who cannot see it."""


@dataclass(frozen=True, slots=True)
class Canvas:
    """A canvas and its versions, oldest first; the last is shown."""

    name: str
    versions: tuple[CanvasVersion, ...]


class CanvasBoard(Service, ABC):
    """The canvases of one agent."""

    @abstractmethod
    def canvases(self) -> tuple[Canvas, ...]:
        """Return the canvases that are shown, the most recently changed one last."""

    @abstractmethod
    async def show(self, name: str, title: str, kind: CanvasKind, content: bytes, words: str) -> Canvas:
        """Add a version to the canvas `name` and return the canvas. Raises `ToolError`."""

    @abstractmethod
    async def read(self, version: CanvasVersion) -> bytes:
        """Return the content of a version. Raises `ToolError` if it is gone."""

    @abstractmethod
    def undo(self, name: str) -> Canvas:
        """Show the previous version of a canvas again, or close it if there is none. Raises `ToolError`."""

    @abstractmethod
    def close(self, name: str) -> None:
        """Stop showing a canvas. Raises `ToolError`."""


def result_of(canvas: Canvas) -> dict[str, Any]:
    """Return the result of a call, from which `canvases_of` restores the canvas."""
    if not canvas.versions:
        return {"canvas": canvas.name, "version": 0, "note": "It is no longer shown."}
    last = canvas.versions[-1]
    return {"canvas": canvas.name, **asdict(last)}


def canvases_of(results: Iterable[str]) -> tuple[Canvas, ...]:
    """Return the canvases that result from these call results (JSON, oldest first). Pure."""
    found: dict[str, tuple[CanvasVersion, ...]] = {}
    for text in results:
        try:
            told = json.loads(text)
            name, number = told["canvas"], told["version"]
            versions = tuple(each for each in found.pop(name, ()) if each.version < number)
            if number:
                found[name] = (*versions, _version(told))
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
    return tuple(Canvas(name, versions) for name, versions in found.items())


def changed_canvases(before: Sequence[Canvas], after: Sequence[Canvas]) -> tuple[Canvas, ...]:
    """Return the canvases of `after` that differ from `before`, and removed ones without versions."""
    known = {each.name: each for each in before}
    names = {each.name for each in after}
    gone = tuple(Canvas(name, ()) for name in known if name not in names)
    return (*gone, *(each for each in after if known.get(each.name) != each))


def _version(told: Mapping[str, Any]) -> CanvasVersion:
    kind, digest = told["kind"], told["sha256"]
    if kind not in KINDS or len(digest) != 64:
        raise ValueError(kind)
    return CanvasVersion(
        int(told["version"]),
        str(told["title"]),
        cast("CanvasKind", kind),
        str(digest),
        int(told["size"]),
        str(told.get("words", "")),
    )
