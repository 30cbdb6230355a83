from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tool_context import FakeContext
from tools.registry import Registry, call_tool
from tools.results import DeniedError, ToolError
from tools.text.json_text import to_json

NUMBER = {
    "description": "Takes n.",
    "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}},
}


@pytest.fixture
def context(tmp_path: Path) -> FakeContext:
    return FakeContext(tmp_path)


@pytest.fixture
def tools() -> Iterator[Registry]:
    yield Registry()


def add(tools: Registry, name: str, handler: Any = lambda arguments, context: {}, **extra: Any) -> None:
    tools.register(name, extra.pop("toolset", "test"), extra.pop("schema", NUMBER), handler, **extra)


async def test_a_plain_function_runs_off_the_event_loop(tools: Registry, context: FakeContext) -> None:
    add(tools, "where", lambda arguments, context: {"thread": threading.get_ident()})
    assert (await tools.dispatch("where", {}, context))["thread"] != threading.get_ident()


async def test_a_coroutine_function_runs_on_the_event_loop(tools: Registry, context: FakeContext) -> None:
    async def where(arguments: dict[str, Any], context: FakeContext) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"thread": threading.get_ident()}

    add(tools, "where", where)
    assert (await tools.dispatch("where", {}, context))["thread"] == threading.get_ident()


async def test_a_plain_function_that_returns_a_coroutine_is_awaited(
    tools: Registry, context: FakeContext
) -> None:
    async def later() -> dict[str, Any]:
        return {"done": True}

    add(tools, "wrap", lambda arguments, context: later())
    assert await tools.dispatch("wrap", {}, context) == {"done": True}


@pytest.mark.parametrize(("returned", "seen"), [("text", "text"), ([1], [1]), (None, None), (5, 5)])
async def test_a_result_that_is_no_object_is_wrapped(
    tools: Registry, context: FakeContext, returned: Any, seen: Any
) -> None:
    add(tools, "give", lambda arguments, context: returned)
    assert json.loads(await call_tool("give", {}, context, tools)) == {"result": seen}


async def test_a_crashing_handler_becomes_an_error_with_its_type(
    tools: Registry, context: FakeContext
) -> None:
    def crash(arguments: dict[str, Any], context: FakeContext) -> None:
        raise KeyError("nothing here")

    add(tools, "crash", crash)
    answer = json.loads(await call_tool("crash", {}, context, tools))
    assert answer == {"error": "Tool execution failed: KeyError: 'nothing here'"}


async def test_a_refusal_keeps_its_sentence_and_its_fields(tools: Registry, context: FakeContext) -> None:
    def refuse(arguments: dict[str, Any], context: FakeContext) -> None:
        raise DeniedError("Not allowed.", status="blocked", reasons=["why"], error="other")

    add(tools, "refuse", refuse)
    answer = json.loads(await call_tool("refuse", {}, context, tools))
    assert answer == {"error": "Not allowed.", "status": "blocked", "reasons": ["why"]}


async def test_wrong_arguments_do_not_reach_the_handler(tools: Registry, context: FakeContext) -> None:
    called: list[Any] = []
    add(tools, "count", lambda arguments, context: called.append(arguments))
    answer = json.loads(await call_tool("count", {"n": "many"}, context, tools))
    assert "Parameter n" in answer["error"]
    assert not called


async def test_a_tool_can_prepare_its_arguments_without_changing_the_caller_s(
    tools: Registry, context: FakeContext
) -> None:
    def prepare(arguments: dict[str, Any]) -> dict[str, Any]:
        arguments["list"].append(1)
        return {"n": len(arguments["list"])}

    add(tools, "count", lambda arguments, context: arguments, prepare=prepare)
    given_arguments: dict[str, Any] = {"list": []}
    assert await tools.dispatch("count", given_arguments, context) == {"n": 1}
    assert given_arguments == {"list": []}


