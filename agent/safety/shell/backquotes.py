"""Backquotes rewritten as `$(…)`, and words joined that go on in the next line, for the sake of the grammar.

tree-sitter-bash takes everything from the first backquote of a line to the last
for one substitution, so that commands between two of them would be hidden, and
ends a word at a backslash before a line feed, which means nothing to a shell.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_CONTINUED = re.compile(r"(?<=[^\s\\;&|()])\\\n(?=[^\s;&|()#])")
"""A line that ends in the midst of a word."""
_SPECIAL = re.compile(r"\$'(?:[^'\\]|\\.)*'|\\|'|\"|`|<<<|<<-?[ \t]*|\n|(?:(?<=\s)|^)#")
_DELIMITER = re.compile(r"(?:\\.|'[^'\n]*'|\"[^\"\n]*\"|[^\s;&|<>()'\"\\])+")
DEEPEST = 8
"""Backquotes inside backquotes that are rewritten."""


@dataclass(frozen=True, slots=True)
class Document:
    """A here-document that begins on the next line."""

    delimiter: str
    literal: bool
    strips: bool


def rewritten(text: str, depth: int = 0) -> str:
    """Shell text with the same meaning without backquotes and broken words.

    Text without them comes back as it is.
    """
    if ("`" not in text and _CONTINUED.search(text) is None) or depth > DEEPEST:
        return text
    pieces: list[str] = []
    waiting: list[Document] = []
    quoted = False
    at = 0
    while (match := _SPECIAL.search(text, at)) is not None:
        pieces.append(text[at : match.start()])
        mark, at = match[0], match.end()
        if mark == "\\":
            if _CONTINUED.match(text, match.start()) is None:
                pieces.append(text[match.start() : at + 1])
            at += 1
        elif mark.startswith("$'") and quoted:
            pieces.append("$")
            at = match.start() + 1
        elif mark == '"':
            quoted = not quoted
            pieces.append(mark)
        elif mark == "`":
            end = _closing(text, at)
            if end == len(text):  # never closed: no shell would run it
                at = match.start()
                break
            pieces.append(_substitution(text[at:end], quoted, depth))
            at = end + 1
        elif quoted or mark == "<<<" or mark.startswith("$'"):
            pieces.append(mark)
        elif mark in ("'", "#"):
            end = text.find("'" if mark == "'" else "\n", at)
            end = len(text) if end < 0 else end + (mark == "'")
            pieces.append(text[match.start() : end])
            at = end
        elif mark == "\n":
            pieces.append(mark)
            for document in waiting:
                body, at = _body(text, at, document)
                pieces.append(body if document.literal else _expanded(body, depth))
            waiting = []
        else:
            pieces.append(mark)
            if (found := _DELIMITER.match(text, at)) is not None:
                waiting.append(_document(found[0], mark))
                pieces.append(found[0])
                at = found.end()
    pieces.append(text[at:])
    return "".join(pieces)


def skip_documents(text: str, at: int, waiting: list[Document]) -> int:
    """The place after the bodies of here-documents that begin at `at`."""
    for document in waiting:
        _, at = _body(text, at, document)
    return at


def document_at(text: str, at: int, operator: str) -> tuple[Document, int] | None:
    """The here-document whose delimiter stands at `at`, and the place after the delimiter."""
    while text[at : at + 1] in (" ", "\t"):
        at += 1
    found = _DELIMITER.match(text, at)
    return None if found is None else (_document(found[0], operator), found.end())


def _document(word: str, operator: str) -> Document:
    return Document(re.sub(r"\\(.)|['\"]", r"\1", word), any(q in word for q in "\\'\""), "-" in operator)


def _body(text: str, at: int, document: Document) -> tuple[str, int]:
    """The body of a here-document with its closing line, and the place after it."""
    tabs = r"\t*" if document.strips else ""
    end = re.compile(rf"^{tabs}{re.escape(document.delimiter)}(?:\n|\Z)", re.MULTILINE).search(text, at)
    stop = len(text) if end is None else end.end()
    return text[at:stop], stop


def _expanded(body: str, depth: int) -> str:
    """The body of an unquoted here-document: quotes mean nothing in it, backquotes do."""
    pieces: list[str] = []
    at = 0
    while (match := re.compile(r"\\.|`", re.DOTALL).search(body, at)) is not None:
        pieces.append(body[at : match.start()])
        at = match.end()
        if match[0] != "`":
            pieces.append(match[0])
            continue
        end = _closing(body, at)
        pieces.append(_substitution(body[at:end], True, depth))
        at = end + 1
    pieces.append(body[at:])
    return "".join(pieces)


def _closing(text: str, at: int) -> int:
    while at < len(text) and text[at] != "`":
        at += 2 if text[at] == "\\" else 1
    return min(at, len(text))


def _substitution(script: str, quoted: bool, depth: int) -> str:
    script = re.sub(r'\\([`\\$"])' if quoted else r"\\([`\\$])", r"\1", script)
    script = rewritten(script, depth + 1)
    return f"$({script}\n)" if "#" in script else f"$({script})"
