"""`read` and `mapfile`: text that becomes variables, one line for each round of a loop."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from agent.safety.shell.marks import UNKNOWN
from agent.safety.shell.state import State
from agent.safety.shell.values import Arguments, Output, Value

MOST_ROUNDS = 64
"""Lines that a loop is followed for one by one; the variables of a longer text are not known."""
MOST_LINES = 32
"""Lines of which any may be the one that is read, where no loop tells which."""

_BLANKS = " \t\n"
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_VALUED = {"read": "adinNptu", "mapfile": "dnOsuCc"}
"""Options that take a value."""


@dataclass(frozen=True, slots=True)
class _Wish:
    """What `read` or `mapfile` was asked for."""

    names: tuple[str, ...]
    array: bool = False
    end: str = "\n"
    """The character that ends a line; empty when a number of characters is wanted."""
    raw: bool = False
    sized: bool = False
    """Whether it takes a number of characters, skips lines or begins elsewhere."""


def _wish(program: str, arguments: Arguments) -> _Wish:
    array = raw = sized = False
    end = "\n"
    names: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-") or word == "-":
            names.append(word)
            continue
        for place, letter in enumerate(word[1:], 1):
            raw |= letter == "r"
            if letter not in _VALUED[program]:
                continue
            given = word[place + 1 :] or (rest.pop(0) if rest else "")
            if letter == "a":
                array = True
                names.insert(0, given)
            elif letter == "d":
                end = given[:1] or "\0"
            sized |= letter in "nNsO"
            break
    return _Wish(tuple(filter(_NAME.fullmatch, names)), array, end, raw, sized)


def read(state: State, arguments: Arguments, stdin: Output) -> Output:
    """Set the variables to the line of this round, or to any line where no loop says which it is."""
    wish = _wish("read", arguments)
    names = wish.names or ("REPLY",)
    lines = _lines(state, wish, stdin)
    fields = _separators(state)
    if lines is None or fields is None:
        for name in names:
            state.assign(name, [UNKNOWN])
        return [""]
    if not wish.raw:
        lines = [re.sub(r"\\(.)", r"\1", line, flags=re.DOTALL) for line in lines]
    if wish.array:
        state.assign(names[0], [tuple(_split(line, fields, 0)) for line in lines])
        return [""]
    split = [_split(line, fields, len(names)) if wish.names else [line] for line in lines]
    for place, name in enumerate(names):
        state.assign(name, [words[place] if place < len(words) else "" for words in split])
    return [""]


def read_lines(state: State, arguments: Arguments, stdin: Output) -> Output:
    """Set an array to all lines. Without `-t` they end in line feeds, which expansion takes away."""
    wish = _wish("mapfile", arguments)
    found: list[Value] = [UNKNOWN]
    if stdin is not None and not wish.sized:
        found = [tuple(_cut(text, wish.end)) for text in stdin]
    state.assign(wish.names[-1] if wish.names else "MAPFILE", found)
    return [""]


def _cut(text: str, end: str) -> list[str]:
    """The lines of a text that end in `end`, or with the text."""
    # Programs whose output is only sketched here end names with line feeds where they would print NUL.
    lines = (text.rstrip("\n") if end == "\0" else text.replace("\0", "")).split(end)
    return lines if lines[-1] else lines[:-1]


def _lines(state: State, wish: _Wish, stdin: Output) -> list[str] | None:
    """The lines that may be read; None when they are not known."""
    if stdin is None:
        return None
    at: int | None = state.get("reading", "line")
    cut = [_cut(text if wish.raw else text.replace("\\\n", ""), wish.end) for text in stdin]
    if wish.sized:
        return None if any("".join(lines) for lines in cut) else [""]
    if at is None:
        found = list(dict.fromkeys(line for lines in cut for line in lines[: MOST_LINES + 1]))
        return (found or [""]) if len(found) <= MOST_LINES else None
    if any(len(lines) > at + 1 for lines in cut):
        state.put("reading", "more", True)
    return None if at >= MOST_ROUNDS else [lines[at] for lines in cut if at < len(lines)] or [""]


def _separators(state: State) -> str | None:
    """What separates fields; None when that is not known."""
    known = state.values("IFS")
    if not known:
        return _BLANKS
    text = known[0]
    return text if len(known) == 1 and isinstance(text, str) and UNKNOWN not in text else None


def _split(line: str, separators: str, most: int) -> list[str]:
    """The fields of a line, the last of `most` holding the rest; 0 for as many as there are."""
    if not separators:
        return [line]
    blanks = "".join(set(separators) & set(_BLANKS))
    others = "".join(set(separators) - set(_BLANKS))
    line = line.strip(blanks) if blanks else line
    if not others:
        return line.split(None, most - 1) if most else line.split()
    around = f"[{re.escape(blanks)}]*" if blanks else ""
    between = f"{around}[{re.escape(others)}]{around}"
    return [line] if most == 1 else re.split(between, line, maxsplit=max(0, most - 1))


def each_line(state: State, condition: Callable[[], object], body: Callable[[], object]) -> None:
    """Follow a loop once for every line that its condition reads, and once where it reads none.

    What the body reads itself may be any line.
    """
    line: int | None = 0
    while line is not None:
        state.put("reading", "line", line)
        state.put("reading", "more", None)
        condition()
        line = line + 1 if state.get("reading", "more") and line < MOST_ROUNDS else None
        state.put("reading", "line", None)
        body()
