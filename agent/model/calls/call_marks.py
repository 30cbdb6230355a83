"""The marks around tool calls that models write as text, as far as they have no meaning of their own."""

from __future__ import annotations

import re

_SPACES = ("", "antml:", "minimax:", "seed:", "steptml:", "longcat_", "｜DSML｜")
"""What families of models put before the same few names."""

SPACE = rf"(?:{'|'.join(map(re.escape, _SPACES[1:]))})?"

TAGS = (
    *(
        f"<{space}{name}"
        for name in ("tool_call>", "tool_calls>", "function_calls>", "function=", "invoke name=")
        for space in _SPACES
    ),
    "<tools>",
    "<function_call>",
    "<function name=",
    "<TOOLCALL>",
    "[TOOL_CALLS]",
    "<|python_tag|>",
    "<|python_start|>",
    "<|tool_call|>",
    "<|tool_call_start|>",
    "<|tool_calls_section_begin|>",
    "<|tool_call_section_begin|>",
    "<|tool_call_begin|>",
    "<|START_ACTION|>",
    "<|action_start|>",
    "<|channel|>",
    "<|start|>assistant",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool_calls_begin｜>",
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
    *("python_tag", "python_start", "python_end", "tool_call", "tool_call_start"),
    *("tool_calls_section_begin", "tool_calls_section_end"),
    *("tool_call_section_begin", "tool_call_section_end"),
    *("tool_call_begin", "tool_call_end", "tool_call_argument_begin"),
    *("START_ACTION", "END_ACTION", "action_start", "action_end", "plugin"),
    *("im_end", "eot_id", "eom_id", "end_of_text", "endoftext", "end", "return", "call"),
)
_BARRED = (
    *(f"tool▁{name}" for name in ("calls▁begin", "calls▁end", "call▁begin", "call▁end", "sep")),
    *(f"tool_{name}" for name in ("calls_begin", "calls_end", "call_begin", "call_end", "sep")),
    "end▁of▁sentence",
)

WRAPPING = re.compile(
    rf"[\s,;]+|</?{SPACE}(?:{'|'.join(_PAIRED)})>|</?(?:tools|function_call|TOOLCALL)>|</{SPACE}(?:function|invoke)>"
    r"|\[/?TOOL_CALLS\]|\[ARGS\]|\[CALL_ID\]\w+|functools(?=\[\{)"
    rf"|<\|/?(?:{'|'.join(_PIPED)})\|>|</s>|<｜(?:{'|'.join(_BARRED)})｜>"
    rf"|`{{3,}}(?:{'|'.join(sorted(LANGUAGES, reverse=True))})?(?![\w`])"
)
"""What may stand around calls without a meaning of its own."""

MARKS = (
    *(f"</{space}{name}>" for space in _SPACES for name in (*_PAIRED, "function", "invoke")),
    *(f"</{name}>" for name in ("tools", "function_call", "TOOLCALL", "s")),
    *("[TOOL_CALLS]", "[/TOOL_CALLS]", "[ARGS]", "[CALL_ID]"),
    *(f"<|{slash}{name}|>" for slash in ("", "/") for name in _PIPED),
    *(f"<｜{name}｜>" for name in _BARRED),
)
"""The wrapping that is written with marks; a beginning of one may still become wrapping."""
