"""Answers that look odd and mean what they mean, and answers that mean something else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from tests.support.fault_kit import Change, Fault, choices_of, each_chunk, each_fragment, edited, sent, wire
from tests.support.replies import DONE, Payload, Reply, Wire

ODD: dict[str, Fault] = {}


def _add(name: str, effect: str, change: Change) -> None:
    ODD[name] = Fault(name, effect, change)


# Spelling of the stream

_add("crlf", "same", wire(newline="\r\n"))
_add("cr", "same", wire(newline="\r"))
_add("no_space_after_data", "same", wire(prefix="data:"))
_add("comments", "same", wire(comments=True))
_add("event_lines", "same", wire(event_lines=True))
_add("multiline_data", "same", wire(multiline=True))
_add("bom", "same", wire(bom=True))
_add("ascii_escapes", "same", wire(ascii=True))
_add("open_end", "same", wire(open_end=True))
_add("split_every_byte", "same", sent(split=1))
_add("split_every_seventh_byte", "same", sent(split=7))
_add("crlf_split_every_byte", "same", sent(split=1, wire=Wire(newline="\r\n", bom=True)))
_add("tiny_pieces", "same", sent(piece=1))
_add("one_piece", "same", sent(piece=1_000_000))
_add("slow_start", "same", sent(delay=0.05))
_add("wrong_content_type", "same", sent(content_type="text/plain"))
_add("json_content_type", "same", sent(content_type="application/json"))
_add("html_content_type", "same", sent(content_type="text/html"))
_add("json_instead_of_stream", "same", sent(stream=False))
_add("json_as_event_stream", "same", sent(stream=False, content_type="text/event-stream"))


# Shape of the chunks


def drop_done(payloads: list[Payload]) -> list[Payload]:
    return [payload for payload in payloads if payload != DONE]


def _drop_usage(chunk: dict[str, Any]) -> Iterable[Payload] | None:
    return [] if "usage" in chunk else None


def _usage_with_finish(payloads: list[Payload]) -> list[Payload]:
    usage = next((p["usage"] for p in payloads if isinstance(p, dict) and "usage" in p), None)
    kept = [p for p in payloads if not (isinstance(p, dict) and "usage" in p)]
    for payload in kept:
        for choice in choices_of(payload):
            if choice.get("finish_reason") and isinstance(payload, dict):
                payload["usage"] = usage
    return kept


def _usage_everywhere(payloads: list[Payload]) -> list[Payload]:
    for count, payload in enumerate(payloads):
        if isinstance(payload, dict) and "usage" not in payload:
            payload["usage"] = {"prompt_tokens": 1, "completion_tokens": count, "total_tokens": count + 1}
    return payloads


def _null_usage(chunk: dict[str, Any]) -> None:
    chunk.setdefault("usage", None)


def _bare(chunk: dict[str, Any]) -> None:
    """Only what is needed: no id, no model, no index, no null fields."""
    for name in ("id", "object", "created", "model"):
        chunk.pop(name, None)
    for choice in choices_of(chunk):
        for name in ("index", "logprobs", *(() if choice.get("finish_reason") else ("finish_reason",))):
            choice.pop(name, None)


def _more_fields(chunk: dict[str, Any]) -> None:
    chunk.update(system_fingerprint=None, provider="x", service_tier=None, obfuscation="aaaa", error=None)
    for choice in choices_of(chunk):
        choice["native_finish_reason"] = "STOP"
        delta = choice["delta"]
        for name in ("content", "tool_calls", "refusal", "function_call", "reasoning_details", "audio"):
            delta.setdefault(name, None)


def _null_deltas(payloads: list[Payload]) -> list[Payload]:
    odd: list[Payload] = [
        {"choices": [{"index": 0, "delta": None, "finish_reason": None}]},
        {"choices": [{"index": 0}]},
        {"choices": []},
        {"choices": None},
        {"choices": [None]},
        {},
        "null",
    ]
    return [*odd, *payloads[:-1], *odd, payloads[-1]]


def _content_parts(chunk: dict[str, Any]) -> None:
    for choice in choices_of(chunk):
        if choice["delta"].get("content"):
            choice["delta"]["content"] = [{"type": "text", "text": choice["delta"]["content"]}]


def _second_choice(chunk: dict[str, Any]) -> Iterable[Payload]:
    other = {"index": 1, "delta": {"content": "another answer"}, "finish_reason": None}
    return [chunk, {**chunk, "choices": [other]}] if choices_of(chunk) else [chunk]


def _whole_calls(payloads: list[Payload], as_object: bool) -> list[Payload]:
    """Every call in one fragment without an index, as some servers send them."""
    calls: dict[int, dict[str, Any]] = {}
    kept: list[Payload] = []
    for payload in payloads:
        fragments = _fragments(payload)
        if not fragments:
            kept.append(payload)
        for fragment in fragments:
            known = calls.get(fragment["index"])
            if known is None:
                calls[fragment["index"]] = fragment
                kept.append(payload)
            else:
                known["function"]["arguments"] += fragment["function"]["arguments"]
    for call in calls.values():
        call.pop("index")
        if as_object:
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return kept


def _fragments(payload: Payload) -> list[dict[str, Any]]:
    return [
        fragment for choice in choices_of(payload) for fragment in choice["delta"].get("tool_calls") or ()
    ]


def _no_index(fragment: dict[str, Any]) -> None:
    fragment.pop("index", None)


def _index_zero(fragment: dict[str, Any]) -> None:
    fragment["index"] = 0


def _text_index(fragment: dict[str, Any]) -> None:
    fragment["index"] = str(fragment["index"])


def _null_fields(fragment: dict[str, Any]) -> None:
    fragment.setdefault("id", None)
    fragment.setdefault("type", None)
    fragment["function"].setdefault("name", None)
    fragment["function"]["arguments"] = fragment["function"]["arguments"] or None


def _empty_fields(fragment: dict[str, Any]) -> None:
    fragment.setdefault("id", "")
    fragment["function"].setdefault("name", "")


def _repeat_head(payloads: list[Payload]) -> list[Payload]:
    """Id and name in every fragment of a call."""
    heads: dict[int, dict[str, Any]] = {}
    for payload in payloads:
        for fragment in _fragments(payload):
            head = heads.setdefault(fragment["index"], fragment)
            fragment["id"] = head["id"]
            fragment["function"]["name"] = head["function"]["name"]
    return payloads


def _flat_calls(fragment: dict[str, Any]) -> None:
    fragment.update(fragment.pop("function", {}))


def _legacy_call(chunk: dict[str, Any]) -> None:
    """The `function_call` field of old servers. Knows one call only."""
    for choice in choices_of(chunk):
        for fragment in choice["delta"].pop("tool_calls", None) or ():
            choice["delta"]["function_call"] = fragment["function"]
        if choice.get("finish_reason") == "tool_calls":
            choice["finish_reason"] = "function_call"


def finish(value: str | None) -> Change:
    def change(chunk: dict[str, Any]) -> None:
        for choice in choices_of(chunk):
            if choice.get("finish_reason"):
                choice["finish_reason"] = value

    return each_chunk(change)


def _empty_finish(chunk: dict[str, Any]) -> None:
    for choice in choices_of(chunk):
        choice["finish_reason"] = choice.get("finish_reason") or ""


def _split_surrogates(chunk: dict[str, Any]) -> Iterable[Payload] | None:
    """A character outside the basic plane comes in two chunks, one UTF-16 half in each."""
    text = next((choice["delta"].get("content") for choice in choices_of(chunk)), None)
    wide = next((place for place, char in enumerate(text or "") if char > "\uffff"), None)
    if not text or wide is None:
        return None
    high, low = text[wide].encode("utf-16-be")[:2], text[wide].encode("utf-16-be")[2:]
    halves = (
        text[:wide] + high.decode("utf-16-be", "surrogatepass"),
        low.decode("utf-16-be", "surrogatepass") + text[wide + 1 :],
    )
    return [
        json.dumps({"choices": [{"index": 0, "delta": {"content": half}, "finish_reason": None}]})
        for half in halves
    ]


_add("missing_done", "same", edited(drop_done))
_add("missing_finish", "same", sent(finish=None))
_add("missing_usage", "same", each_chunk(_drop_usage))
_add("usage_with_finish", "same", edited(_usage_with_finish))
_add("usage_in_every_chunk", "same", edited(_usage_everywhere))
_add("null_usage", "same", each_chunk(_null_usage))
_add(
    "odd_usage",
    "same",
    sent(usage={"prompt_tokens": "many", "completion_tokens": -1, "prompt_tokens_details": []}),
)
_add("bare_chunks", "same", each_chunk(_bare))
_add("more_fields", "same", each_chunk(_more_fields))
_add("null_deltas", "same", edited(_null_deltas))
_add("content_parts", "same", each_chunk(_content_parts))
_add("second_choice", "same", each_chunk(_second_choice))
_add("reasoning_field", "same", sent(reasoning_field="reasoning"))
_add("calls_in_one_piece", "same", edited(lambda payloads: _whole_calls(payloads, as_object=False)))
_add("arguments_as_object", "same", edited(lambda payloads: _whole_calls(payloads, as_object=True)))
_add("missing_index", "same", each_fragment(_no_index))
_add("index_always_zero", "same", each_fragment(_index_zero))
_add("index_as_text", "same", each_fragment(_text_index))
_add("null_call_fields", "same", each_fragment(_null_fields))
_add("empty_call_fields", "same", each_fragment(_empty_fields))
_add("repeated_call_head", "same", edited(_repeat_head))
_add("flat_calls", "same", each_fragment(_flat_calls))
_add("finish_end_turn", "same", finish("end_turn"))
_add("finish_stop", "same", finish("stop"))
_add("finish_unheard_of", "same", finish("because"))
_add("finish_null_with_done", "same", finish(None))
_add("empty_finish", "same", each_chunk(_empty_finish))
_add("split_surrogates", "same", each_chunk(_split_surrogates))
_add("cut_after_finish", "same", sent(cut_at=-3))
_add("reset_after_finish", "same", sent(cut_at=-3, cut="rst"))


# Other content

_add("legacy_function_call", "altered", each_chunk(_legacy_call))
_add("finish_length", "altered", finish("length"))
_add("finish_max_tokens", "altered", finish("max_tokens"))
_add("finish_content_filter", "altered", finish("content_filter"))
_add("empty_reply", "altered", sent(text="", reasoning="", calls=(), finish="stop"))
_add("only_reasoning", "altered", sent(text="", reasoning="Let me think.", calls=(), finish="stop"))
_add("missing_call_ids", "altered", each_fragment(lambda fragment: fragment.pop("id", None) and None))


def _calls(change: Callable[[Any, int], Any]) -> Change:
    return lambda reply: replace(
        reply, calls=tuple(change(made, position) for position, made in enumerate(reply.calls))
    )


def _calls_as_text(form: str) -> Change:
    def change(reply: Reply) -> Reply:
        written = [
            form % json.dumps({"name": made.name, "arguments": json.loads(made.arguments)})
            for made in reply.calls
        ]
        return replace(reply, text="\n".join([*([reply.text] if reply.text else []), *written]), calls=())

    return change


_add("duplicate_call_ids", "altered", _calls(lambda made, _: replace(made, id="call_same")))
_add("unknown_tool", "altered", _calls(lambda made, _: replace(made, name=made.name + "_x")))
_add("tool_name_in_capitals", "altered", _calls(lambda made, _: replace(made, name=made.name.upper())))
_add("empty_tool_name", "altered", _calls(lambda made, _: replace(made, name="")))
_add("arguments_cut_off", "altered", _calls(lambda made, _: replace(made, arguments=made.arguments[:-2])))
_add("arguments_empty", "altered", _calls(lambda made, _: replace(made, arguments="")))
_add("arguments_no_json", "altered", _calls(lambda made, _: replace(made, arguments="run ls please")))
_add("arguments_list", "altered", _calls(lambda made, _: replace(made, arguments=f"[{made.arguments}]")))
_add(
    "arguments_twice_encoded",
    "altered",
    _calls(lambda made, _: replace(made, arguments=json.dumps(made.arguments))),
)
_add(
    "arguments_fenced",
    "altered",
    _calls(lambda made, _: replace(made, arguments=f"```json\n{made.arguments}\n```")),
)
_add(
    "arguments_with_trailing_comma",
    "altered",
    _calls(lambda m, _: replace(m, arguments=m.arguments[:-1] + ",}")),
)
_add("calls_as_bare_json", "altered", _calls_as_text("%s"))
_add("calls_fenced", "altered", _calls_as_text("```json\n%s\n```"))
_add("calls_tagged", "altered", _calls_as_text("<tool_call>\n%s\n</tool_call>"))
_add(
    "control_bytes",
    "altered",
    lambda reply: replace(reply, text=reply.text + "\x1b]52;c;aGk=\x07\x1b[31m\x9b2J\x00\r", calls=()),
)
