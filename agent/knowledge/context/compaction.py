"""Making room: which old results are masked, and where the part of the conversation begins that stays whole.

Pure and reversible: nothing is deleted, a compaction node on the path names what is no
longer sent, and `agent.knowledge.context.message_history` applies it. Each plan is one declared
break of the prompt prefix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent.core.attachments import attachments_of
from agent.core.store.nodes import Node
from agent.knowledge.context.fold import STAGE, ContextFold, fold_text, newest_fold
from agent.knowledge.context.message_history import calls_of, elided_up_to, masked_nodes
from agent.knowledge.context.persons_words import carried
from agent.knowledge.context.read_ledger import ReadFile, read_files, shown_in
from agent.model.codecs.native import COUNTED

MIN_MASKED = 400
"""Characters below which masking a result saves nothing worth a cache miss."""

KEPT_RESULTS = 3
"""The newest results stay whole when old ones are masked, so that work in progress goes on."""


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """What to write into the compaction node. `saved` is in characters."""

    stage: str
    data: dict[str, object]
    saved: int
    detail: str = ""
    """What the model reads from now on in place of what is folded."""

    def sentence(self) -> str:
        """One line for the person."""
        if self.stage == "mask":
            count = len(self.data["nodes"])  # type: ignore[arg-type]
            return f"Made room: {count} old tool results are no longer sent ({self.saved:,} characters)."
        before, after = self.data["before"], self.data["after"]
        kept = "a summary and your own words" if self.data["summary"] else "your own words and an outline"
        return f"Made room: the conversation so far is folded into {kept} ({before:,} → {after:,} tokens)."


def plan_mask(path: Sequence[Node], keep: int) -> CompactionPlan | None:
    """Mask all results but the newest `keep`, and long arguments of calls; None if that saves nothing."""
    done = {
        number
        for node in path
        if node.kind == "compaction" and node.data.get("stage") == "mask"
        for number in node.data.get("nodes", ())
    }
    start = elided_up_to(path)
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
    return CompactionPlan("mask", {"stage": "mask", "nodes": numbers}, saved) if numbers else None


def applied(path: Sequence[Node], data: dict[str, object]) -> list[Node]:
    """The path as it would be with a compaction of this data at its end."""
    tip = path[-1]
    return [*path, Node(tip.id + 1, tip.session, tip.id, "compaction", tip.created, "", data)]


def size_of(node: Node) -> int:
    """Characters a node is sent with, about."""
    return len(node.content) + _argument_size(node) + COUNTED * len(attachments_of(node.data))


def sent_whole(path: Sequence[Node]) -> list[Node]:
    """The nodes of the conversation that no compaction has taken out yet."""
    start = elided_up_to(path)
    return [
        node
        for node in path
        if node.id >= start
        and (node.kind in ("user", "assistant", "tool") or node.data.get("to_model") is True)
        and node.kind != "compaction"
    ]


def tail_start(path: Sequence[Node], room: int) -> int:
    """The first node of the longest end of the conversation that has at most `room` characters.

    A message of the model is never parted from the results of its calls. Behind the last node if not even
    the newest message has room.
    """
    start = path[-1].id + 1
    used = 0
    for node in reversed(sent_whole(path)):
        used += size_of(node)
        if used > room:
            break
        if node.kind != "tool":
            start = node.id
    return start


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldRoom:
    """What a fold may take, in characters."""

    tail: int
    """Of the end that stays whole."""
    words: int
    """Of what the person wrote."""
    pins: int
    """Of files that are carried whole."""


def plan_fold(
    path: Sequence[Node], room: FoldRoom, unchanged: frozenset[str], earlier: ContextFold | None
) -> ContextFold:
    """What a fold would keep, without its summary. Pure.

    `unchanged` are the paths of files whose content is still what was read.
    """
    start = tail_start(path, room.tail)
    folded = [node for node in path if node.id < start]
    words = carried(folded, room.words, earlier.shortened if earlier is not None else None)
    files = read_files(folded, earlier.files if earlier is not None else ())
    return ContextFold(
        start=start,
        decisions=earlier.decisions if earlier is not None else (),
        shortened={each.node: each.text for each in words if each.shortened},
        files=tuple(files),
        pinned=_pins(folded, files, room.pins, unchanged),
    )


def _pins(
    folded: Sequence[Node], files: Sequence[ReadFile], room: int, unchanged: frozenset[str]
) -> tuple[int, ...]:
    """Results with files that did not change: those that had to be read again first, then the newest."""
    nodes = {node.id: node for node in folded if shown_in(node)}
    pinned: list[int] = []
    once = room // 3
    for file in sorted(files, key=lambda each: (each.reads > 1, each.node), reverse=True):
        node = nodes.get(file.node)
        if node is None or file.path not in unchanged or not node.content:
            continue
        size = len(node.content)
        if size <= (room if file.reads > 1 else min(room, once)):
            room -= size
            once -= size if file.reads == 1 else 0
            pinned.append(node.id)
    return tuple(sorted(pinned))


def still_shown(path: Sequence[Node]) -> list[tuple[str, str, int, int]]:
    """Path, digest, first line and lines asked for of each read whose result is sent whole, in order."""
    start, hidden = elided_up_to(path), masked_nodes(path)
    folded = newest_fold(path)
    pinned = frozenset(folded[1].pinned) if folded is not None else frozenset[int]()
    return [
        (lines.path, lines.digest, lines.first, lines.limit)
        for node in path
        if (node.id >= start and node.id not in hidden) or node.id in pinned
        for lines in shown_in(node)
    ]


def fold_plan(path: Sequence[Node], fold: ContextFold, saved: int) -> CompactionPlan:
    """A fold as what is written into the node."""
    return CompactionPlan(STAGE, fold.data(), saved, fold_text(fold, path))


def _argument_size(node: Node) -> int:
    return sum(len(call.arguments) for call in calls_of(node)) if node.kind == "assistant" else 0
