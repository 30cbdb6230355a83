"""Parsing of tool calls that models write as text. Only valid calls of offered tools are accepted.

Supported are bare JSON objects and lists (OpenAI, Llama, Qwen-Coder), code fences, the tags of Hermes and
Qwen, `<function=…>` with JSON or XML parameters, elements named after the tool, Python calls, and the markers
of Mistral, Llama, Granite, Kimi, DeepSeek, GLM, MiniMax, Cohere, Claude, Gemma and others.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from agent.core.messages import ToolCall
from agent.model.calls.repair import (
    TRUNCATED,
    LenientError,
    LenientReader,
    repair_arguments,
    repair_name,
    without_surrogates,
)
from agent.model.protocol import ToolSpec
from tools.kit.lazy_pattern import lazy_pattern
from tools.registry import check_arguments
from tools.results import ToolError

GEMMA_CALL = lazy_pattern(r"<\|tool_call>\s*call:([\w.:-]+)(?=\{)")
_END = lazy_pattern(r"<tool_call\|>")
_QUOTE = '<|"|>'


def read_gemma(text: str, at: int) -> tuple[dict[str, Any] | None, int]:
    """Parse the arguments that begin at `at`; return them and the position after them.

    The arguments are None if they are incomplete or not an object.
    """
    parts = text[at:].split(_QUOTE)
    stop = None
    # Every second part is quoted text, in which no mark counts.
    for number in range(0, len(parts), 2):
        if stop := _END.search(parts[number]):
            parts = [*parts[:number], parts[number][: stop.start()]]
            break
    if stop is None:
        return None, len(text)
    inside = [json.dumps(part) if number % 2 else part for number, part in enumerate(parts)]
    reader = LenientReader("".join(inside).strip())
    try:
        value, end = reader.read()
    except LenientError:
        return None, len(text)
    whole = end == len(reader.text) and not reader.truncated and isinstance(value, dict)
    length = sum(map(len, parts)) + len(_QUOTE) * (len(parts) - 1) + len(stop.group())
    return (value if whole else None), at + length


BEGINNINGS = ("<|channel|>", "<|start|>assistant")

_MESSAGE = lazy_pattern(
    r"(?:<\|start\|>(?P<role>[^<]{0,200}))?<\|channel\|>(?P<channel>[^<]{0,200})"
    r"(?:<\|constrain\|>[^<]{0,50})?<\|message\|>(?P<body>.*?)(?:<\|(?:end|call|return)\|>|(?=<\|start\|>)|\Z)",
    re.DOTALL,
)
_RECIPIENT = lazy_pattern(r"\bto=(?:functions\.)?([\w.:-]+)")


@dataclass(frozen=True, slots=True)
class HarmonyReply:
    """The contents of a reply in OpenAI's Harmony format. Each of `calls` is a name and arguments as text."""

    reasoning: str
    text: str
    calls: tuple[tuple[str, str], ...]


def read_harmony(text: str) -> HarmonyReply | None:
    """Parse all of `text` as messages in the Harmony format; None if any part of it is not one."""
    reasoning: list[str] = []
    said: list[str] = []
    calls: list[tuple[str, str]] = []
    text = text.strip()
    at = 0
    while at < len(text):
        message = _MESSAGE.match(text, at)
        if message is None:
            return None
        at = message.end()
        while at < len(text) and text[at].isspace():
            at += 1
        recipient = _RECIPIENT.search(f"{message['role'] or ''} {message['channel']}")
        if recipient:
            calls.append((recipient[1], message["body"].strip() or "{}"))
        elif message["channel"].strip().startswith("analysis"):
            reasoning.append(message["body"])
        else:
            said.append(message["body"])
    return HarmonyReply("\n".join(reasoning), "\n\n".join(said), tuple(calls)) if at else None


