"""Shapes of secrets that others keep a list of: `secret_shapes.tsv`, made by `.ci/secret-shapes`.

A shape is only tried where one of its texts stands near a token, so that ordinary text costs one
search for tokens.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

_FILE = Path(__file__).with_name("secret_shapes.tsv")
_NEAR = 64
"""Characters before a token in which its shape's text may stand."""
_TOKEN = re.compile(r"[A-Za-z0-9_+/.~:=$-]{16,}")
_DIGIT = re.compile(r"[0-9]")
_LETTERS_ONLY = 30
"""Characters from which a token without a digit counts as one."""
_HASH = re.compile(r"(?:--hash=)?(?:sha\d+[:-])?[0-9a-f]+")
_GIVEN = ("=", ">", ":", "|", ",")
"""What may stand between a name and its value."""
_GAP = 8
"""Blanks and quotes between that and the value, at most."""
_SHORT = 2_000
"""Characters of a text that is looked at as a whole."""


class Shape(NamedTuple):
    """One kind of secret."""

    name: str
    needles: tuple[str, ...]
    """Texts in lower case, one of which stands in every match; none if no such text is known."""
    group: str
    """The part that is the secret; `0` is the whole."""
    pattern: str


@cache
def shapes() -> tuple[Shape, ...]:
    """All of the list, read when first needed (about 1 ms)."""
    found: list[Shape] = []
    for line in _FILE.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, needles, group, pattern = line.split("\t")
            found.append(Shape(name, tuple(needles.split()), group, pattern))
    return tuple(found)


@cache
def _by_beginning() -> dict[str, tuple[str, ...]]:
    """All needles by their first three characters."""
    found: dict[str, set[str]] = {}
    for shape in shapes():
        for needle in shape.needles:
            found.setdefault(needle[:3], set()).add(needle)
    return {beginning: tuple(sorted(needles)) for beginning, needles in found.items()}


def mask_shapes(text: str, stub: str, is_secret: Callable[[str, bool], bool]) -> str:
    """`text` with every secret of the list replaced by `stub` after the prefix that names its kind.

    `is_secret` is asked for each match: the value, and whether the shape tells it by its own form
    rather than by a name that stands before it.
    """
    near = _near_tokens(text)
    if not near:
        return text
    there = _needles_in(near)
    for shape in shapes():
        if not shape.needles:
            text = _masked(text, shape, stub, is_secret)
        elif found := [needle for needle in shape.needles if needle in there]:
            text = _masked_around(text, found, shape, stub, is_secret)
    return text


def _needles_in(near: str) -> set[str]:
    known = _by_beginning()
    beginnings = known.keys() & set(map("".join, zip(near, near[1:], near[2:], strict=False)))
    return {needle for beginning in beginnings for needle in known[beginning] if needle in near}


def _masked_around(
    text: str, needles: list[str], shape: Shape, stub: str, is_secret: Callable[[str, bool], bool]
) -> str:
    """The same, where only the lines with one of the needles, and those after them, are looked at."""
    folded = text.lower()
    if len(text) < _SHORT or len(folded) != len(text):
        return _masked(text, shape, stub, is_secret)
    pieces: list[str] = []
    done = 0
    while (at := min((at for each in needles if (at := folded.find(each, done)) >= 0), default=-1)) >= 0:
        start = max(done, text.rfind("\n", 0, at) + 1)
        end = text.find("\n", text.find("\n", at) + 1) + 1 if "\n" in text[at:] else 0
        end = end or len(text)
        pieces += text[done:start], _masked(text[start:end], shape, stub, is_secret)
        done = end
    return "".join((*pieces, text[done:]))


def _masked(text: str, shape: Shape, stub: str, is_secret: Callable[[str, bool], bool]) -> str:
    pattern = _compiled(shape.pattern)
    group: str | int = int(shape.group) if shape.group.isdigit() else shape.group

    def masked(match: re.Match[str]) -> str:
        value = match[group]
        if not value:
            return match[0]
        folded = value.lower()
        own = [needle for needle in shape.needles if needle in folded]
        if not is_secret(value, bool(own) or not shape.needles):
            return match[0]
        kept = max((len(needle) for needle in own if folded.startswith(needle)), default=0)
        start, end = match.start(group) - match.start(), match.end(group) - match.start()
        return match[0][: start + kept] + stub + match[0][end:]

    return pattern.sub(masked, text)


def _near_tokens(text: str) -> str:
    """The tokens of a text with the names they are given to, in lower case."""
    found: list[str] = []
    for token in _TOKEN.finditer(text):
        word = token[0]
        if not _DIGIT.search(word) and len(word) < _LETTERS_ONLY:
            continue
        start = token.start()
        if text[max(0, start - _GAP) : start].rstrip("\"'` \t\r\n")[-1:] in _GIVEN:
            found.append(text[max(0, start - _NEAR) : token.end()])
        elif not _HASH.fullmatch(word):
            found.append(word)
    return "\n".join(found).lower()


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return re.compile(pattern)
