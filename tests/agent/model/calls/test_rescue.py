"""Calls that were written as text."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.model.calls.call_text import find_calls, may_be_call, rescue
from agent.model.protocol import ToolSpec
from tests.agent.model.offer import TOOLS

LS = '{"name": "terminal", "arguments": {"command": "ls"}}'

WRITTEN_CALLS = [
    LS,
    f"\n\n{LS}\n",
    '{"name":"terminal","parameters":{"command":"ls"}}',
    '{"arguments": {"command": "ls"}, "name": "terminal"}',
    '{"id": "1", "type": "function", "name": "terminal", "arguments": {"command": "ls"}}',
    '{"type":"function","function":{"name":"terminal","arguments":"{\\"command\\":\\"ls\\"}"}}',
    '{"function_call": {"name": "terminal", "arguments": {"command": "ls"}}}',
    f'{{"tool_calls": [{LS}]}}',
    '{"tool": "terminal", "arguments": {"command": "ls"}}',
    '{"tool": "terminal", "command": "ls"}',
    '{"function": "terminal", "args": {"command": "ls"}}',
    "{'name': 'terminal', 'arguments': {'command': 'ls'}}",
    '{"name": "Terminal", "arguments": {"command": "ls",}}',
    '{"name": "bash", "arguments": {"command": "ls"}}',
    f"[{LS}]",
    f"```json\n{LS}\n```",
    f"```tool_call\n{LS}\n```",
    f"```\n{LS}\n```",
    f"``` {LS} ```",
    f"```json\n[{LS}]\n```",
    f"```xml\n<tool_call>{LS}</tool_call>\n```",
    f"<tool_call>{LS}</tool_call>",
    f"<tool_call>\n{LS}\n</tool_call>",
    f"<tool_call>{LS}",
    f"<tool_call>[{LS}]",
    f"<tools>{LS}</tools>",
    f"<function_call>{LS}</function_call>",
    "<function=terminal>\n<parameter=command>\nls\n</parameter>\n</function>",
    "<tool_call>\n<function=terminal>\n<parameter=command>\nls\n</parameter>\n</function>\n</tool_call>",
    "<function=terminal>\n<parameter=command>\nls\n</function>",
    '<function=terminal>{"command": "ls"}</function>',
    '<function_calls><invoke name="terminal">'
    '<parameter name="command">ls</parameter></invoke></function_calls>',
    f"[TOOL_CALLS][{LS}]",
    f"[TOOL_CALLS] [{LS}]</s>",
    '[TOOL_CALLS]terminal[ARGS]{"command": "ls"}',
    '[TOOL_CALLS]terminal{"command": "ls"}',
    '<|python_tag|>{"name": "terminal", "parameters": {"command": "ls"}}<|eom_id|>',
    f"<|tool_call|>[{LS}]",
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.terminal:0<|tool_call_argument_begin|>"
    '{"command": "ls"}<|tool_call_end|><|tool_calls_section_end|>',
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>terminal\n"
    '```json\n{"command": "ls"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    "<tool_call>terminal\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>\n</tool_call>",
    f"<tool_call>{LS}</tool_call",
    '<｜DSML｜function_calls>\n<｜DSML｜invoke name="terminal">\n'
    '<｜DSML｜parameter name="command" string="true">ls</｜DSML｜parameter>\n'
    "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
    '<minimax:tool_call>\n<invoke name="terminal">\n<parameter name="command">ls</parameter>\n</invoke>\n'
    "</minimax:tool_call>",
    "<seed:tool_call><function=terminal><parameter=command>ls</parameter></function></seed:tool_call>",
    f"<longcat_tool_call>{LS}</longcat_tool_call>",
    f"<TOOLCALL>[{LS}]</TOOLCALL>",
    f"functools[{LS}]",
    f"<|action_start|><|plugin|>{LS}<|action_end|>",
    '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "terminal", "parameters": {"command": "ls"}}]'
    "<|END_ACTION|>",
    "<|tool_call_section_begin|><|tool_call_begin|>functions.terminal:0 <|tool_call_argument_begin|>"
    '{"command": "ls"}<|tool_call_end|><|tool_call_section_end|>',
    "<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜>"
    '<steptml:invoke name="terminal"><steptml:parameter name="command">ls</steptml:parameter>'
    "</steptml:invoke>"
    "<｜tool_call_end｜><｜tool_calls_end｜>",
    '[terminal(command="ls")]',
    '<|python_start|>[terminal(command="ls")]<|python_end|>',
    '<|python_tag|>terminal.call(command="ls")',
    '<|tool_call_start|>[terminal(command="ls")]<|tool_call_end|>',
    '<function_calls>\nterminal(command="ls")\n</function_calls>',
    "```tool_code\nterminal(command='ls')\n```",
    '```tool_code\nprint(default_api.terminal(command="ls"))\n```',
    "<tool_code>terminal(command='ls')</tool_code>",
    '<|tool_call>call:terminal{command:<|"|>ls<|"|>}<tool_call|>',
    '<|tool_call>call:terminal{command:"ls"}<tool_call|><turn|>',
    "<|open|>response<|sep|><|close|>response<|sep|><|open|>tools<|sep|>"
    '<|open|>call tool="terminal" index="1"<|sep|>'
    '<|open|>argument key="command" type="string"<|sep|>ls<|close|>argument<|sep|><|close|>call<|sep|>'
    "<|close|>tools<|sep|><|close|>message<|sep|>",
    '<|tools_prefix|>[{"terminal": {"command": "ls"}}]<|tools_suffix|>',
    "<|tool_calls|><|tool_call:begin|>a1<|tool_call:name|>terminal<|tool_call:args|>"
    '{"command": "ls"}<|tool_call:end|><|calls|>',
    "<|tool▁calls▁begin|><|tool▁call▁begin|>function<|tool▁sep|>terminal\n"
    '```json\n{"command": "ls"}\n```<|tool▁call▁end|><|tool▁calls▁end|>',
    r"<｜tool\_calls\_begin｜><｜tool\_call\_begin｜>terminal"
    r'<｜tool\_sep｜>{"command": "ls"}<｜tool\_call\_end｜>',
    '<｜tool calls begin｜><｜tool call begin｜>terminal<｜tool sep｜>{"command": "ls"}<｜tool call end｜>',
    '<|python_start|>{"type": "function", "name": "terminal", "parameters": {"command": "ls"}}'
    "<|python_end|><|eom|>",
    '<tool_call name="terminal">{"command": "ls"}</tool_call>',
    '<function name="terminal"><param name="command">ls</param></function>',
    "<longcat_tool_call>terminal\n<longcat_arg_key>command</longcat_arg_key>\n"
    "<longcat_arg_value>ls</longcat_arg_value>\n</longcat_tool_call>",
    ']<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name="terminal">]<]minimax[>[<command>ls'
    "]<]minimax[>[</command>]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>",
    'terminal[ARGS]{"command": "ls"}',
    'assistant to=functions.terminal commentary json\n{"command": "ls"}',
    'to=functions.terminal {"command": "ls"}',
    f"<ToolCall>{LS}</ToolCall>",
    f"[TOOL_REQUEST]{LS}[END_TOOL_REQUEST]",
    '✿FUNCTION✿: terminal\n✿ARGS✿: {"command": "ls"}',
    f"<tool_call>\n{{{LS}}}\n</tool_call>",
    f"<tool_call>\n{LS[:-1]}\n</tool_call>",
    f"<tool_call>\n{LS[:-2]}\n</tool_call>",
    "<terminal>\n<command>ls</command>\n</terminal>",
    '<terminal>{"command": "ls"}</terminal>',
    '{"action": "terminal", "action_input": {"command": "ls"}}',
    '{"recipient_name": "functions.terminal", "parameters": {"command": "ls"}}',
    '{"tool_uses": [{"recipient_name": "functions.terminal", "parameters": {"command": "ls"}}]}',
    '{"name": "multi_tool_use.parallel", "arguments": {"tool_uses": '
    '[{"recipient_name": "functions.terminal", "parameters": {"command": "ls"}}]}}',
]

ANSWERS = [
    "",
    "   ",
    "Hello!",
    f"Here is the call: {LS}",
    f"{LS}\n\nThis lists the files.",
    f"Use `<tool_call>{LS}</tool_call>` to list files.",
    f"Like this:\n```\n<tool_call>{LS}</tool_call>\n```",
    f"Like this:\n```\n<tool_call>{LS}</tool_call>",
    f"```python\n{LS}\n```",
    f"<tool_call>{LS}</tool_call> That is how.",
    f"{'word ' * 120}<tool_call>{LS}</tool_call>",
    '{"name": "Alice", "arguments": ["for", "against"]}',
    '{"name": "Alice", "arguments": {"for": 1}}',
    '{"name": "search", "arguments": {"query": "cats"}}',
    '{"name": "terminal"}',
    '{"name": "todo_read"}',
    '{"name": "terminal", "arguments": {}}',
    '{"name": "terminal", "arguments": {"command": true}}',
    '{"name": "terminal", "arguments": {"command": ["ls"]}}',
    '{"name": "terminal", "arguments": ["ls"]}',
    '{"name": "terminal", "arguments": {"command": "ls"}, "category": "shell"}',
    '{"name": "terminal", "arguments": {"command": "ls"',
    '{"name": "terminal", "description": "Runs.", "parameters": {"type": "object", "properties": {}}}',
    '{"name": "todo_read", "parameters": {"type": "object", "properties": {}}}',
    '{"tool": "terminal", "command": "ls", "why": "to see"}',
    '{"tool": "todo_read", "why": "to see"}',
    "<function=terminal>\n<parameter=command>\nrm -rf bu",
    "<function=terminal>\n<parameter=command>\nls\n</parameter>",
    "<tool_call></tool_call>",
    "The <tool_call> tag begins a call.",
    "[]",
    "[1]",
    f"[{LS}, 1]",
    f'[{LS}, {{"name": "nothing", "arguments": {{}}}}]',
    "null",
    "terminal",
    "```json\n```",
    '{"function": {"function": {"function": {}}}}',
    '{"users": [{"name": "terminal", "arguments": {"command": "ls"}}]}',
    '[terminal("ls")]',
    "[terminal(command=input())]",
    '[terminal(command="ls"), 1]',
    "[terminal](command)",
    'terminal(command="ls")',
    "```python\nterminal(command='ls')\n```",
    "[search(pattern='\\d')]",
    '<tool_call>{"name": "terminal", "arguments": {"command": "rm -rf bu</tool_call>',
    '<|tool_call>call:terminal{command:<|"|>rm -rf bu',
    '<|tool_call>call:terminal{command:<|"|>rm -rf bu<|"|>}',
    '<|tool_call>call:terminal{command:<|"|>ls<|"|>,x}<tool_call|>',
    '<|open|>tools<|sep|><|open|>call tool="terminal"<|sep|><|open|>argument key="command"<|sep|>rm -rf bu',
    '<|tools_prefix|>[{"terminal": {"command": "rm -rf bu',
    "<terminal><command>rm -rf bu",
    "<terminal><command>rm -rf bu</command>",
    "<terminal>ls</terminal>",
    "<terminal><command>ls</command></terminal> lists them.",
    "<terminal><command>a</command><command>b</command></terminal>",
    "<search><pattern>x</pattern><engine>y</engine></search>",
    "```html\n<search><pattern>x</pattern></search>\n```",
    "<details>\n<summary>terminal</summary>\n</details>",
    '{"terminal": {"command": "ls"}}',
    '{"action": "terminal", "reason": "to see"}',
    f"{{{LS}",
    "✿FUNCTION✿: terminal",
    'print("ls")',
    'It writes to=functions.terminal {"command": "ls"} there.',
    'terminal[ARGS]{"command": "rm -rf bu',
    '<invoke name="terminal"><command>rm -rf bu',
    '<invoke name="terminal"><command>a</command><command>b</command></invoke>',
    "terminal[ARGS] is a mark.",
]


@pytest.mark.sample(76)
@pytest.mark.parametrize("text", WRITTEN_CALLS)
def test_a_message_that_is_a_call_becomes_one(text: str) -> None:
    calls = rescue(text, TOOLS)
    assert calls is not None
    assert [(call.name, json.loads(call.arguments)) for call in calls] == [("terminal", {"command": "ls"})]


@pytest.mark.sample(54)
@pytest.mark.parametrize("text", ANSWERS)
def test_everything_else_stays_text(text: str) -> None:
    assert rescue(text, TOOLS) is None


@pytest.mark.sample(79)
@pytest.mark.parametrize("text", WRITTEN_CALLS)
def test_without_tools_nothing_is_a_call(text: str) -> None:
    assert rescue(text, ()) is None


@pytest.mark.sample(28)
@pytest.mark.parametrize("text", WRITTEN_CALLS)
def test_no_beginning_of_a_call_is_taken_for_plain_text(text: str) -> None:
    assert "no" not in {may_be_call(text[:end], TOOLS) for end in range(len(text) + 1)}


@pytest.mark.parametrize(
    "text",
    ["Hello", '{"users": [1, 2]}', "[1] The book", "```python\nprint()\n```", "<b>bold</b>", "[link](url)"],
)
def test_plain_text_is_known_as_such_after_a_few_characters(text: str) -> None:
    assert may_be_call(text[:12], TOOLS) == "no"


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ('{path:<|"|>a<|"|>,content:<|"|>{x: [1,2]} "q" \\n<|"|>}', '{x: [1,2]} "q" \\n'),
        ('{path:<|"|>a<|"|>,content:<|"|><tool_call|> is a mark\n<|"|>}', "<tool_call|> is a mark\n"),
        ('{content:<|"|><|"|>,path:<|"|>a<|"|>}', ""),
    ],
)
def test_texts_of_gemma_hold_marks_quotes_and_braces(text: str, content: str) -> None:
    calls = rescue(f"<|tool_call>call:write_file{text}<tool_call|>", TOOLS)
    assert calls is not None
    assert json.loads(calls[0].arguments) == {"path": "a", "content": content}


def test_a_json_answer_that_names_no_tool_is_released_at_its_name() -> None:
    assert may_be_call('{"name": "Alice"', TOOLS) == "no"


def test_several_calls_keep_their_order_and_get_ids_of_their_own() -> None:
    text = f'{LS}\n{{"name": "read_file", "arguments": {{"path": "a"}}}}\n<tool_call>{LS}</tool_call>'
    calls = rescue(text, TOOLS)
    assert calls is not None
    assert [call.name for call in calls] == ["terminal", "read_file", "terminal"]
    assert len({call.id for call in calls}) == 3
    assert calls == rescue(text, TOOLS)


def test_a_short_lead_in_before_a_tag_is_kept_as_text() -> None:
    found = find_calls(f"I look first.\n\n<tool_call>\n{LS}\n</tool_call>", TOOLS)
    assert found is not None
    assert found.lead == "I look first."
    assert len(found.calls) == 1


def test_texts_inside_arguments_may_hold_fences_tags_and_quotes() -> None:
    content = '```py\n<tool_call>{"a": 1}</tool_call>\n```\n"quoted"'
    call = json.dumps({"name": "write_file", "arguments": {"path": "a.md", "content": content}})
    for text in (call, f"```json\n{call}\n```", f"<tool_call>{call}</tool_call>"):
        calls = rescue(text, TOOLS)
        assert calls is not None
        assert json.loads(calls[0].arguments)["content"] == content


def test_raw_newlines_in_json_texts_are_read() -> None:
    calls = rescue('{"name": "write_file", "arguments": {"path": "a", "content": "one\ntwo"}}', TOOLS)
    assert calls is not None
    assert json.loads(calls[0].arguments)["content"] == "one\ntwo"


def test_xml_parameters_keep_inner_lines_and_markup() -> None:
    text = (
        "<function=write_file>\n<parameter=path>\na.html\n</parameter>\n"
        "<parameter=content>\n<b>\n  one\n\n</b>\n</parameter>\n</function>"
    )
    calls = rescue(text, TOOLS)
    assert calls is not None
    assert json.loads(calls[0].arguments) == {"path": "a.html", "content": "<b>\n  one\n\n</b>"}


@given(
    st.lists(
        st.sampled_from([*WRITTEN_CALLS, *ANSWERS, "{", "}", "[", "<", "`", '"', "\\", ",", " "]), max_size=4
    )
)
def test_nothing_raises_and_what_is_found_fits(parts: list[str]) -> None:
    names = {tool.name for tool in TOOLS}
    for call in rescue("".join(parts), TOOLS) or ():
        assert call.name in names
        assert isinstance(json.loads(call.arguments), dict)


@given(st.text(max_size=80))
def test_arbitrary_text_neither_raises_nor_calls(text: str) -> None:
    assert rescue(text, TOOLS) is None
    may_be_call(text, TOOLS)


def test_a_tool_without_a_schema_does_not_raise() -> None:
    assert rescue(LS, (ToolSpec("terminal", "", {}),)) is None


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("unit", "times"),
    [
        ("{", 1_000_000),
        ("[", 1_000_000),
        ('{"name":', 100_000),
        ('{"function":', 900),
        ("<tool_call>", 100_000),
        ("<function=terminal><parameter=command>", 30_000),
        ("```", 300_000),
        (LS, 20_000),
        ("<tool_call>" + "a" * 1_000_000, 1),
        (" ", 1_000_000),
    ],
    ids=range(10),
)
def test_a_megabyte_of_nonsense_is_no_call(unit: str, times: int) -> None:
    assert rescue(unit * times, TOOLS) is None