LIST = lazy_pattern(r"\[\s*([A-Za-z_][\w.]*)\s*\(")
"""Matches the beginning of a list of Python calls, but not a Markdown link `[name](address)`."""
CALL = lazy_pattern(r"(?:print\()?(?:default_api\.)?([A-Za-z_][\w.]*)\s*\(")
"""Matches the beginning of a Python call; Gemini wraps those of its `default_api` in `print`."""

_LONGEST = 50_000
"""The maximum number of characters of Python text that are parsed."""
_STRANGE_ESCAPE = lazy_pattern(r"\\[^\n\\'\"abfnrtvxuUN0-7]")


def read_python(text: str, at: int) -> tuple[list[tuple[str, dict[str, Any]]] | None, int]:
    """Parse the Python calls that begin at `at`; return names with arguments, and the position after them.

    The calls are None if the text contains anything else. Nothing is evaluated: arguments must be keywords
    with literal values.
    """
    stop = max(text.rfind(")"), text.rfind("]")) + 1
    source = text[at:stop]
    # Python warns of an unknown escape on stderr, which would disturb the screen.
    if not source or len(source) > _LONGEST or _STRANGE_ESCAPE.search(source):
        return None, at
    try:
        found = [_call(node) for statement in ast.parse(source).body for node in _nodes(statement)]
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return None, at
    return (found or None), stop


def _nodes(statement: ast.stmt) -> list[ast.expr]:
    match statement:
        case ast.Expr(value=ast.List(elts=items)):
            return items
        case ast.Expr(value=ast.Call(func=ast.Name(id="print"), args=[ast.Call() as inner], keywords=[])):
            return [inner]
        case ast.Expr(value=value):
            return [value]
    raise ValueError("no expression")


def _call(node: ast.expr) -> tuple[str, dict[str, Any]]:
    if not isinstance(node, ast.Call) or node.args:
        raise ValueError("no call with keywords")
    arguments: dict[str, Any] = {}
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg in arguments:
            raise ValueError("no plain keyword")
        arguments[keyword.arg] = ast.literal_eval(keyword.value)
    return ast.unparse(node.func).removeprefix("default_api.").removesuffix(".call"), arguments


_SPACES = ("", "antml:", "minimax:", "seed:", "steptml:", "longcat_", "｜DSML｜")
"""Prefixes that model families put before the same tag names."""

SPACE = rf"(?:{'|'.join(map(re.escape, _SPACES[1:]))})?"

_BARS = tuple((bar, gap) for bar in "｜|" for gap in ("▁", "_", " ", r"\_"))
"""Spellings of DeepSeek's markers in servers and editors: the bar, and the character between words."""

TAGS = (
    *(
        f"<{space}{name}"
        for name in ("tool_call>", "tool_calls>", "function_calls>", "function=", "invoke name=")
        for space in _SPACES
    ),
    "<tools>",
    "<tool_code>",
    "<tool_call name=",
    "<function_call>",
    "<function name=",
    "<TOOLCALL>",
    "<ToolCall>",
    "[TOOL_CALLS]",
    "[TOOL_REQUEST]",
    "<|python_tag|>",
    "<|python_start|>",
    "<|tool_call|>",
    "<|tool_call>call:",
    "<|tool_call:begin|>",
    "<|tool_calls|>",
    "<|tools_prefix|>",
    "<|open|>tools<|sep|>",
    "<|open|>call tool=",
    "<|open|>response<|sep|><|close|>response<|sep|>",
    "<|tool_call_start|>",
    "<|tool_calls_section_begin|>",
    "<|tool_call_section_begin|>",
    "<|tool_call_begin|>",
    "<|START_ACTION|>",
    "<|action_start|>",
    "<|channel|>",
    "<|start|>assistant",
    *(f"<{bar}tool{gap}{name}{gap}begin{bar}>" for bar, gap in _BARS for name in ("calls", "call")),
    "✿FUNCTION✿",
    'functools[{"name"',
    *("assistant to=functions.", "to=functions.", _MINIMAX := "]<]minimax[>["),
)
"""Texts that announce a call, whatever precedes them."""

