"""What a strict provider accepts as a chat-completions request.

`check_request` refuses what at least one real provider refuses, in the words
and with the codes OpenAI uses, so that an engine which passes here works there.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from typing import Any

TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ROLES = ("system", "developer", "user", "assistant", "tool")
DATA_URL = re.compile(r"data:image/(?P<kind>png|jpeg|gif|webp);base64,(?P<data>[A-Za-z0-9+/]+={0,2})")
IMAGE_STARTS = {"png": b"\x89PNG\r\n\x1a\n", "jpeg": b"\xff\xd8\xff", "gif": b"GIF8", "webp": b"RIFF"}
JSON_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")

BODY_FIELDS = frozenset(
    {
        "model",
        "messages",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "stream",
        "stream_options",
        "max_tokens",
        "max_completion_tokens",
        "temperature",
        "top_p",
        "n",
        "stop",
        "seed",
        "user",
        "response_format",
        "reasoning_effort",
        "presence_penalty",
        "frequency_penalty",
        "logit_bias",
        "logprobs",
        "top_logprobs",
        "metadata",
        "store",
        "service_tier",
    }
)
MESSAGE_FIELDS = {
    "system": frozenset({"role", "content", "name"}),
    "developer": frozenset({"role", "content", "name"}),
    "user": frozenset({"role", "content", "name"}),
    "assistant": frozenset({"role", "content", "name", "tool_calls", "refusal"}),
    "tool": frozenset({"role", "content", "tool_call_id"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Which of the provider-specific rules apply."""

    system_first: bool = True
    """Only the first message may be a system message (chat templates of local models)."""
    text_required: bool = False
    """Empty texts are refused (Anthropic behind a gateway)."""
    message_fields: frozenset[str] = frozenset()
    """Further fields a message may carry, such as `reasoning_content`."""
    call_fields: frozenset[str] = frozenset()
    """Further fields a call may carry, such as `extra_content`."""
    body_fields: frozenset[str] = frozenset()
    """Further fields of the body, such as `chat_template_kwargs`."""
    images: bool = True
    """Whether the model reads images."""
    refused_fields: frozenset[str] = frozenset()
    """Fields of the body this server does not know, such as `stream_options` or `max_tokens`."""


