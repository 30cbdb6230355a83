"""The tape of a recorded branch: its nodes in order, read once, and the first difference that was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from agent.core.store.nodes import Node
from agent.errors import HermesError
from tools.text.words import one_line

SHOWN = 120
"""Characters of a value that a difference shows."""
_SAID = ("calls", "reasoning", "state", "model", "finish", "usage", "sealed", "repairs")
"""What of the data of an assistant node an answer makes; all else is noted beside it."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place at which a replay is not what was recorded. `step` counts answers from 1.

    Where nothing can be compared, both values are empty and `field` says why.
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
    """Ends a replay at its first difference."""


class Tape:
    """Nodes of a branch, and how far they were read."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = tuple(nodes)
        self.at = 0
        self.step = 0
        """Answers that were read."""
        self.difference: Difference | None = None
        self.changed = False
        """Whether something was fed since the last answer after which requests are framed again."""

    @property
    def over(self) -> bool:
        return self.at >= len(self.nodes)

    def feed(self) -> None:
        """Take in what came from outside, up to what the engine makes or a message that begins a turn."""
        while not self.over and not (
            _is_engine_made(self.nodes[self.at]) or begins_turn(self.nodes[self.at])
        ):
            self._take()

    def next(self) -> Node | None:
        """The next node that is not fed; None at the end."""
        self.feed()
        return None if self.over else self.nodes[self.at]

    def coming(self) -> Sequence[Node]:
        """What was not read yet."""
        return self.nodes[self.at :]

    def read(self) -> Sequence[Node]:
        """What was read so far."""
        return self.nodes[: self.at]

    def take_result(self, calls: set[str]) -> Node | None:
        """The next result of one of these calls; what lies between is fed. None where there is none."""
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
        """A result that `take_result` gave was written."""
        assert self.nodes[self.at] is node
        self._take()

    def append(self, kind: str, content: str, data: Mapping[str, Any]) -> Node:
        """Match what the engine writes with what was written. Raises `ReplayDifference`."""
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
        """Note a difference and end the replay with it. Raises `ReplayDifference`."""
        step = self.step + 1
        if self.difference is None:
            one, other = _show_difference(recorded, replayed)
            self.difference = Difference(step, field, node.id if node else None, one, other)
        raise ReplayDifference(self.difference.sentence())

    def unreadable(self, what: str, node: Node) -> NoReturn:
        """Note that a part of a node is damaged and end the replay. Raises `ReplayDifference`."""
        if self.difference is None:
            self.difference = Difference(self.step + 1, f"{what} cannot be read", node.id, "", "")
        raise ReplayDifference(self.difference.sentence())

    def _take(self) -> None:
        node = self.nodes[self.at]
        self.at += 1
        self.step += is_answer(node)
        self.changed = self.changed or node.kind in ("system", "compaction")


def is_answer(node: Node) -> bool:
    """Whether a node is a complete answer of the model."""
    return node.kind == "assistant" and node.data.get("state") != "interrupted"


def begins_turn(node: Node) -> bool:
    """Whether a node is a message of the person that began a turn."""
    return node.kind == "user" and node.data.get("origin") in ("prompt", "queue")


def begins_turn_next(tape: Tape) -> bool:
    """Whether the very next node begins a turn."""
    return not tape.over and begins_turn(tape.nodes[tape.at])


def _is_engine_made(node: Node) -> bool:
    """Whether the engine makes a node by itself out of what it was given."""
    return is_answer(node) or (node.kind == "user" and node.data.get("origin") == "engine")


def _plain(value: object) -> object:
    """Values as they come back from the store; what is empty is the same as what is not there."""
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value] or None
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()} or None
    return value if value not in ("", None) else None


def _show_difference(one: object, other: object) -> tuple[str, str]:
    """Two values cut down to where they begin to differ."""
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
