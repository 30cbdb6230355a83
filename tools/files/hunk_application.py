"""Applying the hunks of a patch to the text of one file.

All hunks are placed in the file as it is before the first of them acts; only
when that fails they are tried one after the other, each on the result of the
one before.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tools.files.advice import closest_sections, places
from tools.files.diffs import changed_blocks
from tools.files.matching import FoundLines, LineIndex, Strategy
from tools.files.operations import PatchError, PatchHunk
from tools.files.rewriting import Exchange, changes_what_it_quotes, rewrite
from tools.files.text_files import Replacement, TextFile, line_span, line_starts


@dataclass(frozen=True, slots=True)
class Patched:
    """The file after all hunks, and how each was found."""

    file: TextFile
    strategies: tuple[Strategy, ...]


@dataclass(frozen=True, slots=True)
class _Change:
    """Lines `first` to `stop` give way to `new`."""

    first: int
    stop: int
    new: tuple[str, ...]
    hunk: int


@dataclass(frozen=True, slots=True)
class _Placed:
    first: int
    strategy: Strategy
    hunk: PatchHunk


def apply_hunks(file: TextFile, hunks: Sequence[PatchHunk], name: str) -> Patched:
    """`file` after `hunks`. Raises `PatchError` when one fits nowhere, at several places or on another."""
    try:
        return _apply_together(file, hunks, name)
    except PatchError as error:
        if len(hunks) == 1:
            raise
        try:
            return _apply_in_turn(file, hunks, name)
        except PatchError:
            raise error from None


def _apply_together(file: TextFile, hunks: Sequence[PatchHunk], name: str) -> Patched:
    if hunks[-1].final_newline is True:
        # Before the lines change: an added blank line would pass for the newline.
        file = _with_final_newline(file)
    index = LineIndex(file.lines)
    changes: list[_Change] = []
    strategies: list[Strategy] = []
    cursor = drift = 0
    for hunk in hunks:
        placed = _place(index, hunk, cursor, drift, name)
        changes.extend(_changes(index.lines, placed))
        strategies.append(placed.strategy)
        cursor = placed.first + len(placed.hunk.old)
        if hunk.old_start is not None and placed.hunk.old:
            drift = placed.first - (hunk.old_start - 1)
    file = file.revise(_spans(file, index.lines, changes, name))
    if hunks[-1].final_newline is False:
        file = _without_final_newline(file)
    return Patched(file, tuple(strategies))


def _apply_in_turn(file: TextFile, hunks: Sequence[PatchHunk], name: str) -> Patched:
    strategies: list[Strategy] = []
    growth = 0
    for hunk in hunks:
        start = None if hunk.old_start is None else max(hunk.old_start + growth, 0)
        patched = _apply_together(file, (replace(hunk, old_start=start),), name)
        file = patched.file
        growth += len(hunk.new) - len(hunk.old)
        strategies.extend(patched.strategies)
    return Patched(file, tuple(strategies))


def _place(index: LineIndex, hunk: PatchHunk, cursor: int, drift: int, name: str) -> _Placed:
    lines = index.lines
    if not any(line.kind == "-" for line in hunk.lines) and not any(line.strip() for line in hunk.old):
        return _place_insertion(lines, hunk, drift, name)
    found = _find(index, hunk)
    if found is None:
        trimmed = _without_outer_blanks(hunk)
        found = _find(index, trimmed) if trimmed.old else None
        hunk = trimmed
    if found is None:
        is_done = any(line.text.strip() for line in hunk.lines if line.kind == "+") and index.windows(
            hunk.new, str.rstrip
        )
        seen = " (what it would make of them is, so it may be done already)" if is_done else ""
        raise PatchError(
            f"Hunk {hunk.number} does not fit {name}: its {_count(hunk.old)} not in the file{seen}; "
            "read the file again and copy the lines from there.",
            closest=closest_sections(lines, hunk.old),
        )
    first = _choose(lines, hunk, found.firsts, cursor, drift, name)
    if _is_there_already(lines, hunk, first):
        raise PatchError(
            f"Hunk {hunk.number} is in {name} already: the lines it adds stand beside line {first + 1}. "
            "If they are to stand there twice, quote a line above and a line below them."
        )
    return _Placed(first, found.strategy, hunk)


def _is_there_already(lines: Sequence[str], hunk: PatchHunk, first: int) -> bool:
    """Whether a hunk that only adds lines at an end of what it quotes was carried out before.

    A patch sent twice would add them once more. With kept lines on both sides it no longer fits.
    """
    added = [line.text for line in hunk.lines if line.kind == "+"]
    if any(line.kind == "-" for line in hunk.lines) or not any(text.strip() for text in added):
        return False
    new, last = hunk.new, first + len(hunk.old)
    follows = hunk.lines[-1].kind == "+" and lines[first : first + len(new)] == new
    leads = hunk.lines[0].kind == "+" and last >= len(new) and lines[last - len(new) : last] == new
    return follows or leads


def _find(index: LineIndex, hunk: PatchHunk) -> FoundLines | None:
    lines = index.lines
    found = index.find(hunk.old)
    if found is None or found.strategy != "context_aware":
        return found
    exchange = Exchange(hunk.old, hunk.new)
    size = len(hunk.old)
    firsts = [
        first for first in found.firsts if changes_what_it_quotes(lines[first : first + size], exchange)
    ]
    return FoundLines(found.strategy, tuple(firsts)) if firsts else None


def _choose(
    lines: Sequence[str], hunk: PatchHunk, firsts: Sequence[int], cursor: int, drift: int, name: str
) -> int:
    """Which of several matches is meant: by end of file, hints, line number, then order of the hunks."""
    if len(firsts) == 1:
        return firsts[0]
    size = len(hunk.old)
    expected = None if hunk.old_start is None else hunk.old_start - 1 + drift
    touches_end = firsts[-1] + size == len(lines)
    numbered = None if expected is None else _nearest(firsts, expected)
    if numbered not in (None, firsts[-1]) and touches_end and _stops_short(hunk):
        raise _unclear(hunk, firsts, name)
    if numbered is not None and numbered == expected:
        return numbered
    if hunk.at_end and touches_end:
        return firsts[-1]
    if hunk.hints:
        # The hint may be one of the hunk's own lines, so a match that reaches beyond it counts.
        nexts = {bisect_right(firsts, line - size) for line in _hinted(lines, hunk.hints)} - {len(firsts)}
        if len(nexts) == 1:
            return firsts[nexts.pop()]
    if numbered is not None:
        return numbered
    later = [first for first in firsts if first >= cursor]
    if cursor and len(later) == 1:
        return later[0]
    raise _unclear(hunk, firsts, name)


def _nearest(firsts: Sequence[int], expected: int) -> int | None:
    """The match nearest to the expected line; None if two are equally near."""
    near = sorted(firsts, key=lambda first: abs(first - expected))[:2]
    return near[0] if abs(near[0] - expected) < abs(near[1] - expected) else None


def _stops_short(hunk: PatchHunk) -> bool:
    """Whether only the end of the file explains that no kept line follows the change, as one precedes it."""
    return hunk.lines[0].kind == " " and hunk.lines[-1].kind != " "


def _unclear(hunk: PatchHunk, firsts: Sequence[int], name: str) -> PatchError:
    return PatchError(
        f"Hunk {hunk.number} fits {name} at {len(firsts)} places ({places(firsts)}); "
        "add lines around it or a line such as `@@ def name` before it."
    )


def _place_insertion(lines: Sequence[str], hunk: PatchHunk, drift: int, name: str) -> _Placed:
    """Where lines go that come without any line of the file beside them."""
    bare = replace(hunk, lines=tuple(line for line in hunk.lines if line.kind == "+"))
    if hunk.hints:
        hinted = _hinted(lines, hunk.hints)
        if len(hinted) == 1:
            return _Placed(hinted[0] + 1, "exact", bare)
        if hunk.old_start is None:
            where = f"at {places(hinted)}" if hinted else "nowhere"
            raise PatchError(
                f"Hunk {hunk.number} of {name} only adds lines, and its hint {hunk.hints[-1]!r} stands "
                f"{where}; add a kept line of the file beside the new ones."
            )
    if hunk.old_start is None or hunk.at_end:
        return _Placed(len(lines), "exact", bare)
    if not hunk.old:
        # Without old lines a diff names the line after which the new ones go.
        return _Placed(min(max(hunk.old_start + drift, 0), len(lines)), "exact", bare)
    start = max(hunk.old_start - 1 + drift, 0)
    if lines[start : start + len(hunk.old)] == hunk.old:
        return _Placed(start, "exact", hunk)
    return _Placed(min(start, len(lines)), "exact", bare)


def _hinted(lines: Sequence[str], hints: Sequence[str]) -> list[int]:
    """The lines the last hint names, each the first one below a line that the hint before it names."""
    named = _lines_with(lines, hints[0])
    for hint in hints[1:]:
        below = _lines_with(lines, hint)
        nexts = {bisect_right(below, line) for line in named} - {len(below)}
        named = sorted(below[index] for index in nexts)
    return named


def _lines_with(lines: Sequence[str], hint: str) -> list[int]:
    """Lines that equal the hint, else start with it, else contain it."""
    stripped = [line.strip() for line in lines]
    for fits in (hint.__eq__, lambda line: line.startswith(hint), lambda line: hint in line):
        found = [index for index, line in enumerate(stripped) if fits(line)]
        if found:
            return found
    return []


def _changes(lines: Sequence[str], placed: _Placed) -> list[_Change]:
    """The least changes to whole lines that carry out a placed hunk."""
    old, new = placed.hunk.old, placed.hunk.new
    there = lines[placed.first : placed.first + len(old)]
    rewritten = new if placed.strategy == "exact" else rewrite(there, Exchange(old, new))
    return [
        _Change(
            placed.first + block.a_start,
            placed.first + block.a_stop,
            tuple(rewritten[block.b_start : block.b_stop]),
            placed.hunk.number,
        )
        for block in changed_blocks(there, rewritten)
    ]


def _spans(file: TextFile, lines: Sequence[str], changes: Sequence[_Change], name: str) -> list[Replacement]:
    starts = line_starts(lines)
    spans: list[Replacement] = []
    before: _Change | None = None
    for change in sorted(changes, key=lambda change: (change.first, change.stop)):
        if before is not None and change.first < before.stop:
            raise PatchError(
                f"Hunks {before.hunk} and {change.hunk} change the same line {change.first + 1} of {name}; "
                "make them one hunk."
            )
        spans.append(line_span(file.text, starts, change.first, change.stop, change.new))
        before = change
    return spans


def _with_final_newline(file: TextFile) -> TextFile:
    size = len(file.text)
    return file.revise([Replacement(size, size, "\n")]) if size and not file.text.endswith("\n") else file


def _without_final_newline(file: TextFile) -> TextFile:
    size = len(file.text)
    return file.revise([Replacement(size - 1, size, "")]) if file.text.endswith("\n") else file


def _without_outer_blanks(hunk: PatchHunk) -> PatchHunk:
    """The hunk without blank kept lines at its ends: models add them to part hunks."""
    first, stop = 0, len(hunk.lines)
    while first < stop and hunk.lines[first].kind == " " and not hunk.lines[first].text.strip():
        first += 1
    while stop > first and hunk.lines[stop - 1].kind == " " and not hunk.lines[stop - 1].text.strip():
        stop -= 1
    return replace(hunk, lines=hunk.lines[first:stop])


def _count(lines: Sequence[str]) -> str:
    return "old line is" if len(lines) == 1 else f"{len(lines)} old lines are"
