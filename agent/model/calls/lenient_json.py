"""Reading the JSON that models write when they do not quite write JSON.

Accepted beside the standard: single and typographic quotes, Python's and
JavaScript's literals, comments, trailing and missing commas, unquoted keys, raw
control characters and unknown escapes in strings, and an end that comes too early.
What has two readings is an error: a wrong guess would run a wrong command.
"""

from __future__ import annotations

import math
import re
from typing import Any

MAX_DEPTH = 100
"""Nesting beyond this is refused: no tool needs it, and deep data overflows the stack of whoever reads it."""

_CLOSING = {'"': '"', "'": "'", "“": '”“"', "”": '”“"', "‘": "’‘'", "’": "’‘'"}
"""Opening quotes, and the characters that end a string begun with them."""

_EXACT: dict[str, Any] = {"true": True, "false": False, "null": None}
_LITERALS: dict[str, Any] = {**_EXACT, "none": None, "undefined": None, "nan": None, "infinity": None}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\", "/": "/", "'": "'"}
_MISSING = object()

_SPACE = re.compile(r"(?:[\s\ufeff\u200b]+|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)*")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.])")
_WORD = re.compile(r"-?[A-Za-z_$][\w$-]*")
_HEX4 = re.compile(r"[0-9A-Fa-f]{4}")
_CONTROL = re.compile(r"[\x00-\x1f]")
_PLAIN = {ends: re.compile(rf"[^\\{ends}]*") for ends in set(_CLOSING.values())}


class LenientError(ValueError):
    """The text has no plain reading. `str()` is a clause such as `a colon is missing at character 12`."""

    def __init__(self, cause: str, at: int) -> None:
        super().__init__(f"{cause} at character {at + 1}")