async def test_an_unknown_tool_is_answered_with_those_that_exist(
    tools: Registry, context: FakeContext
) -> None:
    add(tools, "alpha")
    answer = json.loads(await call_tool("beta", {}, context, tools))
    assert answer == {"error": "Unknown tool: beta. Available: alpha"}


async def test_cancelling_a_call_cancels_its_handler(tools: Registry, context: FakeContext) -> None:
    ended = asyncio.Event()
    began = asyncio.Event()

    async def wait(arguments: dict[str, Any], context: FakeContext) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    add(tools, "wait", wait)
    call = asyncio.create_task(call_tool("wait", {}, context, tools))
    await began.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert ended.is_set()


async def test_circular_results_become_an_error(tools: Registry, context: FakeContext) -> None:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    add(tools, "loop", lambda arguments, context: loop)
    assert json.loads(await call_tool("loop", {}, context, tools))["error"].startswith("Error executing loop")


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


async def test_bottomless_results_become_an_error(tools: Registry, context: FakeContext) -> None:
    add(tools, "deep", lambda arguments, context: {"x": deep(100_000)})
    assert "error" in json.loads(await call_tool("deep", {}, context, tools))


def strict(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise ValueError(constant)

    text.encode("utf-8")
    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ({"x": float("nan")}, {"x": None}),
        ({"x": [float("inf"), 1.5]}, {"x": [None, 1.5]}),
        ({"x": "\ud800"}, {"x": "\ufffd"}),
        ({"x": "\ud83d\ude00"}, {"x": "😀"}),
        ({1: "one", (2, 3): "pair"}, {"1": "one", "(2, 3)": "pair"}),
        ({"x": Path("a")}, {"x": "a"}),
        ({"x": "línea"}, {"x": "línea"}),
    ],
)
def test_results_become_json_that_every_parser_takes(value: Any, read: Any) -> None:
    assert strict(to_json(value)) == read


@given(
    st.recursive(
        st.none() | st.floats() | st.text(st.characters(codec=None), max_size=5) | st.binary(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text(max_size=3) | st.integers() | st.none(), inner, max_size=3)
            | st.tuples(inner)
        ),
        max_leaves=8,
    )
)
def test_any_result_becomes_strict_json(value: Any) -> None:
    strict(to_json({"x": value}))


def test_the_same_list_twice_is_no_circle() -> None:
    shared = [float("nan")]
    assert to_json({"a": shared, "b": shared}) == '{"a": [null], "b": [null]}'


def test_a_tool_whose_check_crashes_is_not_offered(tools: Registry) -> None:
    add(tools, "bad", check_fn=lambda: bool(1 / 0))
    add(tools, "good")
    assert [entry["name"] for entry in tools.definitions(["bad", "good"])] == ["good"]


def test_tools_that_share_a_check_run_it_once(tools: Registry) -> None:
    runs: list[int] = []

    def check() -> bool:
        runs.append(1)
        return True

    add(tools, "a", check_fn=check)
    add(tools, "b", check_fn=check)
    assert len(tools.definitions(["a", "b"])) == 2
    assert len(runs) == 1


