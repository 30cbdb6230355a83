"""Events of the Responses API, read as deltas.

A reply is a list of items, each with a number: texts, calls, and reasoning, which is handed on
sealed when it comes encrypted. Servers that send nothing but the whole response at the end are
understood too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agent.model.protocol import (
    CallFragment,
    Delta,
    FinishReason,
    ReasoningDelta,
    SealedDelta,
    TextDelta,
    Usage,
    UsageDelta,
)
from agent.model.transport.halves import HalfCharacters

PHASE = "phase"
"""Type of a sealed part that says what the text behind it is for; no item of its own."""

_INCOMPLETE: Mapping[str, FinishReason] = {
    "max_output_tokens": "length",
    "max_tokens": "length",
    "content_filter": "content_filter",
}


class ItemReader:
    """Reads the events of one reply, in order."""

    def __init__(self) -> None:
        self.finish: FinishReason | None = None
        self.over = False
        self.failed = ""
        self._calls: dict[int, int] = {}
        """Numbers of calls by their place among the items."""
        self._begun: set[int] = set()
        """Places of items of which something has come."""
        self._arguments: set[int] = set()
        """Calls whose arguments have come."""
        self._summaries = 0
        self._halves = HalfCharacters()

    def read(self, event: dict[str, Any]) -> list[Delta]:
        """The deltas in one event, or in one whole response."""
        kind = str(event.get("type", ""))
        index = event.get("output_index")
        place = index if isinstance(index, int) else 0
        match kind:
            case "response.output_text.delta" | "response.refusal.delta":
                self._begun.add(place)
                return self._text(event.get("delta"))
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                self._begun.add(place)
                return self._reasoning(event.get("delta"))
            case "response.reasoning_summary_part.added":
                self._summaries += 1
                return self._reasoning("\n\n") if self._summaries > 1 else []
            case "response.function_call_arguments.delta":
                return self._argued(place, event.get("delta"))
            case "response.output_item.added":
                return self._begin(place, _dict(event.get("item")))
            case "response.output_item.done":
                return self._complete(place, _dict(event.get("item")))
            case "response.completed" | "response.incomplete":
                return self._end(_dict(event.get("response")))
            case _:
                return self._end(event) if self.is_reply(event) else []

    def flush(self) -> list[Delta]:
        """What was held back, when nothing more will come."""
        return [
            TextDelta("\ufffd") if channel == "text" else ReasoningDelta("\ufffd")
            for channel in self._halves.flush()
            if channel in ("text", "reasoning")
        ]

    def is_reply(self, document: dict[str, Any]) -> bool:
        """Whether an object is a whole response."""
        return document.get("object") == "response" and isinstance(document.get("output"), list)

    def complaint(self, event: dict[str, Any]) -> Mapping[str, Any] | None:
        """The error an event reports: by itself, or in a response that failed."""
        if event.get("type") == "error" or (event.get("error") and "output" not in event):
            return event
        response = event if self.is_reply(event) else _dict(event.get("response"))
        if event.get("type") == "response.failed" or response.get("status") == "failed":
            return {"error": response.get("error") or {"message": "the response failed"}}
        return None

    def _begin(self, place: int, item: dict[str, Any]) -> list[Delta]:
        if item.get("type") == "message" and isinstance(item.get("phase"), str):
            return [SealedDelta(json.dumps({"type": PHASE, "phase": item["phase"]}))]
        if item.get("type") != "function_call" or place in self._calls:
            return []
        number = self._calls[place] = len(self._calls)
        return [CallFragment(number, _string(item.get("call_id")), _string(item.get("name")))]

    def _complete(self, place: int, item: dict[str, Any]) -> list[Delta]:
        match item.get("type"):
            case "function_call":
                deltas = self._begin(place, item)
                if self._calls[place] not in self._arguments:
                    deltas += self._argued(place, item.get("arguments"))
                return deltas
            case "reasoning":
                shown: list[Delta] = []
                if place not in self._begun:
                    shown = self._reasoning("\n\n".join(_texts(item, "summary") or _texts(item, "content")))
                self._begun.add(place)
                sealed = {name: value for name, value in item.items() if value is not None}
                return [*shown, SealedDelta(json.dumps(sealed))] if sealed.get("encrypted_content") else shown
            case "message" if place not in self._begun:
                self._begun.add(place)
                return self._text("".join(_texts(item, "content")))
            case _:
                return []

    def _end(self, response: dict[str, Any]) -> list[Delta]:
        """The whole response: what of it did not come before, why it ended, and its count."""
        self.over = True
        deltas: list[Delta] = []
        if not self._begun and not self._calls:
            output = response.get("output")
            for place, item in enumerate(output if isinstance(output, list) else ()):
                deltas += self._complete(place, _dict(item))
        if response.get("status") == "incomplete":
            reason = _string(_dict(response.get("incomplete_details")).get("reason"))
            self.finish = _INCOMPLETE.get(reason, "unknown")
        else:
            self.finish = "tool_calls" if self._calls else "stop"
        usage = _dict(response.get("usage"))
        counted = Usage(
            input=_count(usage.get("input_tokens")),
            output=_count(usage.get("output_tokens")),
            cached=_count(_dict(usage.get("input_tokens_details")).get("cached_tokens")),
            reasoning=_count(_dict(usage.get("output_tokens_details")).get("reasoning_tokens")),
        )
        return deltas if counted == Usage() else [*deltas, UsageDelta(counted)]

    def _text(self, text: Any) -> list[Delta]:
        text = self._halves.whole(_string(text), "text")
        return [TextDelta(text)] if text else []

    def _reasoning(self, text: Any) -> list[Delta]:
        text = self._halves.whole(_string(text), "reasoning")
        return [ReasoningDelta(text)] if text else []

    def _argued(self, place: int, text: Any) -> list[Delta]:
        number = self._calls.setdefault(place, len(self._calls))
        text = self._halves.whole(_string(text), number)
        if not text:
            return []
        self._arguments.add(number)
        return [CallFragment(number, arguments=text)]


def _texts(item: dict[str, Any], name: str) -> list[str]:
    parts = item.get(name)
    found = [_dict(part) for part in parts] if isinstance(parts, list) else []
    return [_string(part.get("text") or part.get("refusal")) for part in found]


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
