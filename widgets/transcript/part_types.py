"""The kinds of parts a transcript is drawn from. Their text is clean already."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from widgets.transcript.blocks import MarkdownBlock

CHUNK_LINES = 64
CHUNK_CHARS = 8_192


@dataclass(frozen=True, slots=True)
class GapPart:
    """An empty row."""


GAP = GapPart()


@dataclass(frozen=True, slots=True)
class WordsPart:
    """Plain text in one role, wrapped on words, with a glyph in the gutter and a hint at the right edge."""

    text: str
    role: str
    glyph: str = ""
    glyph_role: str = "dim"
    right: str = ""
    rows: int = 0
    """After so many rows the rest is folded; 0: all is shown."""
    every_row: bool = False
    """The glyph stands in front of every row."""
    label: str = ""
    """The start of the text that is dim: the name of an argument."""


@dataclass(frozen=True, slots=True)
class MarkupPart:
    """One block of markdown."""

    block: MarkdownBlock


@dataclass(frozen=True, slots=True)
class CodePart:
    """Lines of code or output."""

    text: str
    language: str = ""


@dataclass(frozen=True, slots=True)
class DiffPart:
    """A unified diff. `rows` as in `WordsPart`."""

    diff: str
    rows: int = 0


@dataclass(frozen=True, slots=True)
class HeadPart:
    """The one row of a card: state, verb, subject and summary, and at the right edge hint and duration."""

    state: str
    """`running`, or the outcome."""
    tool: str
    verb: str
    subject: str
    summary: str
    right: str = ""
    spinner: int = -1
    """Which face of the spinner is shown; -1: the glyph of the state."""


@dataclass(frozen=True, slots=True)
class PicturePart:
    """A picture, drawn where the terminal can; without rows elsewhere. What it is called stands beside it."""

    source: str
    """What stands for it at `PictureShelf.load`."""


Part = GapPart | WordsPart | MarkupPart | CodePart | DiffPart | HeadPart | PicturePart


def size_of(part: Part) -> tuple[int, int]:
    """Characters and line feeds of a part, from which its height is estimated."""
    match part:
        case GapPart() | HeadPart() | PicturePart():
            return 0, 0
        case WordsPart(text=text) | CodePart(text=text) | DiffPart(diff=text):
            return len(text), text.count("\n")
        case MarkupPart(block=block):
            return len(block.source), block.source.count("\n")


def text_of(part: Part) -> str:
    """The text of a part, as far as it can be searched."""
    match part:
        case GapPart() | PicturePart():
            return ""
        case HeadPart():
            return f"{part.verb} {part.subject} {part.summary}"
        case WordsPart(text=text) | CodePart(text=text) | DiffPart(diff=text):
            return text
        case MarkupPart(block=block):
            return block.source


def chunks(text: str) -> Iterator[str]:
    """Text cut between lines, or within one that has no end, into pieces that are drawn in little time."""
    lines: list[str] = []
    size = 0
    for line in text.split("\n"):
        for start in range(0, max(len(line), 1), CHUNK_CHARS):
            piece = line[start : start + CHUNK_CHARS]
            if lines and (len(lines) >= CHUNK_LINES or size + len(piece) > CHUNK_CHARS):
                yield "\n".join(lines)
                lines, size = [], 0
            lines.append(piece)
            size += len(piece)
    yield "\n".join(lines)
