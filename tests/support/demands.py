# ruff: noqa: E501 - sentences as they are
"""Demands on the form of a request, as providers and servers were seen to word their refusals.

Each looks at a body of chat completions and says why it is refused; an empty text takes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

Check = Callable[[dict[str, Any]], str]


@dataclass(frozen=True)
class Demand:
    """One thing that a server insists on. `shape` is the form of its errors."""

    name: str
    check: Check
    status: int = 400
    shape: str = "openai"

    def error(self, said: str) -> bytes:
        body: Any = {"error": {"message": said, "type": "invalid_request_error", "param": None, "code": None}}
        if self.shape == "detail":
            body = {"detail": [{"type": "value_error", "loc": ["body", "messages", 1], "msg": said}]}
        elif self.shape == "plain":
            body = {"error": said}
        elif self.shape == "object":
            body = {"object": "error", "message": said, "type": "BadRequestError", "code": self.status}
        elif self.shape == "base_resp":
            body = {"base_resp": {"status_code": 2013, "status_msg": said}}
        return json.dumps(body, ensure_ascii=False).encode()


def _turns(body: dict[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    yield from enumerate(body["messages"])


def _messages_with_calls(body: dict[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Answers with calls."""
    yield from ((at, each) for at, each in _turns(body) if each.get("tool_calls"))


def _schemas(body: dict[str, Any]) -> Iterator[tuple[int, str, dict[str, Any]]]:
    for at, each in enumerate(body.get("tools") or ()):
        yield at, each["function"]["name"], each["function"]["parameters"]


def _parts(schema: Any) -> Iterator[dict[str, Any]]:
    """A schema and all below it."""
    if isinstance(schema, dict):
        yield schema
        for name, each in schema.items():
            yield from _parts(list(each.values()) if name in ("properties", "$defs") else each)
    elif isinstance(schema, list):
        for each in schema:
            yield from _parts(each)


def _images(body: dict[str, Any]) -> int:
    contents = (each["content"] for _, each in _turns(body) if isinstance(each.get("content"), list))
    return sum(part["type"] == "image_url" for content in contents for part in content)


def alternating(said: str) -> Check:
    def check(body: dict[str, Any]) -> str:
        roles = [each["role"] for _, each in _turns(body) if each["role"] != "system"]
        sides = [("assistant" if each == "assistant" else each) for each in roles]
        twice = any(one == other != "tool" for one, other in pairwise(sides))
        return said if twice or sides[:1] != ["user"] else ""

    return check


def after_tool(body: dict[str, Any]) -> str:
    roles = [each["role"] for _, each in _turns(body)]
    return "Unexpected role 'user' after role 'tool'" if ("tool", "user") in pairwise(roles) else ""


def ids(pattern: str, said: str) -> Check:
    def check(body: dict[str, Any]) -> str:
        for at, each in _messages_with_calls(body):
            for call in each["tool_calls"]:
                if not re.fullmatch(pattern, call["id"]):
                    return said.format(id=call["id"], at=at, length=len(call["id"]))
        return ""

    return check


def unique_ids(body: dict[str, Any]) -> str:
    made = [call["id"] for _, each in _messages_with_calls(body) for call in each["tool_calls"]]
    return "messages: `tool_use` ids must be unique" if len(made) != len(set(made)) else ""


def thoughts(key: str, said: str, *, filled: bool = False) -> Check:
    def check(body: dict[str, Any]) -> str:
        for at, each in _messages_with_calls(body):
            if key not in each or (filled and not each[key].strip()):
                return said.format(at=at)
        return ""

    return check


def no_thoughts(said: str) -> Check:
    def check(body: dict[str, Any]) -> str:
        for at, each in _turns(body):
            for key in ("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks"):
                if key in each:
                    return said.format(at=at, key=key)
        return ""

    return check


def without(field: str, said: str) -> Check:
    return lambda body: said if field in body else ""


def most(limit: int, said: str) -> Check:
    def check(body: dict[str, Any]) -> str:
        asked = body.get("max_tokens") or body.get("max_completion_tokens") or 0
        return said.format(asked=asked) if asked > limit else ""

    return check


def text_needed(said: str, *, null_only: bool = False) -> Check:
    def check(body: dict[str, Any]) -> str:
        for at, each in _turns(body):
            content = each.get("content")
            if content is None or (not null_only and isinstance(content, str) and not content.strip()):
                return said.format(at=at)
        return ""

    return check


def one_call(body: dict[str, Any]) -> str:
    many = any(len(each["tool_calls"]) > 1 for _, each in _messages_with_calls(body))
    return "This model only supports single tool-calls at once!" if many else ""


