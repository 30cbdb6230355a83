from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from tests.support.mentions import unoffered_mentions
from tools.discovery import discover
from tools.registry import Registry, registry
from tools.toolsets import BUNDLES, members, resolve, unknown_names

DEFAULT = {
    "cronjob",
    "terminal",
    "process",
    "read_file",
    "write_file",
    "patch",
    "search",
    "todo_write",
    "todo_read",
    "canvas",
    "clarify",
    "session_search",
    "recall_folded",
    "checkpoint",
    "memory",
    "save_learning",
    "search_learnings",
    "skills_list",
    "skill_view",
    "skill_manage",
    "delegate_task",
    "subagents",
    "execute_code",
    "web_search",
    "web_extract",
    "web_crawl",
    "vision_analyze",
    "image_generate",
    "text_to_speech",
    "transcribe",
    "homeassistant",
    "send_message",
}


@pytest.fixture(autouse=True)
def real_tools() -> None:
    discover()


def own(*names: str, toolset: str = "own") -> Registry:
    tools = Registry()
    for name in names:
        tools.register(name, toolset, {"description": ""}, lambda arguments, context: {}, bundles=["default"])
    return tools


def test_the_default_set_is_that_of_the_first_edition_with_scripts_checkpoints_and_agents() -> None:
    assert set(resolve(["default"])) == DEFAULT


def test_the_schemas_of_the_default_set_are_small() -> None:
    assert (
        len(json.dumps(registry.definitions(resolve(["default"])), ensure_ascii=False).encode()) <= 20 * 1024
    )


@pytest.mark.parametrize("name", ["all", "*"])
def test_all_means_every_registered_tool(name: str) -> None:
    assert resolve([name]) == tuple(entry.name for entry in registry.entries())
    assert resolve(None) == resolve([name])


def test_nothing_enabled_means_no_tools() -> None:
    assert resolve([]) == ()


def test_toolsets_and_tools_can_be_named_side_by_side() -> None:
    assert set(resolve(["todo", "read_file"])) == {"todo_write", "todo_read", "read_file"}


def test_disabling_wins() -> None:
    assert set(resolve(["default", "terminal"], ["terminal", "patch"])) == DEFAULT - {
        "terminal",
        "process",
        "patch",
    }


def test_the_order_is_that_of_the_registry_whatever_the_setting() -> None:
    assert resolve(["session_search", "clarify", "todo"]) == resolve(["todo", "session_search", "clarify"])


@pytest.mark.parametrize(
    ("name", "tools"),
    [
        ("file_tools", {"read_file", "write_file", "patch", "search"}),
        ("terminal_tools", {"terminal", "process"}),
        ("code_execution", {"execute_code"}),
        ("delegation", {"delegate_task", "subagents"}),
        ("todo", {"todo_write", "todo_read"}),
        ("todo_tools", {"todo_write", "todo_read"}),
        ("search_files", {"search"}),
        ("hermes-cli", DEFAULT),
    ],
)
def test_names_of_earlier_editions_still_work(name: str, tools: set[str]) -> None:
    discover()
    assert set(resolve([name])) == tools


def test_the_safe_set_changes_nothing() -> None:
    assert not {"terminal", "process", "write_file", "patch"} & set(resolve(["safe"]))


def test_an_unknown_name_is_a_warning_and_no_crash(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert set(resolve(["todo", "tood"], ["nonsense"])) == {"todo_write", "todo_read"}
    assert "tood" in caplog.text and "nonsense" in caplog.text
    assert unknown_names(["todo", "tood", "", "patch"]) == ("tood", "")


def test_a_tool_belongs_to_the_toolset_it_registered_under() -> None:
    tools = own("mcp__git__log", "mcp__git__show", toolset="git")
    assert resolve(["git"], ["mcp__git__show"], tools) == ("mcp__git__log",)


def test_tools_that_are_not_registered_do_not_come_out() -> None:
    assert resolve(["default"], (), own("patch")) == ("patch",)
    assert members("safe", own("clarify")) == ()
    assert members("file", own("clarify")) is None
    assert members("nothing", own("clarify")) is None


def test_every_registered_tool_is_in_its_toolset_and_bundles_that_are_known() -> None:
    for entry in registry.entries():
        assert entry.name in (members(entry.toolset) or ()), entry.name
        assert set(entry.bundles) <= set(BUNDLES)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("Then use read_file.", ["read_file"]),
        ("my_read_file and read_files differ", []),
        ("Use search to find it", ["search"]),
        ("prefer the `search` form", ["search"]),
        ("the search tool", ["search"]),
        ("Text to search for", []),
        ("a research tool", []),
        ("call search; see patch", ["patch", "search"]),
    ],
)
def test_mentions_are_told_from_plain_words(text: str, named: list[str]) -> None:
    definitions: list[dict[str, Any]] = [
        {"name": "x", "description": "", "parameters": {"properties": {"y": {"description": text}}}}
    ]
    found = unoffered_mentions(definitions, ["patch", "read_file", "search", "x"])
    assert found == [("x", name) for name in named]


def test_a_tool_may_name_itself_and_those_on_offer() -> None:
    definitions = [{"name": "a_b", "description": "a_b and c_d"}, {"name": "c_d", "description": ""}]
    assert unoffered_mentions(definitions, ["a_b", "c_d"]) == []


@pytest.mark.sample(12)
@pytest.mark.parametrize("removed", sorted(DEFAULT))
def test_no_description_names_a_tool_that_was_taken_away(removed: str) -> None:
    offered = registry.definitions(registry.names() - {removed})
    assert unoffered_mentions(offered, registry.names()) == []


@pytest.mark.parametrize("kept", sorted(DEFAULT))
def test_a_tool_that_is_alone_names_no_other(kept: str) -> None:
    assert unoffered_mentions(registry.definitions([kept]), registry.names()) == []


def test_every_parameter_has_a_type_and_every_tool_a_description() -> None:
    for definition in registry.definitions(registry.names()):
        assert definition["description"].strip(), definition["name"]
        parameters = definition["parameters"]
        assert parameters["type"] == "object"
        for name, spec in parameters["properties"].items():
            assert "type" in spec, f"{definition['name']}.{name}"
            assert spec["type"] != "array" or "type" in spec["items"], f"{definition['name']}.{name}"
        assert set(parameters.get("required", ())) <= set(parameters["properties"])


def test_each_tool_says_how_its_call_looks() -> None:
    discover()
    for entry in registry.entries():
        assert entry.describe is not None, entry.name
