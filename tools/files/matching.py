"""Search for text that a model quotes, exact or similar, and advice if it is not found."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

from tools.files.text_files import line_starts, split_lines
from tools.kit.lazy_pattern import lazy_pattern

Window = tuple[int, int]

_WORD = lazy_pattern(r"\w+")
_TOKEN = lazy_pattern(r"\w+|[^\w\s]")

_ONE_CANDIDATE, _SEVERAL_CANDIDATES = 0.50, 0.70
_MAX_ANCHOR_CANDIDATES = 40
_MAX_COMPARED_CHARS = 1_500
_MAX_COMPARED_TOKENS = 5_000

_SIMILAR_LINE = 0.80
_SIMILAR_SHARE = 0.50
_FEWEST_LINES = 3
_MAX_QUERY_LINES = 400
_CANDIDATES = 12
_RARE = 100
"""The most lines in which a word may occur to count as a hint."""
_MAX_LINE_CHARS = 500


@dataclass(frozen=True, slots=True)
class Closest:
    """A window and its similarity to the query, from 0 to 1."""

    window: Window
    likeness: float


def block_anchor_windows(lines: Sequence[str], query: Sequence[str]) -> list[Window]:
    """Return windows whose first and last line equal the query's and whose middle is similar.

    A single candidate needs a similarity of 0.5, one of several 0.7.
    """
    wanted = [line.strip() for line in query]
    if len(wanted) < _FEWEST_LINES or not wanted[0] or not wanted[-1]:
        return []
    candidates = _anchored(lines, wanted)
    if len(candidates) > _MAX_ANCHOR_CANDIDATES:
        return []
    needed = _ONE_CANDIDATE if len(candidates) == 1 else _SEVERAL_CANDIDATES
    middle = wanted[1:-1]
    return [
        (first, stop)
        for first, stop in candidates
        if _likeness([line.strip() for line in lines[first + 1 : stop - 1]], middle) >= needed
    ]


def similar_windows(lines: Sequence[str], query: Sequence[str]) -> list[Window]:
    """Return (first, stop) ranges as long as the query in which at least half of its non-blank lines have a
    counterpart at least 80 % similar.

    Of overlapping ranges only the best remains. Returns none for a query with fewer than three lines that are
    not blank.
    """
    solid = sum(1 for line in query if line.strip())
    if solid < _FEWEST_LINES or len(query) > _MAX_QUERY_LINES or len(query) > len(lines):
        return []
    rated: list[tuple[float, Window]] = []
    for first in _likely_starts(lines, query):
        if 0 <= first <= len(lines) - len(query):
            share = _similar_share(lines[first : first + len(query)], query, solid)
            if share >= _SIMILAR_SHARE:
                rated.append((share, (first, first + len(query))))
    return _best_apart(rated)


def closest_windows(lines: Sequence[str], query: Sequence[str], count: int = 3) -> list[Closest]:
    """Return the windows most similar to `query`, best first, for an error message."""
    query = query[:_MAX_QUERY_LINES]
    solid = sum(1 for line in query if line.strip())
    if not solid:
        return []
    rated: list[tuple[float, Window]] = []
    for first in _likely_starts(lines, query):
        start = max(first, 0)
        window = (start, min(start + len(query), len(lines)))
        likeness = _likeness(
            [line.strip() for line in lines[window[0] : window[1]]], [line.strip() for line in query]
        )
        rated.append((likeness, window))
    rated.sort(key=lambda item: (-item[0], item[1]))
    apart = _best_apart(rated)
    likeness = {window: value for value, window in rated}
    best = sorted((Closest(window, likeness[window]) for window in apart), key=lambda c: -c.likeness)
    return best[:count]


def is_similar(line: str, wanted: str) -> bool:
    """Return whether two lines are at least 80 % alike, ignoring blanks around them."""
    line, wanted = line.strip(), wanted.strip()
    if line == wanted:
        return True
    if max(len(line), len(wanted)) > _MAX_LINE_CHARS:
        return False
    matcher = SequenceMatcher(None, line, wanted, autojunk=False)
    return (
        matcher.real_quick_ratio() >= _SIMILAR_LINE
        and matcher.quick_ratio() >= _SIMILAR_LINE
        and matcher.ratio() >= _SIMILAR_LINE
    )


def _anchored(lines: Sequence[str], wanted: Sequence[str]) -> list[Window]:
    """Return one window for each line that equals the first line of `wanted`.

    It ends at the last line that gives the length nearest to that of `wanted`.
    """
    firsts: list[int] = []
    lasts: list[int] = []
    for index, line in enumerate(lines):
        stripped = line.strip()
        if stripped == wanted[0]:
            firsts.append(index)
        if stripped == wanted[-1]:
            lasts.append(index)
    if len(firsts) > _MAX_ANCHOR_CANDIDATES:
        return [(first, first + 1) for first in firsts]
    reach = 2 * len(wanted) + 10
    windows: list[Window] = []
    for first in firsts:
        ideal = first + len(wanted) - 1
        within = [last for last in lasts if first + 1 < last <= first + reach]
        if within:
            last = min(within, key=lambda last: (abs(last - ideal), last))
            windows.append((first, last + 1))
    return windows


def _likeness(a: Sequence[str], b: Sequence[str]) -> float:
    """Return the similarity of two blocks, from 0 to 1: by letters if they are short, else by words."""
    text_a, text_b = "\n".join(a), "\n".join(b)
    if text_a == text_b:
        return 1.0
    if max(len(text_a), len(text_b)) <= _MAX_COMPARED_CHARS:
        return SequenceMatcher(None, text_a, text_b, autojunk=False).ratio()
    tokens_a = _TOKEN.findall(text_a)[:_MAX_COMPARED_TOKENS]
    tokens_b = _TOKEN.findall(text_b)[:_MAX_COMPARED_TOKENS]
    return SequenceMatcher(None, tokens_a, tokens_b, autojunk=True).ratio()


def _likely_starts(lines: Sequence[str], query: Sequence[str]) -> list[int]:
    """Return the indexes of lines at which the query could begin, best first.

    They share rare words with it.
    """
    words_of = [set(_WORD.findall(line[:_MAX_LINE_CHARS])) for line in query]
    vocabulary = set().union(*words_of)
    standing: dict[str, list[int]] = defaultdict(list)
    for index, line in enumerate(lines):
        for word in vocabulary.intersection(_WORD.findall(line[:_MAX_LINE_CHARS])):
            if len(standing[word]) <= _RARE:
                standing[word].append(index)
    votes: Counter[int] = Counter()
    for offset, words in enumerate(words_of):
        for word in words:
            places = standing.get(word, ())
            if len(places) <= _RARE:
                for index in places:
                    votes[index - offset] += 1
    best = sorted(votes.items(), key=lambda item: (-item[1], item[0]))[:_CANDIDATES]
    return [start for start, _ in best]


def _similar_share(window: Sequence[str], query: Sequence[str], solid: int) -> float:
    similar = 0.0
    for line, wanted in zip(window, query, strict=True):
        if wanted.strip() and is_similar(line, wanted):
            similar += 1
    return similar / solid


def _best_apart(rated: list[tuple[float, Window]]) -> list[Window]:
    """Return the windows in file order, without those that overlap a better one."""
    kept: list[Window] = []
    for _, (first, stop) in sorted(rated, key=lambda item: (-item[0], item[1])):
        if all(stop <= other_first or first >= other_stop for other_first, other_stop in kept):
            kept.append((first, stop))
    return sorted(kept)


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
"""Strategies that find blocks in which some lines differ from the quote."""

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
_TYPOGRAPHIC = lazy_pattern("[" + "".join(_ASCII_FOR) + "]")
_LONG_DASHES = frozenset("\u2013\u2014\u2015")
DASHES = ("-", "--", "---")
"""Keyboard replacements for a long dash, in the order in which they are tried."""
_BLANKS = lazy_pattern(r"[ \t]+")
_ESCAPES = lazy_pattern(r"\\([ntr])")
_UNESCAPED = {"n": "\n", "t": "\t", "r": ""}


@dataclass(frozen=True, slots=True)
class TextMatch:
    """One match, as offsets into the text."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class FoundMatches:
    """The matches of the first successful strategy, in order; exact ones may overlap."""

    strategy: Strategy
    matches: tuple[TextMatch, ...]
    sought: str
    """The text finally searched for: the query, or its corrected form."""


