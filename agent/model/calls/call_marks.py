"""The marks around tool calls that models write as text, as far as they have no meaning of their own."""

from __future__ import annotations

import re

_SPACES = ("", "antml:", "minimax:", "seed:", "steptml:", "longcat_", "｜DSML｜")
"""What families of models put before the same few names."""

SPACE = rf"(?:{'|'.join(map(re.escape, _SPACES[1:]))})?"

_BARS = tuple((bar, gap) for bar in "｜|" for gap in ("▁", "_", " ", r"\_"))
"""How the marks of DeepSeek come out of servers and editors: the bar, and what joins their words."""

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
)
"""What announces a call, whatever came before it."""

TAG = re.compile("|".join(map(re.escape, TAGS)))

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
"""What a fence around a call may be called."""

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
    *("[END_TOOL_REQUEST]", "✿FUNCTION✿:", "✿ARGS✿:"),
)

_NAMED = ("tools", "tool_code", "function_call", "TOOLCALL", "ToolCall")

WRAPPING = re.compile(
    rf"[\s,;]+|</?{SPACE}(?:{'|'.join(_PAIRED)})>|</?(?:{'|'.join(_NAMED)})>|</{SPACE}(?:function|invoke)>"
    rf"|{'|'.join(map(re.escape, (*_PLAIN, *_SECTIONED, *_BARRED)))}"
    r"|\[CALL_ID\]\w+|functools(?=\[\{)|<\|tool_call:begin\|>[\w-]*<\|tool_call:name\|>"
    rf"|<\|/?(?:{'|'.join(_PIPED)})\|>|</s>"
    rf"|`{{3,}}(?:{'|'.join(sorted(LANGUAGES, reverse=True))})?(?![\w`])"
)
"""What may stand around calls without a meaning of its own."""

MARKS = (
    *(f"</{space}{name}>" for space in _SPACES for name in (*_PAIRED, "function", "invoke")),
    *(f"</{name}>" for name in (*_NAMED, "s")),
    *(f"<|{slash}{name}|>" for slash in ("", "/") for name in _PIPED),
    *("[CALL_ID]", *_PLAIN, *_SECTIONED, *_BARRED),
)
"""The wrapping that is written with marks; a beginning of one may still become wrapping."""
