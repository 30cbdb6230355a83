"""Outside text made safe to show: control sequences removed, hidden characters named.

The output of a child process, a file, a model or a web page may hold bytes that control a terminal or deceive
the reader. `clean` returns what a terminal would have left on the line, as plain text; `Cleaner` does the
same to a stream of bytes; `printable` serves pieces of an unfinished text; `reveal` keeps everything and
spells out invisible characters; `steers` checks and `without_steering` cleans a piece of a row before it is
drawn. They share one definition of hidden.

Letters, marks, private-use characters and code points that this Python does not know are text: a terminal and
its font may know more than Python.
"""

from __future__ import annotations

import codecs
import re
from functools import cache

from tools.kit.lazy_pattern import lazy_pattern

LINE_CELLS = 65_536
r"""Characters after which an unfinished line is emitted; `\r` then no longer reaches before them."""

_C1 = "\x80-\x9f"
_STRING_START = r"(?:\x1b[\]PX^_k]|[\x90\x98\x9d-\x9f])"
# A string sequence (OSC, DCS, …) also ends with its line, so that a lone opener cannot hide the rest.
_STRING_BODY = rf"[^\x07\x18\x1a\x1b\n{_C1}]*"
_CSI_START = r"(?:\x1b\[|\x9b)"
_EDIT = rf"{_CSI_START}([0-9]{{0,4}})([CDGK])"

_SEPARATOR = lazy_pattern("[\u2028\u2029]")
_CONTROL = lazy_pattern(rf"[\x00-\x08\x0b-\x1f\x7f{_C1}]")

# What follows is compiled when it is first used: that takes milliseconds, and the start needs none of it.


@cache
def _removed() -> re.Pattern[str]:
    return re.compile(
        rf"(?!{_EDIT})(?:"
        rf"{_STRING_START}{_STRING_BODY}(?:\x07|\x1b\\|\x9c)?"
        rf"|{_CSI_START}[0-?]*[ -/]*[@-~]?"
        rf"|\x1b[ -/]*[0-~]?"
        rf"|[\x00-\x07\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x8f\x91-\x97\x99\x9a\x9c]+)"
    )


@cache
def _edits() -> re.Pattern[str]:
    return re.compile(rf"([\r\b])|{_EDIT}")


@cache
def _unfinished() -> re.Pattern[str]:
    return re.compile(rf"{_STRING_START}{_STRING_BODY}|{_CSI_START}[0-?]*[ -/]*|\x1b[ -/]*")


# Characters without a shape of their own: marks of direction, fillers, tags, noncharacters.
_HIDDEN = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufdd0-\ufdef\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff\ud800-\udfff"
)
# Joiners and variation selectors belong to words and emoji of these blocks; anywhere else they only hide.
_SHAPED = (
    "\u0620-\u109f\u1200-\u17b3\u17b6-\u180a\u1820-\u1dff\u203c\u2049\u2190-\u2bff\u3030\u303d\u3297\u3299"
    "\ua840-\ua8ff\ua980-\uabff\ufb50-\ufdcf\ufdf0-\ufdff\ufe70-\ufefc\U00010a00-\U00011fff"
    "\U0001f000-\U0001faff"
)
_KEYCAPS = "0-9#*\u00a9\u00ae\u2122\u2139"
_IDEOGRAPHS = "\u3001-\u312f\u31a0-\u9fff\uf900-\ufaff\uff01-\uff60\U00020000-\U0002fffd\U00030000-\U0003fffd"
_JOINERS = "\u200c\u200d"
_SELECTORS = "\ufe00-\ufe0f"
_LEADING = "\u200c\u200d\ufe0e\ufe0f"
# The character is tested first and the text before it second: most characters are neither.
_JOINED = f"[{_JOINERS}](?<![{_SHAPED}][{_JOINERS}])(?<![{_SHAPED}]\ufe0f[{_JOINERS}])"
_VARIED = f"[{_SELECTORS}](?<![{_SHAPED}{_KEYCAPS}{_IDEOGRAPHS}][{_SELECTORS}])"


@cache
def _invisible() -> re.Pattern[str]:
    return re.compile(f"[{_HIDDEN}]|{_JOINED}|{_VARIED}")


@cache
def _suspect() -> re.Pattern[str]:
    return re.compile(f"[{_HIDDEN}{_JOINERS}{_SELECTORS}]")