def only_calls(body: dict[str, Any]) -> str:
    both = any(each.get("content") for _, each in _messages_with_calls(body))
    return "An assistant message must not have both 'content' and 'tool_calls'." if both else ""


def no_system(said: str) -> Check:
    return lambda body: said if any(each["role"] == "system" for _, each in _turns(body)) else ""


def call_turn(body: dict[str, Any]) -> str:
    roles = [each["role"] for _, each in _turns(body) if each["role"] != "system"]
    for at, each in enumerate(each for _, each in _turns(body) if each["role"] != "system"):
        if each.get("tool_calls") and (at == 0 or roles[at - 1] not in ("user", "tool")):
            return (
                "Please ensure that function call turn comes immediately after a user turn or after a "
                "function response turn."
            )
    return ""


def images_at_most(count: int, said: str) -> Check:
    return lambda body: said if _images(body) > count else ""


def text_only(said: str) -> Check:
    def check(body: dict[str, Any]) -> str:
        for at, each in _turns(body):
            if isinstance(each.get("content"), list):
                return said.format(at=at)
        return ""

    return check


def keywords(words: set[str], said: str) -> Check:
    def check(body: dict[str, Any]) -> str:
        for at, name, schema in _schemas(body):
            for part in _parts(schema):
                if bad := sorted(words & part.keys()):
                    return said.format(at=at, name=name, word=bad[0])
        return ""

    return check


def filled_objects(body: dict[str, Any]) -> str:
    for at, _, schema in _schemas(body):
        if schema.get("type") == "object" and not schema.get("properties"):
            return (
                f"* GenerateContentRequest.tools[0].function_declarations[{at}].parameters.properties: "
                "should be non-empty for OBJECT type"
            )
    return ""


def plain_keys(body: dict[str, Any]) -> str:
    for at, _, schema in _schemas(body):
        for key in schema.get("properties") or {}:
            if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", key):
                return (
                    f"tools.{at}.custom.input_schema.properties: Property keys should match pattern "
                    "'^[a-zA-Z0-9_.-]{1,64}$'"
                )
    return ""


def short_descriptions(body: dict[str, Any]) -> str:
    for at, each in enumerate(body.get("tools") or ()):
        if (length := len(each["function"]["description"])) > 1_024:
            return (
                f"Invalid 'tools[{at}].function.description': string too long. Expected a string with "
                f"maximum length 1024, but got a string with length {length} instead."
            )
    return ""


def few_tools(body: dict[str, Any]) -> str:
    count = len(body.get("tools") or ())
    if count <= 8:
        return ""
    return (
        "Invalid 'tools': array too long. Expected an array with maximum length 8, but got an array with "
        f"length {count} instead."
    )


def named_results(body: dict[str, Any]) -> str:
    for at, each in _turns(body):
        if each["role"] == "tool" and not each.get("name"):
            return (
                f"* GenerateContentRequest.contents[{at}].parts[0].function_response.name: "
                "Name cannot be empty."
            )
    return ""


def no_stream(body: dict[str, Any]) -> str:
    said = "Your organization must be verified to stream this model. Please go to the settings."
    return said if body.get("stream") else ""


def limit_needed(body: dict[str, Any]) -> str:
    named = body.get("max_tokens") or body.get("max_completion_tokens")
    return "" if named else "max_tokens: Field required"


