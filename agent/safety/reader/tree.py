"""Parsing of shell source into a tree (tree-sitter-bash), with limited work, and marked text."""

from __future__ import annotations

import re
import threading
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import product
from operator import itemgetter
from time import thread_time
from typing import TYPE_CHECKING

from tools.kit.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


UNKNOWN = "\ue000"
"""A mark for text that is only known by running something: any length, any content, possibly empty."""
ANY = "\ue001"
ONE = "\ue002"
SET = "\ue003"
GLOBS = (ANY, ONE, SET)
"""The marks for an unquoted `*`, `?` and `[`."""
OPEN = "\ue004"
CLOSE = "\ue005"
COMMA = "\ue006"
"""The marks for `{`, `}` and `,` that may form a brace expansion (`OPEN`, `CLOSE`, `COMMA`)."""
GAP = "\ue007"
"""A mark for a position where an unquoted expansion is split into fields."""
KEEP = "\ue008"
"""A mark that keeps a quoted empty text as a field."""

MOST_READINGS = 64
"""The number of texts to which one word's braces are expanded; with more, the braces count as unknown."""
LONGEST_NAME = 1_024
"""The limit in characters on a glob; file names have at most 255 bytes."""

_ACTIVE = str.maketrans({"*": ANY, "?": ONE, "[": SET, "{": OPEN, "}": CLOSE, ",": COMMA})
_GLOBBING = str.maketrans({"*": ANY, "?": ONE, "[": SET})
_LITERAL = str.maketrans(
    {ANY: "*", ONE: "?", SET: "[", OPEN: "{", CLOSE: "}", COMMA: ",", GAP: " ", KEEP: "", UNKNOWN: "…"}
)
_UNBRACED = str.maketrans({OPEN: "{", CLOSE: "}", COMMA: ","})
_MARKS = lazy_pattern("[\ue000-\ue0ff\r\v\f]")
_SET_BODY = lazy_pattern(rf"([!^]?\]?(?:[\[{SET}]:[a-z]+:\]|[^\]])*)\]")
_FLAT = lazy_pattern(f"{OPEN}([^{OPEN}{CLOSE}]*){CLOSE}")
_SEQUENCE = lazy_pattern(r"(-?\d{1,3}|[A-Za-z])\.\.(-?\d{1,3}|[A-Za-z])")


def words(text: str) -> frozenset[str]:
    """Return the words in a text, separated by white space, as a set."""
    return frozenset(text.split())


def unmarked(source: str) -> str:
    """Return shell source with characters that are used as marks replaced.

    NUL is removed, because shells skip it.
    """
    return _MARKS.sub("\ufffd", source.replace("\0", ""))


def active(text: str) -> str:
    """Return unquoted text of a word as marked text, with backslash escapes resolved."""
    if "\\" not in text:
        return text.translate(_ACTIVE)
    pieces = re.split(r"\\(\n|.|$)", text, flags=re.DOTALL)
    quoted = ("" if piece == "\n" else KEEP + piece if piece == "~" else piece for piece in pieces[1::2])
    return "".join(
        part
        for pair in zip((p.translate(_ACTIVE) for p in pieces[::2]), (*quoted, ""), strict=False)
        for part in pair
    )


def globbing(text: str) -> str:
    """Return the unquoted value of an expansion as marked text.

    Globs are active, braces are not, and white space separates fields.
    """
    return re.sub(r"[ \t\n]+", GAP, text).translate(_GLOBBING)


def literal(text: str) -> str:
    """Return marked text with the characters that the marks stand for; unknown parts become `…`."""
    # Marks are never ASCII characters, and `isascii` is fast.
    return text if text.isascii() else text.translate(_LITERAL)


def value(text: str) -> str:
    """Return marked text as a variable's value: globs become plain characters, unknown parts stay marked."""
    return text if text.isascii() else UNKNOWN.join(literal(piece) for piece in text.split(UNKNOWN))