@dataclass(frozen=True, slots=True)
class FoundLines:
    """The indexes, in order, of the lines at which the matches of a block of lines begin."""

    strategy: Strategy
    firsts: tuple[int, ...]


def find(text: str, query: str) -> FoundMatches | None:
    """Return the matches of `query` in `text`; None if there are none."""
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
    """The lines of a text, prepared once for many searches."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.size = sum(map(len, lines))
        self._prepared: dict[Callable[[str], str], tuple[str, list[int]]] = {}

    def windows(self, wanted: Sequence[str], normal: Callable[[str], str]) -> list[Window]:
        """Return runs of lines that equal `wanted` after applying `normal` to both.

        They are found as substrings of the normalised lines, in linear time.
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
        """Return the matches of the lines `wanted`; None if there are none.

        Only strategies that pair lines one to one are used.
        """
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
    """Return the matches that start after the previous one ended."""
    kept: list[TextMatch] = []
    for match in matches:
        if not kept or match.start >= kept[-1].stop:
            kept.append(match)
    return kept


def plain_typography(text: str, dash: str = DASHES[0]) -> str:
    """Return `text` with typographic characters as ASCII; `dash` replaces a long dash."""
    return _TYPOGRAPHIC.sub(_plain_form(dash), text)


def _plain_form(dash: str) -> Callable[[re.Match[str]], str]:
    return lambda match: dash if match.group() in _LONG_DASHES else _ASCII_FOR[match.group()]


