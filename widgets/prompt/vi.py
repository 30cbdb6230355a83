"""Vi keys for the prompt: normal and insert mode, counts, operators on motions.

`Vi` is a state machine over keys; it edits a buffer and is independent of a screen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from widgets.prompt import grapheme_cells
from widgets.prompt.buffer import Buffer, is_token

Mode = Literal["normal", "insert"]

MOST = 9_999
"""The maximum count; a larger one would only be a typing error."""


class _Reach(NamedTuple):
    """The target of a motion. Operators use whole lines if `whole`, and include it if `inclusive`."""

    to: int
    whole: bool = False
    inclusive: bool = False


_NAMES = {
    "dollar_sign": "$",
    "circumflex_accent": "^",
    "left": "h",
    "right": "l",
    "up": "k",
    "down": "j",
    "home": "0",
    "end": "$",
    "backspace": "h",
    "delete": "x",
}


class Vi:
    """The state between keys: mode, count, operator, and yanked text."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.mode: Mode = "insert"
        self._count = ""
        self._operator = ""
        self._operator_count = 1
        self._prefix = ""
        self._whole = False

    @property
    def pending(self) -> str:
        """The typed part of an unfinished command, such as `2d`."""
        shown = str(self._operator_count) if self._operator_count > 1 else ""
        return shown + self._operator + self._count + self._prefix

    def escape(self) -> bool:
        """Leave insert mode or drop an unfinished command; return False if there was neither."""
        if self.mode == "insert":
            self.mode = "normal"
            buffer = self.buffer
            if buffer.cursor > buffer.line_start():
                buffer.move(buffer.previous_character())
            return True
        unfinished = bool(self.pending)
        self._reset()
        return unfinished

    def key(self, key: str) -> bool:
        """Handle a key of normal mode; return False in insert mode, and for a named key without a meaning."""
        if self.mode == "insert":
            return False
        key = _NAMES.get(key, key)
        if key.isdecimal() and key.isascii() and (key != "0" or self._count):
            self._count = str(min(int(self._count + key), MOST))
            return True
        if key == "g" and not self._prefix:
            self._prefix = "g"
            return True
        if self._prefix:
            key, self._prefix = self._prefix + key, ""
        known = self._command(key)
        if not known:
            self._reset()
        self._keep_on_line()
        return known or len(key) == 1

    def _command(self, key: str) -> bool:
        counted = bool(self._count)
        count = int(self._count or 1) * self._operator_count
        if key in ("d", "c", "y") and not self._operator:
            self._operator, self._operator_count, self._count = key, count, ""
            return True
        if self._operator:
            explicit = counted or self._operator_count > 1
            operator = self._operator
            self._reset()
            return self._operate(operator, key, count, explicit)
        self._reset()
        if reach := self._reach(key, count, counted):
            if key in "jk":
                self._rows(count if key == "j" else -count)
            else:
                self.buffer.move(reach.to)
            return True
        action = self._actions().get(key)
        if action is not None:
            action(count)
        return action is not None

    def _actions(self) -> dict[str, Callable[[int], None]]:
        return {
            "i": lambda _: self._insert_at(self.buffer.cursor),
            "a": lambda _: self._insert_at(self._position_right(1)),
            "I": lambda _: self._insert_at(self._first_of_line()),
            "A": lambda _: self._insert_at(self.buffer.line_end()),
            "o": lambda _: self._open(self.buffer.line_end(), below=True),
            "O": lambda _: self._open(self.buffer.line_start(), below=False),
            "x": lambda count: self._cut(self.buffer.cursor, self._position_right(count)),
            "D": lambda _: self._cut(self.buffer.cursor, self.buffer.line_end()),
            "C": lambda _: self._change(self.buffer.cursor, self.buffer.line_end()),
            "p": lambda count: self._paste(count, behind=True),
            "P": lambda count: self._paste(count, behind=False),
            "u": lambda count: self._repeat(self.buffer.undo, count),
            "ctrl+r": lambda count: self._repeat(self.buffer.redo, count),
        }

    # Motions

    def _reach(self, key: str, count: int, counted: bool) -> _Reach | None:
        buffer = self.buffer
        if key in ("w", "b", "e"):
            to = buffer.cursor
            for _ in range(count):
                following = _WORDS[key](buffer.text, to)
                if following == to:
                    break
                to = following
            return _Reach(to, inclusive=key == "e")
        if key in ("gg", "G"):
            lines = buffer.lines()
            line = count - 1 if counted else (0 if key == "gg" else len(lines) - 1)
            start, end = lines[min(line, len(lines) - 1)]
            return _Reach(_first_of(buffer.text, start, end), whole=True)
        plain: dict[str, Callable[[], _Reach]] = {
            "h": lambda: _Reach(self._position_left(count)),
            "l": lambda: _Reach(self._position_right(count)),
            "0": lambda: _Reach(buffer.line_start()),
            "^": lambda: _Reach(self._first_of_line()),
            "$": lambda: _Reach(self._end_of_line(count)),
            "j": lambda: _Reach(self._other_line(count), whole=True),
            "k": lambda: _Reach(self._other_line(-count), whole=True),
        }
        return plain[key]() if key in plain else None

    def _position_left(self, count: int) -> int:
        at, start = self.buffer.cursor, self.buffer.line_start()
        for _ in range(min(count, at - start)):
            at = grapheme_cells.offset_before(self.buffer.text, at)
        return max(at, start)

    def _position_right(self, count: int) -> int:
        at, end = self.buffer.cursor, self.buffer.line_end()
        for _ in range(min(count, end - at)):
            at = grapheme_cells.offset_after(self.buffer.text, at)
        return min(at, end)

    def _first_of_line(self) -> int:
        return _first_of(self.buffer.text, self.buffer.line_start(), self.buffer.line_end())

    def _line(self) -> int:
        return self.buffer.text.count("\n", 0, self.buffer.cursor)

    def _end_of_line(self, count: int) -> int:
        lines = self.buffer.lines()
        return lines[min(self._line() + count - 1, len(lines) - 1)][1]

    def _other_line(self, count: int) -> int:
        lines = self.buffer.lines()
        target = self._line() + count
        return lines[target][0] if 0 <= target < len(lines) else -1

    def _rows(self, count: int) -> None:
        """Move the cursor by `count` lines, at most to the first or the last one."""
        last = len(self.buffer.lines()) - 1
        room = last - self._line() if count > 0 else self._line()
        step = min(count, room) if count > 0 else max(count, -room)
        if step:
            self.buffer.move_rows(step)

    # Operators

    def _operate(self, operator: str, key: str, count: int, counted: bool) -> bool:
        buffer = self.buffer
        if key == operator:
            self._operate_lines(operator, self._line(), self._line() + count - 1)
            return True
        at = buffer.cursor
        on_word = at < len(buffer.text) and not buffer.text[at].isspace()
        if operator == "c" and key == "w" and on_word:
            # `cw` leaves the blank behind the word, as vi always did.
            to = at
            for turn in range(count):
                to = _run_end(buffer.text, to) if turn == 0 else _word_end(buffer.text, to - 1) + 1
            self._apply(
                operator, at, min(max(to, grapheme_cells.offset_after(buffer.text, at)), len(buffer.text))
            )
            return True
        reach = self._reach(key, count, counted)
        if reach is None:
            return False
        if reach.to < 0:
            return True
        if reach.whole:
            other = buffer.text.count("\n", 0, reach.to)
            self._operate_lines(operator, *sorted((self._line(), other)))
            return True
        start, end = min(at, reach.to), max(at, reach.to)
        if reach.inclusive:
            end = grapheme_cells.offset_after(buffer.text, end)
        elif key == "w" and "\n" in buffer.text[start:end] and count == 1:
            # The last word of a line is taken without its line feed.
            end = buffer.line_end()
        self._apply(operator, start, end)
        return True

    def _apply(self, operator: str, start: int, end: int) -> None:
        if operator == "d":
            self._cut(start, end)
        elif operator == "c":
            self._change(start, end)
        else:
            self._keep(self.buffer.text[start:end])
            self.buffer.move(start)

    def _operate_lines(self, operator: str, first: int, last: int) -> None:
        buffer = self.buffer
        lines = buffer.lines()
        last = min(last, len(lines) - 1)
        start, end = lines[first][0], lines[last][1]
        self._keep(buffer.text[start:end], whole=True)
        if operator == "y":
            buffer.move(min(start, buffer.cursor))
            return
        if operator == "c":
            buffer.replace(start, end, "")
            self.mode = "insert"
            return
        if last + 1 < len(lines):
            end += 1
        elif start > 0:
            start -= 1
        buffer.replace(start, end, "")
        buffer.move(self._first_of_line())

    def _keep(self, text: str, *, whole: bool = False) -> None:
        self.buffer.killed, self._whole = text, whole

    def _cut(self, start: int, end: int) -> None:
        if end > start:
            self._keep(self.buffer.text[start:end])
            self.buffer.replace(start, end, "")

    def _change(self, start: int, end: int) -> None:
        self._cut(start, end)
        self.mode = "insert"

    # Inserting

    def _insert_at(self, to: int) -> None:
        self.buffer.move(to)
        self.mode = "insert"

    def _open(self, at: int, *, below: bool) -> None:
        self.buffer.replace(at, at, "\n")
        self._insert_at(at + 1 if below else at)

    def _paste(self, count: int, *, behind: bool) -> None:
        buffer = self.buffer
        text = buffer.killed * count
        if not text and not self._whole:
            return
        if self._whole:
            block = "\n".join([buffer.killed] * count)
            at = buffer.line_end() if behind else buffer.line_start()
            buffer.replace(at, at, "\n" + block if behind else block + "\n")
            start = at + 1 if behind else at
            end = buffer.text.find("\n", start)
            buffer.move(_first_of(buffer.text, start, len(buffer.text) if end < 0 else end))
            return
        at = self._position_right(1) if behind else buffer.cursor
        buffer.replace(at, at, text)
        buffer.move(buffer.previous_character() if "\n" not in text else at)

    def _repeat(self, step: Callable[[], bool], count: int) -> None:
        for _ in range(count):
            if not step():
                break

    def _reset(self) -> None:
        self._count = self._operator = self._prefix = ""
        self._operator_count = 1

    def _keep_on_line(self) -> None:
        """Move the cursor from the end of a line onto its last character, as normal mode requires."""
        buffer = self.buffer
        at_end = buffer.cursor == buffer.line_end() and buffer.cursor > buffer.line_start()
        if self.mode == "normal" and at_end:
            goal = buffer.goal
            buffer.move(buffer.previous_character())
            buffer.goal = goal