class LenientReader:
    """Reads values of `text`. `notes` says what had to be mended, `truncated` whether an end was missing.

    Every method takes a position and returns a value with the position behind it.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.notes: dict[str, None] = {}
        self.truncated = False

    def read(self, at: int = 0) -> tuple[Any, int]:
        """The value that begins at `at`, and where it ends. Linear in the length. Raises `LenientError`."""
        value, end = self._value(self._skip(at), 0)
        if value is _MISSING:
            raise LenientError("a value is missing", end)
        return value, end

    def _note(self, mended: str) -> None:
        self.notes[mended] = None

    def _at_end(self, at: int) -> bool:
        """Whether the text is over; called only where more had to come."""
        if at < len(self.text):
            return False
        self.truncated = True
        return True

    def _skip(self, at: int) -> int:
        match = _SPACE.match(self.text, at)
        assert match is not None
        if "/" in match.group():
            self._note("comments")
        return match.end()

    def _value(self, at: int, depth: int) -> tuple[Any, int]:
        if self._at_end(at):
            return _MISSING, at
        if depth > MAX_DEPTH:
            raise LenientError("the nesting is too deep", at)
        char = self.text[at]
        if char == "{":
            return self._object(at + 1, depth + 1)
        if char == "[":
            return self._list(at + 1, depth + 1)
        if char in _CLOSING:
            return self._string(at)
        if number := _NUMBER.match(self.text, at):
            return self._number(number)
        return self._literal(at)

    def _object(self, at: int, depth: int) -> tuple[dict[str, Any], int]:
        members: dict[str, Any] = {}
        end = at
        while True:
            at = self._separator(end, bool(members), "}")
            if self._at_end(at):
                return members, at
            if self.text[at] == "}":
                return members, at + 1
            key, at = self._key(at)
            at = self._skip(at)
            if self._at_end(at):
                return members, at
            if self.text[at] != ":":
                raise LenientError("a colon is missing", at)
            value, end = self._value(self._skip(at + 1), depth)
            if value is _MISSING:
                return members, end
            if key in members:
                self._note("duplicate keys, of which the last one counts")
            members[key] = value

    def _list(self, at: int, depth: int) -> tuple[list[Any], int]:
        items: list[Any] = []
        end = at
        while True:
            at = self._separator(end, bool(items), "]")
            if self._at_end(at):
                return items, at
            if self.text[at] == "]":
                return items, at + 1
            value, end = self._value(at, depth)
            if value is _MISSING:
                return items, end
            items.append(value)

    def _separator(self, end: int, expected: bool, closing: str) -> int:
        """The position behind the comma that follows a value ending at `end`, or of `closing`."""
        at = self._skip(end)
        if at >= len(self.text) or self.text[at] == closing:
            return at
        if not expected:
            return at
        if self.text[at] == ",":
            at = self._skip(at + 1)
            if self.text[at : at + 1] == closing:
                self._note("a trailing comma")
            return at
        # Two strings on one line may as well be one string with bare quotes in it.
        apart = "\n" in self.text[end:at] or (at > end and self.text[end - 1] not in _CLOSING)
        if not apart or self.text[at] not in "\"'“‘{[":
            raise LenientError(f"a comma or {closing} is missing", at)
        self._note("a missing comma")
        return at

    def _key(self, at: int) -> tuple[str, int]:
        if self.text[at] in _CLOSING:
            return self._string(at)
        word = _WORD.match(self.text, at)
        if word is None:
            raise LenientError("a key is missing", at)
        self._note("keys without quotes")
        return word.group(), word.end()

    def _string(self, at: int) -> tuple[str, int]:
        quote = self.text[at]
        if quote != '"':
            self._note("single quotes" if quote == "'" else "typographic quotes")
        plain = _PLAIN[_CLOSING[quote]]
        pieces: list[str] = []
        at += 1
        while True:
            match = plain.match(self.text, at)
            assert match is not None
            pieces.append(match.group())
            at = match.end()
            if _CONTROL.search(match.group()):
                self._note("raw control characters in a text")
            if self._at_end(at):
                return "".join(pieces), at
            if self.text[at] != "\\":
                return "".join(pieces), at + 1
            piece, at = self._escape(at + 1)
            pieces.append(piece)

    def _escape(self, at: int) -> tuple[str, int]:
        """The meaning of the escape whose backslash is before `at`; an unknown one means itself."""
        if self._at_end(at):
            return "", at
        char = self.text[at]
        if char in _ESCAPES:
            return _ESCAPES[char], at + 1
        if char == "u" and _HEX4.match(self.text, at + 1):
            return chr(int(self.text[at + 1 : at + 5], 16)), at + 5
        if char == "u" and at + 5 > len(self.text):
            self.truncated = True
            return "", len(self.text)
        self._note("unknown escapes")
        return "\\" + char, at + 1

    def _number(self, match: re.Match[str]) -> tuple[int | float | None, int]:
        text = match.group()
        digits = text.lstrip("+-")
        if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit():
            raise LenientError("a number begins with 0", match.start())
        if text[0] == "+" or digits[0] == "." or digits.endswith("."):
            self._note("a number in a form of its own")
        if text.lstrip("+-").isdigit():
            if len(digits) > 4000:
                raise LenientError("a number is too long", match.start())
            return int(text), match.end()
        value = float(text)
        if math.isinf(value):
            self._note("a number beyond all bounds")
            return None, match.end()
        return value, match.end()

    def _literal(self, at: int) -> tuple[Any, int]:
        match = _WORD.match(self.text, at)
        word = match.group() if match else ""
        end = match.end() if match else at
        name = word.lstrip("-").lower()
        if name in _LITERALS and (not word.startswith("-") or name == "infinity"):
            if word not in _EXACT:
                self._note("literals of another language")
            return _LITERALS[name], end
        if name and end == len(self.text) and any(known.startswith(name) for known in _LITERALS):
            self.truncated = True
            return _MISSING, end
        raise LenientError(
            "there is text without quotes" if word else f"{self.text[at]!r} is out of place", at
        )
