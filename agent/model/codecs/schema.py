"""Tool calls for models that cannot call tools: every reply is one JSON object bound by a schema.

`response_format` with a JSON schema is understood by llama.cpp, LM Studio, vLLM
and Ollama alike. The object is either `{"name": <tool>, "arguments": {…}}` or
`{"name": "final_answer", "arguments": {"text": …}}`. History is flat text: what
small models follow best is their own JSON and a plain user message with the result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from agent.core.messages import Message
from agent.model.codecs.codec import Decoder
from agent.model.codecs.pictures import without_images
from agent.model.codecs.schema_reader import ANSWER, SchemaDecoder
from agent.model.protocol import ToolMode, ToolSpec

RESULT_HEAD = "Tool result:"
NEXT_STEP = "Answer my request with final_answer, or call the next tool if a part of it is left."

_KEPT = frozenset({"type", "enum", "const", "required"})
"""Schema keywords that every grammar converter understands and that shape the arguments."""
_DEEPEST = 12


class SchemaCodec:
    """The tool mode `schema`."""

    mode: ToolMode = "schema"

    def system(self, prompt: str, tools: Sequence[ToolSpec]) -> str:
        """`prompt`, then the form of a reply and the tools on offer."""
        forms = 'To answer me: {"name": "final_answer", "arguments": {"text": "…"}}'
        if tools:
            forms = f'To use a tool: {{"name": "<tool>", "arguments": {{…}}}}\n{forms}\nTools:'
        lines = [prompt, "", "Each reply is one JSON object.", forms]
        lines += [_describe(tool) for tool in tools]
        return "\n".join(lines).strip()

    def rewritten(self, message: Message) -> Message:
        """Flat text: calls as the JSON the model wrote, results as user messages."""
        message = without_images(message)
        role, content = message.role, message.content
        if role == "assistant":
            content = _assistant_text(message)
        elif role == "tool":
            role, content = "user", f"{RESULT_HEAD}\n{flat_result(content)}\n\n{NEXT_STEP}"
        return Message(role, content, model=message.model)

    def offered(self, tools: Sequence[ToolSpec]) -> Sequence[ToolSpec]:
        """None: the tools are part of the system prompt."""
        return ()

    def reply_schema(self, tools: Sequence[ToolSpec]) -> dict[str, Any] | None:
        """The schema that binds the reply."""
        return reply_schema(tools)

    def decoder(self, tools: Sequence[ToolSpec]) -> Decoder:
        return SchemaDecoder(tools, new_id=_new_id)


def reply_schema(tools: Sequence[ToolSpec]) -> dict[str, Any]:
    """The schema of a reply: one alternative per tool, and the final answer."""
    answer = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    choices = [(tool.name, simple_schema(tool.parameters)) for tool in tools] + [(ANSWER, answer)]
    alternatives = [
        {
            "type": "object",
            "properties": {"name": {"const": name}, "arguments": arguments},
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for name, arguments in choices
    ]
    return alternatives[0] if len(alternatives) == 1 else {"anyOf": alternatives}


def simple_schema(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a tool as an object schema that grammar converters accept.

    Descriptions, limits, defaults and patterns go: they are checked again when the
    call is dispatched. References are written out, recursive ones become "anything".
    """
    simple = _simple(parameters, parameters, 0)
    simple["type"] = "object"
    simple.setdefault("properties", {})
    simple["additionalProperties"] = False
    return simple


def _simple(schema: Any, root: Mapping[str, Any], depth: int) -> dict[str, Any]:
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return {}
    if isinstance(reference := schema.get("$ref"), str):
        return _simple(_resolve(reference, root), root, depth + 1)
    simple = {key: value for key, value in schema.items() if key in _KEPT}
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        simple["properties"] = {name: _simple(part, root, depth + 1) for name, part in properties.items()}
        simple["required"] = [name for name in schema.get("required") or () if name in properties]
        simple["additionalProperties"] = False
    if "items" in schema:
        simple["items"] = _simple(schema["items"], root, depth + 1)
    for key in ("anyOf", "oneOf"):
        if isinstance(parts := schema.get(key), Sequence) and parts:
            simple["anyOf"] = [_simple(part, root, depth + 1) for part in parts]
    for part in schema.get("allOf") or ():
        merged = _simple(part, root, depth + 1)
        properties = simple.get("properties", {}) | merged.get("properties", {})
        simple = merged | simple | ({"properties": properties} if properties else {})
    return simple


def _resolve(reference: str, root: Mapping[str, Any]) -> Any:
    found: Any = root
    for part in reference.removeprefix("#").strip("/").split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def _describe(tool: ToolSpec) -> str:
    """One tool as a signature, its description, and what is said about its parameters."""
    properties: Mapping[str, Any] = tool.parameters.get("properties") or {}
    required = tool.parameters.get("required") or ()
    names = [name if name in required else f"{name}?" for name in properties]
    lines = [f"- {tool.name}({', '.join(names)}): {tool.description}".rstrip(": ")]
    for name, part in properties.items():
        note = part.get("description", "") if isinstance(part, Mapping) else ""
        options = part.get("enum") if isinstance(part, Mapping) else None
        if options:
            note = f"{note} One of: {', '.join(map(str, options))}.".strip()
        if note:
            lines.append(f"    {name}: {note}")
    return "\n".join(lines)


def _assistant_text(message: Message) -> str:
    """A reply of the model as it would have written it under the schema."""
    calls = [_reply(call.name, call.arguments) for call in message.tool_calls]
    if not calls:
        return _reply(ANSWER, json.dumps({"text": message.content}, ensure_ascii=False))
    return "\n".join([message.content, *calls] if message.content else calls)


def _reply(name: str, arguments: str) -> str:
    return f'{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": {arguments or "{}"}}}'


def flat_result(content: str) -> str:
    """A tool's JSON result as lines a small model can read: `name: value`, long texts unescaped.

    A content that is no JSON object stays as it is.
    """
    try:
        fields = json.loads(content)
    except (ValueError, RecursionError):
        return content
    if not isinstance(fields, dict):
        return content
    return "\n".join(_field(name, value) for name, value in fields.items())


def _field(name: str, value: Any) -> str:
    if not isinstance(value, str):
        return f"{name}: {json.dumps(value, ensure_ascii=False)}"
    text = value.rstrip("\n") or "(empty)"
    return f"{name}:\n{text}" if "\n" in text else f"{name}: {text}"


def _new_id() -> str:
    return f"call_{uuid4().hex[:16]}"
