"""Arguments and names of calls, fixed or refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.model.calls.repair import TRUNCATED, repair_arguments, repair_name, without_surrogates

OFFERED = (
    "terminal",
    "process",
    "read_file",
    "write_file",
    "patch",
    "search",
    "todo_write",
    "todo_read",
    "clarify",
    "session_search",
)

LEAVES = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(), VALUES, max_size=5)


def mended(raw: str) -> Any:
    text, reason = repair_arguments(raw)
    assert text is not None, reason
    assert reason != TRUNCATED
    return json.loads(text)


@pytest.mark.parametrize(
    ("raw", "meant"),
    [
        ("", {}),
        ("   \n", {}),
        ("null", {}),
        ("{}", {}),
        ('{"a": 1,}', {"a": 1}),
        ('{"a": [1, 2,],}', {"a": [1, 2]}),
        ("{'a': 'b'}", {"a": "b"}),
        ("{'a': True, 'b': None, 'c': False}", {"a": True, "b": None, "c": False}),
        ('{"a": "one\ntwo\ttabs"}', {"a": "one\ntwo\ttabs"}),
        ('{"a": "bell\x07"}', {"a": "bell\x07"}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        (json.dumps(json.dumps(json.dumps({"a": 'x"y'}))), {"a": 'x"y'}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('```\n{"a": "```"}\n```', {"a": "```"}),
        ('{"a": 1}}', {"a": 1}),
        ('{"a": 1} I hope this helps.', {"a": 1}),
        ('{"a": 1}</tool_call>', {"a": 1}),
        ('{"a": NaN, "b": -Infinity}', {"a": None, "b": None}),
        ('{"a": 1, "a": 2}', {"a": 2}),
        ("{“a”: “b”}", {"a": "b"}),
        ('{"a": "“quoted”"}', {"a": "“quoted”"}),
        ('\ufeff{"a": 1}', {"a": 1}),
        ('{a: 1, b_c: "x"}', {"a": 1, "b_c": "x"}),
        ('{"a": 1\n "b": 2}', {"a": 1, "b": 2}),
        ('{"a": "x"\n "b": "y"}', {"a": "x", "b": "y"}),
        ('{"a": "\\d+\\w"}', {"a": "\\d+\\w"}),
        ('{"a": "it\\\'s"}', {"a": "it's"}),
        ('{"a": +1, "b": .5, "c": 5.}', {"a": 1, "b": 0.5, "c": 5.0}),
        ('// the call\n{"a": /* one */ 1}', {"a": 1}),
        ('{}{"a": 1}', {"a": 1}),
        ('{"a": 1}{"a": 1}', {"a": 1}),
        ('{"a": "\\ud83d\\ude00"}', {"a": "😀"}),
        ('{"a": "\\ud83d"}', {"a": "\ufffd"}),
        ('{"a": "\ud83d\ude00 \udc00"}', {"a": "😀 \ufffd"}),
    ],
)
def test_what_has_one_plain_reading_is_mended(raw: str, meant: dict[str, Any]) -> None:
    assert mended(raw) == meant


@pytest.mark.parametrize(
    "raw",
    [
        '{"path": "a.py", "content": "print(1',
        '{"command": "rm -rf /tmp/x',
        '{"command": "ls"',
        '{"command": "ls", ',
        '{"command": "ls", "timeout',
        '{"command": "ls", "timeout": ',
        '{"command": "ls", "background": tr',
        '{"todos": [{"id": "1"}, {"id": "2"',
        '{"a": "x\\',
        '{"a": "x\\u00',
        "{",
        '```json\n{"command": "ls',
    ],
)
def test_arguments_without_an_end_are_closed_and_marked(raw: str) -> None:
    text, reason = repair_arguments(raw)
    assert reason == TRUNCATED
    assert text is not None
    assert isinstance(json.loads(text), dict)


def test_what_came_before_the_cut_is_kept() -> None:
    text, _ = repair_arguments('{"path": "a.py", "content": "line 1\\nli')
    assert json.loads(text or "") == {"path": "a.py", "content": "line 1\nli"}


@pytest.mark.parametrize(
    "raw",
    [
        '{"command": "echo "hi" there"}',
        '{"command": "echo "}" > a"}',
        '{"content": "if x { print("}") }"}',
        '{"content": "say "a", "b" and "c""}',
        "{'a': 'it's'}",
        '{"mode": 0644}',
        '{"a": 1.2.3}',
        '{"path": foo.txt}',
        '{"a": 1}{"b": 2}',
        '{"a": \\"x\\"}',
        "[1, 2]",
        '["a"]',
        '"some text"',
        "5",
        "true",
        "ls -l",
        "<parameter=x>",
    ],
)
def test_what_is_doubtful_is_refused_with_a_sentence(raw: str) -> None:
    text, reason = repair_arguments(raw)
    assert text is None
    assert reason.endswith(".")
    assert "JSON object" in reason


def test_numbers_and_nesting_beyond_all_use_are_refused() -> None:
    assert repair_arguments('{"a": ' * 300 + "1" + "}" * 300)[0] is None
    assert repair_arguments('{"a": ' + "9" * 6000 + "}")[0] is None
    assert repair_name("a" * 9999, OFFERED) is None


@pytest.mark.thorough
@given(OBJECTS, st.sampled_from([None, 2]), st.booleans())
def test_valid_json_is_never_changed(value: dict[str, Any], indent: int | None, ascii_only: bool) -> None:
    raw = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert repair_arguments(raw) == (raw, "")


@pytest.mark.thorough
@given(OBJECTS)
def test_python_literals_mean_what_python_means(value: dict[str, Any]) -> None:
    plain = json.loads(json.dumps(value))
    raw = repr(plain)
    if "\\x" in raw or "\\U" in raw:
        return
    text, reason = repair_arguments(raw)
    assert text is not None, reason
    assert json.loads(text) == plain


@pytest.mark.thorough
@given(OBJECTS.filter(bool), st.data())
def test_every_beginning_of_an_object_is_truncated_or_refused(
    value: dict[str, Any], data: st.DataObject
) -> None:
    raw = json.dumps(value)
    cut = raw[: data.draw(st.integers(1, len(raw) - 1))]
    text, reason = repair_arguments(cut)
    assert text is None or reason == TRUNCATED


@pytest.mark.thorough
@given(st.text(alphabet="{}[]\"'\\:, \nabtrueN01.-“”`/*", max_size=60) | st.text(max_size=60))
def test_nothing_raises_and_every_result_is_an_object(raw: str) -> None:
    text, reason = repair_arguments(raw)
    if text is None:
        assert reason
    else:
        assert isinstance(json.loads(text), dict)
        text.encode()
        assert repair_arguments(text) == (text, "")


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("begin", "unit", "times"),
    [
        ("", "{", 1_000_000),
        ("", "[", 1_000_000),
        ("", '{"a":', 200_000),
        ("", '"', 1_000_000),
        ('{"a": "', "\\", 1_000_000),
        ("", "`", 1_000_000),
        ("x", " ", 1_000_000),
        ("", '{"a": 1}', 120_000),
        ("", "/*", 500_000),
    ],
)
def test_a_megabyte_of_nonsense_comes_to_an_end(begin: str, unit: str, times: int) -> None:
    text, reason = repair_arguments(begin + unit * times)
    assert text is None or reason == TRUNCATED


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("read_file", "read_file"),
        ("ReadFile", "read_file"),
        ("read-file", "read_file"),
        ("Read File", "read_file"),
        ("readFile", "read_file"),
        ("read_file_tool", "read_file"),
        ("TodoWriteTool", "todo_write"),
        ("functions.read_file", "read_file"),
        ("functions.terminal:0", "terminal"),
        ("default_api:read_file", "read_file"),
        ("tools/patch", "patch"),
        ("terminal<|channel|>json", "terminal"),
        ("`terminal`", "terminal"),
        ("terminal()", "terminal"),
        ("TERMINAL", "terminal"),
        ("reed_file", "read_file"),
        ("raed_file", "read_file"),
        ("termnal", "terminal"),
        ("serch", "search"),
        ("bash", "terminal"),
        ("search_files", "search"),
    ],
)
def test_a_name_that_plainly_means_a_tool_is_read_as_it(name: str, meant: str) -> None:
    assert repair_name(name, OFFERED) == meant


@pytest.mark.parametrize(
    "name", ["", " ", "todo", "write", "file", "delete_file", "x", "send_email", "_", "a" * 9999]
)
def test_a_name_that_may_mean_anything_is_not_read(name: str) -> None:
    assert repair_name(name, OFFERED) is None


def test_a_wrong_letter_never_leads_to_the_tool_of_another_server() -> None:
    offered = ("mcp__s__boom", "mcp__github__list")
    assert repair_name("mcp__p__boom", offered) is None
    assert repair_name("mcp__github__lists", offered) == "mcp__github__list"
    assert repair_name("mcp_github_list", offered) == "mcp__github__list"


def test_two_tools_equally_near_are_none() -> None:
    assert repair_name("save_fila", ("save_file", "save_fill")) is None
    assert repair_name("readfile", ("read_file", "ReadFile")) is None


def test_an_alias_counts_only_if_its_tool_is_on_offer() -> None:
    assert repair_name("bash", ("read_file",)) is None
    assert repair_name("peek", OFFERED, {"peek": "read_file"}) == "read_file"
    assert repair_name("bash", ("bash", "terminal")) == "bash"


@given(st.text(max_size=40), st.lists(st.text(max_size=20), max_size=5))
def test_a_name_is_an_offered_one_or_none(name: str, offered: list[str]) -> None:
    found = repair_name(name, offered)
    assert found is None or found in offered
    if name in offered:
        assert found == name


@given(
    st.text(alphabet=st.characters(), max_size=20) | st.text(alphabet="\ud800\udbff\udc00\udfffa", max_size=8)
)
def test_halves_of_pairs_are_joined_or_replaced(text: str) -> None:
    clean = without_surrogates(text)
    clean.encode()
    if not any("\ud800" <= char <= "\udfff" for char in text):
        assert clean == text