@cache
def _unseen() -> re.Pattern[str]:
    return re.compile(
        rf"[\x00-\x08\x0b-\x1f\x7f{_C1}{_HIDDEN}"
        "\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u2800\u3000\ufe00-\ufe0d]"
        f"|{_JOINED}|[\ufe0e\ufe0f](?<![{_SHAPED}{_KEYCAPS}][\ufe0e\ufe0f])"
    )


@cache
def _steering() -> re.Pattern[str]:
    return re.compile(rf"[\x00-\x1f\x7f{_C1}\u2028\u2029{_HIDDEN}]")


@cache
def _seam() -> re.Pattern[str]:
    # What is taken out can have kept its neighbours from joining into one character.
    steering = _steering().pattern[1:-1]
    return re.compile(f"\u200d*[{steering}][{steering}{_JOINERS}{_SELECTORS}]*")


def clean(text: str) -> str:
    r"""Return `text` as a terminal would have left it, without anything that could control one.

    Escape sequences and control characters other than `\n` and `\t` are removed; `\r`, backspace and
    erase-line are carried out within their line; invisible format characters and lone surrogates are dropped.
    Linear in the length of `text`, never longer than it, and `clean(clean(x)) == clean(x)`.
    """
    if _CONTROL.search(text) is None:
        return _visible(_SEPARATOR.sub("\n", text))
    cleaner = Cleaner()
    return cleaner.feed_text(text) + cleaner.finish()


def printable(piece: str) -> str:
    """Return a piece of an unfinished text without the characters that could control a terminal.

    The other characters of an escape sequence stay visible, and so does a joiner that may belong to the
    previous piece. `clean` on the whole text removes them.
    """
    if not piece.isascii():
        body = piece.lstrip(_LEADING)
        piece = _SEPARATOR.sub("\n", piece[: len(piece) - len(body)] + _visible(body))
    return _CONTROL.sub("", piece)


def steers(text: str) -> bool:
    """Return whether part of a screen row has control, direction-changing or hidden characters.

    Line feed and tab count, because they move the cursor in a drawn row. Joiners and the usual variation
    selectors do not count, because the piece alone does not show what they belong to.
    """
    if text.isascii():
        return not text.isprintable()
    return _steering().search(text) is not None


def without_steering(text: str) -> str:
    """Return part of a screen row without what `steers` finds, and without joiners and selectors next to it.

    Otherwise the characters around a removed one could join into a new sequence.
    """
    return _seam().sub("", text)


def reveal(text: str) -> str:
    r"""Return `text` with every invisible character spelled out, such as `\x1b` or `\u202e`.

    For approval dialogs and logs: nothing is lost, nothing is hidden. Line feeds and tabs stay. Blanks other
    than the plain space are spelled out, and so are private-use and unassigned code points, because their
    appearance is not defined.
    """
    if text.isascii() and text.isprintable():
        return text
    shown = _unseen().sub(lambda match: _escape(match[0]), text)
    vague = {each for each in set(shown) if not each.isprintable()} - {"\n", "\t", *_JOINERS}
    return shown.translate({ord(each): _escape(each) for each in vague}) if vague else shown


def truncate(text: str, limit: int, head: float = 0.4) -> str:
    """Return `text` cut to at most `limit` characters: its beginning, a marker, and its end.

    `head` is the share of the beginning, from 0 to 1.
    """
    if len(text) <= limit:
        return text
    room = limit - len(left_out(len(text), len(text)))
    if room <= 0:
        return text[: max(limit, 0)]
    first = int(room * head)
    last = room - first
    return text[:first] + left_out(len(text) - room, len(text)) + text[len(text) - last :]


def left_out(count: int, total: int) -> str:
    """Return the marker that replaces `count` of `total` characters."""
    return f"\n[… {count:,} of {total:,} characters left out …]\n"