def _first_of(text: str, start: int, end: int) -> int:
    while start < end and text[start] in " \t":
        start += 1
    return start


def _class(character: str) -> int:
    if character.isspace():
        return 0
    if is_token(character):
        return 3
    return 1 if character.isalnum() or character == "_" else 2


def _run_end(text: str, at: int) -> int:
    """Return the end of the run of one character class at `at`."""
    kind = _class(text[at]) if at < len(text) else 0
    while at < len(text) and _class(text[at]) == kind:
        at += 1
    return at


def _word_start(text: str, at: int) -> int:
    """Return the start of the next word; an empty line counts as a word."""
    if at < len(text) and not text[at].isspace():
        at = _run_end(text, at)
    while at < len(text) and text[at].isspace():
        at += 1
        if text[at - 1 : at + 1] == "\n\n":
            break
    return at


def _word_before(text: str, at: int) -> int:
    at -= 1
    while at > 0 and text[at].isspace():
        at -= 1
    while at > 0 and _class(text[at - 1]) == _class(text[at]):
        at -= 1
    return max(at, 0)


def _word_end(text: str, at: int) -> int:
    """Return the offset of the last character of the next word that ends after `at`."""
    at += 1
    while at < len(text) and text[at].isspace():
        at += 1
    return max(min(_run_end(text, at), len(text)) - 1, 0)


_WORDS: dict[str, Callable[[str, int], int]] = {"w": _word_start, "b": _word_before, "e": _word_end}
