"""Replacing a quoted text within one file."""

from __future__ import annotations

from dataclasses import dataclass

from tools.files.advice import closest_sections, is_read_display, places
from tools.files.matching import LOOSE, FoundMatches, Strategy, TextMatch, find, without_overlaps
from tools.files.rewriting import Exchange, changes_what_it_quotes, refuse_escape_drift, replacement
from tools.files.text_files import Replacement, TextFile, split_lines, to_newlines
from tools.results import ToolError


@dataclass(frozen=True, slots=True)
class Replaced:
    """The file afterwards, how the text was found and how often it was replaced."""

    file: TextFile
    strategy: Strategy
    count: int


def replace_text(file: TextFile, old: str, new: str, *, everywhere: bool, name: str) -> Replaced:
    """`file` with `old` replaced by `new`, once or everywhere.

    Raises `ToolError` when `old` is empty, equal to `new`, not in the file, or
    there several times without `everywhere`.
    """
    old, new = to_newlines(old), to_newlines(new)
    if not old:
        raise ToolError("old_string is empty; quote the text to replace, or use write_file for a new file.")
    if old == new:
        raise ToolError("old_string and new_string are the same; there is nothing to change.")
    text = file.text
    found = _trusted(text, find(text, old), new, everywhere=everywhere)
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


def _trusted(text: str, found: FoundMatches | None, new: str, *, everywhere: bool) -> FoundMatches | None:
    """`found`, less the loose matches in which the lines to change are not the quoted ones."""
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
