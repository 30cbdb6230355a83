"""Bytes to text and back without losing one of them.

Inside, every line ends in `\\n`; a `TextFile` remembers for each line whether it
was `\\r\\n` on disk, and which encoding and byte-order mark the file has.
A lone `\\r` is an ordinary character, as it is for git and grep.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from tools.results import ToolError

Encoding = Literal["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "cp1252", "latin-1"]

# The marks of UTF-32 begin with those of UTF-16, so they come first.
_MARKS: tuple[tuple[bytes, Encoding], ...] = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_FALLBACKS: tuple[Encoding, ...] = ("utf-8", "cp1252")

_LF, _CRLF = 0, 1


@dataclass(frozen=True, slots=True)
class Replacement:
    """Replace the characters `start` to `stop` of a text by `new`."""

    start: int
    stop: int
    new: str


@dataclass(frozen=True, slots=True)
class TextFile:
    """The content of a text file. `text` has only `\\n` as line ends."""

    text: str
    ends: bytes = b""
    """One byte per line end in `text`: 1 where the file has `\\r\\n`."""
    encoding: Encoding = "utf-8"
    mark: bytes = b""

    @property
    def lines(self) -> list[str]:
        """The lines without their ends; a missing or present final newline makes no difference."""
        return split_lines(self.text)

    @property
    def line_ends(self) -> Literal["lf", "crlf", "mixed"]:
        if _CRLF not in self.ends:
            return "lf"
        return "mixed" if _LF in self.ends else "crlf"

    def revise(self, spans: Sequence[Replacement]) -> TextFile:
        """The file after replacing `spans` (in order, not overlapping, in characters of `text`).

        Line ends outside of the spans stay; new lines end like the line they start in.
        """
        pieces: list[str] = []
        ends = bytearray()
        done = 0
        line = 0
        for span in spans:
            if not done <= span.start <= span.stop <= len(self.text):
                raise ValueError("spans must be in order and must not overlap")
            kept = self.text[done : span.start]
            newlines = kept.count("\n")
            pieces += (kept, span.new)
            ends += self.ends[line : line + newlines]
            line += newlines
            ends += bytes([self._end_near(line)]) * span.new.count("\n")
            line += self.text.count("\n", span.start, span.stop)
            done = span.stop
        pieces.append(self.text[done:])
        ends += self.ends[line:]
        text = "".join(pieces)
        if self.mark:
            # The mark is kept apart; one that was quoted with the first line would stand there twice.
            text = text.removeprefix("\ufeff")
        return TextFile(text, bytes(ends), self.encoding, self.mark)

    def encode(self) -> bytes:
        """The bytes of the file. Raises `ToolError` when its encoding lacks a character."""
        text = self.text
        match self.line_ends:
            case "crlf":
                text = text.replace("\n", "\r\n")
            case "mixed":
                lines = text.split("\n")
                ends = ["\r\n" if end else "\n" for end in self.ends] + [""]
                text = "".join(line + end for line, end in zip(lines, ends, strict=True))
        try:
            return self.mark + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            missing = text[error.start]
            raise ToolError(
                f"The file is encoded in {self.encoding}, which lacks U+{ord(missing):04X}; "
                "use other characters or convert the file to UTF-8 first."
            ) from None

    def _end_near(self, line: int) -> int:
        """The line end a line inserted at index `line` gets."""
        if line < len(self.ends):
            return self.ends[line]
        return self.ends[-1] if self.ends else _LF


EMPTY = TextFile("")


def decode(data: bytes) -> TextFile:
    """The text in `data`; `decode(data).encode() == data` for all bytes there are."""
    mark, text, encoding = _decode(data)
    if "\r\n" not in text:
        return TextFile(text, bytes(text.count("\n")), encoding, mark)
    if text.count("\r\n") == text.count("\n"):
        ends = bytes([_CRLF]) * text.count("\n")
    else:
        ends = bytes(line.endswith("\r") for line in text.split("\n")[:-1])
    return TextFile(text.replace("\r\n", "\n"), ends, encoding, mark)


def mark_of(data: bytes) -> tuple[bytes, Encoding] | None:
    """The byte-order mark at the start of `data` and the encoding it stands for."""
    return next(((mark, encoding) for mark, encoding in _MARKS if data.startswith(mark)), None)


def decode_line(line: bytes) -> str:
    """One line of an 8-bit encoding: UTF-8, else Windows-1252, else Latin-1."""
    for encoding in _FALLBACKS:
        try:
            return line.decode(encoding)
        except UnicodeDecodeError:
            continue
    return line.decode("latin-1")


def split_lines(text: str) -> list[str]:
    """The lines of a text with `\\n` ends, without the ends. An empty text has none."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def to_newlines(text: str) -> str:
    """`text` with every `\\r\\n` as `\\n`."""
    return text.replace("\r\n", "\n")


def line_starts(lines: Iterable[str]) -> list[int]:
    """Offset of each line in the text they make when joined by `\\n`, and of the line after the last."""
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    return starts


def line_span(text: str, starts: Sequence[int], first: int, stop: int, new: Sequence[str]) -> Replacement:
    """The span that puts the lines `new` in place of the lines `first` to `stop` of `text`.

    `starts` is `line_starts` of the text's lines. Whether the text ends in a
    newline does not change, unless it was empty.
    """
    count = len(starts) - 1
    begin = min(starts[first], len(text))
    if new and stop > first:
        return Replacement(begin, starts[stop] - 1, "\n".join(new))
    if new:
        if first == count and text and not text.endswith("\n"):
            return Replacement(begin, begin, "\n" + "\n".join(new))
        return Replacement(begin, begin, "\n".join(new) + "\n")
    if stop < count or text.endswith("\n") or stop == first:
        return Replacement(begin, min(starts[stop], len(text)), "")
    return Replacement(max(begin - 1, 0), len(text), "")


def _decode(data: bytes) -> tuple[bytes, str, Encoding]:
    marked = mark_of(data)
    if marked is not None:
        mark, encoding = marked
        try:
            return mark, data[len(mark) :].decode(encoding), encoding
        except UnicodeDecodeError:
            pass
    for encoding in _FALLBACKS:
        try:
            return b"", data.decode(encoding), encoding
        except UnicodeDecodeError:
            continue
    return b"", data.decode("latin-1"), "latin-1"
