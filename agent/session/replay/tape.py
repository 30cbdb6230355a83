"""The tape: the nodes of a recorded branch, read once in order, and the first difference from a replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from agent.core.store.nodes import Node
from agent.errors import HermesError
from tools.text.words import one_line

SHOWN = 120
"""The maximum number of characters of a value in the description of a difference."""
_SAID = ("calls", "reasoning", "state", "model", "finish", "usage", "sealed", "repairs")
"""Data of an assistant node that is part of the model's answer and is compared; other data is not."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first difference between a replay and its record. `step` counts answers from 1.

    If nothing can be compared, both values are empty and `field` gives the reason.
    """

    step: int
    field: str
    node: int | None
    recorded: str
    replayed: str

    def sentence(self) -> str:
        where = "" if self.node is None else f" (entry {self.node})"
        if not (self.recorded or self.replayed):
            return f"Step {self.step}{where}: {self.field}."
        return f"Step {self.step}{where}: {self.field} differs: {self.recorded} then, {self.replayed} now."


class ReplayDifference(HermesError):  # noqa: N818 - it is a finding, not a fault
    """Raised at the first difference, which ends the replay."""


class Tape:
    """The nodes of a branch, and the position up to which they were read."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = tuple(nodes)
        self.at = 0
        self.step = 0
        """The number of answers that were read."""
        self.difference: Difference | None = None
        self.changed = False
        """True if a node read since the last answer requires requests to be framed again."""

    @property
    def over(self) -> bool:
        return self.at >= len(self.nodes)

    def feed(self) -> None:
        """Pass on recorded nodes that came from outside the engine, by moving the position past them.

        Stops before a node that the engine makes, or before a message that begins a turn.
        """
        while not self.over and not (
            _is_engine_made(self.nodes[self.at]) or begins_turn(self.nodes[self.at])
        ):
            self._take()

    def next(self) -> Node | None:
        """Pass on nodes from outside; return the next node that the engine must produce, or None."""
        self.feed()
        return None if self.over else self.nodes[self.at]

    def coming(self) -> Sequence[Node]:
        """Return the nodes that were not read yet."""
        return self.nodes[self.at :]

    def read(self) -> Sequence[Node]:
        """Return the nodes read so far."""
        return self.nodes[: self.at]

    def take_result(self, calls: set[str]) -> Node | None:
        """Return the next result of one of these calls; None if none comes before the next answer or turn.

        If there is one, move the position up to it; `pass_result` then moves past it.
        """
        place = self.at
        while place < len(self.nodes) and self.nodes[place].kind != "assistant":
            node = self.nodes[place]
            if node.kind == "tool" and node.data.get("call") in calls:
                while self.at < place:
                    self._take()
                return node
            if begins_turn(node):
                return None
            place += 1
        return None

    def pass_result(self, node: Node) -> None:
        """Move the position past a result that `take_result` returned."""
        assert self.nodes[self.at] is node
        self._take()

    def append(self, kind: str, content: str, data: Mapping[str, Any]) -> Node:
        """Return the recorded node if the engine's node equals it; otherwise raise `ReplayDifference`."""
        if self.difference is not None:
            raise ReplayDifference(self.difference.sentence())
        node = self.nodes[self.at] if begins_turn_next(self) else self.next()
        if node is None or node.kind != kind:
            found = "nothing" if node is None else f"a node of kind {node.kind}"
            self.differ(f"{kind} entry", found, f"a node of kind {kind}", node)
        assert node is not None
        if node.content != content:
            self.differ(f"{kind} content", node.content, content, node)
        if kind == "assistant":
            for name in _SAID:
                if _plain(node.data.get(name)) != _plain(data.get(name)):
                    self.differ(f"assistant {name}", node.data.get(name), data.get(name), node)
        self._take()
        return node

    def differ(self, field: str, recorded: object, replayed: object, node: Node | None = None) -> None:
        """Record a difference and end the replay. Raises `ReplayDifference`."""
        step = self.step + 1
        if self.difference is None:
            one, other = _show_difference(recorded, replayed)
            self.difference = Difference(step, field, node.id if node else None, one, other)
        raise ReplayDifference(self.difference.sentence())

    def unreadable(self, what: str, node: Node) -> NoReturn:
        """Record a damaged part of a node and end the replay. Raises `ReplayDifference`."""
        if self.difference is None:
            self.difference = Difference(self.step + 1, f"{what} cannot be read", node.id, "", "")
        raise ReplayDifference(self.difference.sentence())

    def _take(self) -> None:
        node = self.nodes[self.at]
        self.at += 1
        self.step += is_answer(node)
        self.changed = self.changed or node.kind in ("system", "compaction")


def is_answer(node: Node) -> bool:
    """Return whether a node is a complete answer from the model."""
    return node.kind == "assistant" and node.data.get("state") != "interrupted"


def begins_turn(node: Node) -> bool:
    """Return whether a node is a user message that began a turn."""
    return node.kind == "user" and node.data.get("origin") in ("prompt", "queue")


def begins_turn_next(tape: Tape) -> bool:
    """Return whether the next node on the tape begins a turn."""
    return not tape.over and begins_turn(tape.nodes[tape.at])


def _is_engine_made(node: Node) -> bool:
    """Return whether the engine produces the node itself: an answer, or a message of the engine."""
    return is_answer(node) or (node.kind == "user" and node.data.get("origin") == "engine")


def _plain(value: object) -> object:
    """Return a value as the store would return it, with empty values replaced by None or left out."""
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value] or None
    if isinstance(value, Mapping):
        plain = {name: _plain(each) for name, each in value.items()}
        return {name: each for name, each in plain.items() if each is not None} or None
    return value if value not in ("", None) else None


def _show_difference(one: object, other: object) -> tuple[str, str]:
    """Return both values as quoted text, shortened to the part where they begin to differ."""
    first, second = (each if isinstance(each, str) else repr(each) for each in (one, other))
    at = next(
        (place for place, (a, b) in enumerate(zip(first, second, strict=False)) if a != b),
        min(len(first), len(second)),
    )
    start = max(0, at - 20) if max(len(first), len(second)) > SHOWN else 0
    return _cut(first, start), _cut(second, start)


def _cut(text: str, start: int) -> str:
    words = one_line(text[start : start + SHOWN])
    return f"“{'…' if start else ''}{words}{'…' if len(text) > start + SHOWN else ''}”"
