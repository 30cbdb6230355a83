"""Parts an item is drawn from, each drawn once and kept."""

from __future__ import annotations

from collections.abc import Iterator

from tools.text.safe_text import clean
from widgets.transcript.blocks import split
from widgets.transcript.cards import call_parts
from widgets.transcript.items import (
    AnswerItem,
    CallItem,
    CutItem,
    Fold,
    Item,
    NoticeItem,
    ReasoningItem,
    UserItem,
)
from widgets.transcript.part_types import GAP, MarkupPart, Part, PicturePart, WordsPart, chunks

USER_ROWS = 20
"""Rows of a message of the person that are shown before it is unfolded."""

MOST_BEHIND = 60_000
"""Characters behind a notice that are shown where it stands."""

_NOTICE_ROLES = {"warning": "warning", "recovery": "warning", "store": "warning", "error": "error"}
_ORIGINS = {"steer": "steered"}


def parts_of(item: Item, fold: Fold) -> list[Part]:
    """The parts of an item, top to bottom. An empty answer has none."""
    match item:
        case UserItem():
            return _user(item, fold)
        case ReasoningItem():
            return _reasoning(item, fold)
        case AnswerItem(text=text):
            return spaced([MarkupPart(block) for block in split(clean(text))])
        case CallItem():
            return call_parts(item, fold)
        case NoticeItem(detail=detail) if detail:
            return _opening(item, fold)
        case NoticeItem(kind=kind, text=text):
            role = _NOTICE_ROLES.get(kind, "dim")
            if kind == "error":
                return list(_long(clean(text), role, "✗"))
            return [
                WordsPart(piece, role, glyph="┊", glyph_role=role, every_row=True)
                for piece in chunks(clean(text))
            ]
        case CutItem(reason=reason):
            said = clean(reason).strip()
            text = f"The reply broke off: {said}" if said else "The reply broke off."
            return list(_long(text, "warning", "■"))


def gap_between(before: Item | None, item: Item) -> bool:
    """Whether an empty row stands between two items. Cards of calls and runs of notices stand together."""
    if before is None:
        return False
    return not (type(before) is type(item) and isinstance(item, (CallItem, NoticeItem)))


def spaced(parts: list[Part]) -> list[Part]:
    """Blocks of markdown with an empty row between them."""
    done: list[Part] = []
    for part in parts:
        if done:
            done.append(GAP)
        done.append(part)
    return done


def _user(item: UserItem, fold: Fold) -> list[Part]:
    text = clean(item.text).strip("\n")
    right = _ORIGINS.get(item.origin, "")
    pictures = [PicturePart(source) for source in item.pictures]
    if fold is Fold.CLOSED:
        said = WordsPart(text, "user", glyph="❯", glyph_role="user", right=right, rows=USER_ROWS)
        return [said, *pictures]
    return [*_long(text, "user", "❯", right), *pictures]


def _reasoning(item: ReasoningItem, fold: Fold) -> list[Part]:
    closed = fold is Fold.CLOSED
    title = WordsPart(_thought(item), "dim", glyph="▸" if closed else "▾", glyph_role="dim")
    if closed:
        return [title]
    return [title, *_long(clean(item.text).strip("\n"), "reasoning")]


def _opening(item: NoticeItem, fold: Fold) -> list[Part]:
    """A notice with something behind it, bounded: all of it is shown where it is opened in full."""
    closed = fold is Fold.CLOSED
    role = _NOTICE_ROLES.get(item.kind, "dim")
    title = WordsPart(clean(item.text), role, glyph="▸" if closed else "▾", glyph_role=role)
    if closed:
        return [title]
    shown = clean(item.detail[:MOST_BEHIND]).strip("\n")
    if (more := len(item.detail) - MOST_BEHIND) > 0:
        shown += f"\n… {more:,} more characters; opened in full, all of it is there"
    return [title, *_long(shown, "dim")]


def _thought(item: ReasoningItem) -> str:
    if item.live:
        return f"Thinking … {item.seconds:.0f} s" if item.seconds else "Thinking …"
    if item.seconds is not None:
        return f"Thought for {item.seconds:.0f} s" if item.seconds >= 1 else "Thought for a moment"
    words = len(item.text.split())
    return f"Thought · {words:,} {'word' if words == 1 else 'words'}"


def _long(text: str, role: str, glyph: str = "", right: str = "") -> Iterator[Part]:
    """Long text in parts, so that no more of it is wrapped than is seen."""
    for piece in chunks(text):
        yield WordsPart(piece, role, glyph=glyph, glyph_role=role, right=right)
        glyph = right = ""
