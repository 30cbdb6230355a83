"""Repair of a model's mistakes in a tool call: in its arguments and its name.

Only unambiguous mistakes are repaired. Everything else is refused with a sentence that tells the model what
to change, because a wrong guess would run a wrong command.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from tools.kit.lazy_pattern import lazy_pattern

MAX_DEPTH = 100
"""The maximum nesting depth: no tool needs more, and deeper data can overflow a parser's stack."""

_CLOSING = {'"': '"', "'": "'", "“": '”“"', "”": '”“"', "‘": "’‘'", "’": "’‘'"}
"""Opening quotes, and the characters that close them."""

_EXACT: dict[str, Any] = {"true": True, "false": False, "null": None}
_LITERALS: dict[str, Any] = {**_EXACT, "none": None, "undefined": None, "nan": None, "infinity": None}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\", "/": "/", "'": "'"}
_MISSING = object()

_SPACE = lazy_pattern(r"(?:[\s\ufeff\u200b]+|//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)*")
_NUMBER = lazy_pattern(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.])")
_WORD = lazy_pattern(r"-?[A-Za-z_$][\w$-]*")
_HEX4 = lazy_pattern(r"[0-9A-Fa-f]{4}")
_CONTROL = lazy_pattern(r"[\x00-\x1f]")
_PLAIN = {ends: lazy_pattern(rf"[^\\{ends}]*") for ends in set(_CLOSING.values())}


class LenientError(ValueError):
    """Raised for ambiguous text. `str()` is a clause such as `a colon is missing at character 12`."""

    def __init__(self, cause: str, at: int) -> None:
        super().__init__(f"{cause} at character {at + 1}")


class LenientReader:
    """A lenient parser of JSON in `text`. `notes` lists the repairs; `truncated` is True if the end of a
    value was missing.

    Most methods take a position and return a value with the position after it.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.notes: dict[str, None] = {}
        self.truncated = False

    def read(self, at: int = 0) -> tuple[Any, int]:
        """Return the value that begins at `at`, and the position after it. Takes linear time. Raises
        `LenientError`.
        """
        value, end = self._value(self._skip(at), 0)
        if value is _MISSING:
            raise LenientError("a value is missing", end)
        return value, end

    def _note(self, mended: str) -> None:
        self.notes[mended] = None

    def _at_end(self, at: int) -> bool:
        """Return whether the text has ended.

        If so, a value is incomplete, because callers expect more text, and `truncated` is set.
        """
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
        """Return the position after the comma that follows the value ending at `end`.

        Without a comma, return the position of the next element or of the bracket `closing`. Raises
        `LenientError`.
        """
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
        # Two strings on one line may also be one string with bare quotes in it.
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
        """Return the text for an escape sequence, and the position after it.

        `at` is the position after the backslash. An unknown escape is kept with its backslash.
        """
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


TRUNCATED = "truncated"
"""The reason for a call that could be parsed but lacks its end; such a call must not run."""

ALIASES: Mapping[str, str] = {
    "bash": "terminal",
    "shell": "terminal",
    "run_command": "terminal",
    "run_shell_command": "terminal",
    "run_terminal_cmd": "terminal",
    "execute_command": "terminal",
    "search_files": "search",
    "grep": "search",
    "view_file": "read_file",
    "create_file": "write_file",
}
"""Tool names that models know from other programs, and the tools here that have the same parameters."""

_EDGE = " \t\r\n\ufeff\u200b\u00a0"
_BLANK = frozenset({"", "null", "None", "undefined", "[]"})
_FENCE = lazy_pattern(r"`{3,}[\w-]*\s*")
_MOST_WRAPPINGS = 3
_LONGEST_NAME = 100


def repair_arguments(raw: str) -> tuple[str | None, str]:
    """Return `raw` as the text of one JSON object, and a text on the repairs, empty if there were none.

    A valid JSON object is returned unchanged. If the text is `TRUNCATED`, the missing end of the object was
    added. If `raw` cannot be repaired unambiguously, None is returned with a sentence for the model. Takes
    linear time; never raises.
    """
    text = raw.strip(_EDGE)
    if text in _BLANK:
        return "{}", "no arguments" if text else ""
    if isinstance(_strict(raw), dict):
        return raw, ""
    return _repair_text(text, (), _MOST_WRAPPINGS)


def repair_name(name: str, offered: Iterable[str], aliases: Mapping[str, str] = ALIASES) -> str | None:
    """Return the offered tool that `name` unambiguously means, or None.

    Tried in order: the exact name, an alias, other case or separators, without prefixes such as `functions.`,
    without `_tool` at the end, and finally one or two wrong letters. Wrong letters never lead to a tool of
    another MCP server.
    """
    names = tuple(dict.fromkeys(offered))
    if name in names:
        return name
    folded: dict[str, set[str]] = {}
    for known in names:
        folded.setdefault(_fold_name(known), set()).add(known)
    for other, target in aliases.items():
        if target in names:
            folded.setdefault(_fold_name(other), {target})
    for form in _forms(name):
        found = folded.get(form, set())
        if found:
            return found.copy().pop() if len(found) == 1 else None
    near = _nearest(_forms(name), folded)
    return near if near is None or _server_of(near) in ("", _server_of(name)) else None


def _server_of(name: str) -> str:
    return name.split("__")[1] if name.startswith("mcp__") else ""


def without_surrogates(text: str) -> str:
    """Return `text` with surrogate pairs joined and lone surrogates replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _strict(text: str) -> Any:
    """Return the value of `text` if it is valid JSON that needs no repair; otherwise None."""
    flaws: list[object] = []

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            flaws.append("duplicate keys")
        return found

    try:
        value = json.loads(text, parse_constant=flaws.append, object_pairs_hook=members)
    except (ValueError, RecursionError):
        return None
    return None if flaws or _too_deep(text, value) or _has_half_pair(text, value) else value


