"""The forms in which models write tool calls as text, read without judging them.

Known are bare JSON objects and lists (OpenAI, Llama, Qwen-Coder), fences, the
tags of Hermes and Qwen, `<function=…>` with JSON or XML parameters, elements
named as the tool, Python calls, and the marks of Mistral, Llama, Granite, Kimi,
DeepSeek, GLM, MiniMax, Cohere, Claude, Gemma and more (`call_marks`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agent.model.calls.call_marks import LANGUAGES, MARKS, SPACE, TAG, TAGS, WRAPPING
from agent.model.calls.gemma import GEMMA_CALL, read_gemma
from agent.model.calls.harmony import BEGINNINGS
from agent.model.calls.lenient_json import LenientError, LenientReader
from agent.model.calls.python_calls import CALL, LIST, read_python
from agent.model.calls.repair import repair_name
from agent.model.protocol import ToolSpec

_OPENED = rf"<{SPACE}(?:function=|function name=|invoke name=|tool_call name=)"
_FUNCTION = re.compile(rf'(?:{_OPENED}"?([\w.:-]+)"?\s*>|<\|open\|>call tool="([\w.:-]+)"[^<>|]*<\|sep\|>)')
_FUNCTION_BEGUN = re.compile(
    rf"{_OPENED}[^>]*$|<\|open\|>call tool=[^>]*(?:>sep)?\|?$|<\|tool_call>\s*call:[\w.:-]*$"
    r"|<\|tool_call:begin\|>[\w-]*(?:<[|\w:]*)?$"
)
_FUNCTION_END = re.compile(rf"\s*(?:</{SPACE}(?:function|invoke|tool_call)>|<\|close\|>call<\|sep\|>)")
_PARAMETER = re.compile(
    rf'\s*(?:<{SPACE}param(?:eter)?(?:=| name=)"?([\w.-]+)"?[^<>\n]*>'
    rf"|<{SPACE}arg_key>\s*([\w.-]+)\s*</{SPACE}arg_key>\s*<{SPACE}arg_value>"
    r'|<\|open\|>argument key="([\w.-]+)"[^<>|]*<\|sep\|>)'
)
_PARAMETER_END = re.compile(
    rf"</{SPACE}param(?:eter)?>|</{SPACE}arg_value>|<\|close\|>argument<\|sep\|>"
    rf"|(?=<{SPACE}parameter[= ]|</{SPACE}function>|</{SPACE}invoke>)"
)
_ELEMENT = re.compile(r"<([A-Za-z_][\w-]*)>\s*(?=[<{])")
_CALL_END = re.compile(rf"</{SPACE}tool_call>")
_CHILD = re.compile(r"\s*<([A-Za-z_][\w-]*)>")
_NAME = re.compile(r"[A-Za-z_][\w.:-]*(?=\s*(?:[\[{<`✿]|$))")

_NAME_KEYS = ("name", "tool", "tool_name", "function", "function_name", "recipient_name", "action")
_ARGUMENT_KEYS = ("arguments", "parameters", "args", "params", "input", "tool_input", "action_input")
_LIST_KEYS = ("tool_calls", "tool_uses")
_SEVERAL = "multi_tool_use.parallel"
"""What OpenAI's models call to call several tools."""
_INNER_KEYS = ("function", "function_call", "tool_call")
_SIDE_KEYS = frozenset({"id", "type", "index", "call_id", "tool_call_id"})

_LONGEST_HEAD = 512
"""Characters within which a message must show that it is a call."""

_BEGINNING = re.compile(r"""[\[\s]*(?:\{{1,2}\s*(?:["'][\w]{0,20}(?:["']\s*(?::\s*)?)?)?)?""")
_FIRST_KEY = re.compile(r"""[\[\s]*\{{1,2}\s*["'](\w{1,20})["']\s*:\s*""")
_NAME_VALUE = re.compile(
    r"""["'](?:name|tool|tool_name|function_name|function|recipient_name|action)["']\s*:\s*["']([^"']{1,100})["']"""
)
_PRINT_BEGUN = re.compile(r"print\(\s*[\w.]*")
_LIST_BEGUN = re.compile(r"\[\s*([A-Za-z_][\w.]*)")
_FENCE_BEGUN = re.compile(r"`{1,3}(\w*)")

Names = tuple[str, ...] | None
"""Names of tools on offer; None: any name will do."""


@dataclass(frozen=True, slots=True)
class DraftedCall:
    """A call as it was written. `flat` means that the arguments stood beside the name."""

    name: str
    arguments: Any
    flat: bool = False


def read_calls(text: str) -> list[DraftedCall] | None:
    """The calls that the whole of `text` consists of, or None. Linear; never raises."""
    try:
        return _read_calls(text)
    except RecursionError:
        return None


def _read_calls(text: str) -> list[DraftedCall] | None:
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
            found, at = _function(text, function[1] or function[2], function.end())
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
    """Whether what stands at `at` announces a call; a fence of Gemma does so only where a message begins."""
    return TAG.match(text, at) is not None or text.startswith("```tool_code", at)


