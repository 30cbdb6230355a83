"""Chat completion chunks, in all the forms that servers send, read as deltas.

The published format is one of many in use: fields are missing or null, tool calls have no index or share one,
reasoning has three names, usage comes anywhere. All text, reasoning, calls and counts are understood;
everything else is skipped.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.core.event_data import Usage
from agent.model.calls.call_assembly import JsonShape
from agent.model.protocol import (
    CallFragment,
    Delta,
    FinishReason,
    ReasoningDelta,
    SealedDelta,
    TextDelta,
    TokensDelta,
    UsageDelta,
)
from agent.model.transport.answer import HalfCharacters
from agent.model.transport.failures import is_complaint

DETAILS = "reasoning_details"
EXTRA = "extra_content"
BLOCKS = "thinking_blocks"
_PIECES = ("text", "summary", "data")
"""Fields of a reasoning detail that arrive in pieces."""


class ChunkSeals:
    """Collects the sealed (signed or encrypted) parts of one reply."""

    def __init__(self) -> None:
        self._details: dict[tuple[Any, Any], dict[str, Any]] = {}
        self._blocks: list[dict[str, Any]] = []
        self._marked: set[int] = set()

    def add_blocks(self, blocks: Any) -> None:
        """Add the thinking blocks of one chunk. A text may arrive in pieces; a signature ends a block."""
        for each in blocks if isinstance(blocks, list) else ():
            if not isinstance(each, dict):
                continue
            last = self._blocks[-1] if self._blocks else None
            if last is None or _is_whole(last) or last.get("type") != each.get("type", last.get("type")):
                self._blocks.append({name: value for name, value in each.items() if value is not None})
                continue
            for name, value in each.items():
                if isinstance(value, str) and name != "type":
                    last[name] = last.get(name, "") + value

    def add_details(self, details: Any) -> None:
        """Add the reasoning details of one chunk.

        Pieces with the same number and type belong to one detail.
        """
        for each in details if isinstance(details, list) else ():
            if not isinstance(each, dict):
                continue
            key = (str(each.get("index")), str(each.get("type")))
            known = self._details.setdefault(key, {})
            for name, value in each.items():
                if name in _PIECES and isinstance(value, str) and isinstance(known.get(name), str):
                    known[name] += value
                elif value is not None:
                    known[name] = value

    def of_call(self, number: int, extra: Any) -> list[SealedDelta]:
        """Return the provider's extra data on a call as a sealed part, the first time that it arrives."""
        if not isinstance(extra, dict) or not extra or number in self._marked:
            return []
        self._marked.add(number)
        return [SealedDelta(json.dumps({"type": EXTRA, "call": number, EXTRA: extra}))]

    def flush(self) -> list[SealedDelta]:
        """Return the details as a sealed part if one is signed or encrypted, and the complete blocks."""
        details, self._details = list(self._details.values()), {}
        sealed: list[SealedDelta] = []
        if any(each.get("signature") or each.get("data") for each in details):
            sealed.append(SealedDelta(json.dumps({"type": DETAILS, DETAILS: details})))
        blocks, self._blocks = list(filter(_is_whole, self._blocks)), []
        if blocks:
            sealed.append(SealedDelta(json.dumps({"type": BLOCKS, BLOCKS: blocks})))
        return sealed


def _is_whole(block: dict[str, Any]) -> bool:
    """Return whether a block is signed or encrypted, and therefore complete."""
    return bool(block.get("signature") or block.get("data"))


_FINISH: dict[str, FinishReason] = {
    "stop": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "eos": "stop",
    "complete": "stop",
    "completed": "stop",
    "tool_calls": "tool_calls",
    "tool_call": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_length": "length",
    "content_filter": "content_filter",
    "safety": "content_filter",
    "refusal": "content_filter",
    "recitation": "content_filter",
}

_LEGACY = "function_call"


@dataclass(slots=True)
class _CallState:
    """The parts of one call that are known while its pieces arrive."""

    index: int
    id: str = ""
    name: str = ""
    arguments: JsonShape = field(default_factory=JsonShape)


