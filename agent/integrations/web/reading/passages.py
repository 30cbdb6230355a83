"""Search for the passages of a text that match a query, each with its position. Pure; linear in the text."""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tools.kit.children import IDLE, WorkerError, WorkerProcess
from tools.kit.lazy_pattern import lazy_pattern

MOST = 4_000
"""The maximum number of characters of all passages of one answer together."""
_LONGEST = 1_200
"""The length in characters from which a passage is split."""
_WORD = lazy_pattern(r"\w+(?:[.\-_']\w+)*")
_STOP = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "by",
        "can",
        "do",
        "does",
        "for",
        "from",
        "has",
        "have",
        "how",
        "i",
        "in",
        "is",
        "it",
        "its",
        "of",
        "on",
        "or",
        "that",
        "the",
        "this",
        "to",
        "was",
        "were",
        "what",
        "when",
        "where",
        "which",
        "who",
        "why",
        "will",
        "with",
        "you",
        "your",
        "der",
        "die",
        "das",
        "und",
        "ist",
        "ein",
        "eine",
        "wie",
        "les",
        "des",
        "une",
        "est",
        "que",
    ]
)
_K, _B = 1.4, 0.6
_HEADING_WEIGHT = 0.6


@dataclass(frozen=True, slots=True)
class FittingPassage:
    """A passage of a text that matches a query."""

    start: int
    """Its position: the number of characters before it."""
    text: str
    under: str
    """The headings above it, outermost first."""
    score: float


def passages(
    text: str, headings: Sequence[tuple[int, str]], query: str, room: int = MOST
) -> list[FittingPassage]:
    """Return the best matching passages of `text` that fit into `room` characters, in order of the text."""
    wanted = list(dict.fromkeys(word for word in _words(query) if word not in _STOP)) or list(_words(query))
    pieces = _pieces(text)
    if not wanted or not pieces:
        return []
    above = _above(headings, [start for start, _ in pieces])
    counts = [Counter(_words(piece)) for _, piece in pieces]
    lengths = [max(1, sum(each.values())) for each in counts]
    mean = sum(lengths) / len(lengths)
    weights = {}
    for word in wanted:
        present = sum(1 for each in counts if word in each)
        weights[word] = math.log(1 + (len(pieces) - present + 0.5) / (present + 0.5))
    scored = []
    for number, (start, piece) in enumerate(pieces):
        titles = set(_words(above[number]))
        score = 0.0
        for word in wanted:
            times = counts[number][word]
            score += weights[word] * times * (_K + 1) / (times + _K * (1 - _B + _B * lengths[number] / mean))
            score += weights[word] * _HEADING_WEIGHT * (word in titles)
        if any(counts[number][word] for word in wanted):
            scored.append(FittingPassage(start, piece[:_LONGEST], above[number], round(score, 4)))
    chosen: list[FittingPassage] = []
    left = room
    for each in sorted(scored, key=lambda each: (-each.score, each.start)):
        if len(each.text) <= left and each.score > 0.2 * (chosen[0].score if chosen else 0):
            chosen.append(each)
            left -= len(each.text)
    return sorted(chosen, key=lambda each: each.start)


def _words(text: str) -> list[str]:
    return [_stem(word) for word in _WORD.findall(text.lower())]


def _stem(word: str) -> str:
    for ending in ("ing", "ies", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)] + ("y" if ending == "ies" else "")
    return word


def _pieces(text: str) -> list[tuple[int, str]]:
    """Return the paragraphs, tables and code blocks of a text, each with its position.

    Long ones are split at line ends.
    """
    found: list[tuple[int, str]] = []
    lines: list[str] = []
    start = at = size = 0
    inside = ""
    for line in text.splitlines(keepends=True):
        mark = line.lstrip()[:3]
        is_fence = mark in ("```", "~~~")
        ends = not line.strip() and not inside
        if lines and (ends or size + len(line) > _LONGEST):
            found.append((start, "".join(lines).strip("\n")))
            lines, size = [], 0
        if not ends:
            if not lines:
                start = at
            lines.append(line)
            size += len(line)
        if is_fence:
            inside = "" if inside == mark else inside or mark
        at += len(line)
    if lines:
        found.append((start, "".join(lines).strip("\n")))
    return [each for each in found if each[1].strip()]


def _above(headings: Sequence[tuple[int, str]], starts: Sequence[int]) -> list[str]:
    found: list[str] = []
    path: list[tuple[int, str]] = []
    number = 0
    for start in starts:
        while number < len(headings) and headings[number][0] <= start:
            marks, _, title = headings[number][1].partition(" ")
            path = [each for each in path if each[0] < len(marks)] + [(len(marks), title)]
            number += 1
        found.append(" > ".join(title for _, title in path))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPage:
    """A document as text, all of it untrusted."""

    kind: str
    """`html`, `pdf`, `docx`, `json`, `feed`, `text`, `code`, or `none` for a document without text."""
    content: str = ""
    """The text, in Markdown or as it was."""
    plain: str = ""
    """The main text without any markup, if it was requested."""
    title: str = ""
    date: str = ""
    """The date of publication as `YYYY-MM-DD`, if the document states it."""
    language: str = ""
    headings: tuple[tuple[int, str], ...] = ()
    """The position of each heading in `content`, and its text."""
    links: tuple[str, ...] = ()
    """The absolute URLs that a page links to, in its order, if they were requested."""
    hidden: int = 0
    """The number of invisible elements that were removed."""
    hidden_characters: int = 0
    notes: tuple[str, ...] = ()
    """Sentences about what is missing: `needs browser`, a paywall, pages without text."""
    way: str = ""
    """How a page was converted: `article` or `whole`."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ReadPage:
        """Return the document in a result of `to_json`."""
        fields = dict(data)
        fields["headings"] = tuple((int(at), str(text)) for at, text in fields.get("headings", ()))
        fields["links"] = tuple(fields.get("links", ()))
        fields["notes"] = tuple(fields.get("notes", ()))
        return cls(**fields)


class UnreadableError(Exception):
    """A document that cannot be read. The text is a clause that follows its name."""


SECONDS = 20.0
"""The time limit for reading one document, in seconds."""
_MUCH = 100_000


class DocumentReader:
    """A reader of documents in a separate process: one at a time, each within `seconds`."""

    def __init__(self, seconds: float = SECONDS, idle: float = IDLE) -> None:
        self._seconds = seconds
        self._worker = WorkerProcess("agent.integrations.web.reading.child", seconds=seconds, idle=idle)

    async def read(
        self,
        data: bytes,
        content_type: str = "",
        url: str = "",
        *,
        wants_plain: bool = False,
        wants_links: bool = False,
    ) -> ReadPage:
        """Return a document as text. Raises `UnreadableError`."""
        order = {
            "content_type": content_type,
            "url": url,
            "wants_plain": wants_plain,
            "wants_links": wants_links,
        }
        try:
            told = await self._worker.ask(order, data)
            answer = await asyncio.to_thread(json.loads, told) if len(told) > _MUCH else json.loads(told)
        except TimeoutError:
            raise UnreadableError(f"took more than {self._seconds:g} s to read") from None
        except (WorkerError, ValueError) as error:
            raise UnreadableError("made the process that read it fail") from error
        if "problem" in answer:
            raise UnreadableError(str(answer["problem"]))
        return ReadPage.from_json(answer["page"])

    async def close(self) -> None:
        """End the process. The next `read` starts it again."""
        await self._worker.close()