def test_a_missing_variable_hides_only_the_tool_that_needs_it(
    tools: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HERMES_TEST_KEY", raising=False)
    add(tools, "needs", requires_env=["HERMES_TEST_KEY"])
    add(tools, "free")
    assert [entry["name"] for entry in tools.definitions(["needs", "free"])] == ["free"]
    monkeypatch.setenv("HERMES_TEST_KEY", "set")
    assert [entry["name"] for entry in tools.definitions(["needs", "free"])] == ["needs", "free"]


def test_definitions_keep_the_order_of_registration(tools: Registry) -> None:
    for name in ("c", "a", "b"):
        add(tools, name)
    assert [entry["name"] for entry in tools.definitions(["a", "b", "c"])] == ["c", "a", "b"]


def test_an_alias_finds_its_tool_and_is_offered_once(tools: Registry) -> None:
    add(tools, "search", aliases=["search_files"])
    entry = tools.get("search_files")
    assert entry is not None and entry.name == "search"
    assert [each["name"] for each in tools.definitions(["search", "search_files"])] == ["search"]


def test_a_name_registered_again_wins_and_is_logged(
    tools: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    add(tools, "x", toolset="one")
    with caplog.at_level(logging.WARNING):
        add(tools, "x", toolset="two")
    entry = tools.get("x")
    assert entry is not None and entry.toolset == "two"
    assert "replaces" in caplog.text


def test_a_removed_tool_takes_its_aliases_along(tools: Registry) -> None:
    add(tools, "x", aliases=["y"])
    tools.remove("x")
    tools.remove("never there")
    assert tools.get("x") is None
    assert tools.get("y") is None


def test_a_patch_sees_what_is_offered_and_cannot_spoil_the_original(tools: Registry) -> None:
    def patch(schema: dict[str, Any], offered: frozenset[str]) -> dict[str, Any]:
        schema["parameters"]["properties"].clear()
        schema["description"] = ",".join(sorted(offered))
        return schema

    add(tools, "x", patch=patch)
    add(tools, "y", check_fn=lambda: False)
    assert tools.definitions(["x", "y"])[0]["description"] == "x"
    assert "n" in NUMBER["parameters"]["properties"]  # type: ignore[index]


def test_a_patch_that_crashes_leaves_the_schema_as_it_was(tools: Registry) -> None:
    def patch(schema: dict[str, Any], offered: frozenset[str]) -> dict[str, Any]:
        schema.clear()
        raise RuntimeError("no")

    add(tools, "x", patch=patch)
    assert tools.definitions(["x"]) == [{"name": "x", **NUMBER}]


async def test_two_raised_errors_of_a_tool_do_not_mix(tools: Registry, context: FakeContext) -> None:
    def fail(arguments: dict[str, Any], context: FakeContext) -> None:
        raise ToolError(f"n is {arguments['n']}")

    add(tools, "fail", fail)
    answers = await asyncio.gather(*(tools.dispatch("fail", {"n": n}, context) for n in range(20)))
    assert [answer["error"] for answer in answers] == [f"n is {n}" for n in range(20)]


def test_a_schema_of_ours_is_sent_without_limits_and_one_of_a_server_as_it_is(tools: Registry) -> None:
    limited = {
        "type": "object",
        "properties": {
            "path": {"type": "string", "default": ".", "maxLength": 9},
            "maximum": {"type": "number"},
        },
        "additionalProperties": False,
    }
    schema = {"description": "Looks.", "parameters": limited}
    add(tools, "ours", schema=schema)
    add(tools, "theirs", schema=schema, traits=("brought",))
    ours, theirs = (tools.definitions([name])[0]["parameters"] for name in ("ours", "theirs"))
    assert ours == {
        "type": "object",
        "properties": {"path": {"type": "string"}, "maximum": {"type": "number"}},
    }
    assert theirs == limited


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"todos": [{"text": "a"}, {"text": "b", "by": 1, "due": 2}]}, "todos[1].by, todos[1].due; todos[1]"),
        ({"todos": [], "by": 1}, "by; this tool"),
        ({"todos": [{"text": "a"}]}, ""),
    ],
)
async def test_what_a_tool_of_ours_does_not_read_is_named_in_its_result(
    tools: Registry, context: FakeContext, given: dict[str, Any], said: str
) -> None:
    item = {"type": "object", "properties": {"text": {"type": "string"}}}
    schema = {"parameters": {"type": "object", "properties": {"todos": {"type": "array", "items": item}}}}
    add(tools, "ours", lambda *_: {"note": "Done."}, schema=schema)
    add(tools, "theirs", lambda *_: {"note": "Done."}, schema=schema, traits=("brought",))
    note = (await tools.dispatch("ours", given, context))["note"]
    assert said in note and note.startswith("Done.") and (bool(said) == ("takes: t" in note))
    assert (await tools.dispatch("theirs", given, context))["note"] == "Done."
