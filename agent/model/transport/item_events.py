"""Events of the Responses API, read as deltas.

A reply is a list of items: texts, calls, and reasoning, which is returned as a sealed part if it is
encrypted. Events refer to their item by a number or an id. Some servers send neither, some give all items one
number, and some use another id in every event. Servers that send only the whole response at the end are
supported too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.core.event_data import Usage
from agent.model.protocol import (
    CallFragment,
    Delta,
    FinishReason,
    ReasoningDelta,
    SealedDelta,
    TextDelta,
    UsageDelta,
)
from agent.model.transport.answer import HalfCharacters
from agent.model.transport.chunks import usage_of

PHASE = "phase"
"""The type of a sealed part that holds the purpose (`phase`) of the text after it; not a separate item."""

_FILTERED = frozenset({"content_filter", "safety"})
"""Reasons of an incomplete response that concern its content; all others mean that it was cut off."""

_KINDS = (
    ("function_call", "function_call"),
    ("output_text", "message"),
    ("refusal", "message"),
    ("content_part", "message"),
    ("reasoning", "reasoning"),
)
"""Beginnings of event names, and the kind of item that each implies."""


@dataclass(slots=True)
class _Item:
    """The parts of one item that are known while its events arrive."""

    kind: str
    number: int = -1
    """The position of a call among the calls of the reply; -1 for other items."""
    call_id: str = ""
    named: bool = False
    announced: bool = False
    """True if an event has opened the item before any of its content."""
    done: bool = False
    sealed: bool = False
    place: tuple[int, int] = (0, 0)
    """The characters of text, and the calls, that come before it in the reply."""
    written: set[Any] = field(default_factory=set)
    """The numbers of the parts of its content of which something has arrived."""


class ItemReader:
    """Reads the events of one reply, in order."""

    def __init__(self) -> None:
        self.finish: FinishReason | None = None
        self.over = False
        self.failed = ""
        self._items: list[_Item] = []
        self._by_id: dict[str, _Item] = {}
        self._by_number: dict[int, _Item] = {}
        self._calls = 0
        self._length = 0
        self._summaries = 0
        self._halves = HalfCharacters()

    def read(self, event: dict[str, Any]) -> list[Delta]:
        """Return the deltas in one event, or in one whole response."""
        kind = str(event.get("type", ""))
        match kind:
            case "response.output_text.delta" | "response.refusal.delta":
                self._item(event).written.add(event.get("content_index"))
                return self._text(event.get("delta"))
            case "response.output_text.done" | "response.refusal.done":
                item, part = self._item(event), event.get("content_index")
                if item.done or part in item.written or (item.written and None in (part, *item.written)):
                    return []
                item.written.add(part)
                return self._text(event.get("text") or event.get("refusal"))
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                self._item(event).written.add("")
                return self._reasoning(event.get("delta"))
            case "response.reasoning_summary_part.added":
                self._summaries += 1
                return self._reasoning("\n\n") if self._summaries > 1 else []
            case "response.function_call_arguments.delta":
                return self._add_arguments(self._item(event), event.get("delta"))
            case "response.function_call_arguments.done":
                item = self._item(event)
                return [] if item.written or item.done else self._add_arguments(item, event.get("arguments"))
            case "response.output_item.added":
                stated = _dict(event.get("item"))
                return self._begin(self._open_item(event, stated), stated)
            case "response.output_item.done":
                stated = _dict(event.get("item"))
                return self._complete(self._item(event, stated), stated)
            case "response.completed" | "response.incomplete":
                return self._end(_dict(event.get("response")))
            case _:
                return self._end(event) if self.is_reply(event) else []

    def flush(self) -> list[Delta]:
        """Return deltas for characters that were left incomplete at the end of the stream."""
        return self._halves.flush()

    def is_reply(self, document: dict[str, Any]) -> bool:
        """Return whether an object is a whole response."""
        return document.get("object") == "response" and isinstance(document.get("output"), list)

    def complaint(self, event: dict[str, Any]) -> Mapping[str, Any] | None:
        """Return the error in an event, or in the failed response in it; None without an error."""
        if event.get("type") == "error" or (event.get("error") and "output" not in event):
            return event
        response = event if self.is_reply(event) else _dict(event.get("response"))
        if event.get("type") == "response.failed" or response.get("status") == "failed":
            return {"error": response.get("error") or {"message": "the response failed"}}
        return None

    # Items

    def _open_item(self, event: dict[str, Any], stated: dict[str, Any]) -> _Item:
        """Return the item that an event opens, or that is already open under the same id."""
        known = self._by_id.get(_id(event, stated))
        if known is not None and not known.done:
            return known
        item = self._new(event, stated, _string(stated.get("type")))
        item.announced = True
        return item

    def _new(self, event: Mapping[str, Any], stated: Mapping[str, Any], kind: str) -> _Item:
        item = _Item(kind, call_id=_call_id(stated), place=(self._length, self._calls))
        self._items.append(item)
        if name := _id(event, stated):
            self._by_id[name] = item
        if (number := _count(event.get("output_index"))) is not None:
            # If a server gives all items one number and no id, the newest item is meant.
            self._by_number[number] = item
        return item

    def _item(self, event: dict[str, Any], stated: Mapping[str, Any] | None = None) -> _Item:
        """Return an event's item, found by its id, its call's id, its number, or the order; or a new one."""
        kind = _string((stated or {}).get("type")) or _kind(str(event.get("type", "")))
        name, number = _id(event, stated or {}), _count(event.get("output_index"))
        known = self._by_id.get(name)
        if known is None and (call_id := _call_id(stated or {}) or name):
            known = next((each for each in self._items if each.call_id == call_id), None)
        if known is None and number is not None:
            known = self._by_number.get(number)
            if known is None:
                return self._new(event, stated or {}, kind)
            known = known if known.kind == kind else None
        if known is None:
            waiting = [each for each in self._items if each.kind == kind and not each.done]
            waiting = [each for each in waiting if each.announced or not name]
            # Items end in the order in which they began; additions belong to the newest.
            known = waiting[-1 if stated is None else 0] if waiting else None
        return known or self._new(event, stated or {}, kind)

    def _begin(self, item: _Item, stated: dict[str, Any]) -> list[Delta]:
        if stated.get("type") == "message" and isinstance(stated.get("phase"), str):
            return [SealedDelta(json.dumps({"type": PHASE, "phase": stated["phase"]}))]
        if stated.get("type") != "function_call" or item.named:
            return []
        if item.number < 0:
            self._count_call(item)
        item.named, item.call_id = True, _call_id(stated)
        return [CallFragment(item.number, item.call_id, _string(stated.get("name")))]

    def _count_call(self, item: _Item) -> None:
        item.number, self._calls = self._calls, self._calls + 1

    def _complete(self, item: _Item, stated: dict[str, Any]) -> list[Delta]:
        if item.done:
            return []
        item.done = True
        match stated.get("type"):
            case "function_call":
                deltas = self._begin(item, stated)
                if not item.written:
                    deltas += self._add_arguments(item, stated.get("arguments"))
                return deltas
            case "reasoning":
                shown: list[Delta] = []
                if not item.written:
                    texts = _texts(stated, "summary") or _texts(stated, "content")
                    shown = self._reasoning("\n\n".join(texts))
                return [*shown, *self._seal(item, stated)]
            case "message" if not item.written:
                return self._text("".join(_texts(stated, "content")))
            case _:
                return []

    def _end(self, response: dict[str, Any]) -> list[Delta]:
        """Return the deltas that result from the whole response.

        They are parts that were not streamed, and the token count. The reason for the end is recorded.
        """
        self.over = True
        output = response.get("output")
        deltas: list[Delta] = []
        streamed = bool(self._items)
        thoughts = [each for each in self._items if each.kind == "reasoning"]
        for item in map(_dict, output if isinstance(output, list) else ()):
            if not streamed or self._is_missing(item):
                deltas += self._complete(self._new({}, item, _string(item.get("type"))), item)
            elif item.get("type") == "reasoning" and thoughts:
                # Gateways (LiteLLM) stream it readable, and send the signature only in the whole response.
                known = self._by_id.get(_id({}, item))
                known = known if known in thoughts else thoughts[0]
                thoughts.remove(known)
                deltas += self._seal(known, item, known.place)
        if response.get("status") == "incomplete":
            reason = _string(_dict(response.get("incomplete_details")).get("reason"))
            self.finish = "content_filter" if reason in _FILTERED else "length"
        else:
            self.finish = "tool_calls" if self._calls else "stop"
        counted = usage_of(_dict(response.get("usage")))
        return deltas if counted == Usage() else [*deltas, UsageDelta(counted)]

    def _seal(self, item: _Item, stated: dict[str, Any], place: tuple[int, int] | None = None) -> list[Delta]:
        """Return encrypted reasoning as a sealed part. `place` is its position if it arrives late."""
        if item.sealed or not stated.get("encrypted_content"):
            return []
        item.sealed = True
        kept = {name: value for name, value in stated.items() if value is not None}
        return [SealedDelta(json.dumps(kept), place)]

    def _is_missing(self, stated: dict[str, Any]) -> bool:
        """Return whether the whole response contains a call, or text, that was never streamed."""
        match stated.get("type"):
            case "function_call":
                return all(each.call_id != _call_id(stated) for each in self._items if each.number >= 0)
            case "message":
                return not any(each.kind == "message" and (each.written or each.done) for each in self._items)
            case _:
                return False

    def _text(self, text: Any) -> list[Delta]:
        text = self._halves.whole(_string(text), "text")
        self._length += len(text)
        return [TextDelta(text)] if text else []

    def _reasoning(self, text: Any) -> list[Delta]:
        text = self._halves.whole(_string(text), "reasoning")
        return [ReasoningDelta(text)] if text else []

    def _add_arguments(self, item: _Item, text: Any) -> list[Delta]:
        if item.number < 0:
            self._count_call(item)
        text = self._halves.whole(_string(text), item.number)
        if not text:
            return []
        item.written.add("")
        return [CallFragment(item.number, arguments=text)]


def _id(event: Mapping[str, Any], stated: Mapping[str, Any]) -> str:
    """Return the id of an event's item."""
    return _string(event.get("item_id")) or _string(stated.get("id"))


def _call_id(stated: Mapping[str, Any]) -> str:
    is_call = stated.get("type") == "function_call"
    return (_string(stated.get("call_id")) or _string(stated.get("id"))) if is_call else ""


def _kind(event: str) -> str:
    name = event.removeprefix("response.")
    return next((kind for start, kind in _KINDS if name.startswith(start)), "")


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
