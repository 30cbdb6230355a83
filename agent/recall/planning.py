"""Places in the index for messages that are new to it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from agent.recall.index_tables import LONGEST_LINE, PLACES, PathLine, Row
from agent.recall.question import date_words


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


def forks(messages: Iterable[IndexedMessage], ends: Mapping[int, PathLine]) -> list[int]:
    """The nodes after which a new line has to begin, whose texts are needed for it."""
    open_at = set(ends)
    found: list[int] = []
    for message in messages:
        if not message.text:
            continue
        if message.before is not None:
            if message.before in open_at:
                open_at.discard(message.before)
            else:
                found.append(message.before)
        open_at.add(message.node)
    return found


def planned(
    messages: Sequence[IndexedMessage],
    ends: Mapping[int, PathLine],
    last: int,
    earlier: Mapping[int, Sequence[IndexedMessage]],
) -> Plan:
    """Places for messages in the order of their ids.

    `ends` are lines by the node they end at, `last` the highest number of a line, `earlier` the last two
    messages up to each node after which a line begins.
    """
    tips = {node: replace(line) for node, line in ends.items()}
    lines: dict[int, PathLine] = {}
    rows: list[Row] = []

    def put(line: PathLine, message: IndexedMessage) -> None:
        position = (line.line << PLACES) + line.next
        date = date_words(message.created)
        rows.append(
            Row(position, message.node, message.kind, message.created, message.size, message.text, date)
        )
        line.next += 1
        line.tip = message.node
        line.first, line.last = min(line.first, message.created), max(line.last, message.created)

    for message in messages:
        if not message.text:
            continue
        line = tips.pop(message.before, None) if message.before is not None else None
        if line is None or line.next >= LONGEST_LINE:
            last += 1
            line = PathLine(last, message.session, message.node, 0, message.created, message.created)
            for copied in earlier.get(message.before, ()) if message.before is not None else ():
                put(line, copied)
        put(line, message)
        tips[message.node] = line
        lines[line.line] = line
    return Plan(tuple(rows), tuple(lines.values()))