TAG = lazy_pattern("|".join(map(re.escape, TAGS)))

LANGUAGES = (
    "json",
    "jsonc",
    "json5",
    "tool",
    "tools",
    "tool_call",
    "tool_calls",
    "tool_code",
    "xml",
    "text",
)
"""Language labels of a code fence around a call."""

_PAIRED = ("tool_call", "tool_calls", "function_calls")
_PIPED = (
    *("python_tag", "python_start", "python_end", "tool_call", "tool_call_start", "tool_calls"),
    *("tools_prefix", "tools_suffix", "tool_call:args", "tool_call:end", "calls", "eom", "eot"),
    *("tool_calls_section_begin", "tool_calls_section_end"),
    *("tool_call_section_begin", "tool_call_section_end"),
    *("tool_call_begin", "tool_call_end", "tool_call_argument_begin"),
    *("START_ACTION", "END_ACTION", "action_start", "action_end", "plugin"),
    *("im_end", "eot_id", "eom_id", "end_of_text", "endoftext", "end", "return", "call"),
)
_BARRED = (
    *(
        f"<{bar}tool{gap}{name}{bar}>"
        for bar, gap in _BARS
        for name in (f"calls{gap}begin", f"calls{gap}end", f"call{gap}begin", f"call{gap}end", "sep")
    ),
    "<｜end▁of▁sentence｜>",
)
_SECTIONED = (
    *(f"<|{way}|>{name}<|sep|>" for way in ("open", "close") for name in ("response", "tools", "message")),
    *("<|close|>call<|sep|>", "<|close|>think<|sep|>"),
)
_PLAIN = (
    *("<tool_call|>", "<turn|>", "[TOOL_CALLS]", "[/TOOL_CALLS]", "[ARGS]", "[TOOL_REQUEST]"),
    *("[END_TOOL_REQUEST]", "✿FUNCTION✿:", "✿ARGS✿:", _MINIMAX),
)

_NAMED = ("tools", "tool_code", "function_call", "TOOLCALL", "ToolCall")

WRAPPING = lazy_pattern(
    rf"[\s,;]+|</?{SPACE}(?:{'|'.join(_PAIRED)})>|</?(?:{'|'.join(_NAMED)})>|</{SPACE}(?:function|invoke)>"
    rf"|{'|'.join(map(re.escape, (*_PLAIN, *_SECTIONED, *_BARRED)))}"
    r"|\[CALL_ID\]\w+|functools(?=\[\{)|<\|tool_call:begin\|>[\w-]*<\|tool_call:name\|>"
    rf"|<\|/?(?:{'|'.join(_PIPED)})\|>|</s>"
    rf"|`{{3,}}(?:{'|'.join(sorted(LANGUAGES, reverse=True))})?(?![\w`])"
)
"""Matches text around calls that has no meaning of its own."""

MARKS = (
    *(f"</{space}{name}>" for space in _SPACES for name in (*_PAIRED, "function", "invoke")),
    *(f"</{name}>" for name in (*_NAMED, "s")),
    *(f"<|{slash}{name}|>" for slash in ("", "/") for name in _PIPED),
    *("[CALL_ID]", *_PLAIN, *_SECTIONED, *_BARRED),
)
"""Wrapping that consists of markers, used to recognise one that has not fully arrived."""


