"""The edited text: cursor, selection, undo, and the editing commands of a shell.

Pure: no keys, no screen. The cursor is an offset in code points, always inside the text and between two
grapheme clusters.
"""

from __future__ import annotations

import unicodedata
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from widgets.prompt import grapheme_cells

TOKENS = range(0x100000, 0x10FFFE)
"""Code points that represent folded pastes: private use, so they have no meaning in other texts."""

UNDO_STEPS = 500
_JOINER = "\u200d"

Span = tuple[int, int]
"""A row or line: the offsets of its start and its end."""

EditKind = Literal["type", "delete", "kill", "other"]


@dataclass(frozen=True, slots=True)
class _Edit:
    """One replacement, with the data to undo it."""

    start: int
    removed: str
    inserted: str
    before: int
    after: int


class Buffer:
    """A text with a cursor.

    Consecutive edits of one kind are undone together: a typed word with the blank before it, a run of
    deletions. The last killed text can be yanked; consecutive kills are joined.
    """

    def __init__(self, text: str = "") -> None:
        self._text = text
        self._cursor = len(text)
        self._anchor: int | None = None
        self.goal: int | None = None
        """The column, in cells, that moving through rows tries to keep."""
        self._done: deque[list[_Edit]] = deque(maxlen=UNDO_STEPS)
        self._undone: list[list[_Edit]] = []
        self._last: EditKind | None = None
        self.killed = ""
        """The text that `yank` inserts."""

    # State

    @property
    def text(self) -> str:
        return self._text

    @property
    def cursor(self) -> int:
        return self._cursor

    @property
    def selection(self) -> Span | None:
        """The selected span in text order, or None."""
        if self._anchor is None or self._anchor == self._cursor:
            return None
        return min(self._anchor, self._cursor), max(self._anchor, self._cursor)

    @property
    def selected(self) -> str:
        start, end = self.selection or (0, 0)
        return self._text[start:end]

    def line_start(self) -> int:
        return self._text.rfind("\n", 0, self._cursor) + 1

    def line_end(self) -> int:
        end = self._text.find("\n", self._cursor)
        return len(self._text) if end < 0 else end

    def lines(self) -> list[Span]:
        """Return the spans of the lines between line feeds."""
        found: list[Span] = []
        start = 0
        for line in self._text.split("\n"):
            found.append((start, start + len(line)))
            start += len(line) + 1
        return found

    # Moving

    def move(self, to: int, *, select: bool = False) -> None:
        """Move the cursor to an offset; with `select`, the other end of the selection stays."""
        if not select:
            self._anchor = None
        elif self._anchor is None:
            self._anchor = self._cursor
        self._cursor = grapheme_cells.clamp(self._text, to)
        self.goal = None
        self._last = None

    def move_rows(
        self,
        count: int,
        rows: Sequence[Span] | None = None,
        width: Callable[[str], int] = grapheme_cells.width,
        *,
        select: bool = False,
    ) -> bool:
        """Move the cursor `count` rows down (up if negative), keeping its column if possible.

        `rows` are the displayed rows, by default the lines of the text. Return False, without moving, if
        there is no such row.
        """
        rows = rows or self.lines()
        here = next(at for at in range(len(rows) - 1, -1, -1) if rows[at][0] <= self._cursor)
        target = here + count
        if not 0 <= target < len(rows):
            return False
        goal = self.goal
        if goal is None:
            goal = width(self._text[rows[here][0] : self._cursor])
        start, end = rows[target]
        continued = target + 1 < len(rows) and rows[target + 1][0] == end
        to, column = start, 0
        last = grapheme_cells.offset_before(self._text, end) if continued else end
        while to < last:
            following = grapheme_cells.offset_after(self._text, to)
            column += width(self._text[to:following])
            if column > goal:
                break
            to = following
        self.move(to, select=select)
        self.goal = goal
        return True

    def next_character(self) -> int:
        return grapheme_cells.offset_after(self._text, self._cursor)

    def previous_character(self) -> int:
        return grapheme_cells.offset_before(self._text, self._cursor)

    def next_word(self) -> int:
        """Return the end of the word at or after the cursor."""
        at = self._cursor
        while at < len(self._text) and not (_is_word(self._text[at]) or is_token(self._text[at])):
            at += 1
        if at < len(self._text) and is_token(self._text[at]):
            return at + 1
        while at < len(self._text) and _is_word(self._text[at]):
            at += 1
        return at

    def previous_word(self) -> int:
        """Return the start of the word at or before the cursor."""
        at = self._cursor
        while at > 0 and not (_is_word(self._text[at - 1]) or is_token(self._text[at - 1])):
            at -= 1
        if at > 0 and is_token(self._text[at - 1]):
            return at - 1
        while at > 0 and _is_word(self._text[at - 1]):
            at -= 1
        return at

    def previous_blank(self) -> int:
        """Return the start of the run of non-blank characters at or before the cursor."""
        at = self._cursor
        while at > 0 and self._text[at - 1].isspace():
            at -= 1
        while at > 0 and not self._text[at - 1].isspace():
            at -= 1
        return at

    # Editing

    def insert(self, text: str) -> None:
        """Insert `text` at the cursor, replacing the selection if there is one."""
        start, end = self.selection or (self._cursor, self._cursor)
        self.replace(start, end, text, "type" if len(text) == 1 and start == end else "other")

    def replace(self, start: int, end: int, text: str, kind: EditKind = "other") -> None:
        """Replace a span with `text` and put the cursor after it."""
        removed = self._text[start:end]
        if removed == text == "":
            return
        edit = _Edit(start, removed, text, self._cursor, start + len(text))
        if self._joins(edit, kind):
            self._done[-1].append(edit)
        else:
            self._done.append([edit])
        self._undone.clear()
        self._text = self._text[:start] + text + self._text[end:]
        self.move(edit.after)
        if text.endswith(_JOINER):
            # The next key brings the joined character; until then the joiner belongs to the text before it.
            self._cursor = edit.after
        self._last = kind

    def delete(self, to: int) -> None:
        """Delete the selection, or the text between the cursor and `to`."""
        start, end = self.selection or (min(self._cursor, to), max(self._cursor, to))
        self.replace(start, end, "", "delete")

    def kill(self, to: int) -> None:
        """Delete the selection, or the text up to `to`, and keep it for `yank`. Consecutive kills join."""
        start, end = self.selection or (min(self._cursor, to), max(self._cursor, to))
        text = self._text[start:end]
        if not text:
            return
        joins = self._last == "kill"
        if joins and start < self._cursor:
            self.killed = text + self.killed
        else:
            self.killed = self.killed + text if joins else text
        self.replace(start, end, "", "kill")

    def kill_to_line_end(self) -> None:
        """Kill the rest of the line, or its line feed if the cursor is at its end."""
        end = self.line_end()
        self.kill(end if end > self._cursor else self.next_character())

    def kill_to_line_start(self) -> None:
        """Kill the line up to the cursor, or the line feed before it if the cursor is at its start."""
        start = self.line_start()
        self.kill(start if start < self._cursor else self.previous_character())

    def yank(self) -> None:
        """Insert the last killed text."""
        start, end = self.selection or (self._cursor, self._cursor)
        self.replace(start, end, self.killed)

    def undo(self) -> bool:
        """Undo the last group of edits; return False if there is none."""
        if not self._done:
            return False
        group = self._done.pop()
        text = self._text
        for edit in reversed(group):
            text = text[: edit.start] + edit.removed + text[edit.start + len(edit.inserted) :]
        self._undone.append(group)
        self._text = text
        self.move(group[0].before)
        return True

    def redo(self) -> bool:
        """Redo the last undone group; return False if there is none."""
        if not self._undone:
            return False
        group = self._undone.pop()
        text = self._text
        for edit in group:
            text = text[: edit.start] + edit.inserted + text[edit.start + len(edit.removed) :]
        self._done.append(group)
        self._text = text
        self.move(group[-1].after)
        return True

    def _joins(self, edit: _Edit, kind: EditKind) -> bool:
        if kind == "other" or kind != self._last or not self._done:
            return False
        if self._done[-1][-1].after != edit.before:
            return False
        if kind == "type":
            begins_word = self._text[edit.start - 1 : edit.start].isspace()
            return edit.inserted.isspace() or not begins_word
        return True


def is_token(character: str) -> bool:
    """Return whether a code point represents a folded paste."""
    return ord(character) in TOKENS


def without_tokens(text: str) -> str:
    """Return outside text with code points reserved for pastes replaced by the replacement character."""
    if text.isascii() or not any(is_token(character) for character in set(text)):
        return text
    return "".join("\ufffd" if is_token(character) else character for character in text)


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_" or unicodedata.category(character)[0] == "M"