class Refused(Exception):  # noqa: N818 - a verdict, raised to leave the checks at the first fault
    """Why a request was refused: the fields of an OpenAI error object."""

    def __init__(self, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code

    def body(self) -> dict[str, Any]:
        return {
            "error": {
                "message": self.message,
                "type": "invalid_request_error",
                "param": self.param,
                "code": self.code,
            }
        }


def parse_body(raw: bytes) -> Any:
    """The body as data. Raises `Refused` for anything that is not strict JSON in UTF-8."""

    def no_constant(name: str) -> Any:
        raise ValueError(name)

    try:
        body = json.loads(raw.decode("utf-8"), parse_constant=no_constant)
        json.dumps(body, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError):
        raise Refused(
            "We could not parse the JSON body of your request. The API expects a JSON payload in UTF-8."
        ) from None
    return body


def check_request(body: Any, rules: Rules = Rules()) -> None:
    """Raises `Refused` at the first thing in `body` that a strict provider would not take."""
    if not isinstance(body, dict):
        raise Refused("Invalid body: expected an object.")
    _check_fields(body, rules)
    _check_numbers(body)
    if "tools" in body:
        _check_tools_once(body["tools"])
    messages = body.get("messages")
    if not isinstance(messages, list):
        raise Refused("Missing required parameter: 'messages'.", "messages", "missing_required_parameter")
    if not messages:
        raise Refused("Invalid 'messages': empty array.", "messages", "empty_array")
    for position, message in enumerate(messages):
        _check_message(message, f"messages[{position}]", position, rules)
    _check_pairs(messages)


def _check_fields(body: dict[str, Any], rules: Rules) -> None:
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise Refused("you must provide a model parameter", "model")
    for field in body:
        if field in rules.refused_fields:
            hint = " Use 'max_completion_tokens' instead." if field == "max_tokens" else ""
            raise Refused(
                f"Unsupported parameter: '{field}' is not supported with this model.{hint}",
                field,
                "unsupported_parameter",
            )
        if field not in BODY_FIELDS and field not in rules.body_fields:
            raise Refused(f"Unrecognized request argument supplied: {field}", field, "unknown_parameter")
    if not isinstance(body.get("stream", False), bool):
        raise Refused("Invalid type for 'stream': expected a boolean.", "stream", "invalid_type")
    if "stream_options" in body and not body.get("stream"):
        raise Refused("The 'stream_options' parameter is only allowed when 'stream' is enabled.")
    for field in ("tool_choice", "parallel_tool_calls"):
        if field in body and "tools" not in body:
            raise Refused(f"'{field}' is only allowed when 'tools' are specified.", field)


def _check_numbers(body: dict[str, Any]) -> None:
    for field in ("max_tokens", "max_completion_tokens"):
        value = body.get(field, 1)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise Refused(f"Invalid '{field}': expected an integer of at least 1.", field, "invalid_type")
    if "max_tokens" in body and "max_completion_tokens" in body:
        raise Refused("Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.")
    temperature = body.get("temperature", 1)
    if (
        not isinstance(temperature, (int, float))
        or isinstance(temperature, bool)
        or not 0 <= temperature <= 2
    ):
        raise Refused("Invalid 'temperature': expected a number from 0 to 2.", "temperature", "invalid_type")


_good_tools: set[str] = set()
"""Lists of tools that were found good: every request of a session comes with the same one."""


def _check_tools_once(tools: Any) -> None:
    written = json.dumps(tools, default=repr)
    if written not in _good_tools:
        _check_tools(tools)
        _good_tools.add(written)


def _check_tools(tools: Any) -> None:
    if not isinstance(tools, list):
        raise Refused("Invalid type for 'tools': expected an array of objects.", "tools", "invalid_type")
    if not tools:
        raise Refused("Invalid 'tools': empty array. Expected at least 1 element.", "tools", "empty_array")
    names: set[str] = set()
    for position, tool in enumerate(tools):
        where = f"tools[{position}]"
        function = tool.get("function") if isinstance(tool, dict) else None
        if (
            not isinstance(function, dict)
            or tool.get("type") != "function"
            or set(tool) != {"type", "function"}
        ):
            raise Refused(f"Invalid '{where}': expected {{type: 'function', function: {{…}}}}.", where)
        name = function.get("name")
        if not isinstance(name, str) or not TOOL_NAME.fullmatch(name):
            raise Refused(
                f"Invalid '{where}.function.name': string does not match pattern. "
                f"Expected a string that matches the pattern '^{TOOL_NAME.pattern}$'.",
                f"{where}.function.name",
                "invalid_value",
            )
        if name in names:
            raise Refused(f"Invalid '{where}.function.name': tool names must be unique.", where)
        names.add(name)
        if unknown := set(function) - {"name", "description", "parameters", "strict"}:
            raise Refused(
                f"Unknown parameter: '{where}.function.{min(unknown)}'.", where, "unknown_parameter"
            )
        if not isinstance(function.get("description", ""), str):
            raise Refused(f"Invalid type for '{where}.function.description': expected a string.", where)
        if "parameters" in function:
            schema = function["parameters"]
            if not isinstance(schema, dict) or schema.get("type") != "object":
                raise _bad_schema(name, "schema must be a JSON Schema of 'type: \"object\"'")
            if schema.keys() & {"anyOf", "oneOf", "allOf", "enum", "not"}:
                words = "'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level"
                raise _bad_schema(name, f"schema must have type 'object' and not have {words}")
            _check_schema(schema, name, ())
            _check_references(schema, schema, name)


def _check_schema(schema: Any, tool: str, path: tuple[str, ...]) -> None:
    where = f"In context={path}, " if path else ""
    if not isinstance(schema, dict):
        raise _bad_schema(tool, f"{where}{schema!r} is not of type 'object'")
    kinds = schema.get("type", [])
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if kind not in JSON_TYPES:
            raise _bad_schema(tool, f"{where}{kind!r} is not valid under any of the given schemas")
    properties = schema.get("properties", {})
    if not isinstance(properties, dict):
        raise _bad_schema(tool, f"{where}'properties' is not of type 'object'")
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(item, str) for item in required):
        raise _bad_schema(tool, f"{where}'required' is not an array of strings")
    if missing := [item for item in required if properties and item not in properties]:
        raise _bad_schema(tool, f"{where}'required' names {missing[0]!r}, which is not a property")
    if kinds == "array" and "items" not in schema:
        raise _bad_schema(tool, f"{where}array schema missing items")
    if "enum" in schema and (not isinstance(schema["enum"], list) or not schema["enum"]):
        raise _bad_schema(tool, f"{where}'enum' is not a non-empty array")
    for name, inner in properties.items():
        _check_schema(inner, tool, (*path, "properties", name))
    if "items" in schema:
        _check_schema(schema["items"], tool, (*path, "items"))
    if isinstance(schema.get("additionalProperties"), dict):
        _check_schema(schema["additionalProperties"], tool, (*path, "additionalProperties"))
    for word in ("anyOf", "oneOf", "allOf"):
        if word in schema:
            options = schema[word]
            if not isinstance(options, list) or not options:
                raise _bad_schema(tool, f"{where}'{word}' is not a non-empty array")
            for option in options:
                _check_schema(option, tool, (*path, word))