_OPENED = rf"<{SPACE}(?:function=|function name=|invoke name=|tool_call name=)"
_FUNCTION = lazy_pattern(
    rf'(?:{_OPENED}"?([\w.:-]+)"?\s*>|<\|open\|>call tool="([\w.:-]+)"[^<>|]*<\|sep\|>'
    r"|(?:assistant )?to=functions\.([\w.:-]+)(?: commentary| analysis| json| code)*(?=\s*\{)"
    r"|([A-Za-z_][\w.:-]*)\[ARGS\](?=\{))"
)
_FUNCTION_BEGUN = lazy_pattern(
    rf"{_OPENED}[^>]*$|<\|open\|>call tool=[^>]*(?:>sep)?\|?$|<\|tool_call>\s*call:[\w.:-]*$"
    r"|<\|tool_call:begin\|>[\w-]*(?:<[|\w:]*)?$|(?:assistant )?to=functions\.[\w.:-]*[a-z\s]*$"
)
_FUNCTION_END = lazy_pattern(rf"\s*(?:</{SPACE}(?:function|invoke|tool_call)>|<\|close\|>call<\|sep\|>)")
_PARAMETER = lazy_pattern(
    rf'\s*(?:<{SPACE}param(?:eter)?(?:=| name=)"?([\w.-]+)"?[^<>\n]*>'
    rf"|<{SPACE}arg_key>\s*([\w.-]+)\s*</{SPACE}arg_key>\s*<{SPACE}arg_value>"
    r'|<\|open\|>argument key="([\w.-]+)"[^<>|]*<\|sep\|>)'
)
_PARAMETER_END = lazy_pattern(
    rf"</{SPACE}param(?:eter)?>|</{SPACE}arg_value>|<\|close\|>argument<\|sep\|>"
    rf"|(?=<{SPACE}parameter[= ]|</{SPACE}function>|</{SPACE}invoke>)"
)
_ELEMENT = lazy_pattern(r"<([A-Za-z_][\w-]*)>\s*(?=[<{])")
_CALL_END = lazy_pattern(rf"</{SPACE}tool_call>")
_CHILD = lazy_pattern(r"\s*<([A-Za-z_][\w-]*)>")
_NAME = lazy_pattern(r"[A-Za-z_][\w.:-]*(?=\s*(?:[\[{<`✿]|$))")

_NAME_KEYS = ("name", "tool", "tool_name", "function", "function_name", "recipient_name", "action")
_ARGUMENT_KEYS = ("arguments", "parameters", "args", "params", "input", "tool_input", "action_input")
_LIST_KEYS = ("tool_calls", "tool_uses")
_SEVERAL = "multi_tool_use.parallel"
"""The name with which OpenAI's models call several tools at once."""
_INNER_KEYS = ("function", "function_call", "tool_call")
_SIDE_KEYS = frozenset({"id", "type", "index", "call_id", "tool_call_id"})

_LONGEST_HEAD = 512
"""The number of characters within which a message must turn out to be a call."""

_BEGINNING = lazy_pattern(r"""[\[\s]*(?:\{{1,2}\s*(?:["'][\w]{0,20}(?:["']\s*(?::\s*)?)?)?)?""")
_FIRST_KEY = lazy_pattern(r"""[\[\s]*\{{1,2}\s*["'](\w{1,20})["']\s*:\s*""")
_NAME_VALUE = lazy_pattern(
    r"""["'](?:name|tool|tool_name|function_name|function|recipient_name|action)["']\s*:\s*["']([^"']{1,100})["']"""
)
_PRINT_BEGUN = lazy_pattern(r"print\(\s*[\w.]*")
_LIST_BEGUN = lazy_pattern(r"\[\s*([A-Za-z_][\w.]*)")
_NAME_BEGUN = lazy_pattern(r"([A-Za-z_][\w.:-]*)(?:\[[ARGS]*\]?)?")
_FENCE_BEGUN = lazy_pattern(r"`{1,3}(\w*)")

Names = tuple[str, ...] | None
"""The names of the tools on offer; None if any name is accepted."""


@dataclass(frozen=True, slots=True)
class DraftedCall:
    """A call as the model wrote it. With `flat`, its arguments stood next to the name, not in an object."""

    name: str
    arguments: Any
    flat: bool = False


def read_calls(text: str) -> list[DraftedCall] | None:
    """Return the calls if `text` consists only of calls, otherwise None. Takes linear time; never raises."""
    try:
        return _read_calls(text)
    except RecursionError:
        return None


