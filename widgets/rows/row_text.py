"""Text lines: cleaned, cut to a width, converted for the screen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.cells import cell_len
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.strip import Strip

from tools.kit.lazy_pattern import lazy_pattern
from tools.text.safe_text import clean

# What follows a joiner is counted as no cell at all, which is true between pictures only: any other joiner
# would make the row wider on the terminal than it is counted here.
_PICTURES = "\u203c\u2049\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
_IDLE_JOINER = lazy_pattern(f"\u200d(?![{_PICTURES}])|(?<![{_PICTURES}\ufe0f])\u200d")


_NAMED = ("⏎", "esc", "tab", "PgUp", "")
"""Keys in such a line that type no character."""
BETWEEN = " · "
"""The separator between two keys in a line."""


def countable(text: str) -> str:
    """Return `text` without joiners outside emoji sequences, so that its cells can be counted."""
    return _IDLE_JOINER.sub("", text) if "\u200d" in text else text


def one_line(text: str, limit: int = 400) -> str:
    """Return outside text as one short line: cleaned, every run of blanks one space.

    Only the first `limit` characters are processed, so a huge text costs no more than a small one.
    """
    return countable(" ".join(clean(text[: limit * 4]).split())[:limit])


def fit(text: Text, width: int) -> Text:
    """Return `text`, or a copy cut to `width` cells with `…` at the cut."""
    if text.cell_len <= width:
        return text
    text = text.copy()
    text.truncate(max(width, 0), overflow="ellipsis")
    return text


def spread(left: Text, right: Text, width: int) -> Text:
    """Return `left` and, at the right edge, `right`. If space is short, `left` is cut first."""
    if right.cell_len == 0:
        return fit(left, width)
    right = fit(right, width)
    room = width - right.cell_len - 1
    if room < 1:
        return right if room < 0 else Text(" ").append_text(right)
    left = fit(left, room)
    gap = Text(" " * (width - left.cell_len - right.cell_len))
    return Text.assemble(left, gap, right)


def fit_keys(keys: str, width: int) -> str:
    """Return the last of the hints separated by ` · ` and as many of the first as fit in `width` cells.
    Pure.
    """
    kept = keys.split(BETWEEN)
    while len(kept) > 1 and cell_len(BETWEEN.join(kept)) > width:
        del kept[-2]
    return BETWEEN.join(kept)


def letters(keys: str) -> frozenset[str]:
    """Return the key characters named in `⏎ open · jk move · esc back`. Pure."""
    said = (each.partition(" ")[0] for each in keys.split(BETWEEN))
    return frozenset("".join(" " if each == "space" else each for each in said if each not in _NAMED))


def _underline_words(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Remove the underline from blanks at both ends of a segment, which only align columns."""
    for text, style, control in segments:
        words = text.strip()
        if style is None or not style.underline or words == text:
            yield Segment(text, style, control)
            continue
        before, _, after = text.partition(words) if words else (text, "", "")
        bare = style + Style(underline=False)
        yield from (Segment(*each) for each in ((before, bare), (words, style), (after, bare)) if each[0])


def to_strip(line: Text, width: int, base: Style, console: Console) -> Strip:
    """Return `line` as exactly `width` cells, with the style `base` where the line has none."""
    own = base + (line.style if isinstance(line.style, Style) else console.get_style(line.style))
    segments = Segment.apply_style(line.render(console), own)
    return Strip(_underline_words(segments)).adjust_cell_length(width, base)
