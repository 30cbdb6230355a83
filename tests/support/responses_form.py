"""A strict server of the Responses API that keeps nothing: what it refuses, what it encrypts.

Reasoning comes encrypted and is read again only by the model that wrote it, in front of what
followed it.
"""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.support.delivery import Recorded
from tests.support.messages_form import finish_of
from tests.support.replies import Reply, with_ids
from tests.support.wire_rules import DATA_URL, IMAGE_STARTS, TOOL_NAME, Refused

BODY = frozenset(
    {
        *("model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "stream", "store"),
        *("include", "reasoning", "max_output_tokens", "temperature", "top_p", "text", "prompt_cache_key"),
        *("metadata", "user", "truncation", "service_tier"),
    }
)
ITEMS = {
    "message": frozenset({"type", "role", "content", "id", "status", "phase"}),
    "function_call": frozenset({"type", "call_id", "name", "arguments", "id", "status"}),
    "function_call_output": frozenset({"type", "call_id", "output", "id", "status"}),
    "reasoning": frozenset({"type", "id", "summary", "encrypted_content", "content", "status"}),
}
TOOL = frozenset({"type", "name", "description", "parameters", "strict"})
KEY = b"only the server knows this either"


@dataclass
class ResponsesForm:
    """The address `/v1/responses`. `plain` models do not reason."""

    plain: frozenset[str] = frozenset()
    phases: bool = False
    """Whether texts say what they are for."""

    def check(self, request: Recorded) -> None:
        """Raises `Refused`."""
        body = request.body
        if not isinstance(body, dict):
            raise Refused("Invalid body: expected an object.")
        _fields(body, BODY, "")
        self._settings(body)
        for position, tool in enumerate(body.get("tools", [{"type": "function", "name": "a"}])):
            _fields(
                tool,
                frozenset({"type", "name", "description", "parameters", "strict"}),
                f"tools[{position}].",
            )
            if tool["type"] != "function" or not TOOL_NAME.fullmatch(tool["name"]):
                raise Refused(f"Invalid 'tools[{position}].name'.", code="invalid_value")
        items = body.get("input")
        if not isinstance(items, list) or not items:
            raise Refused("Missing required parameter: 'input'.", "input", "missing_required_parameter")
        for position, item in enumerate(items):
            self._item(item, f"input[{position}]", body["model"])
        _pairs(items)
        _followed(items)

    def refusal(self, refused: Refused) -> dict[str, Any]:
        return refused.body()

    def body(self, reply: Reply, request: Recorded) -> bytes:
        """The reply as events, or as one response where no stream was asked for."""
        body = request.body
        output = self._output(reply, body)
        cut = finish_of(reply) in ("length", "content_filter")
        reason = {"length": "max_output_tokens"}.get(finish_of(reply) or "", "content_filter")
        size = len(request.raw) // 4
        usage = {
            "input_tokens": size,
            "input_tokens_details": {"cached_tokens": size // 2},
            "output_tokens": 30,
            "output_tokens_details": {"reasoning_tokens": 9},
            "total_tokens": size + 30,
        }
        whole = {
            "id": "resp_1",
            "object": "response",
            "created_at": 1_700_000_000,
            "model": body["model"],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": body.get("tools", []),
            "error": None,
            "output": output,
            "status": "incomplete" if cut else "completed",
            "usage": usage,
            "store": False,
            "incomplete_details": {"reason": reason} if cut else None,
        }
        if not body.get("stream") or not reply.stream:
            return json.dumps(whole).encode()
        begun = {**whole, "status": "in_progress", "output": [], "usage": None}
        events: list[Any] = [
            {"type": kind, "response": begun} for kind in ("response.created", "response.in_progress")
        ]
        for place, item in enumerate(output):
            events += _item_events(place, item, reply.piece)
        events.append({"type": f"response.{whole['status']}", "response": whole})
        for edit in reply.edits:
            events = edit(events)
        numbered = ({**event, "sequence_number": number} for number, event in enumerate(events))
        return b"".join(
            b"event: " + event["type"].encode() + b"\n" + reply.wire.encode(event) for event in numbered
        )

    def _settings(self, body: dict[str, Any]) -> None:
        if not isinstance(body.get("model"), str) or not body["model"]:
            raise Refused("you must provide a model parameter", "model")
        plain = body["model"] in self.plain
        if body.get("store") is not False:
            raise Refused("Store must be set to false.")
        if plain and "reasoning" in body:
            raise Refused("Unsupported parameter: 'reasoning.effort' is not supported with this model.")
        if plain and "reasoning.encrypted_content" in body.get("include", ()):
            raise Refused("Encrypted content is not supported with this model.")
        if not plain and "temperature" in body:
            raise Refused("Unsupported parameter: 'temperature' is not supported with this model.")
        _fields(body.get("reasoning", {}), frozenset({"effort", "summary"}), "reasoning.")
        if body.get("reasoning", {}).get("effort", "low") not in (
            *(("none",) if body["model"].startswith("gpt-5.") else ("minimal",)),
            *("low", "medium", "high"),
        ):
            raise Refused(
                f"Unsupported value: '{body['reasoning']['effort']}' is not supported with this model."
            )
        limit = body.get("max_output_tokens", 16)
        if not isinstance(limit, int) or limit < 16:
            raise Refused("Invalid 'max_output_tokens': integer below minimum value.")

    def _item(self, item: Any, where: str, model: str) -> None:
        kind = item.get("type") if isinstance(item, dict) else None
        if kind not in ITEMS:
            raise Refused(f"Invalid value: '{kind}'.", f"{where}.type", "invalid_value")
        _fields(item, ITEMS[kind], f"{where}.")
        match kind:
            case "message":
                _content(item, where)
            case "function_call":
                _call_id(item["call_id"], where)
                if not TOOL_NAME.fullmatch(item["name"]) or not isinstance(
                    json.loads(item["arguments"]), dict
                ):
                    raise Refused(f"Invalid '{where}.name'.")
            case "function_call_output":
                _call_id(item["call_id"], where)
                if not isinstance(item["output"], str):
                    raise Refused(f"Invalid type for '{where}.output'.")
            case _:
                if item.get("encrypted_content") is None:
                    raise Refused(f"Item with id '{item.get('id')}' not found. Items are not persisted.")
                if item["encrypted_content"] != _encrypted(model, item["id"], item["summary"]):
                    raise Refused(
                        "The encrypted content could not be verified.", code="invalid_encrypted_content"
                    )

    def _output(self, reply: Reply, body: dict[str, Any]) -> list[dict[str, Any]]:
        output: list[dict[str, Any]] = []
        number = len(body["input"])
        if body["model"] not in self.plain:
            summary = [{"type": "summary_text", "text": reply.reasoning}] if reply.reasoning else []
            kept = "reasoning.encrypted_content" in body.get("include", ())
            sealed = _encrypted(body["model"], f"rs_{number}", summary) if kept else None
            output.append(
                {"type": "reasoning", "id": f"rs_{number}", "summary": summary, "encrypted_content": sealed}
            )
        if reply.text:
            part = {"type": "output_text", "text": reply.text, "annotations": []}
            message = {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": [part]}
            output.append(
                message | ({"phase": "commentary" if reply.calls else "final_answer"} if self.phases else {})
            )
        for made in with_ids(reply, body["input"]).calls:
            call = {"type": "function_call", "id": f"fc_{made.id}", "call_id": made.id, "name": made.name}
            output.append({**call, "arguments": made.arguments, "status": "completed"})
        return output


def _encrypted(model: str, item: str, summary: list[Any]) -> str:
    return base64.b64encode(hmac.digest(KEY, json.dumps([model, item, summary]).encode(), "sha512")).decode()


def _item_events(place: int, item: dict[str, Any], size: int) -> Iterator[dict[str, Any]]:
    at = {"output_index": place, "item_id": item["id"]}
    empty = {"content": [], "arguments": "", "summary": [], "encrypted_content": None}
    start = item | {name: value for name, value in empty.items() if name in item}
    yield {"type": "response.output_item.added", "output_index": place, "item": start}
    match item["type"]:
        case "reasoning":
            for index, part in enumerate(item["summary"]):
                yield {"type": "response.reasoning_summary_part.added", "summary_index": index, **at}
                for piece in _pieces(part["text"], size):
                    yield {"type": "response.reasoning_summary_text.delta", "delta": piece, **at}
        case "message":
            for piece in _pieces(item["content"][0]["text"], size):
                yield {"type": "response.output_text.delta", "content_index": 0, "delta": piece, **at}
            yield {"type": "response.output_text.done", "text": item["content"][0]["text"], **at}
        case _:
            for piece in _pieces(item["arguments"], size):
                yield {"type": "response.function_call_arguments.delta", "delta": piece, **at}
            yield {"type": "response.function_call_arguments.done", "arguments": item["arguments"], **at}
    yield {"type": "response.output_item.done", "output_index": place, "item": item}


def _pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def _fields(value: dict[str, Any], known: frozenset[str], where: str) -> None:
    for name in value:
        if name not in known:
            raise Refused(f"Unknown parameter: '{where}{name}'.", f"{where}{name}", "unknown_parameter")


def _call_id(call_id: Any, where: str) -> None:
    if not isinstance(call_id, str) or not call_id:
        raise Refused(f"Missing required parameter: '{where}.call_id'.")
    if len(call_id) > 64:
        raise Refused(
            f"Invalid '{where}.call_id': string too long. Expected a string with maximum length 64."
        )


def _content(item: dict[str, Any], where: str) -> None:
    role = item.get("role")
    allowed = {"user": {"input_text", "input_image"}, "assistant": {"output_text"}}.get(str(role))
    if allowed is None:
        raise Refused(f"Invalid value: '{role}'.", f"{where}.role")
    for part in item["content"]:
        if part["type"] not in allowed:
            raise Refused(f"Invalid value: '{part['type']}'.", f"{where}.content", "invalid_value")
        _fields(part, frozenset({"type", "text", "image_url", "annotations"}), f"{where}.content.")
        if part["type"] == "input_image":
            match = DATA_URL.fullmatch(part["image_url"])
            if match is None or not base64.b64decode(match["data"]).startswith(IMAGE_STARTS[match["kind"]]):
                raise Refused("The image data you provided does not represent a valid image.")
        elif not isinstance(part["text"], str):
            raise Refused(f"Invalid type for '{where}.content.text'.")


def _pairs(items: list[dict[str, Any]]) -> None:
    called = [item["call_id"] for item in items if item["type"] == "function_call"]
    answered = [item["call_id"] for item in items if item["type"] == "function_call_output"]
    if len(set(called)) < len(called):
        raise Refused("Duplicate item found: call_id.")
    for call_id in called:
        if call_id not in answered:
            raise Refused(f"No tool output found for function call {call_id}.")
    for call_id in answered:
        if call_id not in called:
            raise Refused(f"No tool call found for function call output with call_id {call_id}.")


def _followed(items: list[dict[str, Any]]) -> None:
    for item, after in zip(items, [*items[1:], {"type": "nothing"}], strict=True):
        if item["type"] != "reasoning":
            continue
        is_own = after["type"] in ("reasoning", "function_call") or after.get("role") == "assistant"
        if not is_own:
            raise Refused(
                f"Item '{item['id']}' of type 'reasoning' was provided without its required following item."
            )