def _read_calls(text: str) -> list[DraftedCall] | None:
    text = text.replace(_MINIMAX, "")
    drafts: list[DraftedCall] = []
    at, name, tagged = 0, "", False
    while at < len(text):
        if wrapping := WRAPPING.match(text, at):
            tagged = tagged or _is_tag(text, at)
            at = wrapping.end()
            continue
        found: list[DraftedCall] | None
        if LIST.match(text, at) or (tagged and CALL.match(text, at)):
            calls, at = read_python(text, at)
            found = [DraftedCall(*call) for call in calls] if calls else None
        elif text[at] in "{[":
            value, at = _json_value(text, at)
            found = [DraftedCall(name, value)] if name and isinstance(value, dict) else _drafts(value, tagged)
            name = ""
        elif gemma := GEMMA_CALL.match(text, at):
            arguments, at = read_gemma(text, gemma.end())
            found = None if arguments is None else [DraftedCall(gemma[1], arguments)]
        elif function := _FUNCTION.match(text, at):
            found, at = _function(text, function[function.lastindex or 1], function.end())
            name = ""
        elif element := _ELEMENT.match(text, at):
            found, at = _element(text, element[1], element.end())
        elif name and (parameter := _PARAMETER.match(text, at)):
            found, at = _function(text, name, parameter.start())
            name = ""
        elif tagged and (word := _NAME.match(text, at)):
            name, at, found = word.group(), word.end(), []
        elif drafts and any(mark.startswith(text[at:]) for mark in MARKS):
            break  # the end of the message cut the last mark short
        else:
            return None
        if found is None:
            return None
        drafts += found
    return [*drafts, DraftedCall(name, {})] if name else drafts


def _is_tag(text: str, at: int) -> bool:
    """Return whether the wrapping at `at` announces a call: a tag, or Gemma's fence labelled `tool_code`."""
    return TAG.match(text, at) is not None or text.startswith("```tool_code", at)


def skip_wrapping(text: str) -> tuple[int, bool]:
    """Return the length of the wrapping at the start of `text`, and whether it contains a tag."""
    at, tagged = 0, False
    while wrapping := WRAPPING.match(text, at):
        tagged = tagged or _is_tag(text, at)
        at = wrapping.end()
    return at, tagged


def may_be_call(
    head: str, tools: Sequence[ToolSpec], *, any_name: bool = False
) -> Literal["yes", "no", "open"]:
    """Return whether a message that begins with `head` may turn out to be a call.

    `yes` means to wait for its end, `open` that a few more characters will decide. With `any_name`, a tagged
    call may name a tool that is not on offer.
    """
    at, tagged = skip_wrapping(head)
    rest = head[at:]
    names = None if any_name and tagged else tuple(tool.name for tool in tools)
    verdict = _verdict(rest, names, tagged) if rest else "open"
    return "no" if verdict == "open" and len(head) > _LONGEST_HEAD else verdict


def _verdict(rest: str, names: Names, tagged: bool) -> Literal["yes", "no", "open"]:
    if any(mark.startswith(rest) for mark in (*TAGS, *MARKS)):
        return "open"
    if rest.startswith(BEGINNINGS):
        return "yes"
    if tagged and _PRINT_BEGUN.fullmatch(rest):
        return "open"
    if python := LIST.match(rest) or (tagged and CALL.match(rest)):
        return "yes" if _is_offered(python[1].removesuffix(".call"), names) else "no"
    begun = _LIST_BEGUN.fullmatch(rest) or _NAME_BEGUN.fullmatch(rest)
    if begun and (names is None or _begins(begun[1], names)):
        return "open"
    if rest[0] in "{[":
        return _json_verdict(rest, names, tagged)
    if fence := _FENCE_BEGUN.fullmatch(rest):
        return "open" if any(language.startswith(fence[1]) for language in LANGUAGES) else "no"
    if function := _FUNCTION.match(rest) or GEMMA_CALL.match(rest) or _ELEMENT.match(rest):
        return "yes" if _is_offered(function[function.lastindex or 1], names) else "no"
    if _FUNCTION_BEGUN.match(rest) or _element_begun(rest, names):
        return "open"
    word = re.match(r"[A-Za-z_][\w.:-]*\s*", rest) if tagged else None
    if word is None:
        # A mark such as `[ARGS]` or `<|eot_id|>` may not be complete yet.
        return "open" if re.fullmatch(r"[\[<][\w|｜▁/]{0,30}[|｜]?", rest) and tagged else "no"
    if word.end() == len(rest):
        return "open"
    return "yes" if rest[word.end()] in "[{<`✿" else "no"


