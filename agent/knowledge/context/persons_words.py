"""The person's own words, carried through a compaction as they are, as far as there is room.

Long pastes are given up first, the oldest before the others, then long messages; short
instructions last. What is given up leaves a mark with its size and the id of the
message, by which it is fetched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agent.core.store.nodes import Node

ORIGINS = frozenset({"prompt", "queue", "steer"})
"""Where a message of the person comes from; others are the engine's own."""

PASTE = 600
"""Characters from which on a paragraph or a block of code counts as pasted."""
LONG = 1_200
"""Characters from which on a message counts as long."""
EXCERPT = 200
"""Characters that stay of the beginning of what is given up."""

BEGINNING = 60
"""Characters that stay of a long line."""
MARK = "characters left out here; recall_folded shows them"

_FENCE = re.compile(r"^(```|~~~)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PersonsWords:
    """One message of the person as it is carried."""

    node: int
    text: str
    shortened: bool = False


def is_persons(node: Node) -> bool:
    """Whether a node is a message that the person wrote."""
    return node.kind == "user" and node.data.get("origin", "prompt") in ORIGINS


def carried(
    nodes: Sequence[Node], room: int, shortened: Mapping[int, str] | None = None
) -> list[PersonsWords]:
    """The person's messages among `nodes`, oldest first, in at most `room` characters if that is possible.

    `shortened` are texts of messages that stand for them already. Pure. Even without any
    room a message leaves its beginning and a mark.
    """
    before = shortened or {}
    words = [
        PersonsWords(node.id, before.get(node.id, node.content), node.id in before)
        for node in nodes
        if is_persons(node)
    ]
    over = sum(len(each.text) for each in words) - room
    steps: tuple[tuple[Callable[[str], bool], Callable[[PersonsWords], str]], ...] = (
        (_has_paste, _without_pastes),
        (_has_long_line, _without_long_lines),
        (lambda text: len(text) > LONG, _beginning),
        (lambda text: len(text) > 2 * EXCERPT, _beginning),
    )
    for applies, shorten in steps:
        for at, each in enumerate(words):
            if over <= 0:
                return words
            if applies(each.text):
                text = shorten(each)
                if len(text) < len(each.text):
                    over -= len(each.text) - len(text)
                    words[at] = PersonsWords(each.node, text, shortened=True)
    return words


def mark(characters: int, node: int) -> str:
    """What stands for a text that is not carried."""
    return f"[{characters:,} {MARK}: id {node}]"


def _blocks(text: str) -> list[str]:
    """The text in paragraphs and blocks of code, with what stands between them; joined it is the text."""
    blocks: list[str] = []
    current: list[str] = []
    fence = ""
    for line in text.splitlines(keepends=True):
        opening = _FENCE.match(line.lstrip())
        if opening and not fence:
            if current:
                blocks.append("".join(current))
            current, fence = [line], opening[1]
            continue
        current.append(line)
        closes = fence and line.strip() == fence
        if closes or (not fence and not line.strip()):
            blocks.append("".join(current))
            current, fence = [], ""
    if current:
        blocks.append("".join(current))
    return blocks


def _has_paste(text: str) -> bool:
    return len(text) > PASTE and any(len(block) > PASTE for block in _blocks(text))


def _without_pastes(words: PersonsWords) -> str:
    """The message with a mark in place of each pasted piece; pieces next to each other share one."""
    kept: list[str] = []
    gone = 0
    for block in _blocks(words.text):
        if len(block) > PASTE:
            if not gone:
                kept.append(_start(block))
            gone += len(block)
            continue
        if gone:
            kept.append(f"{mark(gone, words.node)}\n")
            gone = 0
        kept.append(block)
    if gone:
        kept.append(mark(gone, words.node))
    return "".join(kept)


def _start(block: str) -> str:
    """The beginning of a pasted piece, by which it is known again."""
    start = block[:EXCERPT]
    return f"{start[: start.rfind(' ') + 1] if ' ' in start[EXCERPT // 2 :] else start}… "


def _has_long_line(text: str) -> bool:
    return any(len(line) > EXCERPT for line in text.split("\n"))


def _without_long_lines(words: PersonsWords) -> str:
    """The message with the beginnings of its long lines: instructions are short ones."""
    lines = words.text.split("\n")
    shown = [line if len(line) <= EXCERPT or MARK in line else f"{line[:BEGINNING]}…" for line in lines]
    gone = len(words.text) - len("\n".join(shown))
    return "\n".join([*shown, mark(gone, words.node)]) if gone else words.text


def _beginning(words: PersonsWords) -> str:
    """The beginning of a message and a mark for the rest of it."""
    start = words.text[:EXCERPT]
    return f"{start}… {mark(len(words.text) - len(start), words.node)}"