ALTERNATE = "Conversation roles must alternate user/assistant/user/assistant/..."
DEMANDS = (
    Demand("mistral: by turns", alternating(f"After the optional system message, {ALTERNATE}")),
    Demand("mistral: after a tool", after_tool, shape="object"),
    Demand("lm studio: template", alternating(f"Error rendering prompt with jinja template: {ALTERNATE}"), 400, "plain"),
    Demand("vllm: template", alternating(f"{ALTERNATE} None"), 500, "object"),
    Demand("perplexity", alternating("After the (optional) system message(s), user or tool message(s) should alternate with assistant message(s).")),
    Demand("bedrock: start", alternating("A conversation must start with a user message. Try again with a conversation that starts with a user message.")),
    Demand("gemini: call turn", call_turn),
    Demand("mistral: ids", ids("[A-Za-z0-9]{9}", "Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9.")),
    Demand("openai: long ids", ids(".{1,20}", "Invalid 'messages[{at}].tool_calls[0].id': string too long. Expected a string with maximum length 20, but got a string with length {length} instead.")),
    Demand("bedrock: ids", ids("[a-zA-Z0-9_-]+", "1 validation error detected: Value '{id}' at 'messages.{at}.member.content.1.member.toolUse.toolUseId' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_-]+")),
    Demand("moonshot: ids", ids(r"functions\.\w+:\d+|call_\w+", "tool call id {id} is invalid: it must start with 'call_'")),
    Demand("anthropic: ids", unique_ids),
    Demand("deepseek: thoughts", thoughts("reasoning_content", "The `reasoning_content` in the thinking mode must be passed back to the API.")),
    Demand("moonshot: thoughts", thoughts("reasoning_content", "thinking is enabled but reasoning_content is missing in assistant tool call message at index {at}", filled=True)),
    Demand("another key: thoughts", thoughts("reasoning", "Missing `reasoning` field in assistant message with tool calls at index {at}"), 422, "detail"),
    Demand("groq: thoughts", no_thoughts("'messages.{at}' : for 'role:assistant' the following must be satisfied[('messages.{at}' : property '{key}' is unsupported)]")),
    Demand("cerebras: thoughts", no_thoughts("body.messages.{at}.assistant.{key}: property 'messages.{at}.assistant.{key}' is unsupported"), 400, "plain"),
    Demand("fireworks: fields", without("stream_options", "Extra inputs are not permitted, field: 'stream_options', value: {'include_usage': True}")),
    Demand("sambanova: fields", without("stream_options", "json: unknown field \"stream_options\""), 400, "plain"),
    Demand("openai: limit", without("max_tokens", "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.")),
    Demand("dashscope: limit", most(2_000, "<400> InternalError.Algo.InvalidParameter: Range of max_tokens should be [1, 2000]")),
    Demand("deepseek: limit", most(2_000, "Invalid max_tokens value, the valid range of max_tokens is [1, 2000]")),
    Demand("xai: effort", without("reasoning_effort", "Argument not supported on this model: reasoning_effort"), 400, "plain"),
    Demand("openai: effort with tools", without("reasoning_effort", "Function tools with reasoning_effort are not supported for this model in /v1/chat/completions. Please use /v1/responses instead.")),
    Demand("openai: temperature", without("temperature", "Unsupported value: 'temperature' does not support 0.3 with this model. Only the default (1) value is supported.")),
    Demand("openai: stream", no_stream),
    Demand("anthropic: text", text_needed("messages: text content blocks must be non-empty")),
    Demand("bedrock: text", text_needed("The text field in the ContentBlock object at messages.{at}.content.0 is blank. Add text to the text field, and try again.")),
    Demand("ollama: text", text_needed("invalid message content type: <nil>", null_only=True), 400, "plain"),
    Demand("vllm: text", text_needed('can only concatenate str (not "NoneType") to str', null_only=True), 400, "object"),
    Demand("nim: text", text_needed("Input should be a valid string", null_only=True), 422, "detail"),
    Demand("lm studio: text", text_needed("Error: 'messages' array must only contain objects with a 'content' field that is not empty."), 400, "plain"),
    Demand("minimax: text", text_needed("invalid params, chat content is empty (2013)"), 400, "base_resp"),
    Demand("dashscope: text", text_needed("<400> InternalError.Algo.InvalidParameter: The content field is a required field.", null_only=True)),
    Demand("moonshot: text", text_needed("Invalid request: the message at position {at} with role 'assistant' must not be empty")),
    Demand("zhipu: anything", text_needed("messages 参数非法。请检查文档。")),
    Demand("xai: text", text_needed("Each message must have at least one content element."), 400, "plain"),
    Demand("llama: one call", one_call, 500),
    Demand("content or calls", only_calls),
    Demand("gemma: system", no_system("System role not supported"), 500),
    Demand("o1: system", no_system("Unsupported value: 'messages[0].role' does not support 'system' with this model.")),
    Demand("openai: images", images_at_most(0, "Invalid content type. image_url is only supported by certain models.")),
    Demand("vllm: images", images_at_most(1, "At most 1 image(s) may be provided in one prompt."), 400, "object"),
    Demand("deepseek: images", images_at_most(0, "Failed to deserialize the JSON body into the target type: messages[9]: unknown variant `image_url`, expected `text` at line 1 column 900")),
    Demand("groq: images", text_only("messages[{at}].content must be a string")),
    Demand("gemini: keywords", keywords({"$defs", "$ref", "additionalProperties"}, "Invalid JSON payload received. Unknown name \"{word}\" at 'tools[0].function_declarations[{at}].parameters': Cannot find field.")),
    Demand("llama.cpp: keywords", keywords({"pattern"}, "JSON schema conversion failed:\nPattern must start with '^' and end with '$'")),
    Demand("fireworks: keywords", keywords({"anyOf", "$ref"}, "JSON Schema not supported: could not understand the instance")),
    Demand("gemini: objects", filled_objects),
    Demand("anthropic: keys", plain_keys),
    Demand("openai: descriptions", short_descriptions),
    Demand("openai: few tools", few_tools),
    Demand("gemini: names", named_results),
    Demand("a limit is needed", limit_needed),
)  # fmt: skip
