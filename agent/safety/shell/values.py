"""Values of variables, and what parameter expansion does to them."""

from __future__ import annotations

import re

from agent.safety.shell import marks
from agent.safety.shell.marks import ANY, GAP, KEEP, UNKNOWN

Value = str | tuple[str, ...]
"""What a variable holds: a text, or the elements of an array. May contain `UNKNOWN`."""

Arguments = tuple[str, ...]
Output = list[str] | None
"""What a command may print: all possible texts; None when that is not known."""

LONGEST = 128
"""Characters of a value up to which patterns are compared with it."""
MOST_STARS = 2
"""Stars in such a pattern; each one multiplies the ways to try."""

SLICE = re.compile(r":\s*\(?\s*(-?\d{1,6})\s*\)?\s*(?::\s*(-?\d{1,6}))?")
_BLANKS = re.compile(r"[ \t\n]+")
_is_one_field = re.compile(r"[^ \t\n*?\[]*").fullmatch
_ANSI = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|c(.)|(.))", re.DOTALL
)
_ANSI_LETTERS = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "v": "\v",
}


def ansi_decoded(text: str) -> str:
    """Text between `$'` and `'`: backslash escapes carried out."""
    return marks.unmarked(_carried_out(text))


def printed(text: str) -> str:
    """Text given to `echo -e` or `printf`: backslash escapes carried out. NUL is printed as well."""
    pieces = _carried_out(text).split("\0")
    return "\0".join(map(marks.unmarked, pieces)) if len(pieces) > 1 else marks.unmarked(pieces[0])


def _carried_out(text: str) -> str:

    def decode(match: re.Match[str]) -> str:
        for place, base in ((1, 16), (2, 16), (3, 16), (4, 8)):
            if match[place]:
                code = int(match[place], base)
                return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"
        if match[5]:
            return chr(ord(match[5]) & 0x1F)
        return _ANSI_LETTERS.get(match[6], match[6] if match[6] in "\\'\"?" else "\\" + match[6])

    return _ANSI.sub(decode, text)


def split(text: str, separators: str) -> str:
    """The value of an unquoted expansion: split at separators, globs active."""
    if separators == " \t\n":
        if _is_one_field(text) is not None:
            return text
        text = _BLANKS.sub(GAP, text)
    elif separators:
        text = re.sub(f"[{re.escape(separators)}]+", GAP, text)
    return marks.globbing(text)


def indexed(value: Value, index: str) -> list[Value]:
    """What `${array[index]}` may be: one element, or any when the index is no number."""
    if index in ("@", "*"):
        return [value]
    elements = value if isinstance(value, tuple) else (value,)
    if not re.fullmatch(r"-?\d{1,6}", index) or _are_open(elements):
        return [UNKNOWN, *elements]
    place = int(index)
    return [elements[place] if -len(elements) <= place < len(elements) else ""]


def cut_out(value: Value, start: int, length: int | None) -> Value:
    """`${value:start:length}`, of a text or of the elements of an array."""
    if isinstance(value, str):
        return sliced(value, start, length)
    found = value[start:] if length is None else value[start:][:length]
    return (UNKNOWN, *found) if _are_open(value) and UNKNOWN not in found else found


def _are_open(elements: Arguments) -> bool:
    """Whether one of the elements is not known, so that it may be several."""
    return any(UNKNOWN in element for element in elements)


def sliced(text: str, start: int, length: int | None) -> str:
    if UNKNOWN in text:
        # The beginning may be known although the rest is not.
        known = text.split(UNKNOWN)[0]
        if start < 0 or length is None or length < 0 or start + length > len(known):
            return UNKNOWN
        text = known
    end = None if length is None else (start + length if length >= 0 else length)
    return text[start:end]


def stripped(text: str, kind: str, marked: str) -> str:
    """`${text#pattern}` and its relatives."""
    if UNKNOWN in text or _is_costly(text, marked):
        return UNKNOWN
    expression = re.compile(_expression(marked), re.DOTALL)
    places = range(len(text) + 1)
    if kind in ("#", "##"):
        ends = [end for end in places if expression.fullmatch(text, 0, end)]
        return text[(ends[0] if kind == "#" else ends[-1]) :] if ends else text
    starts = [start for start in places if expression.fullmatch(text, start)]
    return text[: (starts[-1] if kind == "%" else starts[0])] if starts else text


def replaced(text: str, kind: str, old: str, new: str) -> str:
    """`${text/old/new}`: the first match, with `//` all, with `/#` and `/%` one at the start or end."""
    if _is_costly(text, old):
        return UNKNOWN
    expression = _expression(old)
    if kind == "/#":
        expression = rf"\A(?:{expression})"
    elif kind == "/%":
        expression = rf"(?:{expression})\Z"
    return re.sub(expression, lambda _: new, text, count=0 if kind == "//" else 1)


def recased(texts: list[str], operation: str) -> list[Value]:
    """`${text^^}` and its relatives; other operations leave nothing known."""
    changes = {"^^": str.upper, ",,": str.lower, "^": _first_upper, ",": _first_lower}
    change = changes.get(operation)
    if change is None:
        return [UNKNOWN, *texts] if operation.startswith("@") else [UNKNOWN]
    return [UNKNOWN.join(change(piece) for piece in text.split(UNKNOWN)) for text in texts]


def _is_costly(text: str, marked: str) -> bool:
    return len(text) > LONGEST or marked.count(ANY) + marked.count(UNKNOWN) > MOST_STARS


def _expression(marked: str) -> str:
    """A marked pattern as a regular expression that may match hidden names too."""
    return marks.pattern(marked.replace(KEEP, "")).pattern.removeprefix(r"(?!\.)")


def _first_upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _first_lower(text: str) -> str:
    return text[:1].lower() + text[1:]
