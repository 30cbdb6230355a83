"""The conversation as the model receives it, independent of any provider; also the approval modes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, cast

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call that the model requested. `arguments` is JSON text, exactly as it will be sent back."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Attachment:
    """An image attached to a user message; its bytes are in the home folder in a file named by their hash.

    `name` and `mention` contain no control characters. `mention` is the text that refers to it in the
    message, such as `@shots/chart.png`; it may be empty.
    """

    name: str
    media_type: str
    size: int
    """The size in bytes."""
    sha256: str
    mention: str = ""


@dataclass(frozen=True, slots=True)
class Image:
    """An image of a message. `data` is empty before it is loaded, and if its file is missing or changed."""

    attachment: Attachment
    data: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class SealedPart:
    """A part of a reply that only its provider can read, such as signed or encrypted reasoning.

    `data` is the text of a JSON object in ASCII, sent back byte for byte. `text` and `calls` give its
    position: the number of characters and of tool calls that come before it.
    """

    data: str
    text: int = 0
    calls: int = 0


@dataclass(frozen=True, slots=True)
class Sealed:
    """Those parts of one reply that only its provider can read."""

    format: str
    """The name of the provider's wire format."""
    prefix: str
    """The SHA-256 of the model's input when it wrote the parts; empty if that does not matter."""
    parts: tuple[SealedPart, ...]


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a request.

    `reasoning` is stored for display and export; what a provider needs back is in `sealed`. In a tool
    message, `call_id` is the id of the call that it answers, and `name` is the tool, if known; the name is
    sent only in tool modes without ids. Only user messages have `images`. `model` is the label of the model
    that wrote the message, if known.
    """

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    reasoning: str = ""
    name: str = ""
    images: tuple[Image, ...] = ()
    model: str = ""
    sealed: Sealed | None = None


Mode = Literal["careful", "normal", "plan", "yolo", "deny"]
"""`careful` asks about each effect. `normal` allows effects that stay inside the workspace and can be undone,
and asks about the rest. `plan` only reads: every effect is denied. `yolo` allows everything that is not
forbidden. `deny` only reads, and never asks."""

ModeName = Literal["ask", "deny", "all", "careful", "normal", "auto-edit", "plan", "yolo"]
"""The names that users may write; `ask` and `auto-edit` are older names of `normal`, `all` of `yolo`."""

MODES: tuple[Mode, ...] = ("careful", "normal", "plan", "yolo", "deny")
NAMES: tuple[ModeName, ...] = ("ask", "deny", "all", "careful", "normal", "auto-edit", "plan", "yolo")
CYCLE: tuple[Mode, ...] = ("careful", "normal", "plan")
"""The modes that the mode key cycles through; `yolo` and `deny` must be chosen by name."""

_OLD: dict[str, str] = {"ask": "normal", "auto-edit": "normal", "all": "yolo"}
_STRICTNESS: tuple[Mode, ...] = ("yolo", "normal", "careful", "deny", "plan")

SUMMARIES: dict[Mode, str] = {
    "careful": "asks about each effect",
    "normal": "what stays inside the workspace and undo brings back passes, the rest is asked",
    "plan": "reads only; every effect is denied",
    "yolo": "everything passes that nothing forbids",
    "deny": "reads only; every effect is denied without asking",
}


def canonical(name: str) -> Mode:
    """Return the mode that `name` or an older name means. Raises `ValueError` for any other name."""
    mode = _OLD.get(name, name)
    if mode not in MODES:
        raise ValueError(f"there is no mode {name!r}; modes are {', '.join(MODES)}")
    return cast("Mode", mode)


def stricter(one: Mode, other: Mode) -> Mode:
    """Return the stricter of two modes."""
    return one if _STRICTNESS.index(one) >= _STRICTNESS.index(other) else other


def following(mode: Mode) -> Mode:
    """Return the mode that the mode key selects after `mode`; `normal` for a mode outside of its cycle."""
    return CYCLE[(CYCLE.index(mode) + 1) % len(CYCLE)] if mode in CYCLE else "normal"
