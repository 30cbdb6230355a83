"""Making room without a model: which old results and turns are left out next.

Deterministic and reversible: nothing is deleted, a compaction node on the path
names what is no longer sent, and `agent.context.history` applies it. Each plan
is one declared break of the prompt prefix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent.attachments import attachments_of
from agent.context.history import calls_of
from agent.model.codecs.pictures import COUNTED
from agent.store.nodes import Node

MIN_MASKED = 400
"""Characters below which masking a result saves nothing worth a cache miss."""

KEPT_RESULTS = 3
"""The newest results stay whole in the first stage, so that work in progress goes on."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to write into the compaction node. `saved` is in characters."""

    stage: str
    data: dict[str, object]
    saved: int

    def sentence(self) -> str:
        """One line for the person."""
        if self.stage == "mask":
            count = len(self.data["nodes"])  # type: ignore[arg-type]
            return f"Made room: {count} old tool results are no longer sent ({self.saved:,} characters)."
        return f"Made room: the oldest turns are no longer sent ({self.saved:,} characters), only searchable."


def plan_room(path: Sequence[Node], needed: int) -> Plan | None:
    """The mildest plan that saves `needed` characters, else the one that saves most; None if none does.

    Stages: mask old results; mask all but the newest; leave out the oldest turns; mask every result.
    """
    best: Plan | None = None
    for plan in (_mask(path, KEPT_RESULTS), _mask(path, 1), _elide(path, needed), _mask(path, 0)):
        if plan is None:
            continue
        if plan.saved >= needed:
            return plan
        if best is None or plan.saved > best.saved:
            best = plan
    return best


def _mask(path: Sequence[Node], keep: int) -> Plan | None:
    done = {
        number
        for node in path
        if node.kind == "compaction" and node.data.get("stage") == "mask"
        for number in node.data.get("nodes", ())
    }
    start = _elided_up_to(path)
    results = [node for node in path if node.kind == "tool" and node.id >= start]
    old = results[:-keep] if keep else results
    nodes = [node for node in old if node.id not in done and len(node.content) >= MIN_MASKED]
    oldest_kept = results[-keep].id if keep and len(results) >= keep else None
    callers = [
        node
        for node in path
        if node.kind == "assistant"
        and node.id not in done
        and node.id >= start
        and (oldest_kept is None or node.id < oldest_kept)
        and _argument_size(node) >= MIN_MASKED
    ]
    # The assistant message of a kept result keeps its arguments too.
    if keep and callers and oldest_kept is not None:
        last_caller = max(
            (node.id for node in path if node.kind == "assistant" and node.id < oldest_kept), default=0
        )
        callers = [node for node in callers if node.id != last_caller]
    saved = sum(len(node.content) for node in nodes) + sum(map(_argument_size, callers))
    numbers = sorted(node.id for node in (*nodes, *callers))
    return Plan("mask", {"stage": "mask", "nodes": numbers}, saved) if numbers else None


def _elide(path: Sequence[Node], needed: int) -> Plan | None:
    """Leave out whole turns from the start, up to the newest user message at most."""
    start = _elided_up_to(path)
    rest = [node for node in path if node.id >= start and node.kind in ("user", "assistant", "tool")]
    saved = 0
    cut: tuple[int, int] | None = None
    for index, node in enumerate(rest):
        if node.kind == "user" and index:
            cut = (node.id, saved)
            if saved >= needed:
                break
        saved += len(node.content) + _argument_size(node) + COUNTED * len(attachments_of(node.data))
    if cut is None:
        return None
    return Plan("elide", {"stage": "elide", "from": cut[0]}, cut[1])


def _argument_size(node: Node) -> int:
    return sum(len(call.arguments) for call in calls_of(node)) if node.kind == "assistant" else 0


def _elided_up_to(path: Sequence[Node]) -> int:
    cuts = [
        node.data.get("from", 0)
        for node in path
        if node.kind == "compaction" and node.data.get("stage") == "elide"
    ]
    return max(cuts, default=0)
