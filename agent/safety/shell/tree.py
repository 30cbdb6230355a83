"""Shell source as a tree (tree-sitter-bash), and the raw words in it.

The grammar finds structure: lists, pipelines, loops, functions, redirections.
Words are handed on as they are written; `words` reads them.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from time import thread_time
from typing import TYPE_CHECKING

from agent.safety.shell.backquotes import Document, document_at, skip_documents
from agent.safety.shell.marks import TangledError
from agent.safety.shell.marks import words as table
from agent.safety.shell.parts import CommandLine, Redirection
from agent.safety.shell.words import after_quote, closing

if TYPE_CHECKING:
    from tree_sitter import Language, Node

PORTION = 4_096
"""Bytes the parser reads at a time."""
SHORT = 512
"""Bytes that cannot take the parser long, whatever they are."""
READS = 24
"""How often it may read each portion; sound scripts stay below 7."""

LONGEST = 0.5
LONGEST_PER_BYTE = 3e-6
"""Seconds of processor time the parser may take: five times as many as sound scripts need, and more."""
MOST = 0.7
"""Seconds it may take for a text of any length; sound scripts of more than half a megabyte may need them."""

REDIRECTS = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})
_TOKEN = re.compile(
    r"(?P<blank>[ \t\r]+|\\\n)|(?P<comment>#[^\n]*)|(?P<end>\n|;;?&?|&&|\|\|?&?|[()])"
    r"|(?P<redirect>\d*(?:&>>?|>>|>\||>&|<<<|<<-?|<>|<&|[<>])(?!\())|(?P<amp>&)|(?P<word>.)",
    re.DOTALL,
)


@dataclass(slots=True, eq=False)
class Source:
    """A parsed text, which stays as it is. Nodes hold byte offsets into `data`.

    Two of them are equal when they are the same. There are many of them, so they are not frozen.
    """

    data: bytes
    root: Node
    complete: bool = True
    """Whether all of the text is shell, and all of it is in the tree."""
    lines: dict[int, CommandLine] = field(default_factory=dict)
    """Command lines that were taken apart already, by their nodes."""
    redirections: dict[int, Redirection] = field(default_factory=dict)
    _bodies: dict[int, Node | None] = field(default_factory=dict)

    def body(self, node: Node) -> Node | None:
        """What a structure holds. Always the same object, as a node only knows its own children again."""
        if node.id not in self._bodies:
            self._bodies[node.id] = node.child_by_field_name("body")
        return self._bodies[node.id]

    def text(self, node: Node) -> str:
        return self.slice(node.start_byte, node.end_byte)

    def slice(self, start: int, end: int) -> str:
        return self.data[start:end].decode("utf-8", "replace")

    def words(self, nodes: list[Node]) -> list[str]:
        """The raw words that neighbouring nodes form; nodes without a gap between them are one word."""
        spans: list[tuple[int, int]] = []
        start = end = -1
        for node in nodes:
            begin = node.start_byte
            if begin != end:
                if end >= 0:
                    spans.append((start, end))
                start = begin
            end = node.end_byte
        if end >= 0:
            spans.append((start, end))
        data = self.data
        return [data[start:end].decode("utf-8", "replace") for start, end in spans]


@cache
def _language() -> Language:
    import tree_sitter_bash
    from tree_sitter import Language

    return Language(tree_sitter_bash.language())


class _Parsers(threading.local):
    """A parser of its own for each thread: while one reads, another thread may start the next."""

    def __init__(self) -> None:
        from tree_sitter import Parser

        self.parser: Parser = Parser(_language())


@cache
def _parsers() -> _Parsers:
    return _Parsers()


def parse(text: str) -> Source:
    """The tree of a shell text; parts that are no shell are `ERROR` nodes in it.

    Raises `TangledError` for a long text that is hardly shell anywhere, when the parser does not get on.

    The parser's way of recovering from errors can take quadratic time. It reads
    in portions and goes back to earlier ones while it recovers, so counting the
    portions bounds its work; after that it is told that the text ends.

    Characters beyond ASCII are letters for the shell. The parser is shown letters
    in their place: its scanner looks such characters up in a table made for bytes
    and can crash the process. It also takes a line feed with a backslash behind it
    for a part of a word, so a backslash that opens a line is shown as a letter, or
    as a blank where it continues the line. The grammar knows no `<<<` behind another
    redirection; where it fails, each is shown as `<`, and `redirects` sees what it is.
    """
    data = text.encode("utf-8", "replace")
    shown = data.translate(_ASCII)
    if b"\n\\" in shown:
        shown = _OPENS_LINE.sub(lambda match: b"x" if match[1] is None else b" ", shown)
    source = _parsed(data, shown)
    if not source.complete and HERE_STRING in shown:
        source = _parsed(data, shown.replace(HERE_STRING, b"<  "))
    return source


HERE_STRING = b"<<<"


def _parsed(data: bytes, shown: bytes) -> Source:
    """The tree of what the parser is shown in the place of `data`."""
    if len(data) <= SHORT:
        root = _parsers().parser.parse(shown).root_node
        return Source(data, root, complete=not root.has_error)
    left = 64 + READS * (len(data) // PORTION + 1)

    def read(offset: int, _: object) -> bytes:
        nonlocal left
        left -= 1
        return shown[offset : offset + PORTION] if left >= 0 else b""

    latest = thread_time() + min(LONGEST + LONGEST_PER_BYTE * len(data), MOST)
    parser = _parsers().parser
    try:
        root = parser.parse(read, progress_callback=lambda *_: thread_time() > latest).root_node
    except ValueError:
        parser.reset()
        raise TangledError from None
    return Source(data, root, complete=left >= 0 and not root.has_error)


@dataclass(frozen=True, slots=True)
class RoughCommand:
    """A command as found by cutting text at separators: raw words, and targets of redirections."""

    words: tuple[str, ...]
    targets: tuple[tuple[str, str], ...]
    """(operator, raw word)"""


def rough_commands(text: str) -> Iterator[RoughCommand]:
    """A second reading for text the grammar does not fully know: cut where the shell would cut.

    Quoting is respected, structure is not. Reserved words that open a command are dropped.
    """
    words: list[str] = []
    targets: list[tuple[str, str]] = []
    documents: list[Document] = []
    operator = ""
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        assert match is not None  # the last alternative takes any character
        at = match.end()
        kind = match.lastgroup
        if kind in ("end", "amp"):
            if words or targets:
                yield _rough(words, targets)
            words, targets, operator = [], [], ""
            if match[0] == "\n" and documents:
                at = skip_documents(text, at, documents)
                documents = []
        elif kind == "redirect":
            operator = match[0].lstrip("0123456789")
            if operator in ("<<", "<<-") and (found := document_at(text, at, operator)) is not None:
                documents.append(found[0])
                at, operator = found[1], ""
        elif kind == "word":
            start = match.start()
            at = max(_word_end(text, start), start + 1)
            if operator:
                targets.append((operator, text[start:at]))
                operator = ""
            else:
                words.append(text[start:at])
    if words or targets:
        yield _rough(words, targets)


def plain_words(text: str) -> list[str] | None:
    """The words of a text that is one command without anything special in it; None for any other text."""
    if _PLAIN_COMMAND.fullmatch(text) is None:
        return None
    words = text.split(" ")
    return None if words[0] in _NO_PROGRAMS else words


_PLAIN_COMMAND = re.compile(r"[A-Za-z][\w./-]*(?: [\w./:-]+)*", re.ASCII)
_OPENS_LINE = re.compile(rb"(?<=\n)\\(?:(?=[\w./~+@%:,-])|(?=(\n)))")
_ASCII = bytes(byte if byte < 128 else ord("x") for byte in range(256))
RESERVED = table("if then elif else while until do for in case esac fi done { } ! function")
_NO_PROGRAMS = RESERVED | table("select time coproc declare typeset export readonly local unset unsetenv")
"""Words with which something else than a plain command begins."""


def _rough(words: list[str], targets: list[tuple[str, str]]) -> RoughCommand:
    first = 0
    while first < len(words) and words[first] in RESERVED:
        first += 1
    return RoughCommand(tuple(words[first:]), tuple(targets))


def is_several(word: str) -> bool:
    """Whether what the grammar takes for one raw word goes on after a line feed that ends a command."""
    return "\n" in word and _word_end(word, 0) < len(word)


_WORD_STOP = re.compile(r"[ \t\r\n;&|()<>\\'\"`$]")


def _word_end(text: str, at: int) -> int:
    while (match := _WORD_STOP.search(text, at)) is not None:
        at = match.start()
        character = text[at]
        if character == "\\":
            at += 2
        elif character == "'":
            end = text.find("'", at + 1)
            at = len(text) if end < 0 else end + 1
        elif character in '"`':
            at = after_quote(text, at + 1, character)
        elif character == "$":
            at = _after_dollar(text, at)
        elif character == "(" and at and text[at - 1] in "?*+@!<>":
            at = closing(text, at + 1, ")") + 1
        elif character in "<>" and text.startswith("(", at + 1):
            at += 1
        else:
            return at
    return len(text)


def _after_dollar(text: str, at: int) -> int:
    following = text[at + 1 : at + 2]
    if following in ("(", "{") and following:
        return closing(text, at + 2, ")" if following == "(" else "}") + 1
    if following == "'":
        end = at + 2
        while end < len(text) and text[end] != "'":
            end += 2 if text[end] == "\\" else 1
        return end + 1
    return at + 1
