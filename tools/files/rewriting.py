"""Putting the model's new lines in place of the lines that were found.

Where the match was not exact, what the model left unchanged keeps the file's
own spelling (blanks, quotes, dashes) and what it added takes the file's
indentation.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from tools.files.diffs import changed_blocks
from tools.files.indentation import Indentation, indent_of
from tools.files.matching import DASHES, FoundMatches, TextMatch, plain_typography, unescape
from tools.files.text_files import Replacement, line_starts
from tools.results import ToolError

_MAX_ALIGNED_CHARS = 1_000
_TELLING = re.compile(r"""\w+|-|[^\w\s'"`\\-]""")


@dataclass(frozen=True, slots=True)
class Exchange:
    """Lines the model wants changed: `old` are as it quoted them, `new` as they are to be."""

    old: Sequence[str]
    new: Sequence[str]


def replacement(text: str, found: FoundMatches, match: TextMatch, query: str, new: str) -> list[Replacement]:
    """The spans that carry out "replace `query` by `new`" at `match`, as small as possible."""
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
    # A match behind nothing but the indentation of its line stands for the whole line.
    start = text.rfind("\n", 0, match.start) + 1
    is_whole = not text[start : match.start].strip(" \t")
    start = start if is_whole else match.start
    file_lines[0] = text[start : match.start] + file_lines[0]
    rewritten = rewrite(file_lines, Exchange(old_lines, new_lines), first_is_whole=is_whole)
    return minimal_spans(start, text[start : match.stop], "\n".join(rewritten))


def rewrite(file_lines: Sequence[str], exchange: Exchange, *, first_is_whole: bool = True) -> list[str]:
    """The new lines for `file_lines`, which stand one to one for the lines `exchange.old`."""
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
    """Whether every line of the file that `exchange` takes away is one that it names.

    Where only most lines of a block were alike, this keeps a change from hitting a line the model never
    saw. Blanks, quotes, dashes and escapes may differ in a line that is named; what else it says may not.
    """
    old, new = exchange.old, exchange.new
    if len(file_lines) == len(old):
        return all(
            _said(file_lines[index]) == _said(old[index])
            for block in changed_blocks(old, new)
            for index in range(block.a_start, block.a_stop)
        )
    # They do not stand one to one: what is not among the new ones goes, in the order of the old ones.
    named = iter([_said(line) for line in old])
    return all(
        not (said := _said(file_lines[index])) or said in named
        for block in changed_blocks(file_lines, new)
        for index in range(block.a_start, block.a_stop)
    )


def _said(line: str) -> list[str]:
    """What a line says, without what models mix up in copying it."""
    said = _TELLING.findall(unicodedata.normalize("NFC", plain_typography(unescape(line), "-")))
    return said[:-1] if said and said[-1] in ",;" else said


def minimal_spans(offset: int, there: str, new: str) -> list[Replacement]:
    """Spans that turn `there`, which stands at `offset`, into `new` and touch only lines that differ."""
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
    """Raise when the model escaped quotes that stand bare in the file: it would write the backslashes."""
    if found.strategy == "exact":
        return
    for escaped in ("\\'", '\\"'):
        if escaped in query and escaped in new and escaped not in there:
            raise ToolError(
                f"old_string and new_string hold {escaped} but the file has {escaped[1]} there; "
                "send both again without the backslash."
            )


def _trimmed_alike(query: str, new: str) -> str:
    """`new` without the blanks at its ends that `query` has and the file lacks."""
    lead = query[: len(query) - len(query.lstrip())]
    tail = query[len(query.rstrip()) :]
    return new.removeprefix(lead).removesuffix(tail) if new.strip() else ""


def _in_place_of(pair: tuple[str, str], typed: str, carried: str) -> str:
    """A line that takes the place of exactly one other: that one's indentation and typography count."""
    old, there = pair
    if typed.strip() and indent_of(typed) == indent_of(old) and there.strip():
        carried = indent_of(there) + typed.lstrip(" \t")
    return _keep_typography(old, there, carried)


def _keep_typography(old: str, there: str, new: str) -> str:
    """`new` with the file's typographic characters where the model typed plain ones and changed nothing."""
    if max(len(there), len(new)) > _MAX_ALIGNED_CHARS or len(plain_typography(new)) != len(new):
        return new
    for dash in DASHES:
        pieces = _plain_pieces(there, dash)
        plain = "".join(piece.plain for piece in pieces)
        if plain != there and plain.split() == plain_typography(old, dash).split():
            return _aligned(pieces, plain, new)
    return new


def _aligned(pieces: Sequence[_Piece], plain: str, new: str) -> str:
    """`new`, where it equals the `plain` form of a line, with the line's own characters."""
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