def _json_verdict(rest: str, names: Names, tagged: bool) -> Literal["yes", "no", "open"]:
    if names is None:
        return "yes"
    if _BEGINNING.fullmatch(rest):
        return "open"
    first = _FIRST_KEY.match(rest)
    if first is None:
        return "no"
    key, value = first[1], rest[first.end() :]
    if key in (*_ARGUMENT_KEYS, *_LIST_KEYS) or (key in _INNER_KEYS and value.startswith("{")):
        return "yes"
    if tagged and value.startswith("{") and _is_offered(key, names):
        return "yes"
    if key not in _NAME_KEYS and key not in _SIDE_KEYS and key not in _INNER_KEYS:
        return "no"
    if named := _NAME_VALUE.search(rest):
        return "yes" if named[1] == _SEVERAL or _is_offered(named[1], names) else "no"
    return "open"


def _element_begun(rest: str, names: Names) -> bool:
    begun = re.fullmatch(r"<([A-Za-z_][\w-]*)?(>\s*)?", rest)
    if begun is None or names is None:
        return begun is not None
    return begun[1] in names if begun[2] else _begins(begun[1] or "", names)


def _begins(word: str, names: tuple[str, ...]) -> bool:
    """Return whether a word may be the beginning of a tool's name."""
    return any(name.startswith(word) for name in names)


def _is_offered(name: str, names: Names) -> bool:
    return names is None or repair_name(name, names) is not None


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


_DECODER = json.JSONDecoder(strict=False, parse_constant=_refuse_constant)


def _json_value(text: str, at: int) -> tuple[Any, int]:
    """Return the JSON value at `at`, repaired if necessary, and the position after it.

    The value is None if none is valid.
    """
    if text.startswith("{{", at):
        # Templates write the braces of an example like this.
        value, end = _json_value(text, at + 1)
        return (value, end + 1) if text.startswith("}", end) else (None, len(text))
    try:
        return _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        reader = LenientReader(text)
    try:
        value, end = reader.read(at)
    except LenientError:
        return _read_unclosed(text, at)
    return (None, len(text)) if reader.truncated else (value, end)


def _read_unclosed(text: str, at: int) -> tuple[Any, int]:
    """Return an object that lacks only one or two braces before the closing tag, and the position after it;
    otherwise None.
    """
    if tag := _CALL_END.search(text, at):
        for braces in ("}", "}}"):
            try:
                return json.loads(text[at : tag.start()] + braces, strict=False), tag.start()
            except (ValueError, RecursionError):
                continue
    return None, len(text)


def _drafts(value: Any, tagged: bool) -> list[DraftedCall] | None:
    """Return the calls that a JSON value describes; None if it does not describe calls."""
    if isinstance(value, list):
        found: list[DraftedCall] = []
        for item in value:
            inner = _drafts(item, tagged) if isinstance(item, dict) else None
            if inner is None:
                return None
            found += inner
        return found or None
    if not isinstance(value, dict):
        return None
    keys = value.keys() - _SIDE_KEYS
    list_key = next((key for key in _LIST_KEYS if keys == {key} and isinstance(value[key], list)), None)
    if list_key:
        return _drafts(value[list_key], tagged)
    inner_key = next((key for key in _INNER_KEYS if keys == {key} and isinstance(value[key], dict)), None)
    return _drafts(value[inner_key], tagged) if inner_key else _object(value, set(keys), tagged)


