"""Places in the index for messages that are new to it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from agent.knowledge.recall.index_tables import LONGEST_LINE, PLACES, PathLine, Row
from agent.knowledge.recall.question import indexed_text


class IndexedMessage(NamedTuple):
    """A node as the index needs it."""

    node: int
    session: str
    before: int | None
    """The nearest message before it on its path that can be searched."""
    kind: str
    created: float
    size: int
    text: str
    """What is indexed of it; empty: it is not searched."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Rows to be added, and the lines as they will be."""

    rows: tuple[Row, ...]
    lines: tuple[PathLine, ...]


def waited_for(messages: Sequence[IndexedMessage], ends: Mapping[int, PathLine]) -> list[int]:
    """The earlier nodes after which a new line may have to begin, whose texts are needed for it."""
    open_at = {node for node, line in ends.items() if line.next + len(messages) < LONGEST_LINE}
    found: dict[int, None] = {}
    for message in messages:
        if not message.text:
            continue
        if message.before is not None:
            if message.before in open_at:
                open_at.discard(message.before)
            elif message.before < messages[0].node:
                found[message.before] = None
        open_at.add(message.node)
    return list(found)


def planned(
    messages: Sequence[IndexedMessage],
    ends: Mapping[int, PathLine],
    last: int,
    earlier: Mapping[int, Sequence[IndexedMessage]],
) -> Plan:
    """Places for messages in the order of their ids.

    `ends` are lines by the node they end at, `last` the highest number of a line, `earlier` the last two
    messages up to each node of `waited_for`.
    """
    tips = {node: replace(line) for node, line in ends.items()}
    lines: dict[int, PathLine] = {}
    rows: list[Row] = []
    tails = {node: tuple(found) for node, found in earlier.items()}

    def put(line: PathLine, message: IndexedMessage) -> None:
        position = (line.line << PLACES) + line.next
        text = indexed_text(message.text, message.created)
        rows.append(Row(position, message.node, message.kind, message.created, message.size, text))
        line.next += 1
        line.tip = message.node
        line.first, line.last = min(line.first, message.created), max(line.last, message.created)

    for message in messages:
        if not message.text:
            continue
        tail = tails.get(message.before, ()) if message.before is not None else ()
        line = tips.pop(message.before, None) if message.before is not None else None
        if line is None or line.next >= LONGEST_LINE:
            last += 1
            line = PathLine(last, message.session, message.node, 0, message.created, message.created)
            for copied in tail:
                put(line, copied)
        put(line, message)
        tips[message.node] = line
        tails[message.node] = (*tail[-1:], message)
        lines[line.line] = line
    return Plan(tuple(rows), tuple(lines.values()))
