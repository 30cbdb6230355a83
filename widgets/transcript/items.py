"""Items of a conversation, as data: what was said, thought, called and noticed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from tools.results import DiffDetail, Display, Outcome, TextDetail


class Fold(Enum):
    """How much of an item is shown."""

    CLOSED = "closed"
    PEEK = "peek"
    """It opened itself, and shows the first rows of what it holds."""
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class UserItem:
    """What the person said. `origin` is `prompt`, `queue` or `steer`."""

    text: str
    node: int = 0
    origin: str = "prompt"
    pictures: Sequence[str] = ()
    """The images that came with it, by what stands for them at `PictureShelf.load`."""


@dataclass(frozen=True, slots=True)
class ReasoningItem:
    """What the model thought aloud. `seconds` is None where nobody took the time."""

    text: str
    seconds: float | None = None
    live: bool = False


@dataclass(frozen=True, slots=True)
class AnswerItem:
    """What the model answered, in markdown."""

    text: str
    node: int = 0


@dataclass(frozen=True, slots=True)
class CallItem:
    """A tool call. `outcome` is None while it runs, `live` the end of what it has put out so far."""

    call: str
    tool: str
    display: Display
    arguments: Mapping[str, Any] = field(default_factory=dict)
    outcome: Outcome | None = None
    seconds: float = 0.0
    result: str = ""
    live: str = ""
    files: int = 0
    """Files it changed, which can be taken back."""


@dataclass(frozen=True, slots=True)
class NoticeItem:
    """Something that neither person nor model said; `kind` as in `agent.events.Noticed`, or `error`."""

    kind: str
    text: str
    detail: str = ""
    """What there is to open behind it, such as what the model reads after a compaction."""


@dataclass(frozen=True, slots=True)
class CutItem:
    """The mark behind a reply that broke off."""

    reason: str


Item = UserItem | ReasoningItem | AnswerItem | CallItem | NoticeItem | CutItem


def source_of(item: Item) -> str:
    """The words of an item: what is searched, and what copying takes. Not yet cleaned."""
    match item:
        case NoticeItem(text=text, detail=detail) if detail:
            return f"{text}\n\n{detail}"
        case NoticeItem(text=text) | UserItem(text=text) | ReasoningItem(text=text) | AnswerItem(text=text):
            return text
        case CutItem(reason=reason):
            return reason
        case CallItem():
            display = item.display
            head = " ".join(part for part in (display.verb, display.subject, display.summary) if part)
            return "\n".join(part for part in (head, arguments_text(item), detail_text(item)) if part)


def arguments_text(item: CallItem) -> str:
    """The arguments of a call, one `name  value` after the other."""
    return "\n".join(f"{name}  {value_text(value)}" for name, value in item.arguments.items())


def detail_text(item: CallItem) -> str:
    """What a call gave back, as text: its detail, else its result, else what it has put out so far."""
    match item.display.detail:
        case TextDetail(text=text) | DiffDetail(diff=text):
            return text
        case _:
            return item.result or item.live


def error_of(item: CallItem) -> str:
    """The sentence a failed call ended with, empty if it gave none."""
    if item.outcome in (None, "done"):
        return ""
    try:
        result = json.loads(item.result)
    except (ValueError, RecursionError):
        return item.result
    error = result.get("error") if isinstance(result, dict) else None
    return error if isinstance(error, str) else ""


def first_fold(item: Item) -> Fold:
    """How an item is shown before anybody touches it: failures, edits and pictures open themselves."""
    match item:
        case CallItem(outcome="failed" | "denied"):
            return Fold.PEEK
        case CallItem(outcome="done", display=Display(detail=DiffDetail())):
            return Fold.PEEK
        case CallItem(outcome="done", display=Display(picture=picture)) if picture:
            return Fold.PEEK
        case _:
            return Fold.CLOSED


def folds(item: Item) -> bool:
    """Whether there is something to open."""
    if isinstance(item, NoticeItem):
        return bool(item.detail)
    return isinstance(item, (UserItem, ReasoningItem, CallItem))


def value_text(value: Any) -> str:
    """The value of an argument as text: a text as it is, anything else as JSON."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        return "(nested too deeply to be shown)"