def _object(value: dict[str, Any], keys: set[str], tagged: bool) -> list[DraftedCall] | None:
    name_key = next((key for key in _NAME_KEYS if key in keys), None)
    if tagged and len(keys) == 1 and isinstance(inner := value[next(iter(keys))], dict):
        return [DraftedCall(next(iter(keys)), inner)]
    if name_key is None or not isinstance(name := value[name_key], str):
        return None
    others = keys - {name_key}
    arguments_key = next((key for key in _ARGUMENT_KEYS if key in others), None)
    if arguments_key is not None and len(others) == 1:
        if name == _SEVERAL:
            return _drafts(value[arguments_key], tagged)
        return [DraftedCall(name, value[arguments_key])]
    if name_key in ("tool", "tool_name") and others:
        return [DraftedCall(name, {key: value[key] for key in value if key in others}, flat=True)]
    return [DraftedCall(name, {})] if tagged and not others else None


def _function(text: str, name: str, at: int) -> tuple[list[DraftedCall] | None, int]:
    """Parse the arguments of the call `name`, which are JSON or tagged parameters.

    Return the call, or None if it is not valid, and the position after it.
    """
    start = re.compile(r"\s*").match(text, at)
    if start is not None and text[start.end() : start.end() + 1] == "{":
        value, at = _json_value(text, start.end())
        end = _FUNCTION_END.match(text, at)
        return ([DraftedCall(name, value)] if isinstance(value, dict) else None), end.end() if end else at
    arguments, at = ({}, at) if _PARAMETER.match(text, at) else _children(text, at)
    while parameter := _PARAMETER.match(text, at):
        end = _PARAMETER_END.search(text, parameter.end())
        if end is None:
            return None, at
        value = text[parameter.end() : end.start()]
        arguments[next(filter(None, parameter.groups()))] = value.removeprefix("\n").removesuffix("\n")
        at = end.end()
    end = _FUNCTION_END.match(text, at)
    return ([DraftedCall(name, arguments)] if end else None), end.end() if end else at


def _element(text: str, name: str, at: int) -> tuple[list[DraftedCall] | None, int]:
    """Parse a call that is an element named after the tool; its arguments are JSON or nested elements.

    Return the call, or None if it is not valid, and the position after it.
    """
    closing = f"</{name}>"
    if text[at] == "{":
        value, at = _json_value(text, at)
        end = re.compile(rf"\s*{re.escape(closing)}").match(text, at)
        return (
            [DraftedCall(name, value)] if end and isinstance(value, dict) else None
        ), end.end() if end else at
    arguments, at = _children(text, at)
    whole = text[at:].lstrip().startswith(closing)
    return ([DraftedCall(name, arguments, flat=True)] if whole else None), text.find(closing, at) + len(
        closing
    )


def _children(text: str, at: int) -> tuple[dict[str, str], int]:
    """Return arguments that are elements with their names, and the position after the last whole one."""
    arguments: dict[str, str] = {}
    while child := _CHILD.match(text, at):
        end = text.find(f"</{child[1]}>", child.end())
        if end < 0 or child[1] in arguments:
            break
        arguments[child[1]] = text[child.end() : end].removeprefix("\n").removesuffix("\n")
        at = end + len(child[1]) + 3
    return arguments, at


LONGEST_LEAD = 500
"""The maximum number of characters of prose before a tagged call."""

_MOST_CALLS = 64
_LONGEST_END = 20_000
"""The number of characters at the end of reasoning that are searched for calls."""


@dataclass(frozen=True, slots=True)
class Rescued:
    """Calls found in a text, and the text before them."""

    lead: str
    calls: tuple[ToolCall, ...]


def rescue(text: str, tools: Sequence[ToolSpec]) -> tuple[ToolCall, ...] | None:
    """Return the calls if `text` consists of calls, or None if it is an ordinary answer.

    Takes linear time; never raises. Ids depend on `text` alone.
    """
    found = find_calls(text, tools)
    return found.calls if found else None


