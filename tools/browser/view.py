"""Views of a page for the model: what is in view, and after an action only what has changed. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from tools.browser.page_text import PageLine
from tools.text.words import plural

VIEW = 6_000
"""Characters of a page in view, about 1,500 tokens."""
FULL = 20_000
"""Characters of a whole page."""
_MOST_COMPARED = 600
_GONE = 40
_MOST_FOUND = 20
_NEAR = 4
"""Lines behind a text that was found in which something to act on is looked for."""


@dataclass(frozen=True, slots=True)
class PageView:
    """One state of a page. `document` tells loads of the page apart."""

    document: str
    lines: tuple[PageLine, ...]
    elsewhere: frozenset[str] = frozenset()
    """References of what is on the page although no line of it was read, as it is out of view."""

    def in_view(self) -> list[str]:
        """The lines that are in view."""
        return [line.shown for line in self.lines if line.seen]

    def whole(self) -> str:
        """All lines, as they are kept on disk."""
        return "\n".join(line.shown for line in self.lines)

    def refs(self) -> frozenset[str]:
        """Everything that can be acted on."""
        return frozenset(line.ref for line in self.lines if line.ref) | self.elsewhere


def snapshot(view: PageView, *, full: bool, path: str = "") -> str:
    """What is in view, or the whole page, within its budget."""
    lines = [line.shown for line in view.lines] if full else view.in_view()
    text = _fitted(lines, FULL if full else VIEW, path)
    hidden = [] if full else [line for line in view.lines if not line.seen]
    return text + _outside(hidden, path) if hidden else text or "(the page is empty)"


def matching(view: PageView, query: str) -> str:
    """The lines with all words of `query`, in view or not; behind one without a reference, those that follow.

    Where several lines have the words, the ones that are called exactly so come first.
    """
    words = query.casefold().split()
    lines = view.lines
    places = [at for at, line in enumerate(lines) if all(word in line.text.casefold() for word in words)]
    exact = [at for at in places if f'"{query.casefold()}"' in lines[at].text.casefold()]
    chosen: dict[int, None] = {}
    for at in exact or places:
        chosen[at] = None
        if not lines[at].ref:
            near = takewhile(lambda place: lines[place].ref, range(at + 1, min(at + 1 + _NEAR, len(lines))))
            chosen |= dict.fromkeys(near)
    shown = list(chosen)[:_MOST_FOUND]
    if not shown:
        return f"(no line of the page has {query!r})"
    text = "\n".join(lines[at].text for at in shown)
    more = len(chosen) - len(shown)
    return f"{text}\n… {more} more; use more words" if more else text


def delta(before: PageView, after: PageView, path: str = "") -> str | None:
    """What changed in view, a line each with `+`; None if the page is better shown anew."""
    if before.document != after.document:
        return None
    old, new = before.in_view(), after.in_view()
    if old == new:
        gone = _gone(before, after)
        return gone or "(nothing in view has changed)"
    if len(old) > _MOST_COMPARED or len(new) > _MOST_COMPARED:
        known = set(old)
        added = [line for line in new if line not in known]
    else:
        matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
        added = [
            line
            for kind, _, _, start, end in matcher.get_opcodes()
            if kind in ("insert", "replace")
            for line in new[start:end]
        ]
    if len(added) * 10 > len(new) * 9 and len(new) > 12:
        return None
    text = _fitted([f"+{line}" for line in added], VIEW, path)
    missing = _gone(before, after)
    lost = len(set(old) - set(new))
    if not added and not missing:
        return f"({plural(lost, 'line')} went out of view)" if lost else "(only the order has changed)"
    return "\n".join(filter(None, (text, missing)))


def _gone(before: PageView, after: PageView) -> str:
    left = {line.ref for line in before.lines if line.ref and line.seen} - after.refs()
    numbers = sorted(left, key=lambda ref: int(ref[1:]))
    more = f" and {len(numbers) - _GONE} more" if len(numbers) > _GONE else ""
    return f"gone: {' '.join(numbers[:_GONE])}{more}" if numbers else ""


def _fitted(lines: Sequence[str], most: int, path: str) -> str:
    size, kept = 0, 0
    for line in lines:
        size += len(line) + 1
        if size > most:
            break
        kept += 1
    text = "\n".join(lines[:kept])
    if kept == len(lines):
        return text
    where = f"; all of it: {path}" if path else ""
    return f"{text}\n… {len(lines) - kept} more lines{where}"


def _outside(lines: Sequence[PageLine], path: str) -> str:
    below = sum(1 for line in lines if line.below)
    above = len(lines) - below
    said = [
        f"{count} lines {side}" for count, side in ((above, "above or beside"), (below, "below")) if count
    ]
    where = f"; all of it: {path}" if path else ""
    return f"\n(out of view: {', '.join(said)}{where})"
