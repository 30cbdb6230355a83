"""Shell source as a tree (tree-sitter-bash), with its work bounded, and a rough cut of what is no shell."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from time import thread_time
from typing import TYPE_CHECKING

from agent.safety.reader.marks import active, fields

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

PORTION = 4_096
"""Bytes the parser reads at a time."""
LONGEST = 0.008
LONGEST_PER_BYTE = 1e-6
"""Seconds of processor time the parser may take; sound scripts need a tenth of it."""

_OPENS_LINE = re.compile(rb"(?<=\n)\\(?:(?=[\w./~+@%:,-])|(?=(\n)))")
_BRACES = re.compile(rb"(?:^|(?<=[;&|(\n]))([ \t]*)\{([^\s{}]+)\}")
_ASCII = bytes(byte if byte < 128 else ord("x") for byte in range(256))
_PIECES = re.compile(
    r"""(?P<end>&&|\|\|?|;|\n|&(?!>)|\(|\)|`|\{\s|\})|(?P<write>&?>>?\|?)|(?P<read><<?<?)"""
    r"""|(?P<word>(?:\\.|'[^']*'|"(?:\\.|[^"\\])*"|[^\s;|&()<>`'"\\]|['"])+)|(?P<blank>\s+|.)""",
    re.DOTALL,
)
_QUOTES = re.compile(r"""\\(.)|['"]""", re.DOTALL)
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


@dataclass(frozen=True, slots=True)
class ParsedText:
    """A parsed text. Nodes hold byte offsets into `data`."""

    data: bytes
    root: Node
    complete: bool
    """Whether all of it is shell, and all of it is in the tree."""

    def text(self, node: Node) -> str:
        """What is written where the node stands."""
        return self.data[node.start_byte : node.end_byte].decode("utf-8", "replace")


class _Parsers(threading.local):
    """A parser of its own for each thread: while one reads, another thread may start the next."""

    def __init__(self) -> None:
        import tree_sitter_bash
        from tree_sitter import Language, Parser

        self.parser: Parser = Parser(Language(tree_sitter_bash.language()))


@cache
def _parsers() -> _Parsers:
    return _Parsers()


def parse(text: str) -> ParsedText | None:
    """The tree of a shell text, `ERROR` nodes where it is no shell; None when the parser does not get on.

    The parser's way of recovering from errors can take quadratic time, so it is stopped. Characters
    beyond ASCII are letters for the shell; the parser is shown letters in their place, as its scanner looks
    such characters up in a table made for bytes and can crash. It also takes a line feed with a backslash
    behind it for a part of a word, so a backslash that opens a line is shown as a letter, or as a blank where
    it continues the line.
    """
    data = text.encode("utf-8", "replace")
    shown = data.translate(_ASCII)
    if b"\n\\" in shown:
        shown = _OPENS_LINE.sub(lambda match: b"x" if match[1] is None else b" ", shown)
    if b"{" in shown:
        # The grammar knows no word that begins a command with a brace.
        shown = _BRACES.sub(lambda match: match[1] + b"x" + match[2] + b"x", shown)
    parser = _parsers().parser
    if len(data) <= PORTION // 8:
        root = parser.parse(shown).root_node
        return ParsedText(data, root, complete=not root.has_error)
    latest = thread_time() + LONGEST + LONGEST_PER_BYTE * len(data)

    def read(offset: int, _: object) -> bytes:
        return shown[offset : offset + PORTION]

    try:
        root = parser.parse(read, progress_callback=lambda *_: thread_time() > latest).root_node
    except ValueError:
        parser.reset()
        return None
    return ParsedText(data, root, complete=not root.has_error)


@dataclass(frozen=True, slots=True)
class RoughCommand:
    """A command as found by cutting a text at separators: marked words, and files it writes to."""

    words: tuple[str, ...]
    writes: tuple[str, ...]


def rough_commands(text: str) -> Iterator[RoughCommand]:
    """A second reading for a text the grammar does not know, cut where the shell would cut it."""
    words: list[str] = []
    writes: list[str] = []
    redirects = ""
    for match in _PIECES.finditer(text):
        kind = match.lastgroup
        if kind == "end":
            if words or writes:
                yield RoughCommand(tuple(words), tuple(writes))
            words, writes, redirects = [], [], ""
        elif kind in ("write", "read"):
            redirects = kind
        elif kind == "word":
            quoted = _QUOTES.search(match[0]) is not None
            plain = _QUOTES.sub(lambda quote: quote[1] or "", match[0])
            if redirects == "write":
                writes.append(plain)
            elif not redirects and (words or plain not in _OPENING):
                words += [plain] if quoted else fields(active(plain))
            redirects = ""
    if words or writes:
        yield RoughCommand(tuple(words), tuple(writes))