def find_calls(text: str, tools: Sequence[ToolSpec]) -> Rescued | None:
    """Find calls like `rescue`, but accept a short text before the first tagged call. Return None if there
    are none, or one is invalid.
    """
    if not tools:
        return None
    offered = {tool.name: tool for tool in tools}
    lead, body = split_lead(text)
    drafts = read_calls(body)
    calls = _all_valid(drafts, offered, text) if drafts else None
    return Rescued(lead, calls) if calls else None


def find_in_thought(thought: str, tools: Sequence[ToolSpec]) -> Rescued | None:
    """Find the tagged calls at the end of reasoning, where the first tag is on its own line.

    Models that do not close their reasoning call tools from within it. `lead` of the result is the text
    before the calls. Return None if there are none.
    """
    end = thought[-_LONGEST_END:]
    for tag in islice(TAG.finditer(end), _MOST_CALLS):
        before = thought[: len(thought) - len(end) + tag.start()]
        if before.strip(" \t")[-1:] not in ("", "\n"):
            continue
        found = find_calls(end[tag.start() :], tools)
        if found and not found.lead:
            return Rescued(before.rstrip(), found.calls)
    return None


def find_in_harmony(reply: HarmonyReply, tools: Sequence[ToolSpec]) -> tuple[ToolCall, ...] | None:
    """Return the calls in a Harmony reply, possibly none.

    Return None if one of them is not a valid call of an offered tool.
    """
    offered = {tool.name: tool for tool in tools}
    drafts = [DraftedCall(name, arguments) for name, arguments in reply.calls]
    return _all_valid(drafts, offered, reply.text) if drafts else ()


def _all_valid(
    drafts: Sequence[DraftedCall], offered: Mapping[str, ToolSpec], text: str
) -> tuple[ToolCall, ...] | None:
    if len(drafts) > _MOST_CALLS:
        return None
    calls = tuple(_real_calls(drafts, offered, text))
    return calls if len(calls) == len(drafts) else None


def split_lead(text: str) -> tuple[str, str]:
    """Return the prose before the first tag of a call, and the rest of the text.

    Fences, JSON and quoted tags do not count as prose.
    """
    body = text.strip()
    tag = TAG.search(body, 0, LONGEST_LEAD + 64)
    if tag is None or tag.start() == 0 or body[0] in "{[`":
        return "", body
    lead = body[: tag.start()]
    if len(lead) > LONGEST_LEAD or "```" in lead or lead.rsplit("\n", 1)[-1].count("`") % 2:
        return "", body
    return lead.rstrip(), body[tag.start() :]


def _real_calls(
    drafts: Sequence[DraftedCall], offered: Mapping[str, ToolSpec], text: str
) -> Iterator[ToolCall]:
    """Yield the drafts as calls of offered tools, until one is not valid."""
    seed = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
    for number, draft in enumerate(drafts):
        name = repair_name(draft.name, offered)
        arguments = _arguments_text(draft.arguments)
        if name is None or arguments is None or not _fits(offered[name].parameters, arguments, draft):
            return
        digest = hashlib.sha256(f"{seed}{number}".encode()).hexdigest()
        yield ToolCall(f"call_{digest[:8]}", name, arguments)


def _arguments_text(value: Any) -> str | None:
    """Return the arguments as JSON text; None if they are not valid.

    Arguments that were encoded as JSON twice are decoded once.
    """
    if value is None:
        return "{}"
    if not isinstance(value, (dict, str)):
        return None
    try:
        text = (
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        )
    except (ValueError, RecursionError):
        return None
    mended, reason = repair_arguments(without_surrogates(text))
    return None if reason == TRUNCATED else mended


def _fits(schema: Mapping[str, Any], arguments: str, draft: DraftedCall) -> bool:
    given = json.loads(arguments)
    unknown = given.keys() - schema.get("properties", {}).keys()
    if unknown and (draft.flat or not schema.get("required")):
        return False
    try:
        check_arguments(schema, given)
    except (ToolError, RecursionError):
        return False
    return True
