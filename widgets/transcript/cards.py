"""Cards of tool calls: one honest row, and what opens below it."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tools.results import DiffDetail, TextDetail
from tools.text.safe_text import clean
from widgets.transcript.items import CallItem, Fold, error_of, value_text
from widgets.transcript.part_types import CodePart, DiffPart, HeadPart, Part, PicturePart, WordsPart, chunks
from widgets.transcript.wrap import flat

PEEK_ROWS = 12
"""Rows that a card shows which opened itself."""
LIVE_ROWS = 3
"""Rows of output below the card of a running call."""
PRETTY_CHARS = 65_536
"""A longer result is not laid out anew."""
LANGUAGE_LINES = 400
"""A longer text is shown without the colours of its language, in parts."""


def call_parts(item: CallItem, fold: Fold, spinner: int = -1) -> list[Part]:
    """The parts of a card. `spinner` is the face of the spinner, -1 if it does not turn."""
    parts: list[Part] = [head_of(item, fold, spinner)]
    if fold is Fold.OPEN:
        parts += _arguments(item)
        parts += _error(item)
        parts += _live(item) if item.outcome is None else _detail(item)
    elif item.outcome is None:
        parts += _live(item)
    elif fold is Fold.PEEK:
        parts += _error(item)
        parts += _peek(item)
    if fold is not Fold.CLOSED and item.outcome == "done" and item.display.picture:
        parts.append(PicturePart(item.display.picture))
    return parts


def head_of(item: CallItem, fold: Fold, spinner: int = -1) -> HeadPart:
    """The row of a card."""
    display = item.display
    state = item.outcome or "running"
    summary = clean(display.summary)
    if fold is not Fold.CLOSED and summary and summary.strip() == clean(error_of(item)).strip():
        # The sentence stands in full below the row.
        summary = ""
    return HeadPart(
        state=state,
        tool=item.tool,
        verb=clean(display.verb) or clean(item.tool),
        subject=clean(display.subject),
        summary=summary,
        right=_right(item, fold),
        spinner=spinner,
    )


def duration(seconds: float) -> str:
    """A duration as a person reads it: `0.1 s`, `42 s`, `3 min 5 s`."""
    if seconds < 9.95:
        return f"{max(seconds, 0.0):.1f} s"
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def _right(item: CallItem, fold: Fold) -> str:
    if item.outcome is None:
        # Whole seconds: a row that is read holds still.
        return f"{int(item.seconds)} s" if item.seconds >= 1 else ""
    kept = f"↺ {item.files:,} {'file' if item.files == 1 else 'files'}   " if item.files else ""
    hint = "⏎ diff   " if isinstance(item.display.detail, DiffDetail) and fold is Fold.CLOSED else ""
    return kept + hint + duration(item.seconds)


def _arguments(item: CallItem) -> Iterator[Part]:
    for name, value in item.arguments.items():
        label = flat(clean(str(name)))
        text = clean(value_text(value))
        for number, piece in enumerate(chunks(text)):
            shown = f"{label}  {piece}" if number == 0 else piece
            yield WordsPart(shown, "text", label=label if number == 0 else "")


def _error(item: CallItem) -> Iterator[Part]:
    error = clean(error_of(item)).strip()
    if error:
        role = "error" if item.outcome == "failed" else "warning"
        for piece in chunks(error):
            yield WordsPart(piece, role)


def _live(item: CallItem) -> Iterator[Part]:
    lines = clean(item.live).rstrip("\n").split("\n")[-LIVE_ROWS:]
    if any(lines):
        yield CodePart("\n".join(lines))


def _detail(item: CallItem) -> Iterator[Part]:
    match item.display.detail:
        case DiffDetail(diff=diff):
            yield from (DiffPart(piece) for piece in hunks(clean(diff)))
        case TextDetail(text=text, language=language):
            yield from _code(clean(text).rstrip("\n"), language)
        case _ if item.result and not error_of(item):
            yield from _code(_pretty(item.result), "json")


def _code(text: str, language: str) -> Iterator[Part]:
    if not text.strip():
        yield WordsPart("no output", "dim")
    elif text.count("\n") <= LANGUAGE_LINES and len(text) <= PRETTY_CHARS:
        yield CodePart(text, language)
    else:
        yield from (CodePart(piece) for piece in chunks(text))


def _peek(item: CallItem) -> Iterator[Part]:
    match item.display.detail:
        case DiffDetail(diff=diff):
            yield DiffPart(clean(diff), rows=PEEK_ROWS)
        case TextDetail(text=text, language=language) if not item.display.picture:
            # What went wrong stands at the end of an output.
            lines = clean(text).strip("\n").split("\n")
            if len(lines) > PEEK_ROWS:
                yield WordsPart(f"… {len(lines) - PEEK_ROWS:,} more above, ⏎", "dim")
            if any(lines):
                yield CodePart("\n".join(lines[-PEEK_ROWS:]), language)


def hunks(diff: str) -> Iterator[str]:
    """A long diff in parts: cut before hunks, so that each keeps its line numbers."""
    lines: list[str] = []
    for line in diff.split("\n"):
        if len(lines) >= 200 and line.startswith(("@@ ", "diff ")):
            yield "\n".join(lines)
            lines = []
        lines.append(line)
    if any(lines):
        yield "\n".join(lines)


def _pretty(result: str) -> str:
    if len(result) <= PRETTY_CHARS:
        try:
            return clean(json.dumps(json.loads(result), indent=2, ensure_ascii=False))
        except (ValueError, RecursionError):
            pass
    return clean(result)