def _check_references(part: Any, root: dict[str, Any], tool: str) -> None:
    """Each reference leads to a place of the schema."""
    if isinstance(part, dict):
        if isinstance(reference := part.get("$ref"), str):
            found: Any = root
            for step in reference.removeprefix("#").strip("/").split("/") if reference != "#" else ():
                found = found.get(step) if isinstance(found, dict) else None
            if not reference.startswith("#") or found is None:
                raise _bad_schema(tool, f"reference to component '{reference}' was not found in the schema")
        words = part.get("enum") if part.get("type") == "array" else None
        if isinstance(words, list) and not all(isinstance(each, list) for each in words):
            raise _bad_schema(tool, "enum value does not validate against {'type': 'array'}")
    inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    for each in inner:
        _check_references(each, root, tool)


def _bad_schema(tool: str, reason: str) -> Refused:
    return Refused(f"Invalid schema for function '{tool}': {reason}.", "tools", "invalid_function_parameters")


def _check_message(message: Any, where: str, position: int, rules: Rules) -> None:
    if not isinstance(message, dict):
        raise Refused(f"Invalid type for '{where}': expected an object.", where, "invalid_type")
    role = message.get("role")
    if role not in ROLES:
        raise Refused(
            f"Invalid value: {role!r}. Supported values are: {', '.join(map(repr, ROLES))}.",
            f"{where}.role",
            "invalid_value",
        )
    if role in ("system", "developer") and position and rules.system_first:
        raise Refused("System message must be at the beginning.", where, "invalid_value")
    if unknown := set(message) - MESSAGE_FIELDS[role] - rules.message_fields:
        field = f"{where}.{min(unknown)}"
        raise Refused(f"Unknown parameter: '{field}'.", field, "unknown_parameter")
    if role == "assistant" and "tool_calls" in message:
        _check_calls(message["tool_calls"], f"{where}.tool_calls", rules)
    _check_content(message, role, f"{where}.content", rules)


def _check_content(message: dict[str, Any], role: str, where: str, rules: Rules) -> None:
    content = message.get("content")
    if content is None:
        if role == "assistant" and message.get("tool_calls"):
            return
        raise Refused("Invalid value for 'content': expected a string, got null.", where, "invalid_type")
    if isinstance(content, list):
        if not content:
            raise Refused(f"Invalid '{where}': empty array.", where, "empty_array")
        for position, part in enumerate(content):
            _check_part(part, role, f"{where}[{position}]", rules)
    elif not isinstance(content, str):
        raise Refused(f"Invalid type for '{where}': expected a string or an array.", where, "invalid_type")
    elif rules.text_required and not content.strip() and role != "tool" and not message.get("tool_calls"):
        raise Refused("messages: text content blocks must be non-empty", where)


def _check_part(part: Any, role: str, where: str, rules: Rules) -> None:
    """One content part: a text that is not empty, or, from the user, an image as a data URL."""
    if not isinstance(part, dict) or not isinstance(part.get("type"), str):
        raise Refused(f"Invalid '{where}': expected content parts with a type.", where)
    kind = part["type"]
    if kind not in ("text", "image_url") or (kind == "image_url" and role != "user"):
        raise Refused(f"Invalid value: '{kind}'.", f"{where}.type", "invalid_value")
    if unknown := set(part) - {"type", kind}:
        raise Refused(f"Unknown parameter: '{where}.{min(unknown)}'.", where, "unknown_parameter")
    if kind == "text":
        if not isinstance(part.get("text"), str):
            raise Refused(f"Missing required parameter: '{where}.text'.", where)
        if not part["text"].strip():
            raise Refused("messages: text content blocks must be non-empty", where)
        return
    if not rules.images:
        raise Refused(
            "Invalid content type. image_url is only supported by certain models.",
            "messages",
            "invalid_value",
        )
    _check_image(part.get("image_url"), f"{where}.image_url")


