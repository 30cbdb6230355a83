"""Putting a session of another agent together, message by message, as the store takes it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from agent.core.messages import ToolCall
from agent.core.store.importing import NodeRecord, SessionRecord
from agent.core.store.nodes import MAIN, storable
from tools.text.safe_text import clean

_LONGEST_KEY = 128


@dataclass(slots=True)
class _Draft:
    kind: str
    parent: int | None
    created: float
    text: list[str] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)


class TranscriptBuilder:
    """A session that is being read.

    Nodes are numbered from 1 on; without a parent they follow the last, with 0 for one they begin.
    """

    def __init__(self, name: str) -> None:
        self._record = SessionRecord(storable(clean(name))[:200])
        self._nodes: list[_Draft] = []
        self._calls: dict[str, tuple[str, int]] = {}
        """Names of tools, and the messages that called them, by the ids of calls."""
        self._callers: dict[int, int] = {}
        """The message that called, by the nodes of results."""
        self._ends: dict[int, int] = {}
        """The last result of each message that called."""

    @property
    def last(self) -> int | None:
        """The number of the newest node."""
        return len(self._nodes) or None

    def describe(self, *, title: str = "", workspace: str = "", model: str = "") -> None:
        """What is known of the session as a whole; what stands already stays."""
        for name, value in (("title", title), ("workspace", workspace), ("model", model)):
            if not getattr(self._record, name) and (words := " ".join(storable(clean(value)).split())[:200]):
                setattr(self._record, name, words)

    def user(self, text: str, created: float, parent: int | None = None) -> int | None:
        """A message of the person; the number of its node, or of its parent if it is empty."""
        if not text.strip():
            return self.last if parent is None else parent
        return self._add("user", text, created, {"origin": "prompt"}, parent)

    def notice(self, text: str, created: float, parent: int | None = None, *, to_model: bool = False) -> int:
        """Something that is no message, such as a summary of what went before."""
        return self._add("notice", text, created, {"kind": "info", "to_model": to_model}, parent)

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
        """A message of the model."""
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
        """More of a message of the model."""
        draft = self._nodes[number - 1]
        if text:
            draft.text.append(text)
        if reasoning:
            draft.data["reasoning"] = "\n\n".join(filter(None, (draft.data["reasoning"], reasoning)))
        for call in calls:
            self._calls[call.id] = call.name, number
            draft.data["calls"].append({"id": call.id, "name": call.name, "arguments": call.arguments})

    def result(
        self, call: str, text: str, created: float, parent: int | None = None, *, failed: bool = False
    ) -> int | None:
        """What a call gave back; one that nobody made is left out.

        With a parent, the results of one message stand in a row behind it, whichever call each hung on.
        """
        call = key(call)
        if call not in self._calls:
            return self.last if parent is None else parent
        tool, caller = self._calls[call]
        data = {"call": call, "tool": tool, "outcome": "failed" if failed else "done"}
        number = self._add("tool", text, created, data, None if parent is None else caller)
        self._callers[number], self._ends[caller] = caller, number
        return number

    def finished(self) -> SessionRecord | None:
        """The session; None when neither person nor model said anything in it."""
        if not any(draft.kind in ("user", "assistant") for draft in self._nodes):
            return None
        before = 0.0
        for number, draft in enumerate(self._nodes, 1):
            before = draft.created or before
            content = "\n\n".join(part for part in draft.text if part)
            node = NodeRecord(number, draft.parent, draft.kind, before, content, draft.data)
            self._record.nodes.append(node)
        self._record.heads[MAIN] = len(self._nodes)
        return self._record

    def _add(self, kind: str, text: str, created: float, data: dict[str, Any], parent: int | None) -> int:
        if parent is not None:
            parent = self._ends.get(self._callers.get(parent, parent), parent)
        self._nodes.append(
            _Draft(kind, (self.last if parent is None else parent) or None, created, [text], data)
        )
        return len(self._nodes)


def key(id: str) -> str:
    """The id of a call as it is kept."""
    return storable(clean(id))[:_LONGEST_KEY]


def call_of(id: Any, name: Any, arguments: Any) -> ToolCall:
    """A call with arguments that are the text of a JSON object, whatever they were."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            arguments = {"input": arguments}
    if not isinstance(arguments, dict):
        arguments = {} if arguments is None else {"input": arguments}
    text = json.dumps(arguments, ensure_ascii=True)
    return ToolCall(key(str(id)), storable(clean(str(name)))[:_LONGEST_KEY] or "tool", text)


def seconds(value: Any) -> float:
    """A time as seconds since the epoch, from an ISO text, seconds or milliseconds; 0 for anything else."""
    if isinstance(value, str):
        try:
            return max(datetime.fromisoformat(value).timestamp(), 0.0)
        except (ValueError, OverflowError, OSError):
            return 0.0
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return 0.0
    return max(float(value) / 1000 if value > 1e11 else float(value), 0.0) if value < 1e15 else 0.0