def _has_half_pair(text: str, value: Any) -> bool:
    """Return whether `value` contains half of a surrogate pair, which cannot be encoded."""
    if text.isascii() and "\\ud" not in text and "\\uD" not in text:
        return False
    plain = json.dumps(value, ensure_ascii=False)
    return plain != without_surrogates(plain)


def _too_deep(text: str, value: Any) -> bool:
    if text.count("{") + text.count("[") <= MAX_DEPTH:
        return False
    level, depth = [value], 0
    while level := [
        item
        for part in level
        if isinstance(part, (dict, list))
        for item in (part.values() if isinstance(part, dict) else part)
    ]:
        depth += 1
    return depth > MAX_DEPTH


def _repair_text(text: str, notes: tuple[str, ...], wrappings: int) -> tuple[str | None, str]:
    if fence := _FENCE.match(text):
        notes, text = (*notes, "a code fence"), text[fence.end() :].rstrip("` \t\r\n")
    reader = LenientReader(text)
    try:
        value, end = reader.read()
        value, rest = _choose(reader, value, end)
    except LenientError as error:
        return None, f"The arguments are not valid JSON: {error}. Send one JSON object."
    notes = (*notes, *reader.notes, *(("text after the object",) if rest else ()))
    if isinstance(value, str) and wrappings and not reader.truncated:
        inner = value.strip(_EDGE)
        if inner in _BLANK:
            return "{}", "no arguments"
        if inner.startswith(("{", "`", '"')):
            return _repair_text(inner, (*notes, "JSON inside a text"), wrappings - 1)
    if not isinstance(value, dict):
        return None, f"The arguments must be one JSON object, not {_kind(value)}."
    mended = without_surrogates(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    return mended, TRUNCATED if reader.truncated else ", ".join(notes) or "characters of no meaning"


def _choose(reader: LenientReader, value: Any, end: int) -> tuple[Any, str]:
    """Return the value to use, and the text after it. Raises `LenientError` if the choice is ambiguous.

    Some servers send `{}` before or after the arguments, or the arguments twice.
    """
    rest = reader.text[end:].strip(_EDGE)
    if rest.startswith("{") and isinstance(value, dict):
        second, end = reader.read(end)
        rest = reader.text[end:].strip(_EDGE)
        if rest.startswith("{") or (value and second and value != second):
            raise LenientError("a second object follows", end)
        value = value or second
    # A bare quote inside a text can look like its end: `{"command": "echo "}" > a"}`.
    if rest.startswith(('"', "'")) or ('"' in rest and rest.endswith(("}", "]"))):
        raise LenientError("a quote inside a text is not escaped, or text follows the object", end)
    return value, rest


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")


def _fold_name(name: str) -> str:
    return re.sub(r"[\W_]+", "", name).lower()


def _forms(name: str) -> tuple[str, ...]:
    """Return variants of a name, likeliest first: all of it, without its prefixes, without `_tool`."""
    bare = name.split("<|", 1)[0].strip(" \t\r\n`'\"()")
    last = re.split(r"::|[.:/]", re.sub(r":\d+$", "", bare))[-1]
    folded = [_fold_name(bare), _fold_name(last)]
    folded += [form.removesuffix("tool") for form in folded]
    return tuple(form for form in dict.fromkeys(folded) if form)


def _nearest(forms: tuple[str, ...], folded: Mapping[str, set[str]]) -> str | None:
    """Return the only tool that differs from a form by one letter (two in long names); otherwise None."""
    best: dict[str, int] = {}
    for form in forms:
        reach = 0 if len(form) < 5 or len(form) > _LONGEST_NAME else 1 if len(form) < 8 else 2
        for known, tools in folded.items():
            distance = _distance(form, known, reach)
            if distance <= reach:
                for tool in tools:
                    best[tool] = min(best.get(tool, distance), distance)
    if not best:
        return None
    least = min(best.values())
    nearest = [tool for tool, distance in best.items() if distance == least]
    return nearest[0] if len(nearest) == 1 else None


def _distance(one: str, other: str, reach: int) -> int:
    """Return the edit distance between `one` and `other`; any number above `reach` if it is larger."""
    if abs(len(one) - len(other)) > reach:
        return reach + 1
    row = list(range(len(other) + 1))
    for i, left in enumerate(one, 1):
        previous, row[0] = row[0], i
        for j, right in enumerate(other, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (left != right))
    return row[-1]
