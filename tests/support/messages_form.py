"""A strict server of the Messages API: what it refuses, what it signs, what it has in its cache.

It refuses whatever the real one refuses, and is stricter where that one only ignores. A thought is
signed over the model and everything it had read, so that one that comes back to another model or
behind another conversation is found out.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.support.delivery import Recorded
from tests.support.replies import Reply, with_ids
from tests.support.wire_rules import IMAGE_STARTS, TOOL_NAME, Refused

BODY = frozenset(
    {
        *("model", "messages", "max_tokens", "system", "tools", "tool_choice", "stream", "temperature"),
        *("top_p", "top_k", "stop_sequences", "metadata", "thinking", "output_config", "service_tier"),
    }
)
BLOCKS = {
    "text": frozenset({"type", "text", "cache_control"}),
    "image": frozenset({"type", "source", "cache_control"}),
    "tool_use": frozenset({"type", "id", "name", "input", "cache_control"}),
    "tool_result": frozenset({"type", "tool_use_id", "content", "is_error", "cache_control"}),
    "thinking": frozenset({"type", "thinking", "signature"}),
    "redacted_thinking": frozenset({"type", "data"}),
    "server_tool_use": frozenset({"type", "id", "name", "input", "cache_control"}),
}
OF_USER = {"text", "image", "tool_result"}
OF_ASSISTANT = {"text", "tool_use", "thinking", "redacted_thinking", "server_tool_use"}
THOUGHTS = {"thinking", "redacted_thinking"}
ID = re.compile(r"[a-zA-Z0-9_-]+")
LOOKBACK = 20
"""Blocks before a mark in which the server looks for what it has."""
KEY = b"only the server knows this"

FINISH = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
    "pause": "pause_turn",
}


@dataclass
class MessagesForm:
    """The address `/v1/messages`. `adaptive` models take no budget of thought; others take nothing else."""

    adaptive: frozenset[str] = frozenset()
    bound: frozenset[str] = frozenset()
    """Models whose thoughts are bound to what came before them."""
    redacts: bool = False
    """Whether thoughts come back unreadable."""
    caches: dict[str, dict[str, int]] = field(default_factory=dict)
    """By model: hashes of what is in the cache, and its length in bytes."""
    predecessors: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)
    """By model: the hashes behind each block of every request that was answered."""
    prefixes: int = 0
    """Requests that an earlier one at the same model is the beginning of."""
    hits: int = 0
    """Those of them whose longest such beginning came from the cache as a whole."""

    def check(self, request: Recorded) -> None:
        """Raises `Refused`."""
        if request.headers.get("anthropic-version") != "2023-06-01":
            raise Refused("anthropic-version: header is required")
        body = request.body
        if not isinstance(body, dict):
            raise Refused("Input should be a valid dictionary")
        _fields(body, BODY, "")
        _settings(body, self.adaptive)
        _tools(body.get("tools"))
        blocks = _messages(body)
        _pairs(body["messages"])
        _marks(body, blocks)
        self._thoughts(body)

    def refusal(self, refused: Refused) -> dict[str, Any]:
        return {"type": "error", "error": {"type": "invalid_request_error", "message": refused.message}}

    def body(self, reply: Reply, request: Recorded) -> bytes:
        """The reply as events, or as one message where no stream was asked for."""
        body = request.body
        usage = self._cached(body)
        content = self._content(reply, body)
        reason = _reason(reply)
        message = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": content,
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": usage,
        }
        if not body.get("stream") or not reply.stream:
            return json.dumps(message).encode()
        events: list[Any] = [
            {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}
        ]
        for index, block in enumerate(content):
            events += _block_events(index, block, reply.piece)
        events.insert(2, {"type": "ping"})
        delta = {"stop_reason": reason, "stop_sequence": None}
        events.append(
            {"type": "message_delta", "delta": delta, "usage": {"output_tokens": usage["output_tokens"]}}
        )
        events.append({"type": "message_stop"})
        for edit in reply.edits:
            events = edit(events)
        return b"".join(
            b"event: " + str(event["type"]).encode() + b"\n" + reply.wire.encode(event) for event in events
        )

    def _content(self, reply: Reply, body: dict[str, Any]) -> list[dict[str, Any]]:
        content: list[dict[str, Any]] = []
        if _thinks(body) and finish_of(reply) != "content_filter":
            text = reply.reasoning or "Let me see."
            signature = self._signature(body["model"], text, _behind(body)[-1])
            if self.redacts:
                content.append({"type": "redacted_thinking", "data": f"{len(text)}.{text}.{signature}"})
            else:
                content.append({"type": "thinking", "thinking": text, "signature": signature})
        if reply.text:
            content.append({"type": "text", "text": reply.text})
        for made in with_ids(reply, body["messages"]).calls:
            call_id = (
                made.id
                if ID.fullmatch(made.id)
                else "toolu_" + hashlib.sha256(made.id.encode()).hexdigest()[:20]
            )
            content.append(
                {"type": "tool_use", "id": call_id, "name": made.name, "input": json.loads(made.arguments)}
            )
        if reply.finish == "pause":
            content.append(
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"q": "x"}}
            )
        return content

    def _signature(self, model: str, text: str, behind: str) -> str:
        bound = behind if model in self.bound else ""
        return base64.b64encode(
            hmac.digest(KEY, json.dumps([model, text, bound]).encode(), "sha256")
        ).decode()

    def _thoughts(self, body: dict[str, Any]) -> None:
        """Thoughts are whole, in their place, and only there when thinking is on."""
        thinks = _thinks(body)
        behind = _behind(body)
        at = 0
        for number, message in enumerate(body["messages"]):
            first = at
            for position, block in enumerate(message["content"]):
                where = f"messages.{number}.content.{position}"
                if block["type"] in THOUGHTS:
                    if not thinks:
                        raise Refused(
                            f"{where}: When thinking is disabled, an answer cannot contain `thinking`."
                        )
                    self._signed(body["model"], block, behind[first : at + 1], where)
                at += 1
            if message["content"][-1]["type"] in THOUGHTS:
                raise Refused(
                    f"messages.{number}: The final block in an assistant message cannot be `thinking`."
                )
        if thinks and body["model"] not in self.adaptive:
            _loop_starts_with_thought(body["messages"])

    def _signed(self, model: str, block: dict[str, Any], behind: list[str], where: str) -> None:
        if block["type"] == "thinking":
            text, signature = block["thinking"], block["signature"]
        else:
            size, _, rest = block["data"].partition(".")
            text, signature = rest[: int(size)], rest[int(size) + 1 :]
        # A reply that went on after a pause begins in the middle of a message.
        if signature not in (self._signature(model, text, each) for each in behind):
            raise Refused(f"{where}: Invalid `signature` in `thinking` block")

    def _cached(self, body: dict[str, Any]) -> dict[str, int]:
        """What of the request is in the cache, and what goes into it now."""
        model, behind = body["model"], _behind(body, body.get("thinking"))
        cache = self.caches.setdefault(model, {})
        marks = [at for at, block in enumerate(_blocks(body)) if "cache_control" in block]
        on_system = any("cache_control" in block for block in body.get("system") or ())
        read = 0
        for place in [*(at + 1 for at in marks), *([0] if on_system else [])]:
            for back in range(place, max(place - LOOKBACK, -1), -1):
                read = max(read, back + 1 if behind[back] in cache else 0)
        before = max(
            (
                len(each)
                for each in self.predecessors.setdefault(model, [])
                if tuple(behind[: len(each)]) == each
            ),
            default=0,
        )
        if before:
            self.prefixes += 1
            self.hits += read >= before
        self.predecessors[model].append(tuple(behind))
        sizes = [len(json.dumps([body.get("system"), body.get("tools")]))]
        sizes += [sizes[0] + len(json.dumps(_blocks(body)[: at + 1])) for at in range(len(behind) - 1)]
        for place in (*(at + 1 for at in marks), *((0,) if on_system else ())):
            cache[behind[place]] = sizes[place]
        last = max([at + 1 for at in marks], default=0 if on_system else -1)
        read_size = sizes[read - 1] // 4 if read else 0
        written = max((sizes[last] // 4 if last >= 0 else 0) - read_size, 0)
        return {
            "input_tokens": max(sizes[-1] // 4 - read_size - written, 0),
            "cache_creation_input_tokens": written,
            "cache_read_input_tokens": read_size,
            "output_tokens": 25,
        }


def finish_of(reply: Reply) -> str | None:
    if reply.finish == "auto":
        return "tool_calls" if reply.calls else "stop"
    return reply.finish


def _reason(reply: Reply) -> str | None:
    finish = finish_of(reply)
    return None if finish is None else FINISH.get(finish, finish)


def _block_events(index: int, block: dict[str, Any], size: int) -> Iterator[dict[str, Any]]:
    start, deltas = dict(block), list[dict[str, Any]]()
    match block["type"]:
        case "text":
            start["text"] = ""
            deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"], size)]
        case "thinking":
            start |= {"thinking": "", "signature": ""}
            deltas = [
                {"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"], size)
            ]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        case "tool_use" | "server_tool_use":
            start["input"] = {}
            written = json.dumps(block["input"]) if block["input"] else ""
            deltas = [
                {"type": "input_json_delta", "partial_json": piece} for piece in ["", *_pieces(written, size)]
            ]
    yield {"type": "content_block_start", "index": index, "content_block": start}
    yield from ({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
    yield {"type": "content_block_stop", "index": index}


def _pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def _blocks(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [block for message in body["messages"] for block in message["content"]]


def _behind(body: dict[str, Any], thinking: Any = None) -> list[str]:
    """Hashes of everything up to each block, without marks: the first one of what precedes the messages."""
    running = hashlib.sha256(
        json.dumps([body.get("tools"), body.get("system"), thinking], sort_keys=True)
        .replace(', "cache_control": {"type": "ephemeral"}', "")
        .replace('"cache_control": {"type": "ephemeral"}, ', "")
        .encode()
    )
    hashes = [running.hexdigest()]
    for message in body["messages"]:
        for block in message["content"]:
            bare = {name: value for name, value in block.items() if name != "cache_control"}
            running.update(json.dumps([message["role"], bare], sort_keys=True).encode())
            hashes.append(running.hexdigest())
    return hashes


def _thinks(body: dict[str, Any]) -> bool:
    return body.get("thinking", {}).get("type") in ("enabled", "adaptive")


def _fields(value: dict[str, Any], known: frozenset[str], where: str) -> None:
    for name in value:
        if name not in known:
            raise Refused(f"{where}{name}: Extra inputs are not permitted")


def _settings(body: dict[str, Any], adaptive: frozenset[str]) -> None:
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise Refused("model: Field required")
    limit = body.get("max_tokens")
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise Refused("max_tokens: Field required")
    temperature = body.get("temperature", 1)
    if not isinstance(temperature, (int, float)) or not 0 <= temperature <= 1:
        raise Refused("temperature: range: 0..1")
    thinking = body.get("thinking")
    if thinking is None:
        return
    kind = thinking.get("type")
    allowed = {"enabled": {"type", "budget_tokens"}, "adaptive": {"type", "display"}, "disabled": {"type"}}
    _fields(thinking, frozenset(allowed.get(kind, ())), "thinking.")
    if _thinks(body) and temperature != 1:
        raise Refused("`temperature` may only be set to 1 when thinking is enabled.")
    if kind == "adaptive" and body["model"] not in adaptive:
        raise Refused("thinking: adaptive thinking is not supported on this model")
    if kind == "enabled":
        if body["model"] in adaptive:
            raise Refused("thinking.type: `enabled` is not supported on this model; use `adaptive`")
        budget = thinking.get("budget_tokens")
        if not isinstance(budget, int) or budget < 1024:
            raise Refused("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
        if budget >= limit:
            raise Refused("`max_tokens` must be greater than `thinking.budget_tokens`.")


def _tools(tools: Any) -> None:
    if tools is None:
        return
    if not isinstance(tools, list) or not tools:
        raise Refused("tools: List should have at least 1 item")
    names: set[str] = set()
    for position, tool in enumerate(tools):
        _fields(
            tool, frozenset({"name", "description", "input_schema", "cache_control"}), f"tools.{position}."
        )
        name = tool.get("name")
        if not isinstance(name, str) or not TOOL_NAME.fullmatch(name) or name in names:
            raise Refused(f"tools.{position}.name: must be unique and match the pattern")
        names.add(name)
        if not isinstance(tool.get("input_schema"), dict) or tool["input_schema"].get("type") != "object":
            raise Refused(f"tools.{position}.input_schema.type: Input should be 'object'")


def _messages(body: dict[str, Any]) -> list[dict[str, Any]]:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Refused("messages: at least one message is required")
    for number, message in enumerate(messages):
        _fields(message, frozenset({"role", "content"}), f"messages.{number}.")
        role, content = message.get("role"), message.get("content")
        if role != ("user", "assistant")[number % 2]:
            raise Refused(
                'messages: roles must alternate between "user" and "assistant", but found multiple '
                f'"{role}" roles in a row'
            )
        if not isinstance(content, list) or not content:
            raise Refused(f"messages.{number}: content must be a non-empty list")
        for position, block in enumerate(content):
            _block(block, role, f"messages.{number}.content.{position}")
    if messages[-1]["role"] != "user" and messages[-1]["content"][-1]["type"] != "server_tool_use":
        raise Refused("This model does not support assistant message prefill.")
    for part in body.get("system") or ():
        _fields(part, frozenset({"type", "text", "cache_control"}), "system.")
        if not part.get("text", "").strip():
            raise Refused("system: text content blocks must be non-empty")
    return _blocks(body)


def _block(block: Any, role: str, where: str) -> None:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind not in (OF_USER if role == "user" else OF_ASSISTANT):
        raise Refused(
            f"{where}: Input tag {kind!r} found using 'type' does not match any of the expected tags"
        )
    _fields(block, BLOCKS[kind], f"{where}.")
    if kind == "text" and not block["text"].strip():
        raise Refused("messages: text content blocks must contain non-whitespace text")
    if kind == "tool_use":
        if not ID.fullmatch(block["id"]):
            raise Refused(f"{where}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
        if not TOOL_NAME.fullmatch(block["name"]) or not isinstance(block["input"], dict):
            raise Refused(f"{where}.tool_use: Input should be a valid dictionary")
    if kind == "image":
        source = block["source"]
        data = base64.b64decode(source["data"], validate=True)
        if source["type"] != "base64" or not data.startswith(
            IMAGE_STARTS[source["media_type"].split("/")[1]]
        ):
            raise Refused(f"{where}.image.source.base64: The image was specified using the wrong media type")


def _pairs(messages: list[dict[str, Any]]) -> None:
    seen: set[str] = set()
    wanted: list[str] = []
    for number, message in enumerate(messages):
        results = [block["tool_use_id"] for block in message["content"] if block["type"] == "tool_result"]
        kinds = [block["type"] for block in message["content"]]
        if message["role"] == "user":
            if sorted(results) != sorted(wanted):
                raise Refused(
                    f"messages.{number - 1}: `tool_use` ids were found without `tool_result` blocks "
                    f"immediately after: {', '.join(wanted) or '(none)'}."
                )
            if "tool_result" in kinds[len(results) :]:
                raise Refused(f"messages.{number}: `tool_result` blocks must come first in the content")
            continue
        wanted = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        if seen & set(wanted) or len(set(wanted)) < len(wanted):
            raise Refused(f"messages.{number}: `tool_use` ids must be unique")
        seen |= set(wanted)


def _marks(body: dict[str, Any], blocks: list[dict[str, Any]]) -> None:
    marked = [
        block
        for block in (*(body.get("system") or ()), *(body.get("tools") or ()), *blocks)
        if "cache_control" in block
    ]
    if len(marked) > 4:
        raise Refused(f"A maximum of 4 blocks with cache_control may be provided. Found {len(marked)}.")
    for block in marked:
        if block["cache_control"] != {"type": "ephemeral"}:
            raise Refused("cache_control: Input should be 'ephemeral'")


def _loop_starts_with_thought(messages: list[dict[str, Any]]) -> None:
    """In the turn that continues, every answer since the person's last message begins with a thought."""
    begin = max(
        number
        for number, message in enumerate(messages)
        if message["role"] == "user" and all(block["type"] != "tool_result" for block in message["content"])
    )
    for number in range(begin + 1, len(messages), 2):
        kind = messages[number]["content"][0]["type"]
        if kind not in THOUGHTS:
            raise Refused(
                f"messages.{number}.content.0.type: Expected `thinking`, but found `{kind}`. "
                "When `thinking` is enabled, a final `assistant` message must start with a thinking block "
                "(preceding the lastmost set of `tool_use` and `tool_result` blocks)."
            )
