"""Reasoning that models write into their answer, between `<think>` and `</think>` or similar tags."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

Kind = Literal["text", "reasoning", "open", "stray"]
"""`open`: an opening tag; `stray`: a closing tag without one, so that all text before it was reasoning."""

_THINK = ("</think>", "</thinking>")
_PAIRS = {
    "<think>": _THINK,
    "<thinking>": _THINK,
    "<seed:think>": ("</seed:think>",),
    "[THINK]": ("[/THINK]",),
    "<|START_THINKING|>": ("<|END_THINKING|>",),
    "<|channel>thought": ("<channel|>",),
    "<|open|>think<|sep|>": ("<|close|>think<|sep|>",),
}
"""Opening tags and the tags that close them: of DeepSeek and Qwen, Seed, Mistral, Cohere, Gemma and Kimi."""
OPENING = tuple(_PAIRS)
CLOSING = tuple(dict.fromkeys(tag for tags in _PAIRS.values() for tag in tags))


def _either(tags: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, tags)))


_CLOSE = {tags: _either(tags) for tags in _PAIRS.values()}
_ANY_CLOSE = _either(CLOSING)
_ANY = _either(OPENING + CLOSING)


def behind_thought(text: str) -> tuple[str, str] | None:
    """Return `text` before and after the last tag that closes reasoning; None without such a tag."""
    ends = list(_ANY_CLOSE.finditer(text))
    return (text[: ends[-1].start()], text[ends[-1].end() :]) if ends else None


class ThinkFilter:
    """Splits text that arrives in arbitrary pieces into answer and reasoning.

    Tags inside code are quotations and are kept. `pass_through` may be set at any time, even between two
    parts of one piece: from then on everything counts as answer.
    """

    def __init__(self) -> None:
        self.pass_through = False
        self._inside: tuple[str, ...] = ()
        """The tags that close the reasoning that has begun; empty outside of reasoning."""
        self._ended = False
        """True if reasoning has ended once; after that, a closing tag has no effect."""
        self._held = ""
        self._code = CodeState()
        self._trim = False
        self._blank: str | None = ""
        """Blank text at the very beginning, dropped if reasoning follows; None after other text."""

    def feed(self, text: str) -> Iterator[tuple[Kind, str]]:
        """Yield the parts of the text that are certain now, each with its kind."""
        text, self._held = self._held + text, ""
        at = 0
        while at < len(text):
            if self.pass_through:
                yield "text", text[at:]
                return
            tags = self._inside or OPENING + CLOSING
            pattern = _CLOSE[self._inside] if self._inside else _ANY
            tag = pattern.search(text, at)
            end = tag.start() if tag else len(text) - partial_suffix(text[at:], tags)
            yield from self._part(text[at:end])
            if self.pass_through:
                yield "text", text[end:]
                return
            if tag is None:
                self._held = text[end:]
                return
            yield from self._cross(tag.group())
            at = tag.end()

    @property
    def inside(self) -> bool:
        """True if reasoning has begun and has not ended."""
        return bool(self._inside)

    def finish(self) -> Iterator[tuple[Kind, str]]:
        """Yield the text that was held back because it might have become a tag."""
        held, self._held = self._held, ""
        yield from self._part(held)
        if self._blank:
            yield "text", self._blank

    def _part(self, text: str) -> Iterator[tuple[Kind, str]]:
        if self._inside:
            if text:
                yield "reasoning", text
            return
        if self._trim:
            text = text.lstrip()
            self._trim = not text
        if self._blank is not None:
            self._blank += text
            text, self._blank = ("", self._blank) if not self._blank.strip() else (self._blank, None)
        if text:
            self._code.feed(text)
            yield "text", text

    def _cross(self, tag: str) -> Iterator[tuple[Kind, str]]:
        if self._inside:
            self._inside, self._trim, self._ended = (), True, True
        elif self._code.inside:
            yield from self._part(tag)
        elif tag in OPENING:
            self._inside, self._blank = _PAIRS[tag], None
            yield "open", tag
        else:
            self._trim = True
            if not self._ended:
                yield "stray", tag


class CodeState:
    """Tracks whether the end of a text is in code: in a fence, or between backticks on its line.

    The text is passed in pieces.
    """

    def __init__(self) -> None:
        self._fenced = False
        self._quoted = False
        self._run = 0

    _PART = re.compile(r"`+|\n|[^`\n]+")

    def feed(self, text: str) -> None:
        for part in self._PART.findall(text):
            if part[0] == "`":
                self._run += len(part)
                continue
            self._settle()
            if part == "\n":
                self._quoted = False

    @property
    def inside(self) -> bool:
        self._settle()
        return self._fenced or self._quoted

    def _settle(self) -> None:
        run, self._run = self._run, 0
        if run >= 3:
            self._fenced = not self._fenced
        elif run:
            self._quoted = not self._quoted


def partial_suffix(text: str, tags: tuple[str, ...]) -> int:
    """Return how many characters at the end of `text` may be the beginning of one of `tags`."""
    longest = max(map(len, tags)) - 1
    firsts = {tag[0] for tag in tags}
    end = text[-longest:]
    for at, char in enumerate(end):
        if char in firsts and any(tag.startswith(end[at:]) for tag in tags):
            return len(end) - at
    return 0