@lru_cache(maxsize=512)
def pattern(name: str) -> re.Pattern[str]:
    """Return a regular expression for one marked component of a path; above `LONGEST_NAME` it matches
    anything.
    """
    name = re.sub(f"{ANY}+", ANY, name)
    if len(name) > LONGEST_NAME:
        return re.compile(".*", re.DOTALL)
    pieces: list[str] = []
    at = 0
    while at < len(name):
        mark = name[at]
        at += 1
        if mark in (ANY, UNKNOWN):
            if pieces[-1:] != [".*"]:  # a run of stars must not cost exponential time
                pieces.append(".*")
        elif mark == ONE:
            pieces.append(".")
        elif mark == SET:
            body = _SET_BODY.match(name, at)
            if body is None:
                pieces.append(r"\[")
            else:
                pieces.append(_set(body[1]))
                at = body.end()
        else:
            pieces.append(re.escape(mark))
    expression = "".join(pieces)
    # A leading star does not match hidden names.
    hidden = "" if name.startswith(".") or not name.startswith(GLOBS) else r"(?!\.)"
    return re.compile(hidden + expression, re.DOTALL)


def _set(body: str) -> str:
    negated = body.startswith(("!", "^"))
    inner = body[1:] if negated else body
    if "[:" in literal(inner) or not inner:
        return "."
    safe = re.sub(r"([\\\[\]^&~|])", r"\\\1", literal(inner))
    try:
        re.compile(f"[{safe}]")
    except re.error:
        return "."
    return f"[{'^' if negated else ''}{safe}]"


def fields(text: str) -> list[str]:
    """Return the fields that one marked word becomes in a command line. Only quoted fields may be empty."""
    if text.isascii():
        return [text] if text else []
    if text == OPEN + CLOSE:  # of `find -exec`
        return ["{}"]
    found: list[str] = []
    for reading in _braces(text):
        found += [piece.replace(KEEP, "") for piece in reading.split(GAP) if piece]
    return found


def _braces(text: str) -> list[str]:
    if OPEN not in text:
        return [text.translate(_UNBRACED)]
    readings = [text]
    while any(_FLAT.search(each) for each in readings):
        expanded = [reading for each in readings for reading in _innermost(each)]
        if len(expanded) > MOST_READINGS or len(expanded) * len(text) > 100_000:
            return [re.sub(f"{OPEN}.*{CLOSE}", UNKNOWN, text, flags=re.DOTALL).translate(_UNBRACED)]
        readings = expanded
    return [each.translate(_UNBRACED) for each in readings]


def _innermost(text: str) -> list[str]:
    """Return the texts that result from expanding the innermost braces."""
    pieces = _FLAT.split(text)
    choices = [[piece] if at % 2 == 0 else _options(piece) for at, piece in enumerate(pieces)]
    count = 1
    for options in choices:
        count *= len(options)
        if count > MOST_READINGS:
            return [text] * (MOST_READINGS + 1)
    return ["".join(choice) for choice in product(*choices)]


def _options(body: str) -> list[str]:
    if COMMA in body:
        return body.split(COMMA)
    if sequence := _SEQUENCE.fullmatch(body):
        first, last = sequence[1], sequence[2]
        if first.isalpha() == last.isalpha():
            low, high = (ord(first), ord(last)) if first.isalpha() else (int(first), int(last))
            step = 1 if high >= low else -1
            return [chr(n) if first.isalpha() else str(n) for n in range(low, high + step, step)]
    return ["{" + body + "}"]


