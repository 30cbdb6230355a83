"""Splitting of shell text that cannot be parsed into commands, where the shell would split it.

The text may be broken on purpose. So a part that could be a command in several ways is returned in each.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from agent.safety.reader.tree import LONGEST_GAP, UNKNOWN, active, fields
from tools.kit.lazy_pattern import lazy_pattern

MOST_BEFORE = 24
"""The number of words before a substitution that are also read as a separate command."""
_QUOTED = r"""(?:\\.|[^"\\`$]|\$(?!\())*+"""
"""Text in double quotes, up to a substitution or the end of the quotes."""
_PIECES = lazy_pattern(
    r"""[^\S\n]*+(?:(?P<end>&&|\|\|?|;|\n|&(?!>)|\{\s|(?<![^\s;|&(])\})|(?P<write>&?>>?\|?)|(?P<read><<?<?)"""
    rf"""|(?P<open>\(|`|"{_QUOTED}(?:\$\(|`))|(?P<close>\))|(?P<comment>(?<![^\s;|&(])\#[^\n]*)"""
    r"""|(?P<word>(?:\\.|\$'(?:\\.|[^'\\])*'|'[^']*'|"""
    rf""""{_QUOTED}"|[^\s;|&()<>`'"\\]|'|"(?!{_QUOTED}(?:\$\(|`)))+)|(?P<other>.|\Z))""",
    re.DOTALL,
)
_END = {"(": ")", "`": "`"}
_REST = lazy_pattern(rf"""{_QUOTED}("|\$\(|`)""", re.DOTALL)
_SIMPLE = lazy_pattern(r"""(?:[^\s;|&()<>`'"\\{}\#]|(?<=[^\s;|&(])\#|[ \t])++(?=[;\n|()`]|&(?!>)|\Z)""")
"""A command without quotes, redirections and braces."""
_GLOB = lazy_pattern(r"[*?\[]")
_MARKED = lazy_pattern(r"[^\x21-\x7e]|[*?\[{}]")
"""Characters that keep an unquoted word from being plain."""
_QUOTES = lazy_pattern(r"""\\(.)|['"]""", re.DOTALL)
_OPENING = frozenset(
    [
        "if",
        "then",
        "elif",
        "else",
        "while",
        "until",
        "do",
        "for",
        "in",
        "case",
        "esac",
        "fi",
        "done",
        "{",
        "}",
        "!",
        "function",
        "time",
    ]
)


class RoughCommand(NamedTuple):
    """A command found by splitting a text at separators: its marked words, and the files it writes."""

    words: tuple[str, ...]
    writes: tuple[str, ...]


class _Outer(NamedTuple):
    """The context of a substitution: its end, whether in double quotes, the words before it, open `case`s."""

    end: str
    quoted: bool
    words: list[str]
    cases: int


def rough_commands(text: str, *, is_part: bool = False) -> Iterator[RoughCommand]:
    """Yield the commands of a text that the parser cannot read, split where the shell would split it.

    Words after a substitution are read both as its command's and as a separate command, because it may end
    earlier than it seems to; so are those before it. Here-documents and quoted lines are read again as parts
    of the text (`is_part`), but not those inside them, so that the time is proportional to the length.
    """
    return _Splitter(text, is_part=is_part).commands()


class _Splitter:
    """A splitter that reads a text piece by piece. Its state is that of the current command."""

    def __init__(self, text: str, *, is_part: bool) -> None:
        self._text, self._is_part = text, is_part
        self._at = 0
        self._previous = ""
        """The kind of the piece that ends at the current position."""
        self._words: list[str] = []
        self._writes: list[str] = []
        self._into = self._words
        """The list that contains the last word."""
        self._redirect = ""
        """The use of the next word in a redirection: "write", "read", "document", or empty for none."""
        self._behind: list[str] = []
        """The words since the last substitution."""
        self._is_behind = False
        """True if the command began with a substitution, or continued after one."""
        self._outer: list[_Outer] = []
        self._cases = 0
        self._documents: list[str] = []
        """The end markers of here-documents that begin with the next line."""
        self._line_starts: Mapping[str, list[int]] = {}

    def commands(self) -> Iterator[RoughCommand]:
        """Yield all commands of the text."""
        text = self._text
        while self._at < len(text):
            if not (self._words or self._writes or self._redirect):
                simple = _SIMPLE.match(text, self._at)
                if simple is not None:
                    # Most commands are a few ordinary words, which need not be read piece by piece.
                    self._take_plain_words(simple[0])
                    continue
            piece = _PIECES.match(text, self._at)
            if piece is None:  # never, as a piece may be any character
                break
            yield from self._take(piece)
        for rest in ((self._words, self._writes), *((each.words, ()) for each in reversed(self._outer))):
            if any(rest):
                yield RoughCommand(tuple(rest[0]), tuple(rest[1]))
        yield from self._words_behind()

    def _take_plain_words(self, text: str) -> None:
        self._at += len(text)
        words = text.split()
        while words and self._takes_keyword(words[0]):
            del words[0]
        if not text.isascii() or _GLOB.search(text) is not None:
            words = [each for word in words for each in fields(active(word))]
        self._words = self._into = words
        self._previous = "" if text[-1:].isspace() else "word"

    def _takes_keyword(self, word: str) -> bool:
        """Return whether a word only precedes a command; count the words that open and close a `case`."""
        if word not in _OPENING:
            return False
        self._cases = max(0, self._cases + (word == "case") - (word == "esac"))
        return True

    def _take(self, match: re.Match[str]) -> Iterator[RoughCommand]:
        kind = match.lastgroup or ""
        piece, start = match[kind], match.start(kind)
        joined = self._previous if start == self._at else ""
        self._at = match.end()
        around = self._outer[-1].end if self._outer else ""
        if kind == "open" and piece == around == "`":
            kind = "close"
        elif kind == "close" and (self._cases or around != ")"):
            kind = "end"
        self._previous = kind
        if kind == "comment":
            # Each `#` is escaped, so that the text is read as if it were not a comment.
            yield from rough_commands(piece.replace("#", r"\#"), is_part=True)
        elif kind in ("write", "read"):
            self._redirect = "document" if piece == "<<" else kind
        elif kind == "word":
            yield from self._take_word(piece, start, joined)
        elif kind == "open":
            yield from self._open(piece, start, joined)
        elif kind == "close":
            yield from self._close()
        elif kind == "end":
            yield from self._separate()
            if piece == "\n" and not self._is_part:
                yield from self._here_documents()

    def _take_word(self, piece: str, start: int, joined: str) -> Iterator[RoughCommand]:
        quoted = _QUOTES.search(piece)
        if quoted and not self._is_part:
            yield from self._quoted_lines(start + quoted.end(), self._at)
        plain = _QUOTES.sub(lambda quote: quote[1] or "", piece) if quoted else piece
        into = self._into
        if self._redirect == "write":
            self._into = self._writes
            self._writes.append(plain)
        elif self._redirect == "document":
            self._documents.append(plain)
        elif joined == "close" and into and into[-1][-1:] == UNKNOWN and len(into[-1]) < LONGEST_GAP:
            into[-1] += plain
            self._behind.append(plain)
        elif not self._redirect and (self._words or not self._takes_keyword(plain)):
            self._into = self._words
            more = [plain] if quoted or _MARKED.search(plain) is None else fields(active(plain))
            self._words += more
            self._behind += more
        self._redirect = ""

    def _open(self, piece: str, start: int, joined: str) -> Iterator[RoughCommand]:
        """Begin a group or substitution; the output of a substitution is a word that is not known."""
        if piece != "(" or (joined == "word" and self._text[start - 1] == "$"):
            if not self._is_part:
                yield from self._quoted_lines(start + 1, self._at)
            if joined == "word" and self._into:
                self._into[-1] = self._into[-1].removesuffix("$") + UNKNOWN
            elif joined != "close":
                self._into = self._writes if self._redirect == "write" else self._words
                self._into += [UNKNOWN] if self._redirect in ("", "write") else []
        words = self._words
        yield from self._separate(most=MOST_BEFORE)
        self._outer.append(_Outer(_END[piece[-1]], piece[0] == '"', words, self._cases))
        self._cases = 0

    def _close(self) -> Iterator[RoughCommand]:
        """End a group or a substitution, yield its commands, and continue the words and quotes around it."""
        yield from self._separate()
        self._is_behind = True
        _, quoted, self._words, self._cases = self._outer.pop()
        rest = _REST.match(self._text, self._at) if quoted else None
        if rest is not None:
            if not self._is_part:
                yield from self._quoted_lines(self._at, rest.end())
            self._at = rest.end()
            if rest[1] != '"':
                self._outer.append(_Outer(_END[rest[1][-1]], True, self._words, self._cases))
                self._words, self._cases = [], 0
        self._into = self._words

    def _separate(self, most: int | None = None) -> Iterator[RoughCommand]:
        """End a command and yield it if it writes files or has words, but at most `most` of them."""
        if self._writes or (self._words and (most is None or len(self._words) <= most)):
            yield RoughCommand(tuple(self._words), tuple(self._writes))
        yield from self._words_behind()
        self._words, self._writes, self._behind = [], [], []
        self._into, self._redirect, self._is_behind = self._words, "", False

    def _words_behind(self) -> Iterator[RoughCommand]:
        if self._is_behind and self._behind and self._behind != self._words:
            yield RoughCommand(tuple(self._behind), ())

    def _here_documents(self) -> Iterator[RoughCommand]:
        if self._documents and not self._line_starts:
            self._line_starts = _line_starts(self._text)
        for mark in self._documents:
            starts = self._line_starts.get(mark, ())
            next_one = bisect_left(starts, self._at)
            end = starts[next_one] if next_one < len(starts) else self._at
            yield from rough_commands(self._text[self._at : end], is_part=True)
            self._at = end
        self._documents.clear()

    def _quoted_lines(self, start: int, end: int) -> Iterator[RoughCommand]:
        """Yield the commands of what seems to be in quotes, up to the end of its last line.

        They run if its first quote is in fact the end of a quoted text.
        """
        if "\n" in self._text[start:end]:
            last = self._text.find("\n", end)
            yield from rough_commands(self._text[start : last if last >= 0 else None], is_part=True)


def _line_starts(text: str) -> Mapping[str, list[int]]:
    """Return the positions at which the lines of a text begin, by the content of the line."""
    found: dict[str, list[int]] = {}
    start = 0
    for line in text.split("\n"):
        found.setdefault(line, []).append(start)
        start += len(line) + 1
    return found