def skip_wrapping(text: str) -> tuple[int, bool]:
    """The length of the wrapping that `text` begins with, and whether a tag is part of it."""
    at, tagged = 0, False
    while wrapping := WRAPPING.match(text, at):
        tagged = tagged or _is_tag(text, at)
        at = wrapping.end()
    return at, tagged


def may_be_call(
    head: str, tools: Sequence[ToolSpec], *, any_name: bool = False
) -> Literal["yes", "no", "open"]:
    """Whether a message that begins with `head` may turn out to be a call.

    `yes`: wait for its end; `open`: wait for some more characters, of which it takes few.
    With `any_name` a tagged call may name a tool that is not on offer.
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
        return "yes" if _offered(python[1].removesuffix(".call"), names) else "no"
    if (begun := _LIST_BEGUN.fullmatch(rest)) and (names is None or _begins(begun[1], names)):
        return "open"
    if rest[0] in "{[":
        return _json_verdict(rest, names, tagged)
    if fence := _FENCE_BEGUN.fullmatch(rest):
        return "open" if any(language.startswith(fence[1]) for language in LANGUAGES) else "no"
    if function := _FUNCTION.match(rest) or GEMMA_CALL.match(rest) or _ELEMENT.match(rest):
        return "yes" if _offered(function[1] or function[2], names) else "no"
    if _FUNCTION_BEGUN.match(rest) or _element_begun(rest, names):
        return "open"
    word = re.match(r"[A-Za-z_][\w.:-]*\s*", rest) if tagged else None
    if word is None:
        # A mark such as `[ARGS]` or `<|eot_id|>` may still be on its way.
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
    if tagged and value.startswith("{") and _offered(key, names):
        return "yes"
    if key not in _NAME_KEYS and key not in _SIDE_KEYS and key not in _INNER_KEYS:
        return "no"
    if named := _NAME_VALUE.search(rest):
        return "yes" if named[1] == _SEVERAL or _offered(named[1], names) else "no"
    return "open"


def _element_begun(rest: str, names: Names) -> bool:
    begun = re.fullmatch(r"<([A-Za-z_][\w-]*)?(>\s*)?", rest)
    if begun is None or names is None:
        return False
    return begun[1] in names if begun[2] else _begins(begun[1] or "", names)


def _begins(word: str, names: tuple[str, ...]) -> bool:
    """Whether a word may be the beginning of the name of a tool."""
    return any(name.startswith(word) for name in names)


def _offered(name: str, names: Names) -> bool:
    return names is None or repair_name(name, names) is not None


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


_DECODER = json.JSONDecoder(strict=False, parse_constant=_refuse_constant)


def _json_value(text: str, at: int) -> tuple[Any, int]:
    """The JSON value at `at`, mended if need be, and where it ends; None if there is none."""
    if text.startswith("{{", at):
        # As templates write the braces of an example.
        value, end = _json_value(text, at + 1)
        return (value, end + 1) if text.startswith("}", end) else (None, len(text))
    try:
        return _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        reader = LenientReader(text)
    try:
        value, end = reader.read(at)
    except LenientError:
        return _unclosed(text, at)
    return (None, len(text)) if reader.truncated else (value, end)


def _unclosed(text: str, at: int) -> tuple[Any, int]:
    """An object that lacks nothing but its last braces before a tag that ends the call."""
    if tag := _CALL_END.search(text, at):
        for braces in ("}", "}}"):
            try:
                return json.loads(text[at : tag.start()] + braces, strict=False), tag.start()
            except (ValueError, RecursionError):
                continue
    return None, len(text)


def _drafts(value: Any, tagged: bool) -> list[DraftedCall] | None:
    """The calls that a JSON value means."""
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
    """A call whose name is known: its arguments as JSON or as tagged parameters, and its end."""
    start = re.compile(r"\s*").match(text, at)
    if start is not None and text[start.end() : start.end() + 1] == "{":
        value, at = _json_value(text, start.end())
        end = _FUNCTION_END.match(text, at)
        return ([DraftedCall(name, value)] if isinstance(value, dict) else None), end.end() if end else at
    arguments: dict[str, str] = {}
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
    """A call as an element named after the tool, with its arguments as JSON or as elements inside."""
    closing = f"</{name}>"
    if text[at] == "{":
        value, at = _json_value(text, at)
        end = re.compile(rf"\s*{re.escape(closing)}").match(text, at)
        return (
            [DraftedCall(name, value)] if end and isinstance(value, dict) else None
        ), end.end() if end else at
    arguments: dict[str, str] = {}
    while child := _CHILD.match(text, at):
        end = text.find(f"</{child[1]}>", child.end())
        if end < 0 or child[1] in arguments:
            return None, at
        arguments[child[1]] = text[child.end() : end].removeprefix("\n").removesuffix("\n")
        at = end + len(child[1]) + 3
    whole = text[at:].lstrip().startswith(closing)
    return ([DraftedCall(name, arguments, flat=True)] if whole else None), text.find(closing, at) + len(
        closing
    )