class ChunkReader:
    """Reads the chunks of one reply, in order."""

    def __init__(self) -> None:
        self.finish: FinishReason | None = None
        """The reason why the reply ended; None while it is not known."""
        self.over = False
        """Always False: the stream itself marks its end."""
        self.failed = ""
        """The reason why the provider gave up in mid-reply (finish reason `error`); otherwise empty."""
        self._calls: list[_CallState] = []
        self._by_key: dict[object, _CallState] = {}
        self._usage: Usage | None = None
        self._halves = HalfCharacters()
        self._seals = ChunkSeals()
        self._streamed = False

    def read(self, event: dict[str, Any]) -> list[Delta]:
        """Return the deltas in one chunk, or in one whole completion."""
        deltas: list[Delta] = []
        choices = _own_choices(event.get("choices"))
        choice = choices[0] if choices else {}
        if tokens := tokens_of(event, choice):
            deltas.append(tokens)
        for each in choices:
            self._read_choice(each, deltas)
        usage = event.get("usage") or choice.get("usage") or _inner(event, "x_groq", "usage")
        if isinstance(usage, dict):
            self._read_usage(usage, deltas)
        return deltas

    def flush(self) -> list[Delta]:
        """Return the last deltas at the end of the stream: incomplete characters and sealed parts."""
        return [*self._halves.flush(), *self._seals.flush()]

    def is_reply(self, document: dict[str, Any]) -> bool:
        """Return whether an object is a whole completion."""
        return isinstance(document.get("choices"), list)

    def complaint(self, event: dict[str, Any]) -> Mapping[str, Any] | None:
        """Return the event if it reports an error; otherwise None."""
        return event if is_complaint(event) else None

    def _read_choice(self, choice: dict[str, Any], deltas: list[Delta]) -> None:
        delta = choice.get("delta")
        if isinstance(delta, dict):
            self._streamed = True
        else:
            delta = choice.get("message")
        if isinstance(delta, dict) and ("delta" in choice or not self._streamed):
            self._read_delta(delta, deltas)
        elif isinstance(choice.get("text"), str):
            self._add_text(choice["text"], deltas)
        finish = choice.get("finish_reason")
        if isinstance(finish, str) and finish:
            self.failed = "the provider reports an error" if finish == "error" else ""
            self.finish = _FINISH.get(finish.lower(), "unknown")

    def _read_delta(self, delta: dict[str, Any], deltas: list[Delta]) -> None:
        for name in ("reasoning_content", "reasoning", DETAILS, BLOCKS):
            if reasoning := delta.get(name):
                for _, text in _texts(reasoning):
                    self._add_reasoning(text, deltas)
                break
        self._seals.add_details(delta.get(DETAILS))
        self._seals.add_blocks(delta.get(BLOCKS) or _inner(delta, "provider_specific_fields", BLOCKS))
        content = delta.get("content") or delta.get("refusal")
        if isinstance(content, str):
            self._add_text(content, deltas)
        elif content:
            for is_reasoning, text in _texts(content):
                (self._add_reasoning if is_reasoning else self._add_text)(text, deltas)
        if calls := delta.get("tool_calls"):
            calls = calls if isinstance(calls, list) else [calls]
            for place, call in enumerate(calls):
                if isinstance(call, dict):
                    index = call.get("index")
                    index = f"#{place}" if index is None and len(calls) > 1 else index
                    self._read_call(call, index, deltas)
        if isinstance(legacy := delta.get(_LEGACY), dict):
            self._read_call(legacy, _LEGACY, deltas)

    def _add_text(self, text: str, deltas: list[Delta]) -> None:
        if text := self._halves.whole(text, "text"):
            deltas.append(TextDelta(text))

    def _add_reasoning(self, text: str, deltas: list[Delta]) -> None:
        if text := self._halves.whole(text, "reasoning"):
            deltas.append(ReasoningDelta(text))

    def _read_call(self, call: dict[str, Any], index: object, deltas: list[Delta]) -> None:
        function = call.get("function")
        body = function if isinstance(function, dict) else call
        call_id, name = _text(call.get("id")), _text(body.get("name"))
        arguments = body.get("arguments")
        if arguments is None:
            arguments = ""
        elif not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=False)
        state = self._state(index, call_id, name, arguments)
        arguments = self._halves.whole(arguments, state.index)
        state.arguments.feed(arguments)
        # A name may also come in pieces, or grow; a repetition adds nothing.
        fragment = CallFragment(
            state.index,
            "" if state.id else call_id,
            "" if name == state.name else name,
            arguments,
        )
        state.id = state.id or call_id
        state.name = name if name.startswith(state.name) else state.name + name
        if fragment.id or fragment.name or arguments:
            deltas.append(fragment)
        deltas += self._seals.of_call(state.index, call.get(EXTRA))

    def _state(self, index: object, call_id: str, name: str, arguments: str) -> _CallState:
        """Return the call to which a piece belongs; it is created if necessary."""
        key: object = str(index) if isinstance(index, (int, str)) and index != "" else None
        known = self._by_key.get(key)
        if known is None:
            # Some servers number the pieces of one call on, so a number is no more than a hint.
            last = next((state for state in self._calls if state.id == call_id), None)
            last = last if call_id else self._calls[-1] if self._calls else None
            known = last if last and (key is None or _is_open(last, name)) else None
        if known is None or _is_next(known, call_id, name, arguments, indexed=key is not None):
            known = _CallState(len(self._calls))
            self._calls.append(known)
        if key is not None:
            self._by_key[key] = known
        return known

    def _read_usage(self, usage: dict[str, Any], deltas: list[Delta]) -> None:
        read = usage_of(usage)
        if read != self._usage and read != Usage():
            self._usage = read
            deltas.append(UsageDelta(read))


