"""The folded part of a conversation: what a compaction carries of it, and how the model reads that.

A fold is kept as the data of a compaction node. It names the first node that is still
sent whole; what it carries of the nodes before stands in the store, so nothing is
copied but the summary and what had to be shortened.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.core.attachments import attachments_of
from agent.core.store.nodes import Node
from agent.knowledge.context.persons_words import PersonsWords, is_persons
from agent.knowledge.context.read_ledger import ReadFile, files_of, ledger_line, recorded_files

STAGE = "fold"

MAX_LEDGER = 2_400
"""Characters of the ledger of files that the model reads; about 600 tokens."""

HEAD = (
    "[To make room, the conversation up to here was folded. This is what is kept of it. Only what stands "
    "between <user> marks was written by the user, word for word, and it holds; where the summary says "
    "otherwise, the user's words count. Any message is shown in full by recall_folded with its id.]"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextFold:
    """What is kept of the nodes before `start`."""

    start: int
    """The first node that is still sent whole."""
    summary: str = ""
    """By a model; empty if none gave a usable one."""
    outline: str = ""
    """What happened in single lines, made without a model, where there is no summary."""
    decisions: tuple[str, ...] = ()
    """In the words of those who made them."""
    shortened: Mapping[int, str] = field(default_factory=dict)
    """Messages of the person that are not carried whole, by node."""
    files: tuple[ReadFile, ...] = ()
    pinned: tuple[int, ...] = ()
    """Results that are carried whole: files that did not change since."""
    focus: str = ""
    """What the person asked the summary to dwell on."""
    automatic: bool = True
    before: int = 0
    after: int = 0
    """Tokens of the request before and after, estimated."""

    def data(self) -> dict[str, Any]:
        """What the compaction node keeps; `fold_of` reads it."""
        return {
            "stage": STAGE,
            "from": self.start,
            "summary": self.summary,
            "outline": self.outline,
            "decisions": list(self.decisions),
            "shortened": {str(node): text for node, text in self.shortened.items()},
            "files": recorded_files(self.files),
            "pinned": list(self.pinned),
            "focus": self.focus,
            "automatic": self.automatic,
            "before": self.before,
            "after": self.after,
        }


def fold_of(node: Node) -> ContextFold | None:
    """The fold that a node keeps; None if it keeps none."""
    data = node.data
    if node.kind != "compaction" or data.get("stage") != STAGE:
        return None
    try:
        return ContextFold(
            start=int(data["from"]),
            summary=str(data.get("summary", "")),
            outline=str(data.get("outline", "")),
            decisions=tuple(map(str, data.get("decisions", ()))),
            shortened={int(number): str(text) for number, text in data.get("shortened", {}).items()},
            files=files_of(data),
            pinned=tuple(map(int, data.get("pinned", ()))),
            focus=str(data.get("focus", "")),
            automatic=bool(data.get("automatic", True)),
            before=int(data.get("before", 0)),
            after=int(data.get("after", 0)),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def newest_fold(path: Sequence[Node]) -> tuple[Node, ContextFold] | None:
    """The compaction in force, and what it keeps."""
    for node in reversed(path):
        if node.kind == "compaction" and (fold := fold_of(node)) is not None:
            return node, fold
    return None


def words_of(fold: ContextFold, path: Sequence[Node]) -> list[PersonsWords]:
    """The person's messages before the fold, as they are carried."""
    return [
        PersonsWords(node.id, fold.shortened.get(node.id, _with_images(node)), node.id in fold.shortened)
        for node in path
        if node.id < fold.start and is_persons(node)
    ]


def _with_images(node: Node) -> str:
    """A message with the names of the images that came with it, which are not sent any more."""
    names = [f"[image: {each.name}, sent earlier]" for each in attachments_of(node.data)]
    return "\n".join([node.content, *names])


def fold_text(fold: ContextFold, path: Sequence[Node]) -> str:
    """What the model reads in place of everything before the fold. Pure."""
    parts = [HEAD]
    if fold.summary:
        parts.append(f"# Summary, written by a model\n{fold.summary}")
    if fold.outline:
        parts.append(f"# What happened\n{fold.outline}")
    if fold.decisions:
        parts.append("# Decisions\n" + "\n".join(f"- {each}" for each in fold.decisions))
    if words := words_of(fold, path):
        said = "\n".join(f'<user id="{each.node}">\n{each.text}\n</user>' for each in words)
        parts.append(f"# What the user wrote\n{said}")
    if ledger := _ledger(fold.files):
        parts.append(
            "# Files that were read\nTheir content was as given here when they were read; read one again "
            f"only for lines you need and do not have.\n{ledger}"
        )
    nodes = {node.id: node for node in path}
    pins = [_pinned(nodes[number]) for number in fold.pinned if number in nodes]
    if pins:
        parts.append("# Lines of files that are as they were read\n" + "\n\n".join(pins))
    return "\n\n".join(parts)


def folded_into(node: Node, path: Sequence[Node]) -> str:
    """What the model reads in place of what the compaction of a node folded; empty if it folded nothing.

    `path` are the nodes before it.
    """
    fold = fold_of(node)
    return fold_text(fold, path) if fold is not None else ""


def _ledger(files: Sequence[ReadFile]) -> str:
    """The files read last first, in detail as far as there is room, then by their paths."""
    lines: list[str] = []
    used = 0
    rest: list[str] = []
    for file in reversed(files):
        line = ledger_line(file)
        if not rest and used + len(line) <= MAX_LEDGER * 3 // 4:
            lines.append(line)
            used += len(line) + 1
        elif used + len(file.path) <= MAX_LEDGER:
            rest.append(file.path)
            used += len(file.path) + 2
    if rest:
        lines.append(f"- earlier: {', '.join(rest)}")
    return "\n".join(lines)


def _pinned(node: Node) -> str:
    """The lines of a file in a result, without what is around them."""
    try:
        result = json.loads(node.content)
        return f"{result['path']} (id {node.id})\n{result['content']}"
    except (ValueError, KeyError, TypeError, RecursionError):
        return node.content
