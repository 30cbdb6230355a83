"""Building a session from the entries of another program's files."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from agent.core.messages import ToolCall
from agent.core.store.importing import NodeRecord, SessionRecord
from agent.core.store.nodes import MAIN, storable
from agent.knowledge.context.message_history import ContextFold
from tools.text.safe_text import clean

Outcome = Literal["done", "failed", "denied", "interrupted"]

_LONGEST_KEY = 128


@dataclass(slots=True)
class _Draft:
    kind: str
    parent: int | None
    created: float
    text: list[str] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)


class TranscriptBuilder:
    """A session that is built from the entries of a file.

    Nodes are numbered from 1. A node without `parent` follows the last one; `parent` 0 makes it a first node.
    Messages from before `begins` (seconds since the epoch) were copied from another session, for which their
    tokens are counted.
    """

    def __init__(self, name: str, begins: float = 0.0) -> None:
        self._record = SessionRecord(storable(clean(name))[:200])
        self.begins = begins
        self.left: Counter[str] = Counter()
        """The kinds of entries that were not imported, and how often each occurred."""
        self._head: int | None = None
        self._nodes: list[_Draft] = []
        self._calls: dict[str, tuple[str, int]] = {}
        """The tool name and the node of the calling message, by the id of the call."""
        self._results: dict[str, int] = {}
        """The nodes of results, by the id of the call."""
        self._outcomes: dict[str, Outcome] = {}
        """Outcomes that became known before the result, by the id of the call."""
        self._callers: dict[int, int] = {}
        """The node of the calling message, by the node of the result."""
        self._ends: dict[int, int] = {}
        """The node of the last result, by the node of the calling message."""

    @property
    def last(self) -> int | None:
        """The number of the newest node; None if there is none."""
        return len(self._nodes) or None

    @property
    def here(self) -> int:
        """The number of the node that the next one follows; 0 before the first."""
        return len(self._nodes) if self._head is None else self._head

    def go_to(self, number: int) -> None:
        """Make the next node without `parent` follow this one (0: none); the current branch ends there."""
        self._head = number

    def describe(self, *, title: str = "", workspace: str = "", model: str = "") -> None:
        """Set the properties of the session that are given. Those that are already set stay."""
        for name, value in (("title", title), ("workspace", workspace), ("model", model)):
            if not getattr(self._record, name) and (words := " ".join(storable(clean(value)).split())[:200]):
                setattr(self._record, name, words)

    def rename(self, title: str) -> None:
        """Replace the title, unless the new one is empty."""
        if title.strip():
            self._record.title = ""
            self.describe(title=title)

    def user(self, text: str, created: float, parent: int | None = None) -> int | None:
        """Add a user message and return its node number; for an empty text, return `parent`, by default the
        newest node's number, or None if there is none.
        """
        if not text.strip():
            return self.last if parent is None else parent
        return self._add("user", text, created, {"origin": "prompt"}, parent)

    def notice(self, text: str, created: float, parent: int | None = None, *, to_model: bool = False) -> int:
        """Add an entry that is not a message, such as an interruption; return the number of its node."""
        return self._add("notice", text, created, {"kind": "info", "to_model": to_model}, parent)

    def compaction(
        self, summary: str, created: float, parent: int | None = None, start: int | None = None
    ) -> int:
        """Add the place at which another program compacted the session; return the number of its node.

        From here on the summary is sent instead of what comes before `start` (the new node, if it is not
        given). If the model's answer just before is the summary, it becomes this node, and keeps its tokens.
        """
        number = self.here if parent is None else 0
        before = self._nodes[number - 1] if number else None
        words = "".join(before.text).strip() if before and before.kind == "assistant" else ""
        if before and words and words in summary and not before.data["calls"]:
            before.kind, before.text = "compaction", [summary]
        else:
            number = self._add("compaction", summary, created, {}, parent)
        fold = ContextFold(start=start or number, summary=storable(clean(summary)), words=False)
        draft = self._nodes[number - 1]
        draft.data = {**({"usage": used} if (used := draft.data.get("usage")) else {}), **fold.data()}
        return number

    def assistant(
        self,
        text: str,
        created: float,
        parent: int | None = None,
        *,
        calls: Sequence[ToolCall] = (),
        reasoning: str = "",
        model: str = "",
    ) -> int:
        """Add a message of the model; return the number of its node."""
        data: dict[str, Any] = {"calls": [], "reasoning": reasoning, "state": "complete"}
        if model:
            data["model"] = storable(clean(model))[:200]
            self.describe(model=model)
        number = self._add("assistant", text, created, data, parent)
        self.extend(number, calls=calls)
        return number

    def extend(
        self, number: int, text: str = "", *, calls: Sequence[ToolCall] = (), reasoning: str = ""
    ) -> None:
        """Append text, calls or reasoning to a message of the model."""
        draft = self._nodes[number - 1]
        if text:
            draft.text.append(text)
        if reasoning:
            draft.data["reasoning"] = "\n\n".join(filter(None, (draft.data["reasoning"], reasoning)))
        for call in calls:
            self._calls[call.id] = call.name, number
            self._results.pop(call.id, None)
            draft.data["calls"].append({"id": call.id, "name": call.name, "arguments": call.arguments})

    def interrupt(self, number: int) -> None:
        """Mark a message of the model as cut off."""
        self._nodes[number - 1].data["state"] = "interrupted"

    def spend(self, number: int | None, **counts: Any) -> None:
        """Set the tokens and cost of a message: `input` (including `cached` and `written`), `output`,
        `cached`, `written`, `reasoning`, `cost` in US dollars. Anything but a finite number from 0 on is
        unknown.
        """
        if not number:
            return
        draft = self._nodes[number - 1]
        usage = {name: value for name, value in counts.items() if _is_count(value)}
        if any(usage.values()) and (not draft.created or draft.created >= self.begins):
            names = ("input", "output", "cached", "reasoning", "written", "cost")
            draft.data["usage"] = {name: usage.get(name) for name in names}

    def add_cost(self, cost: Any) -> None:
        """Set the cost of the whole session in US dollars, unless its messages have costs of their own."""
        own = [draft for draft in self._nodes if "usage" in draft.data]
        if own and _is_count(cost) and not any(draft.data["usage"]["cost"] for draft in own):
            own[-1].data["usage"]["cost"] = cost

    def result(
        self, call: str, text: str, created: float, parent: int | None = None, *, outcome: Outcome = "done"
    ) -> int | None:
        """Add the result of a tool call; return the number of its node.

        A result without a call is not added, and neither is a second one for a call. With `parent`, the
        results of one message follow each other after it, whatever calls they belong to.
        """
        call = key(call)
        before = self.last if parent is None else parent
        if call not in self._calls:
            self.left["result without a call"] += 1
            return before
        if call in self._results:
            return self._results[call]
        tool, caller = self._calls[call]
        data = {"call": call, "tool": tool, "outcome": self._outcomes.pop(call, outcome)}
        number = self._add("tool", text, created, data, None if parent is None else caller)
        self._callers[number], self._ends[caller] = caller, number
        self._results[call] = number
        return number

    def judge(self, call: str, outcome: Outcome) -> None:
        """Set the outcome of a call, before or after its result; one other than `done` is not replaced."""
        call = key(call)
        if (number := self._results.get(call)) is not None:
            data = self._nodes[number - 1].data
            data["outcome"] = outcome if data["outcome"] == "done" else data["outcome"]
        else:
            self._outcomes[call] = outcome

    def build(self) -> SessionRecord | None:
        """Return the session; None if neither user nor model wrote anything."""
        if not any(draft.kind in ("user", "assistant") for draft in self._nodes):
            return None
        before = 0.0
        for number, draft in enumerate(self._nodes, 1):
            before = draft.created or before
            content = "\n\n".join(part for part in draft.text if part)
            node = NodeRecord(number, draft.parent, draft.kind, before, storable(clean(content)), draft.data)
            self._record.nodes.append(node)
        self._record.heads[MAIN] = self.here or len(self._nodes)
        self._record.left = [f"{count} × {what}" for what, count in self.left.items()]
        return self._record

    def _add(self, kind: str, text: str, created: float, data: dict[str, Any], parent: int | None) -> int:
        if parent is None:
            parent, self._head = self.here, None
        else:
            parent = self._ends.get(self._callers.get(parent, parent), parent)
        self._nodes.append(_Draft(kind, parent or None, created, [text], data))
        return len(self._nodes)


def _is_count(value: Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and value >= 0


def total(*counts: Any) -> int | None:
    """Return the sum of the counts that are known; None if none of them is."""
    known = [int(each) for each in counts if _is_count(each)]
    return sum(known) if known else None


def key(id: str) -> str:
    """Return the id under which a call is stored."""
    return storable(clean(id))[:_LONGEST_KEY]


def call_of(id: Any, name: Any, arguments: Any) -> ToolCall:
    """Return a tool call. Its arguments are always converted to the text of a JSON object."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            arguments = {"input": arguments}
    if not isinstance(arguments, dict):
        arguments = {} if arguments is None else {"input": arguments}
    text = json.dumps(arguments, ensure_ascii=True)
    return ToolCall(key(str(id)), storable(clean(str(name)))[:_LONGEST_KEY] or "tool", text)


def outcome_of(status: Any, code: Any = None) -> Outcome:
    """Return how a call ended, from another program's name for the status and from the exit code of a
    command.
    """
    match str(status).lower():
        case "error" | "failed" | "failure" | "timeout":
            return "failed"
        case "denied" | "declined" | "rejected" | "blocked" | "user-rejected" | "permission-rule":
            return "denied"
        case "cancelled" | "canceled" | "aborted" | "interrupted" | "running" | "pending":
            return "interrupted"
    return "failed" if isinstance(code, int) and not isinstance(code, bool) and code else "done"


def object_in(text: Any) -> Mapping[str, Any]:
    """Return the JSON object in a text; empty if there is none."""
    try:
        found = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def seconds(value: Any) -> float:
    """Return a time as seconds since the epoch, from ISO text, seconds or milliseconds; 0 for anything
    else.
    """
    if isinstance(value, str):
        try:
            return max(datetime.fromisoformat(value).timestamp(), 0.0)
        except (ValueError, OverflowError, OSError):
            return 0.0
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return 0.0
    return max(float(value) / 1000 if value > 1e11 else float(value), 0.0) if value < 1e15 else 0.0