FEW_PIPES, MOST_PIPES = 64, 2_000
"""The number of pipes on one line parsed without precautions, and the number that are parsed at all."""
MOST_NESTED = 8
"""The number of nesting levels of backquoted commands that are read."""
MOST_BACKQUOTES = 1_000
"""The number of backquotes in a text that are processed."""
_BACKQUOTES = re.compile(rb"\s*(`(?:[^`\\]|\\.)*`)", re.DOTALL)
_BACKQUOTES_IN_TEXT = re.compile(rb"\\.|(`(?:[^`\\]|\\.)*`)", re.DOTALL)
_IN_BACKQUOTES = re.compile(rb"\\([$`\\])")
_IN_QUOTED_BACKQUOTES = re.compile(rb"\\([$`\\\"])")
_ESCAPES = {
    "string": _IN_QUOTED_BACKQUOTES,
    **dict.fromkeys(("command_substitution", "process_substitution"), _IN_BACKQUOTES),
}
_PARTS = frozenset({*_ESCAPES, "raw_string", "ansi_c_string", "expansion", "arithmetic_expansion", "comment"})
"""Nodes that are parsed correctly even where backquotes around them are not."""
_KEYWORD = re.compile(
    rb"(?:time(?:[ \t]+-p)?|coproc(?:[ \t]+\w+)?)"
    rb"(?=[ \t]+(?:[{(!]|\[\[|(?:if|while|until|for|case|select)\b))"
)
_CONTINUES = re.compile(rb"\\\n|\|[ \t]*\n(?![ \t]*\|)")
PORTION = 4_096
"""The number of bytes that the parser reads at a time."""
LONGEST = 0.008
LONGEST_PER_BYTE = 1e-6
"""Seconds of processor time for the parser, in all and per byte; valid scripts need a tenth of it."""

_OPENS_LINE = re.compile(rb"(?<=\n)\\(?:(?=[\w./~+@%:,-])|(?=(\n)))")
_BEFORE_COMMAND = re.compile(rb"[;&|(){`\n]\Z|(?<![\w-])(?:if|then|elif|else|while|until|do)\Z")
LONGEST_GAP = 200
"""The number of bytes before a word in which the end of the previous command is searched."""
_BRACES = re.compile(rb"\{([^\s{}|&;<>()]+)\}")
_ASCII = bytes(byte if byte < 128 else ord("x") for byte in range(256))


@dataclass(frozen=True, slots=True)
class ParsedText:
    """A parsed shell text. Its nodes have byte offsets into `data`."""

    data: bytes
    root: Node
    complete: bool
    """True if all of it is valid shell and in the tree."""

    def text(self, node: Node) -> str:
        """Return the source text of a node."""
        return self.data[node.start_byte : node.end_byte].decode("utf-8", "replace")


class _Parsers(threading.local):
    """A parser for each thread, because threads cannot share one while they parse."""

    def __init__(self) -> None:
        import tree_sitter_bash
        from tree_sitter import Language, Parser

        self.parser: Parser = Parser(Language(tree_sitter_bash.language()))


@cache
def _parsers() -> _Parsers:
    return _Parsers()


def _replace_braces(match: re.Match[bytes]) -> bytes:
    """Return a braced word that begins a command with letters instead of braces; others unchanged."""
    before = match.string[max(0, match.start() - LONGEST_GAP) : match.start()].rstrip(b" \t")
    return b"x" + match[1] + b"x" if not before or _BEFORE_COMMAND.search(before) else match[0]


def _blank_keyword(match: re.Match[bytes]) -> bytes:
    """Return spaces for a keyword that begins a command; elsewhere return it unchanged."""
    before = match.string[max(0, match.start() - LONGEST_GAP) : match.start()].rstrip(b" \t")
    return b" " * len(match[0]) if not before or _BEFORE_COMMAND.search(before) else match[0]


def _is_long_pipeline(data: bytes) -> bool:
    """Return whether any line, with the lines that continue it, has more than `MOST_PIPES` pipes.

    Rows of a table do not count as continued lines.
    """
    joined = _CONTINUES.sub(lambda match: match[0][:1].strip(b"\\"), data)
    return any(line.count(b"|") > MOST_PIPES for line in joined.split(b"\n"))


