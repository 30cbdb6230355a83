"""Text prepared for reading aloud: without markup, code and addresses, split into sentences. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tools.kit.lazy_pattern import lazy_pattern
from tools.text.safe_text import clean

LONGEST = 4_000
"""The character limit of a text read aloud in one piece."""
_FENCE = lazy_pattern(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_TABLE = lazy_pattern(r"^[ \t]*\|.*$\n?", re.MULTILINE)
_LINK = lazy_pattern(r"!?\[([^\]\n]*)\]\([^)\n]*\)")
_ADDRESS = lazy_pattern(r"<?\bhttps?://[^\s>)]+>?")
_LINE_MARKS = lazy_pattern(
    r"^[ \t]*(?:#{1,6}[ \t]+|>[ \t]?|[-*+][ \t]+(?:\[[ xX]\][ \t]+)?|\d{1,3}[.)][ \t]+)", re.MULTILINE
)
_RULE = lazy_pattern(r"^[ \t]*(?:[-*_=][ \t]*){3,}$", re.MULTILINE)
_TAG = lazy_pattern(r"</?[a-zA-Z][^<>\n]{0,200}>")
_MARKS = lazy_pattern(r"(\*{1,3}|_{2,3}|~~)(?=\S)(.+?)(?<=\S)\1")
_UNDERLINED = lazy_pattern(r"(?<!\w)_(?=\S)([^_\n]+)(?<=\S)_(?!\w)")
_SENTENCE = lazy_pattern(r"(?<=[.!?…:])[\"'”’)\]]*\s+(?=\S)|\n\s*\n|\n")
_SYMBOLS = lazy_pattern(r"[\u2190-\u2bff\U0001f000-\U0001faff\ufe0f\u200d]")


def spoken(text: str) -> str:
    """Return a text prepared for speech, without markup, code blocks, tables, addresses and symbols."""
    text = clean(text)
    text = _FENCE.sub("\n", text)
    text = _TABLE.sub("", text)
    text = _LINK.sub(r"\1", text)
    text = _ADDRESS.sub("", text)
    text = _RULE.sub("", text)
    text = _LINE_MARKS.sub("", text)
    text = text.replace("`", "")
    text = _MARKS.sub(r"\2", _MARKS.sub(r"\2", text))
    text = _UNDERLINED.sub(r"\1", text)
    text = _TAG.sub("", text)
    text = _SYMBOLS.sub("", text)
    text = re.sub(r"[ \t]+", " ", text)
    return re.sub(r" ?\n(?:[ \t]*\n)+", "\n\n", text).strip()


def sentences(text: str, longest: int = 400) -> Iterator[str]:
    """Yield the sentences of a prepared text, splitting those longer than `longest` characters."""
    for sentence in _SENTENCE.split(text):
        rest = " ".join(sentence.split())
        while len(rest) > longest:
            cut = max(rest.rfind(mark, 0, longest) for mark in (", ", "; ", " "))
            cut = cut + 1 if cut > 0 else longest
            yield rest[:cut].strip()
            rest = rest[cut:].strip()
        if any(character.isalnum() for character in rest):
            yield rest


class SentenceStream:
    """A splitter of an answer that arrives in pieces into complete sentences. Code is kept until it ends."""

    def __init__(self) -> None:
        self._text = ""

    def feed(self, piece: str) -> list[str]:
        """Add a piece; return the sentences now complete."""
        self._text += piece
        whole = self._whole()
        if whole <= 0:
            return []
        ready, self._text = self._text[:whole], self._text[whole:]
        return list(sentences(spoken(ready)))

    def end(self) -> list[str]:
        """Return the sentences of the text that is left."""
        rest, self._text = self._text, ""
        return list(sentences(spoken(rest)))

    def _whole(self) -> int:
        """Return the position after the last complete sentence that is not in code."""
        fences = [match.start() for match in re.finditer(r"^[ \t]*(?:```|~~~)", self._text, re.MULTILINE)]
        limit = fences[-1] if len(fences) % 2 else len(self._text)
        closed = 0
        if fences and len(fences) % 2 == 0:
            end = self._text.find("\n", fences[-1])
            if end < 0:
                limit = fences[-2]
            else:
                closed = end + 1
        ends = [match.end() for match in re.finditer(r"[.!?…][\"'”’)\]]*\s|\n", self._text[:limit])]
        return max([closed, *ends[-1:]], default=0)
