"""Applying hunks and replacements to the text of a file."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from itertools import pairwise

from tools.files.diffs import changed_blocks
from tools.files.matching import (
    DASHES,
    LOOSE,
    FoundLines,
    FoundMatches,
    LineIndex,
    Strategy,
    TextMatch,
    closest_sections,
    find,
    is_read_display,
    places,
    plain_typography,
    unescape,
    without_overlaps,
)
from tools.files.patch_text import PatchError, PatchHunk
from tools.files.text_files import Replacement, TextFile, line_span, line_starts, split_lines, to_newlines
from tools.kit.lazy_pattern import lazy_pattern
from tools.results import ToolError

_DEFAULT_UNIT = 4


@dataclass(frozen=True, slots=True)
class Indentation:
    """The indentation learned from matching lines. `known` maps indentations of the model to those of the
    file.
    """

    known: Mapping[str, str] = field(default_factory=dict)
    model_unit: int = _DEFAULT_UNIT
    """Columns per level if the model indents with spaces."""
    file_unit: int = _DEFAULT_UNIT

    @classmethod
    def learn(cls, pairs: Iterable[tuple[str, str]], further: Sequence[str] = ()) -> Indentation:
        """Return the indentation learned from pairs of a model's line and the file's line.

        `further` are more lines of the model.
        """
        known: dict[str, str] = {}
        file_indents: list[str] = []
        for model_line, file_line in pairs:
            if model_line.strip() and file_line.strip():
                known.setdefault(indent_of(model_line), indent_of(file_line))
                file_indents.append(indent_of(file_line))
        model_indents = list(known) + [indent_of(line) for line in further if line.strip()]
        model_unit = _unit(model_indents)
        file_unit = _unit(file_indents)
        if not _has_tabs(model_indents) and not _has_tabs(file_indents) and len(set(known)) < 2:
            # One pair shows a shift, not a scale.
            file_unit = model_unit
        return cls(known, model_unit, file_unit)

    @property
    def is_same(self) -> bool:
        """Return whether all known indentations of the model are those of the file."""
        return all(model == file for model, file in self.known.items())

    def carry(self, line: str) -> str:
        """Return a line written by the model with the file's indentation."""
        body = line.lstrip(" \t")
        if not body or self.is_same:
            return line
        return self._carry_indent(line[: len(line) - len(body)]) + body

    def _carry_indent(self, indent: str) -> str:
        if indent in self.known:
            return self.known[indent]
        above = [known for known in self.known if indent.startswith(known)]
        if above:
            base = max(above, key=len)
            return self.known[base] + self._convert(indent[len(base) :])
        below = [known for known in self.known if known.startswith(indent)]
        if below:
            base = min(below, key=len)
            return _without(self.known[base], self._convert(base[len(indent) :]))
        return indent

    def _convert(self, extra: str) -> str:
        """Convert the part of an indentation that exceeds a known one into the file's tabs or spaces."""
        file_tabs = _has_tabs(self.known.values())
        model_tabs = "\t" in extra
        if file_tabs and not model_tabs:
            return "\t" * max(1, round(len(extra) / self.model_unit))
        if not file_tabs and model_tabs and any(self.known.values()):
            return " " * (self.file_unit * extra.count("\t"))
        if not file_tabs and not model_tabs and len(extra) % self.model_unit == 0:
            return " " * (len(extra) // self.model_unit * self.file_unit)
        return extra


def indent_of(line: str) -> str:
    """Return the blanks `line` starts with."""
    return line[: len(line) - len(line.lstrip(" \t"))]


def _without(indent: str, cut: str) -> str:
    if indent.endswith(cut):
        return indent[: len(indent) - len(cut)]
    return "" if len(cut) >= len(indent) else indent


def _has_tabs(indents: Iterable[str]) -> bool:
    return any("\t" in indent for indent in indents)


def _unit(indents: Iterable[str]) -> int:
    """Return the smallest indentation step in columns of spaces; 4 if there is none."""
    depths = sorted({len(indent) for indent in indents if "\t" not in indent})
    steps = [deeper - depth for depth, deeper in pairwise(depths)]
    if steps:
        return min(steps)
    return depths[0] if depths and depths[0] else _DEFAULT_UNIT


_MAX_ALIGNED_CHARS = 1_000
_TELLING = lazy_pattern(r"""\w+|-|[^\w\s'"`\\-]""")


@dataclass(frozen=True, slots=True)
class Exchange:
    """Lines to be changed: `old` as quoted by the model, `new` as they should be."""

    old: Sequence[str]
    new: Sequence[str]


def replacement(text: str, found: FoundMatches, match: TextMatch, query: str, new: str) -> list[Replacement]:
    """Return the smallest spans that replace `query` with `new` at `match`."""
    there = text[match.start : match.stop]
    if found.strategy == "exact":
        return minimal_spans(match.start, there, new)
    if found.strategy == "escape_normalized":
        new = unescape(new)
    if found.strategy == "trimmed_boundary":
        new = _trimmed_alike(query, new)
    sought = found.sought
    if sought.endswith("\n") and not there.endswith("\n"):
        sought, new = sought[:-1], new.removesuffix("\n")
    # Both sides split the same way: a final newline becomes a last, empty line on each.
    file_lines, old_lines, new_lines = there.split("\n"), sought.split("\n"), new.split("\n")
    if len(file_lines) != len(old_lines):
        indentation = Indentation.learn(((old_lines[0], file_lines[0]),), new_lines)
        return minimal_spans(match.start, there, "\n".join(map(indentation.carry, new_lines)))
    # A match after only the indentation of its line stands for the whole line.
    start = text.rfind("\n", 0, match.start) + 1
    is_whole = not text[start : match.start].strip(" \t")
    start = start if is_whole else match.start
    file_lines[0] = text[start : match.start] + file_lines[0]
    rewritten = rewrite(file_lines, Exchange(old_lines, new_lines), first_is_whole=is_whole)
    return minimal_spans(start, text[start : match.stop], "\n".join(rewritten))


def rewrite(file_lines: Sequence[str], exchange: Exchange, *, first_is_whole: bool = True) -> list[str]:
    """Return the new lines for `file_lines`, which correspond one to one to `exchange.old`."""
    old, new = exchange.old, exchange.new
    pairs = list(zip(old, file_lines, strict=True))
    indentation = Indentation.learn(pairs if first_is_whole else pairs[1:], new)
    result: list[str] = []
    here = 0
    for block in changed_blocks(old, new):
        result.extend(file_lines[here : block.a_start])
        fresh = [
            line if index == 0 and not first_is_whole else indentation.carry(line)
            for index, line in enumerate(new[block.b_start : block.b_stop], block.b_start)
        ]
        replaced = pairs[block.a_start : block.a_stop]
        if len(fresh) == len(replaced):
            typed = new[block.b_start : block.b_stop]
            fresh = [_in_place_of(*item) for item in zip(replaced, typed, fresh, strict=True)]
        result.extend(fresh)
        here = block.a_stop
    result.extend(file_lines[here:])
    return result


def changes_what_it_quotes(file_lines: Sequence[str], exchange: Exchange) -> bool:
    """Return whether `exchange` removes only lines from the file that it quotes.

    If only most lines of a block matched, this keeps a change from hitting a line the model never saw.
    Blanks, quotes, dashes and escapes may differ in a quoted line; the rest may not.
    """
    old, new = exchange.old, exchange.new
    if len(file_lines) == len(old):
        return all(
            _spoken_tokens(file_lines[index]) == _spoken_tokens(old[index])
            for block in changed_blocks(old, new)
            for index in range(block.a_start, block.a_stop)
        )
    # They do not match one to one: lines missing in the new ones are removed, in the old order.
    named = iter([_spoken_tokens(line) for line in old])
    return all(
        not (said := _spoken_tokens(file_lines[index])) or said in named
        for block in changed_blocks(file_lines, new)
        for index in range(block.a_start, block.a_stop)
    )


def _spoken_tokens(line: str) -> list[str]:
    """Return the tokens of a line without what models often copy wrongly, such as quotes and dashes."""
    said = _TELLING.findall(unicodedata.normalize("NFC", plain_typography(unescape(line), "-")))
    return said[:-1] if said and said[-1] in ",;" else said


def minimal_spans(offset: int, there: str, new: str) -> list[Replacement]:
    """Return replacements that turn the text `there`, which begins at `offset`, into `new`.

    They touch only lines that differ.
    """
    a, b = there.split("\n"), new.split("\n")
    starts = line_starts(a)
    spans: list[Replacement] = []
    for block in changed_blocks(a, b):
        begin, end = starts[block.a_start], starts[block.a_stop] - 1
        fresh = "\n".join(b[block.b_start : block.b_stop])
        if block.a_start == block.a_stop:
            # Only added lines: they bring the newline that parts them from their neighbour.
            at_end = block.a_start == len(a)
            position = end if at_end else begin
            spans.append(
                Replacement(offset + position, offset + position, "\n" + fresh if at_end else fresh + "\n")
            )
        elif block.b_start == block.b_stop:
            at_end = block.a_stop == len(a)
            spans.append(Replacement(offset + begin - at_end, offset + end + (not at_end), ""))
        else:
            spans.append(Replacement(offset + begin, offset + end, fresh))
    return spans


def refuse_escape_drift(found: FoundMatches, there: str, query: str, new: str) -> None:
    """Raise `ToolError` if the model escaped quotes that the file does not, as it would write backslashes."""
    if found.strategy == "exact":
        return
    for escaped in ("\\'", '\\"'):
        if escaped in query and escaped in new and escaped not in there:
            raise ToolError(
                f"old_string and new_string hold {escaped} but the file has {escaped[1]} there; "
                "send both again without the backslash."
            )


def _trimmed_alike(query: str, new: str) -> str:
    """Return `new` without blanks at its ends that `query` has and the file lacks."""
    lead = query[: len(query) - len(query.lstrip())]
    tail = query[len(query.rstrip()) :]
    return new.removeprefix(lead).removesuffix(tail) if new.strip() else ""


def _in_place_of(pair: tuple[str, str], typed: str, carried: str) -> str:
    """Return a line that replaces exactly one other, in that line's indentation and typography."""
    old, there = pair
    if typed.strip() and indent_of(typed) == indent_of(old) and there.strip():
        carried = indent_of(there) + typed.lstrip(" \t")
    return _keep_typography(old, there, carried)


def _keep_typography(old: str, there: str, new: str) -> str:
    """Return `new` with the file's typographic characters where the model wrote ASCII for them.

    Only unchanged characters are affected.
    """
    if max(len(there), len(new)) > _MAX_ALIGNED_CHARS or len(plain_typography(new)) != len(new):
        return new
    for dash in DASHES:
        pieces = _plain_pieces(there, dash)
        plain = "".join(piece.plain for piece in pieces)
        if plain != there and plain.split() == plain_typography(old, dash).split():
            return _align_characters(pieces, plain, new)
    return new


def _align_characters(pieces: Sequence[_Piece], plain: str, new: str) -> str:
    """Return `new`, in which the parts equal to `plain` keep the original characters of the line."""
    heads = {piece.start: piece for piece in pieces}
    result: list[str] = []
    for tag, start, stop, new_start, new_stop in SequenceMatcher(
        None, plain, new, autojunk=False
    ).get_opcodes():
        if tag != "equal":
            result.append(new[new_start:new_stop])
            continue
        here = start
        while here < stop:
            piece = heads.get(here)
            if piece is not None and here + len(piece.plain) <= stop:
                result.append(piece.original)
                here += len(piece.plain)
            else:
                result.append(plain[here])
                here += 1
    return "".join(result)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A character of the file (with invisible ones before it), and its plain form at offset `start`."""

    start: int
    plain: str
    original: str


def _plain_pieces(there: str, dash: str) -> list[_Piece]:
    pieces: list[_Piece] = []
    start = 0
    waiting = ""
    for character in there:
        plain = plain_typography(character, dash)
        if not plain:
            waiting += character
            continue
        pieces.append(_Piece(start, plain, waiting + character))
        start += len(plain)
        waiting = ""
    return pieces


@dataclass(frozen=True, slots=True)
class Patched:
    """The file after all hunks, and the matching strategy of each."""

    file: TextFile
    strategies: tuple[Strategy, ...]


@dataclass(frozen=True, slots=True)
class _Change:
    """A replacement of lines `first` to `stop` with `new`."""

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
    """Return `file` with `hunks` applied, and how each was matched.

    Raises `PatchError` if a hunk matches no position, matches several, or overlaps another one.
    """
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
            "If they should appear there twice, quote a line above and a line below them."
        )
    return _Placed(first, found.strategy, hunk)


def _is_there_already(lines: Sequence[str], hunk: PatchHunk, first: int) -> bool:
    """Return whether a hunk that only adds lines before or after its quoted lines was already applied.

    A patch that is sent twice would add the lines twice. A hunk with quoted lines on both sides no longer
    matches.
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
    """Return the match to use, by line number, end of file, hints, or order. Raises `PatchError`."""
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
        nexts = {bisect_right(firsts, line - size) for line in _hinted_lines(lines, hunk.hints)} - {
            len(firsts)
        }
        if len(nexts) == 1:
            return firsts[nexts.pop()]
    if numbered is not None:
        return numbered
    later = [first for first in firsts if first >= cursor]
    if cursor and len(later) == 1:
        return later[0]
    raise _unclear(hunk, firsts, name)


def _nearest(firsts: Sequence[int], expected: int) -> int | None:
    """Return the match nearest to the expected line; None if two are equally near."""
    near = sorted(firsts, key=lambda first: abs(first - expected))[:2]
    return near[0] if abs(near[0] - expected) < abs(near[1] - expected) else None


def _stops_short(hunk: PatchHunk) -> bool:
    """Return whether a hunk must be at the end of the file, because no unchanged line follows its change."""
    return hunk.lines[0].kind == " " and hunk.lines[-1].kind != " "


def _unclear(hunk: PatchHunk, firsts: Sequence[int], name: str) -> PatchError:
    return PatchError(
        f"Hunk {hunk.number} fits {name} at {len(firsts)} places ({places(firsts)}); "
        "add lines around it or a line such as `@@ def name` before it."
    )


def _place_insertion(lines: Sequence[str], hunk: PatchHunk, drift: int, name: str) -> _Placed:
    """Return where to insert the lines of a hunk that quotes no line of the file. Raises `PatchError`."""
    bare = replace(hunk, lines=tuple(line for line in hunk.lines if line.kind == "+"))
    if hunk.hints:
        hinted = _hinted_lines(lines, hunk.hints)
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


def _hinted_lines(lines: Sequence[str], hints: Sequence[str]) -> list[int]:
    """Return the indexes of the lines that the last hint names.

    Each is the first one below a line that the previous hint names.
    """
    named = _lines_with(lines, hints[0])
    for hint in hints[1:]:
        below = _lines_with(lines, hint)
        nexts = {bisect_right(below, line) for line in named} - {len(below)}
        named = sorted(below[index] for index in nexts)
    return named


def _lines_with(lines: Sequence[str], hint: str) -> list[int]:
    """Return the indexes of the lines that equal the hint, else start with it, else contain it."""
    stripped = [line.strip() for line in lines]
    for fits in (hint.__eq__, lambda line: line.startswith(hint), lambda line: hint in line):
        found = [index for index, line in enumerate(stripped) if fits(line)]
        if found:
            return found
    return []


def _changes(lines: Sequence[str], placed: _Placed) -> list[_Change]:
    """Return the smallest changes of whole lines for a placed hunk."""
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
    """Return the hunk without blank kept lines at its ends, which models add between hunks."""
    first, stop = 0, len(hunk.lines)
    while first < stop and hunk.lines[first].kind == " " and not hunk.lines[first].text.strip():
        first += 1
    while stop > first and hunk.lines[stop - 1].kind == " " and not hunk.lines[stop - 1].text.strip():
        stop -= 1
    return replace(hunk, lines=hunk.lines[first:stop])


def _count(lines: Sequence[str]) -> str:
    return "old line is" if len(lines) == 1 else f"{len(lines)} old lines are"


@dataclass(frozen=True, slots=True)
class Replaced:
    """The resulting file, the matching strategy, and the number of replacements."""

    file: TextFile
    strategy: Strategy
    count: int


def replace_text(file: TextFile, old: str, new: str, *, everywhere: bool, name: str) -> Replaced:
    """Return `file` with `old` replaced by `new`, once or everywhere.

    Raises `ToolError` if `old` is empty, equal to `new`, not in the file, or there several times without
    `everywhere`.
    """
    old, new = to_newlines(old), to_newlines(new)
    if not old:
        raise ToolError("old_string is empty; quote the text to replace, or use write_file for a new file.")
    if old == new:
        raise ToolError("old_string and new_string are the same; there is nothing to change.")
    text = file.text
    found = _trusted_matches(text, find(text, old), new, everywhere=everywhere)
    if found is None:
        raise _not_found(file, old, name)
    matches = list(found.matches)
    if len(matches) > 1 and not everywhere:
        raise ToolError(
            f"Found {len(matches)} matches of old_string in {name} ({_where(text, matches)}); "
            "quote more lines around the one you mean, or set replace_all.",
            matches=len(matches),
        )
    spans: list[Replacement] = []
    matches = without_overlaps(matches)
    for match in matches:
        refuse_escape_drift(found, text[match.start : match.stop], old, new)
        spans.extend(replacement(text, found, match, old, new))
    revised = file.revise(spans)
    if revised.text == text:
        raise ToolError(
            f"{name} already has new_string where old_string was found ({_where(text, matches)}); "
            "there is nothing to change."
        )
    return Replaced(revised, found.strategy, len(matches))


def _trusted_matches(
    text: str, found: FoundMatches | None, new: str, *, everywhere: bool
) -> FoundMatches | None:
    """Return `found` without inexact matches that change unquoted lines; None if none remain."""
    if found is None or found.strategy not in LOOSE:
        return found
    exchange = Exchange(split_lines(found.sought), split_lines(new))
    kept = [
        match
        for match in found.matches
        if changes_what_it_quotes(split_lines(text[match.start : match.stop]), exchange)
    ]
    if not kept and len(found.matches) > 1 and not everywhere and found.strategy == "block_anchor":
        # Nothing is done either way; that several places come near says more.
        return found
    return FoundMatches(found.strategy, tuple(kept), found.sought) if kept else None


def _not_found(file: TextFile, old: str, name: str) -> ToolError:
    if not file.text:
        return ToolError(f"{name} is empty, so old_string is not in it; use write_file.")
    if is_read_display(old):
        return ToolError("old_string holds the line numbers read_file shows; send it without `N|`.")
    closest = closest_sections(file.lines, split_lines(old))
    advice = "compare it with the closest lines" if closest else "read the file again and copy from there"
    return ToolError(f"old_string is not in {name}; {advice}.", closest=closest)


def _where(text: str, matches: list[TextMatch]) -> str:
    firsts: list[int] = []
    line = done = 0
    for match in matches:
        line += text.count("\n", done, match.start)
        done = match.start
        firsts.append(line)
    return places(firsts)