def parse(text: str) -> ParsedText | None:
    """Parse a shell text, with `ERROR` nodes for invalid parts; None if the parser takes too long.

    The grammar joins two backquoted commands with only spaces between them, and does not know those in
    here-documents or inside others. So each is rewritten as `$(…)`, and the text is parsed again.
    """
    data = text.encode("utf-8", "replace")
    source = _parse(data)
    for _ in range(MOST_NESTED):
        if source is None or b"`" not in data:
            return source
        if data.count(b"`") > MOST_BACKQUOTES:
            break
        pieces: list[bytes] = []
        at = 0
        for start, end, escapes in sorted(_backquoted(source.root, data), key=itemgetter(0)):
            if start < at:
                continue
            body = escapes.sub(rb"\1", data[start + 1 : end - 1])
            # The space prevents `(` from becoming arithmetic, and the line feed ends a comment.
            pieces += (data[at:start], b"$( ", body, b"\n)")
            at = end
        if not at:
            return source
        data = b"".join([*pieces, data[at:]])
        source = _parse(data)
    return source and replace(source, complete=False)


def _backquoted(root: Node, data: bytes) -> Iterator[tuple[int, int, re.Pattern[bytes]]]:
    """Yield the start and end of the outermost backquoted commands, each with the pattern of its escapes."""
    places = [found.start() for found in re.finditer(b"`", data)]
    # No recursion: a list of commands is as deep as it is long.
    waiting = [(root, _IN_BACKQUOTES)]
    while waiting:
        node, escapes = waiting.pop()
        start, end = node.start_byte, node.end_byte
        if bisect_left(places, start) == bisect_left(places, end):
            continue
        if node.type == "command_substitution" and data[start:end].lstrip(b" \t\n\\").startswith(b"`"):
            # The grammar may have joined several substitutions, which follow directly.
            joined = _BACKQUOTES.search(data, start, end)
            while joined is not None:
                yield *joined.span(1), escapes
                joined = _BACKQUOTES.match(data, joined.end(), end)
        elif node.type in ("heredoc_body", "expansion", "ERROR"):
            parts = [each for each in node.children if each.type in _PARTS]
            # In the grammar an expansion ends at a brace inside the backquotes.
            last = end if node.type == "heredoc_body" else len(data)
            for part in (*parts, None):
                for found in _BACKQUOTES_IN_TEXT.finditer(data, start, last):
                    if found.start() >= (end if part is None else part.start_byte):
                        break
                    if found[1]:
                        yield *found.span(1), escapes
                        start = found.end()
                if part is not None and part.start_byte >= start:
                    waiting.append((part, escapes))
                    start = part.end_byte
        elif node.type != "heredoc_redirect" or not _is_quoted(node, data):
            inside = _ESCAPES.get(node.type, escapes)
            waiting += [(child, inside) for child in node.children]


def _is_quoted(redirect: Node, data: bytes) -> bool:
    """Return whether the shell expands nothing in the text of a here-document."""
    starts = (each.start_byte for each in redirect.children if each.type == "heredoc_start")
    return any(data[at : at + 1] in (b"'", b'"', b"\\") for at in starts)


def _parse(data: bytes) -> ParsedText | None:
    """Parse a shell text as `parse` does, with backquotes as the grammar reads them.

    The parser's recovery from errors can take quadratic time, so it is stopped. Its scanner can crash on
    characters beyond ASCII, so the parser gets letters instead, which they are to the shell. It also takes a
    line feed followed by a backslash for a part of a word. So a backslash at the start of a line is replaced
    by a letter, or by a space if it continues the line. A long pipeline at the end of the text takes it
    quadratic time, in steps that cannot be stopped. So a line feed is added after one, and one that is too
    long to be read in any case is not parsed.
    """
    if data.count(b"|") > MOST_PIPES and _is_long_pipeline(data):
        return None
    shown = data.translate(_ASCII)
    if shown.rpartition(b"\n")[2].count(b"|") > FEW_PIPES and shown[-1:] != b"\\":
        shown += b"\n"
    if b"\n\\" in shown:
        shown = _OPENS_LINE.sub(lambda match: b"x" if match[1] is None else b" ", shown)
    if b"{" in shown:
        # The grammar does not accept a command whose first word begins with a brace.
        shown = _BRACES.sub(_replace_braces, shown)
    if b"time" in shown or b"coproc" in shown:
        # Nor does it accept these keywords before anything but a simple command.
        shown = _KEYWORD.sub(_blank_keyword, shown)
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
