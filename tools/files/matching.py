"""Finding the text a model meant, although it did not quote it exactly.

A chain of strategies from strict to tolerant; the first that finds anything
decides, so a tolerant one never competes with a strict one. All positions are
offsets of characters in a text with `\\n` line ends. Whether several matches are
an error is for the caller to say.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from tools.files.similarity import Window, block_anchor_windows, similar_windows
from tools.files.text_files import line_starts, split_lines

Strategy = Literal[
    "exact",
    "line_trimmed",
    "whitespace_normalized",
    "indentation_flexible",
    "escape_normalized",
    "trimmed_boundary",
    "unicode_normalized",
    "block_anchor",
    "context_aware",
]
LOOSE: frozenset[Strategy] = frozenset({"block_anchor", "context_aware"})
"""Those that find blocks in which some lines are not as they are quoted."""

MAX_MATCHES = 100_000
"""Matches after which a search stops counting."""
MAX_TOLERANT_CHARS = 6_000_000
"""Size of a text above which only strict strategies are tried."""

_ASCII_FOR = {
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"'),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
    **dict.fromkeys("\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a", " "),
    **dict.fromkeys("\u202f\u205f\u3000", " "),
    **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad", ""),
    "\u2026": "...",
}
_TYPOGRAPHIC = re.compile("[" + "".join(_ASCII_FOR) + "]")
_LONG_DASHES = frozenset("\u2013\u2014\u2015")
DASHES = ("-", "--", "---")
"""What a keyboard without long dashes writes for one, in the order in which they are tried."""
_BLANKS = re.compile(r"[ \t]+")
_ESCAPES = re.compile(r"\\([ntr])")
_UNESCAPED = {"n": "\n", "t": "\t", "r": ""}


@dataclass(frozen=True, slots=True)
class TextMatch:
    """One place, as offsets into the text."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class FoundMatches:
    """The matches of the first strategy that had any, in order and possibly overlapping when exact."""

    strategy: Strategy
    matches: tuple[TextMatch, ...]
    sought: str
    """The text that was finally looked for: the query, or its corrected form."""


@dataclass(frozen=True, slots=True)
class FoundLines:
    """The first lines of all matches of a block of lines, counted from 0, in order."""

    strategy: Strategy
    firsts: tuple[int, ...]


def find(text: str, query: str) -> FoundMatches | None:
    """Where `query` stands in `text`, or None."""
    if not query:
        return None
    for strategy, search in _CHAIN[:2] if len(text) > MAX_TOLERANT_CHARS else _CHAIN:
        if strategy != "exact" and not query.strip():
            return None
        sought, matches = search(text, query)
        if matches:
            return FoundMatches(strategy, tuple(matches), sought)
    return None