def _check_image(image: Any, where: str) -> None:
    if not isinstance(image, dict) or set(image) - {"url", "detail"}:
        raise Refused(f"Invalid type for '{where}': expected an object with a url.", where, "invalid_type")
    url = image.get("url")
    match = DATA_URL.fullmatch(url) if isinstance(url, str) else None
    if match is None:
        raise Refused(f"Invalid base64 image_url in '{where}'.", f"{where}.url", "invalid_value")
    try:
        data = base64.b64decode(match["data"], validate=True)
    except ValueError:
        raise Refused(f"Invalid base64 image_url in '{where}'.", f"{where}.url", "invalid_value") from None
    if not data.startswith(IMAGE_STARTS[match["kind"]]):
        raise Refused(
            "You uploaded an unsupported image. Please make sure your image is valid.",
            f"{where}.url",
            "invalid_image_format",
        )


def _check_calls(calls: Any, where: str, rules: Rules) -> None:
    if not isinstance(calls, list):
        raise Refused(f"Invalid type for '{where}': expected an array of objects.", where, "invalid_type")
    if not calls:
        raise Refused(
            f"Invalid '{where}': empty array. Expected an array with minimum length 1, "
            "but got an empty array instead.",
            where,
            "empty_array",
        )
    seen: set[str] = set()
    for position, call in enumerate(calls):
        at = f"{where}[{position}]"
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or call.get("type") != "function":
            raise Refused(f"Invalid '{at}': expected {{id, type: 'function', function: {{…}}}}.", at)
        if unknown := (set(call) - {"id", "type", "function"} - rules.call_fields) | (
            set(function) - {"name", "arguments"}
        ):
            raise Refused(f"Unknown parameter: '{at}.{min(unknown)}'.", at, "unknown_parameter")
        call_id, name, arguments = call.get("id"), function.get("name"), function.get("arguments")
        if not isinstance(call_id, str) or not call_id:
            raise Refused(f"Missing required parameter: '{at}.id'.", at, "missing_required_parameter")
        if call_id in seen:
            raise Refused(f"Duplicate value for 'tool_call_id' of '{call_id}' in '{where}'.", at)
        seen.add(call_id)
        if not isinstance(name, str) or not TOOL_NAME.fullmatch(name):
            raise Refused(
                f"Invalid '{at}.function.name': string does not match pattern '^{TOOL_NAME.pattern}$'.",
                at,
                "invalid_value",
            )
        _check_arguments(arguments, f"{at}.function.arguments")


def _check_arguments(arguments: Any, where: str) -> None:
    if not isinstance(arguments, str):
        raise Refused(f"Invalid type for '{where}': expected a string.", where, "invalid_type")
    try:
        parsed = parse_body(arguments.encode("utf-8"))
    except Refused:
        raise Refused(
            f"Invalid '{where}': the arguments are not valid JSON.", where, "invalid_value"
        ) from None
    if not isinstance(parsed, dict):
        raise Refused(f"Invalid '{where}': the arguments are not a JSON object.", where, "invalid_value")


def _check_pairs(messages: list[dict[str, Any]]) -> None:
    """Every call is answered once, before any other message; no answer comes without its call."""
    open_calls: list[str] = []
    for position, message in enumerate(messages):
        if message["role"] == "tool":
            call_id = message.get("tool_call_id")
            if call_id not in open_calls:
                raise Refused(
                    "Invalid parameter: messages with role 'tool' must be a response to a preceding "
                    "message with 'tool_calls'.",
                    f"messages[{position}].role",
                )
            open_calls.remove(call_id)
            continue
        if open_calls:
            raise _unanswered(open_calls)
        open_calls = [call["id"] for call in message.get("tool_calls", ())]
    if open_calls:
        raise _unanswered(open_calls)


def _unanswered(calls: list[str]) -> Refused:
    return Refused(
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
        "'tool_call_id'. The following tool_call_ids did not have response messages: " + ", ".join(calls),
        "messages",
    )
