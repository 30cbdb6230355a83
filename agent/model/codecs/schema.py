"""Tool calls for models that cannot call tools: every reply is one JSON object that follows a schema.

`response_format` with a JSON schema is supported by llama.cpp, LM Studio, vLLM and Ollama. The object is
either `{"name": <tool>, "arguments": {…}}` or `{"name": "final_answer", "arguments": {"text": …}}`. History
is plain text: small models best follow their own JSON and a plain user message with the result.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any
from uuid import uuid4

from agent.core.messages import Message, ToolCall
from agent.model.calls.call_text import find_calls
from agent.model.calls.repair import TRUNCATED, repair_arguments, repair_name, without_surrogates
from agent.model.codecs.codec import DecodedReply, Decoder
from agent.model.codecs.native import without_images
from agent.model.protocol import CallFragment, Delta, ReasoningDelta, TextDelta, ToolMode, ToolSpec

ANSWER = "final_answer"
_HEAD_LIMIT = 512
"""The number of characters after which a reply without a visible name is held back until it is complete."""

_HEAD = re.compile(r'\s*\{\s*"name"\s*:\s*"([^"\\]*)"\s*,\s*"arguments"\s*:\s*')
_ANSWER_TEXT = re.compile(r'\{\s*"text"\s*:\s*"')
_MAY_BE_CALL = re.compile(r"\s*($|[{\[<]|`($|`($|`)))")
_CUT = "The call was cut off before its arguments were complete and did not run; send it again, shorter."
_OTHER_FORM = "The reply was not in the agreed form."
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\", "/": "/"}


class JsonStringReader:
    """A decoder for one JSON string that arrives in pieces, after its opening quote.

    Lone surrogates become U+FFFD; an unknown escape is kept as written.
    """

    _PLAIN = re.compile(r'[^"\\]+')

    def __init__(self) -> None:
        self.closed = False
        self._escape = ""
        """An escape sequence that is not complete yet, including its backslash."""
        self._high = 0
        """The first half of a surrogate pair that waits for the second; 0 if there is none."""

    def feed(self, text: str) -> str:
        """Return the characters that are certain now. Text after the closing quote is dropped."""
        out: list[str] = []
        at = 0
        while at < len(text) and not self.closed:
            if self._escape:
                out.append(self._read_escape(text[at]))
                at += 1
            elif plain := self._PLAIN.match(text, at):
                out.append(self._lone() + plain.group())
                at = plain.end()
            else:
                if text[at] == "\\":
                    self._escape = "\\"
                else:
                    out.append(self._lone())
                    self.closed = True
                at += 1
        return "".join(out)

    def finish(self) -> str:
        """Return the remaining characters of a string that ended without its closing quote."""
        return self._lone()

    def _read_escape(self, char: str) -> str:
        self._escape += char
        if self._escape[1] != "u":
            sequence, self._escape = self._escape, ""
            return self._lone() + _ESCAPES.get(char, sequence)
        if len(self._escape) > 2 and char not in "0123456789abcdefABCDEF":
            sequence, self._escape = self._escape, ""
            return self._lone() + sequence
        if len(self._escape) < 6:
            return ""
        code, self._escape = int(self._escape[2:], 16), ""
        if self._high and 0xDC00 <= code < 0xE000:
            high, self._high = self._high, 0
            return chr(0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00))
        before = self._lone()
        if 0xD800 <= code < 0xDC00:
            self._high = code
            return before
        return before + without_surrogates(chr(code))

    def _lone(self) -> str:
        lone, self._high = "\ufffd" if self._high else "", 0
        return lone


class _State(Enum):
    HEAD = 1  # too little to decide
    ANSWER = 2  # the text of final_answer follows
    CALL = 3  # the arguments of a tool follow
    PLAIN = 4  # ordinary text: the server ignored the schema
    HELD = 5  # may be a call in another form; decided at the end


class SchemaDecoder:
    """A decoder for one reply: shows the text of `final_answer`, drafts of calls, and plain text as they
    arrive.

    Call fragments only report progress; the calls themselves are in the finished reply.
    """

    def __init__(self, tools: Sequence[ToolSpec], *, new_id: Callable[[], str]) -> None:
        self._tools = tuple(tools)
        self._new_id = new_id
        self._state = _State.HEAD
        self._pieces: list[str] = []
        self._reasoning: list[str] = []
        self._shown: list[str] = []
        self._reader = JsonStringReader()
        self._arguments_at = 0
        self._name = ""

    def feed(self, delta: Delta) -> list[Delta]:
        """Return the deltas to show now."""
        if isinstance(delta, ReasoningDelta):
            self._reasoning.append(delta.text)
            return [delta]
        if not isinstance(delta, TextDelta):
            return [delta]
        if not delta.text:
            return []
        self._pieces.append(delta.text)
        match self._state:
            case _State.HEAD:
                return self._feed_head()
            case _State.ANSWER:
                return self._show(self._reader.feed(delta.text))
            case _State.CALL:
                return [CallFragment(0, arguments=delta.text)]
            case _State.PLAIN:
                return self._show(delta.text)
            case _State.HELD:
                return []

    def finish(self) -> tuple[list[Delta], DecodedReply]:
        """Return the held-back deltas that must be shown after all, and the whole reply."""
        whole = "".join(self._pieces)
        match self._state:
            case _State.PLAIN:
                return [], self._reply("".join(self._shown), repairs=(_OTHER_FORM,))
            case _State.ANSWER:
                rest = self._show(self._reader.finish())
                cut = () if self._reader.closed else ("The answer ended before its JSON was complete.",)
                return rest, self._reply("".join(self._shown), repairs=cut)
            case _State.CALL:
                return [], self._read_call(whole)
            case _:
                reply = self._parse(whole) or self._rescue_calls(whole) or self._leftover(whole)
                return self._show(reply.text), reply

    def _feed_head(self) -> list[Delta]:
        head = "".join(self._pieces)
        if not _MAY_BE_CALL.match(head):
            self._state = _State.PLAIN
            return self._show(head)
        named = _HEAD.match(head)
        if named is None:
            if len(head) > _HEAD_LIMIT:
                self._state = _State.HELD
            return []
        self._name, self._arguments_at = named.group(1), named.end()
        if self._name != ANSWER:
            self._state = _State.CALL
            return [CallFragment(0, name=self._name, arguments=head[named.end() :])]
        if opened := _ANSWER_TEXT.match(head, named.end()):
            self._state = _State.ANSWER
            return self._show(self._reader.feed(head[opened.end() :]))
        if len(head) > _HEAD_LIMIT:
            self._state = _State.HELD
        return []

    def _show(self, text: str) -> list[Delta]:
        if not text:
            return []
        self._shown.append(text)
        return [TextDelta(text)]

    def _read_call(self, whole: str) -> DecodedReply:
        """Return the call of a reply that has name and arguments in the required order."""
        raw = whole[self._arguments_at :].strip()
        try:
            _, end = json.JSONDecoder().raw_decode(raw)
            return self._call(self._name, raw[:end])
        except (ValueError, RecursionError):
            # The last brace closes the reply, not the arguments, unless it is missing.
            inner = self._call(self._name, raw.removesuffix("}"))
            return self._call(self._name, raw) if inner.broken else inner

    def _call(self, name: str, raw: str) -> DecodedReply:
        """Return a reply with one call; `raw`, its arguments, is kept, repaired, or marked as broken."""
        name = repair_name(name, (tool.name for tool in self._tools)) or without_surrogates(name)
        arguments, why = repair_arguments(raw) if raw else (None, _CUT)
        call_id = self._new_id()
        if arguments is None or why == TRUNCATED:
            reason = _CUT if why == TRUNCATED else why
            return self._reply("", (ToolCall(call_id, name, "{}"),), (reason,), {call_id: reason})
        repairs = (f"Arguments of {name} repaired: {why}.",) if why else ()
        return self._reply("", (ToolCall(call_id, name, arguments),), repairs)

    def _parse(self, whole: str) -> DecodedReply | None:
        """Return the reply if it is the required object in another order or notation; otherwise None."""
        try:
            reply = json.loads(whole, strict=False)
        except (ValueError, RecursionError):
            return None
        if not isinstance(reply, dict) or reply.keys() - {"name", "arguments"}:
            return None
        name, arguments = reply.get("name"), reply.get("arguments", {})
        if not isinstance(name, str) or not name:
            return None
        if name == ANSWER:
            texts = list(arguments.values()) if isinstance(arguments, dict) else [arguments]
            whole_text = len(texts) == 1 and isinstance(texts[0], str)
            return self._reply(without_surrogates(texts[0])) if whole_text else None
        return self._call(name, json.dumps(arguments, ensure_ascii=False))

    def _rescue_calls(self, whole: str) -> DecodedReply | None:
        """Return the reply if it contains calls in another form, otherwise None.

        Models write such calls if a server ignores the schema.
        """
        found = find_calls(whole, self._tools)
        if found is None:
            return None
        calls = tuple(replace(call, id=self._new_id()) for call in found.calls)
        return self._reply(found.lead, calls, (_OTHER_FORM,))

    def _leftover(self, whole: str) -> DecodedReply:
        """Return the text as an answer; an empty one if the reply ended before the name of its tool."""
        if self._state is _State.HEAD and _is_cut_head(whole):
            return self._reply("", repairs=(_CUT,))
        return self._reply(without_surrogates(whole.strip()), repairs=(_OTHER_FORM,) if whole.strip() else ())

    def _reply(
        self,
        text: str,
        calls: tuple[ToolCall, ...] = (),
        repairs: tuple[str, ...] = (),
        broken: Mapping[str, str] | None = None,
    ) -> DecodedReply:
        return DecodedReply(text, "".join(self._reasoning), calls, repairs, broken or {})


def _is_cut_head(whole: str) -> bool:
    """Return whether `whole` is the required object, cut off before its arguments."""
    text = whole.strip()
    inside = text.removeprefix("{").lstrip()
    if inside == text or not ('"name"'.startswith(inside) or inside.startswith('"name"')):
        return False
    try:
        json.JSONDecoder(strict=False).raw_decode(text)
    except (ValueError, RecursionError):
        return True
    return False


RESULT_HEAD = "Tool result:"
NEXT_STEP = "Answer my request with final_answer, or call the next tool if a part of it is left."

_KEPT = frozenset({"type", "enum", "const", "required"})
"""Schema keywords that every grammar converter supports and that determine the form of arguments."""
_DEEPEST = 12


class SchemaCodec:
    """A codec for the tool mode `schema`."""

    mode: ToolMode = "schema"

    def system(self, prompt: str, tools: Sequence[ToolSpec]) -> str:
        """Return `prompt`, followed by the form of a reply and the tools on offer."""
        forms = 'To answer me: {"name": "final_answer", "arguments": {"text": "…"}}'
        if tools:
            forms = f'To use a tool: {{"name": "<tool>", "arguments": {{…}}}}\n{forms}\nTools:'
        lines = [prompt, "", "Each reply is one JSON object.", forms]
        lines += [_describe(tool) for tool in tools]
        return "\n".join(lines).strip()

    def rewritten(self, message: Message) -> Message:
        """Return the message as plain text: calls as the model's JSON, results as user messages."""
        message = without_images(message)
        role, content = message.role, message.content
        if role == "assistant":
            content = _assistant_text(message)
        elif role == "tool":
            role, content = "user", f"{RESULT_HEAD}\n{flat_result(content)}\n\n{NEXT_STEP}"
        return Message(role, content, model=message.model)

    def native_tools(self, tools: Sequence[ToolSpec]) -> Sequence[ToolSpec]:
        """Return no tools, because they are part of the system prompt."""
        return ()

    def reply_schema(self, tools: Sequence[ToolSpec]) -> dict[str, Any] | None:
        """Return the schema of a reply: one alternative per tool, and the final answer."""
        return reply_schema(tools)

    def decoder(self, tools: Sequence[ToolSpec]) -> Decoder:
        return SchemaDecoder(tools, new_id=_new_id)


def reply_schema(tools: Sequence[ToolSpec]) -> dict[str, Any]:
    """Return the schema of a reply: one alternative per tool, and the final answer."""
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
    """Return the parameters of a tool as an object schema that grammar converters accept.

    Descriptions, limits, defaults and patterns are removed: they are checked when the call is dispatched.
    References are expanded; from a depth of 12 on, anything is allowed.
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
    """Return one tool as a signature, its description, and the descriptions of its parameters."""
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
    """Return a message of the model in the form required by the schema."""
    calls = [_reply(call.name, call.arguments) for call in message.tool_calls]
    if not calls:
        return _reply(ANSWER, json.dumps({"text": message.content}, ensure_ascii=False))
    return "\n".join([message.content, *calls] if message.content else calls)


def _reply(name: str, arguments: str) -> str:
    return f'{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": {arguments or "{}"}}}'


def flat_result(content: str) -> str:
    """Return a tool's JSON result as lines that a small model can read: `name: value`, long texts unescaped.

    Content other than a JSON object is returned unchanged.
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