class LineIndex:
    """The lines of a text, prepared once for many look-ups."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.size = sum(map(len, lines))
        self._prepared: dict[Callable[[str], str], tuple[str, list[int]]] = {}

    def windows(self, wanted: Sequence[str], normal: Callable[[str], str]) -> list[Window]:
        """Runs of lines that equal `wanted` once `normal` was applied to both.

        They are found as substrings of the normalised lines, which takes linear time.
        """
        if not wanted or len(wanted) > len(self.lines):
            return []
        hay, offsets = self._prepare(normal)
        needle = "\n" + "\n".join(map(normal, wanted)) + "\n"
        windows: list[Window] = []
        place = hay.find(needle)
        while place >= 0 and len(windows) < MAX_MATCHES:
            first = bisect_left(offsets, place)
            windows.append((first, first + len(wanted)))
            place = hay.find(needle, place + 1)
        return windows

    def find(self, wanted: Sequence[str]) -> FoundLines | None:
        """Where the lines `wanted` stand, by strategies that pair lines one to one; or None."""
        is_large = self.size > MAX_TOLERANT_CHARS
        for strategy, normal in _LINE_CHAIN[:2] if is_large else _LINE_CHAIN:
            if strategy != "exact" and not any(line.strip() for line in wanted):
                return None
            windows = self.windows(wanted, normal)
            if windows:
                return FoundLines(strategy, tuple(first for first, _ in windows))
        windows = [] if is_large else similar_windows(self.lines, wanted)
        return FoundLines("context_aware", tuple(first for first, _ in windows)) if windows else None

    def _prepare(self, normal: Callable[[str], str]) -> tuple[str, list[int]]:
        if normal not in self._prepared:
            normalised = [normal(line) for line in self.lines]
            self._prepared[normal] = "\n" + "\n".join(normalised) + "\n", line_starts(normalised)
        return self._prepared[normal]


def without_overlaps(matches: Sequence[TextMatch]) -> list[TextMatch]:
    """The matches that remain when each starts after the one before has ended."""
    kept: list[TextMatch] = []
    for match in matches:
        if not kept or match.start >= kept[-1].stop:
            kept.append(match)
    return kept


def plain_typography(text: str, dash: str = DASHES[0]) -> str:
    """`text` with typographic characters as their ASCII forms; `dash` stands for a long dash."""
    return _TYPOGRAPHIC.sub(_plain_form(dash), text)


def _plain_form(dash: str) -> Callable[[re.Match[str]], str]:
    return lambda match: dash if match.group() in _LONG_DASHES else _ASCII_FOR[match.group()]


def unescape(text: str) -> str:
    """`text` with the two characters `\\` `n` as a newline, and likewise for tabs."""
    return _ESCAPES.sub(lambda match: _UNESCAPED[match.group(1)], text)


Outcome = tuple[str, Sequence[TextMatch]]
"""The text that was looked for in the end, and where it stands."""

_NOTHING: Outcome = ("", ())


def _exact(text: str, query: str) -> Outcome:
    return query, _occurrences(text, query)


def _line_trimmed(text: str, query: str) -> Outcome:
    return query, _by_line(text, query, str.rstrip)


def _whitespace_normalized(text: str, query: str) -> Outcome:
    plain, pieces = _substitute(text, _BLANKS, lambda _: " ")
    matches = _mapped(_occurrences(plain, _BLANKS.sub(" ", query)), pieces)
    if query[0] in " \t":
        # The query starts with an indentation, so the middle of a line is not meant.
        matches = [match for match in matches if match.start == 0 or text[match.start - 1] == "\n"]
    return query, matches or _by_line(text, query, _spaced_line)


def _indentation_flexible(text: str, query: str) -> Outcome:
    return query, _by_line(text, query, _bare_line)


def _escape_normalized(text: str, query: str) -> Outcome:
    plain = unescape(query)
    if plain == query or not plain.strip():
        return _NOTHING
    return plain, _occurrences(text, plain) or _by_line(text, plain, _bare_line)


def _trimmed_boundary(text: str, query: str) -> Outcome:
    core = query.strip()
    if core != query and (matches := _occurrences(text, core)):
        return core, matches
    core = query.strip("\n")
    return (core, _by_line(text, core, _bare_line)) if core != query else _NOTHING


def _unicode_normalized(text: str, query: str) -> Outcome:
    for dash, folded_line in zip(DASHES, _FOLDED_LINES, strict=True):
        plain, pieces = _substitute(text, _TYPOGRAPHIC, _plain_form(dash))
        wanted = plain_typography(query, dash)
        matches = _mapped(_occurrences(plain, wanted), pieces) if wanted.strip() else []
        if matches := matches or _by_line(text, query, folded_line):
            return query, matches
    return _NOTHING


def _block_anchor(text: str, query: str) -> Outcome:
    return query, _in_text(text, block_anchor_windows(split_lines(text), split_lines(query)), query)


def _context_aware(text: str, query: str) -> Outcome:
    return query, _in_text(text, similar_windows(split_lines(text), split_lines(query)), query)


def _same_line(line: str) -> str:
    return line


def _spaced_line(line: str) -> str:
    return _BLANKS.sub(" ", line.rstrip())


def _bare_line(line: str) -> str:
    return _BLANKS.sub(" ", line.strip())


def _folded_line(dash: str) -> Callable[[str], str]:
    return lambda line: _bare_line(plain_typography(unicodedata.normalize("NFC", line), dash))


_FOLDED_LINES = tuple(map(_folded_line, DASHES))


_CHAIN: tuple[tuple[Strategy, Callable[[str, str], Outcome]], ...] = (
    ("exact", _exact),
    ("line_trimmed", _line_trimmed),
    ("whitespace_normalized", _whitespace_normalized),
    ("indentation_flexible", _indentation_flexible),
    ("escape_normalized", _escape_normalized),
    ("trimmed_boundary", _trimmed_boundary),
    ("unicode_normalized", _unicode_normalized),
    ("block_anchor", _block_anchor),
    ("context_aware", _context_aware),
)
_LINE_CHAIN: tuple[tuple[Strategy, Callable[[str], str]], ...] = (
    ("exact", _same_line),
    ("line_trimmed", str.rstrip),
    ("whitespace_normalized", _spaced_line),
    ("indentation_flexible", _bare_line),
    *(("unicode_normalized", folded_line) for folded_line in _FOLDED_LINES),
)


def _occurrences(text: str, query: str) -> list[TextMatch]:
    """The places where `query` stands, one after the other, up to `MAX_MATCHES`.

    A single place with a second one overlapping it counts as two: it is not unique.
    """
    matches: list[TextMatch] = []
    start = text.find(query)
    while start >= 0 and len(matches) < MAX_MATCHES:
        matches.append(TextMatch(start, start + len(query)))
        start = text.find(query, start + len(query))
    if len(matches) == 1 and (other := text.find(query, matches[0].start + 1)) >= 0:
        matches.append(TextMatch(other, other + len(query)))
    return matches


def _by_line(text: str, query: str, normal: Callable[[str], str]) -> list[TextMatch]:
    windows = LineIndex(split_lines(text)).windows(split_lines(query), normal)
    return _in_text(text, windows, query)


def _in_text(text: str, windows: Sequence[Window], query: str) -> list[TextMatch]:
    """Windows of lines as offsets. The last newline belongs to it if the query ends in one."""
    if not windows:
        return []
    starts = line_starts(split_lines(text))
    matches: list[TextMatch] = []
    for first, stop in windows:
        end = starts[stop] - 1
        if query.endswith("\n") and end < len(text):
            end += 1
        matches.append(TextMatch(starts[first], end))
    return matches


@dataclass(frozen=True, slots=True)
class _Pieces:
    """Where each substitution starts and ends, in the text and in its substituted form."""

    plain_ends: list[int]
    text_ends: list[int]
    plain_starts: list[int]
    text_starts: list[int]

    def back(self, offset: int) -> int | None:
        """The offset in the original; None inside of a substitution."""
        index = bisect_right(self.plain_starts, offset) - 1
        if index < 0:
            return offset
        if offset == self.plain_starts[index]:
            return self.text_starts[index]
        if offset < self.plain_ends[index]:
            return None
        return self.text_ends[index] + offset - self.plain_ends[index]


def _substitute(
    text: str, pattern: re.Pattern[str], replacement: Callable[[re.Match[str]], str]
) -> tuple[str, _Pieces]:
    """`text` with all matches of `pattern` replaced, and the way back to its offsets."""
    parts: list[str] = []
    pieces = _Pieces([], [], [], [])
    done = length = 0
    for match in pattern.finditer(text):
        new = replacement(match)
        if new == match.group():
            continue
        length += match.start() - done
        pieces.plain_starts.append(length)
        pieces.text_starts.append(match.start())
        parts += (text[done : match.start()], new)
        length += len(new)
        done = match.end()
        pieces.plain_ends.append(length)
        pieces.text_ends.append(done)
    parts.append(text[done:])
    return "".join(parts), pieces


def _mapped(matches: Sequence[TextMatch], pieces: _Pieces) -> list[TextMatch]:
    ends = ((pieces.back(match.start), pieces.back(match.stop)) for match in matches)
    return [TextMatch(start, stop) for start, stop in ends if start is not None and stop is not None]
