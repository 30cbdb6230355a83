"""Files as text: encodings, line endings, and detection of binary files."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
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
    """A replacement of the characters `start` to `stop` of a text with `new`."""

    start: int
    stop: int
    new: str


@dataclass(frozen=True, slots=True)
class TextFile:
    r"""The content of a text file. In `text` all line endings are `\n`."""

    text: str
    ends: bytes = b""
    """One byte per line ending in `text`: 1 where the file has `\\r\\n`."""
    encoding: Encoding = "utf-8"
    mark: bytes = b""

    @property
    def lines(self) -> list[str]:
        """Return the lines without their line endings. A newline at the end of the text adds no line."""
        return split_lines(self.text)

    @property
    def line_ends(self) -> Literal["lf", "crlf", "mixed"]:
        if _CRLF not in self.ends:
            return "lf"
        return "mixed" if _LF in self.ends else "crlf"

    def revise(self, spans: Sequence[Replacement]) -> TextFile:
        """Return the file with `spans` replaced (in order, not overlapping, in characters of `text`).

        Line endings outside of the spans stay; new lines get that of the line in which they start.
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
            # The mark is stored separately; one quoted with the first line would be there twice.
            text = text.removeprefix("\ufeff")
        return TextFile(text, bytes(ends), self.encoding, self.mark)

    def encode(self) -> bytes:
        """Return the bytes of the file. Raises `ToolError` if its encoding lacks a character."""
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
        """Return the line ending, `_LF` or `_CRLF`, for a line inserted at index `line`."""
        if line < len(self.ends):
            return self.ends[line]
        return self.ends[-1] if self.ends else _LF


EMPTY = TextFile("")


def decode(data: bytes) -> TextFile:
    """Return the text in `data`; `decode(data).encode() == data` for all bytes."""
    mark, text, encoding = _decode(data)
    if "\r\n" not in text:
        return TextFile(text, bytes(text.count("\n")), encoding, mark)
    if text.count("\r\n") == text.count("\n"):
        ends = bytes([_CRLF]) * text.count("\n")
    else:
        ends = bytes(line.endswith("\r") for line in text.split("\n")[:-1])
    return TextFile(text.replace("\r\n", "\n"), ends, encoding, mark)


def mark_of(data: bytes) -> tuple[bytes, Encoding] | None:
    """Return the byte-order mark at the start of `data` and its encoding; None without a mark."""
    return next(((mark, encoding) for mark, encoding in _MARKS if data.startswith(mark)), None)


def decode_line(line: bytes) -> str:
    """Decode one line of an 8-bit encoding: UTF-8, else Windows-1252, else Latin-1."""
    for encoding in _FALLBACKS:
        try:
            return line.decode(encoding)
        except UnicodeDecodeError:
            continue
    return line.decode("latin-1")


def split_lines(text: str) -> list[str]:
    r"""Split a text at `\n`; the lines do not include it. An empty text has none."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def to_newlines(text: str) -> str:
    r"""Return `text` with every `\r\n` as `\n`."""
    return text.replace("\r\n", "\n")


def line_starts(lines: Iterable[str]) -> list[int]:
    """Return the offset of each line in the joined text, and the offset after the last line."""
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    return starts


def line_span(text: str, starts: Sequence[int], first: int, stop: int, new: Sequence[str]) -> Replacement:
    """Return the replacement of the lines `first` to `stop` of `text` with `new`.

    `starts` is `line_starts` of the text's lines. Unless the text was empty, it has a newline at its end
    afterwards only if it had one before.
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


SAMPLE_BYTES = 8192
"""Bytes at the start of a file used for detection."""

_SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF87a", "GIF image"),
    (b"GIF89a", "GIF image"),
    (b"%PDF-", "PDF document"),
    (b"PK\x03\x04", "ZIP archive"),
    (b"PK\x05\x06", "ZIP archive"),
    (b"\x1f\x8b", "gzip archive"),
    (b"BZh", "bzip2 archive"),
    (b"\xfd7zXZ\x00", "xz archive"),
    (b"7z\xbc\xaf\x27\x1c", "7z archive"),
    (b"\x28\xb5\x2f\xfd", "Zstandard archive"),
    (b"\x7fELF", "program"),
    (b"\xcf\xfa\xed\xfe", "program"),
    (b"\xca\xfe\xba\xbe", "program"),
    (b"SQLite format 3\x00", "SQLite database"),
    (b"OggS", "Ogg recording"),
    (b"fLaC", "FLAC recording"),
    (b"ID3", "MP3 recording"),
    (b"\x00asm", "WebAssembly module"),
)

# Names that speak even where the first bytes look like some text.
_BY_NAME: dict[str, str] = {
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".ico", ".tiff", ".heic"), "picture"),
    **dict.fromkeys((".mp3", ".wav", ".ogg", ".flac", ".m4a", ".aac"), "recording"),
    **dict.fromkeys((".mp4", ".mkv", ".mov", ".avi", ".webm"), "video"),
    **dict.fromkeys((".zip", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar", ".tar", ".zst"), "packed file"),
    **dict.fromkeys((".docx", ".xlsx", ".pptx", ".odt", ".ods", ".odp", ".doc", ".xls", ".ppt"), "document"),
    **dict.fromkeys((".pdf", ".epub"), "document"),
    **dict.fromkeys((".so", ".dll", ".dylib", ".exe", ".o", ".a", ".class", ".pyc", ".pyd"), "compiled file"),
    **dict.fromkeys((".woff", ".woff2", ".ttf", ".otf", ".eot"), "font"),
    **dict.fromkeys((".sqlite", ".sqlite3", ".parquet", ".npy", ".npz", ".pkl", ".h5"), "data file"),
    **dict.fromkeys((".safetensors", ".gguf", ".onnx", ".pt"), "model file"),
}

_TEXT_CONTROLS = frozenset(b"\t\n\r\f\b\x1b")
_MAX_CONTROL_SHARE = 0.1


def binary_kind(name: str, sample: bytes) -> str | None:
    """Return the type of a file with this name and start, such as `PNG image`; None for text."""
    if not sample:
        return None
    for signature, kind in _SIGNATURES:
        if sample.startswith(signature):
            # Some signatures are words that could start a text, so the rest has to agree.
            return kind if kind == "PDF document" or not _is_plain(sample) else None
    if mark_of(sample) is not None:
        return None
    named = _BY_NAME.get(PurePath(name).suffix.lower())
    if named is not None and not _is_plain(sample):
        return named
    if b"\0" in sample or _control_share(sample) > _MAX_CONTROL_SHARE:
        return named or "binary file"
    return None


def _is_plain(sample: bytes) -> bool:
    """Return whether `sample` is UTF-8 without control bytes. It may end within a character."""
    if _control_share(sample) > 0:
        return False
    try:
        sample.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data" and error.start > len(sample) - 4
    return True


def _control_share(sample: bytes) -> float:
    controls = sum(byte < 32 and byte not in _TEXT_CONTROLS for byte in sample)
    return controls / len(sample)