def unescape(text: str) -> str:
    r"""Return `text` with the two characters `\` `n` as a newline, and likewise for tabs."""
    return _ESCAPES.sub(lambda match: _UNESCAPED[match.group(1)], text)


Outcome = tuple[str, Sequence[TextMatch]]
"""The text finally searched for, and its matches."""

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
    """Return the non-overlapping occurrences of `query`, up to `MAX_MATCHES`.

    A single occurrence that overlaps another counts as two, because it is not unique.
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
    """Return windows of lines as offsets, with the last newline if the query ends in one."""
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
    """The start and end of each substitution, in the text and in its substituted form."""

    plain_ends: list[int]
    text_ends: list[int]
    plain_starts: list[int]
    text_starts: list[int]

    def back(self, offset: int) -> int | None:
        """Convert an offset in the substituted text to the original; None if it is inside a substitution."""
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
    """Return `text` with all matches of `pattern` replaced, and a map back to its offsets."""
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


_MAX_LINES = 15
_MAX_ADVICE_CHARS = 200
_WORTH_SHOWING = 0.3
_LISTED = 8

DISPLAY_LINE = lazy_pattern(r"\s*(\d+)\|")
"""The start of a line as `read_file` shows it."""


def closest_sections(lines: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Return up to three parts of a file most similar to `wanted`, as numbered lines."""
    return [
        numbered(lines, section.window[0], min(section.window[1], section.window[0] + _MAX_LINES))
        for section in closest_windows(lines, wanted)
        if section.likeness >= _WORTH_SHOWING
    ]


def numbered(lines: Sequence[str], first: int, stop: int) -> str:
    """Return lines `first` to `stop` (from 0) as `read_file` shows them."""
    return "\n".join(
        f"{number}|{line[:_MAX_ADVICE_CHARS]}" for number, line in enumerate(lines[first:stop], first + 1)
    )


def places(firsts: Sequence[int]) -> str:
    """Return line numbers as text for a sentence, such as `lines 3, 17 and 40`. `firsts` count from 0."""
    shown = [str(first + 1) for first in firsts[:_LISTED]]
    if len(firsts) > _LISTED:
        return f"lines {', '.join(shown)} and {len(firsts) - _LISTED} more"
    return f"lines {', '.join(shown[:-1])} and {shown[-1]}" if len(shown) > 1 else f"line {shown[0]}"


def is_read_display(text: str) -> bool:
    """Return whether `text` is output of `read_file`: two or more lines, all numbered in rising order."""
    numbers: list[int] = []
    for line in text.removesuffix("\n").split("\n"):
        match = DISPLAY_LINE.match(line)
        if match is None or len(match[1]) > 9:
            return False
        numbers.append(int(match[1]))
    return len(numbers) > 1 and all(number == numbers[0] + index for index, number in enumerate(numbers))