def usage_of(usage: dict[str, Any]) -> Usage:
    """Return the token counts of a request, given in the form of chat completions or of Responses."""
    return Usage(
        input=_first(_count(usage, "prompt_tokens"), _count(usage, "input_tokens")),
        output=_first(_count(usage, "completion_tokens"), _count(usage, "output_tokens")),
        cached=_first(
            _count(usage, "prompt_tokens_details", "cached_tokens"),
            _count(usage, "input_tokens_details", "cached_tokens"),
            _count(usage, "prompt_cache_hit_tokens"),
            _count(usage, "cache_read_input_tokens"),
            _count(usage, "cached_tokens"),
        ),
        written=_first(
            _count(usage, "prompt_tokens_details", "cache_write_tokens"),
            _count(usage, "input_tokens_details", "cache_write_tokens"),
            _count(usage, "cache_creation_input_tokens"),
        ),
        cost=_money(usage.get("cost")),
        reasoning=_first(
            _count(usage, "completion_tokens_details", "reasoning_tokens"),
            _count(usage, "output_tokens_details", "reasoning_tokens"),
            _count(usage, "reasoning_tokens"),
        ),
    )


def tokens_of(event: Mapping[str, Any], choice: Mapping[str, Any] | None) -> TokensDelta | None:
    """Return the token ids in a chunk; None if it has none: servers send them only on request. Pure."""
    told = choice or {}
    prompt = _whole_numbers(event.get("prompt_token_ids") or told.get("prompt_token_ids"))
    output = _whole_numbers(told.get("token_ids"))
    if not prompt and not output:
        return None
    content = _inner(told, "logprobs", "content")
    found = [each.get("logprob") for each in content or () if isinstance(each, dict)]
    logprobs = tuple(float(each) for each in found if isinstance(each, int | float))
    return TokensDelta(prompt, output, logprobs)


def _whole_numbers(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(each) is int for each in value):
        return ()
    return tuple(value)


def _own_choices(choices: Any) -> list[dict[str, Any]]:
    """Return the parts of the first choice, because no others were requested.

    GitHub Copilot sends text and calls as two choices with the same number.
    """
    if not isinstance(choices, list):
        return []
    return [choice for choice in choices if isinstance(choice, dict) and not choice.get("index")]


def _texts(value: Any) -> Iterator[tuple[bool, str]]:
    """Yield the texts in a content of any form, each after a flag that is True for reasoning."""
    if isinstance(value, str):
        yield False, value
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)
    elif isinstance(value, dict):
        if thinking := value.get("thinking"):
            yield from ((True, text) for _, text in _texts(thinking))
            return
        kind = value.get("type")
        is_reasoning = isinstance(kind, str) and ("reasoning" in kind or "thinking" in kind)
        for name in ("text", "summary", "content"):
            if isinstance(value.get(name), str):
                yield is_reasoning, value[name]
                return


def _is_next(known: _CallState, call_id: str, name: str, arguments: str, *, indexed: bool) -> bool:
    """Return whether a piece that seems to continue `known` actually begins another call."""
    if not name or not known.name:
        return False
    if call_id and known.id:
        return call_id != known.id
    if name != known.name and not indexed:
        return True
    return bool(arguments or name != known.name) and known.arguments.complete


def _is_open(known: _CallState, name: str) -> bool:
    """Return whether a piece with an unknown number continues `known`, the newest call."""
    return not known.arguments.complete if not name else name == known.name and known.arguments.open


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def _inner(value: Any, *path: str) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _count(usage: dict[str, Any], *path: str) -> int | None:
    value = _inner(usage, *path)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _money(value: Any) -> float | None:
    """Return the cost in US dollars that a gateway reports for a request; None if it is invalid."""
    value = value.get("total_cost") if isinstance(value, dict) else value
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) and value >= 0 else None


def _first(*counts: int | None) -> int | None:
    return next((count for count in counts if count is not None), None)