class Cleaner:
    """`clean` for a stream of UTF-8 bytes cut anywhere; other bytes become U+FFFD.

    `feed` returns whole lines, because a line can still be overwritten until it ends. The pieces add up to
    exactly the result of `clean` on the whole text. Memory stays bounded for any input.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._unfinished = ""
        self._line = _Line()
        self._previous = ""

    def feed(self, data: bytes) -> str:
        """Return the lines that `data` completes, line feeds included."""
        return self.feed_text(self._decoder.decode(data))

    def feed_text(self, text: str) -> str:
        """Do the same as `feed` for text that is already decoded."""
        text, self._unfinished = _hold_back(_SEPARATOR.sub("\n", self._unfinished + text))
        pieces: list[str] = []
        if _CONTROL.search(text) is None and "\n" in text:
            first = text.index("\n")
            pieces += self._line.write(text[:first])
            last = text.rindex("\n") + 1
            pieces += [self._line.take(), text[first:last]]
            text = text[last:]
        lines = _removed().sub("", text).split("\n")
        for line in lines[:-1]:
            if self._line.is_empty() and _edits().search(line) is None:
                pieces.append(line)
            else:
                pieces += self._line.write(line)
                pieces.append(self._line.take())
            pieces.append("\n")
        pieces += self._line.write(lines[-1])
        return self._drop_invisible("".join(pieces))

    def pending(self) -> str:
        """Return the unfinished last line, without changing anything."""
        return _visible(self._line.text())

    def finish(self) -> str:
        """Return the text that is left at the end of the stream. The cleaner can be used again."""
        rest = self.feed_text(self._decoder.decode(b"", True))
        self._unfinished = ""
        rest += self._drop_invisible(self._line.take())
        self._previous = ""
        return rest

    def _drop_invisible(self, text: str) -> str:
        """Return `text` without invisible characters, taking the characters before it into account."""
        if not text:
            return text
        before = self._previous
        self._previous = (before + text[-2:])[-2:]
        return _visible(before + text)[len(_visible(before)) :]


class _Line:
    """The current line of a terminal: its cells, and the column of the cursor.

    It has one cell per character. Wide characters need no care, because a program overwrites them with
    similar text.
    """

    def __init__(self) -> None:
        self._cells: list[str] = []
        self._column = 0

    def is_empty(self) -> bool:
        return not self._cells

    def text(self) -> str:
        return "".join(self._cells)

    def take(self) -> str:
        """Return the finished line and begin a new one."""
        text = self.text()
        self._cells.clear()
        self._column = 0
        return text

    def write(self, text: str) -> list[str]:
        """Write `text` on the line; return the parts of it that can no longer change."""
        full: list[str] = []
        at = 0
        for edit in _edits().finditer(text):
            self._write(text[at : edit.start()], full)
            self._move(edit)
            at = edit.end()
        self._write(text[at:] if at else text, full)
        return full

    def _write(self, text: str, full: list[str]) -> None:
        at = 0
        while at < len(text):
            piece = text[at : at + LINE_CELLS - self._column]
            self._cells[self._column : self._column + len(piece)] = piece
            self._column += len(piece)
            at += len(piece)
            if self._column >= LINE_CELLS:
                full.append(self.take())

    def _move(self, edit: re.Match[str]) -> None:
        control, digits, final = edit.groups()
        count = int(digits) if digits else 0
        if control == "\r":
            self._column = 0
        elif control == "\b":
            self._column = max(self._column - 1, 0)
        elif final == "D":
            self._column = max(self._column - max(count, 1), 0)
        elif final in ("C", "G"):
            target = self._column + max(count, 1) if final == "C" else max(count, 1) - 1
            if target > len(self._cells) and len(self._cells) < LINE_CELLS - 1:
                # One blank replaces the gap, so that a distant column costs no memory.
                self._cells.append(" ")
            self._column = min(target, len(self._cells))
        elif count == 0:
            del self._cells[self._column :]
        elif count == 2:
            self._cells.clear()
            self._column = 0


def _hold_back(text: str) -> tuple[str, str]:
    """Split off an unfinished escape sequence at the end; return the text before it and the sequence.

    A sequence of unlimited length is held in an equivalent short form.
    """
    start = -1
    for character in "\x1b" if text.isascii() else "\x1b\x90\x98\x9b\x9d\x9e\x9f":
        start = max(start, text.rfind(character))
    if start < 0 or _unfinished().fullmatch(text, start) is None:
        return text, ""
    held = text[start:]
    if len(held) > 64:
        held = held[:32] + held[-32:]
    return text[:start], held


def _visible(text: str) -> str:
    if text.isascii() or _suspect().search(text) is None:
        return text
    return _invisible().sub("", text)


def _escape(character: str) -> str:
    code = ord(character)
    if character == "\r":
        return "\\r"
    if code < 0xA0:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
