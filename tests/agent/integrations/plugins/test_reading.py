"""Reading plugins: what is taken of a folder, what is not, and why."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.integrations.plugins.files import SCHEMA, PluginError
from agent.integrations.plugins.package import SCHEMA as MCP_SCHEMA
from agent.integrations.plugins.package import PluginPackage, read_plugin

SKILL = "---\nname: {}\ndescription: About it.\n---\nDo it.\n"


def write(root: Path, files: dict[str, Any]) -> Path:
    """Files by name: text, or JSON; `-> target` is a link."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str) and content.startswith("-> "):
            path.symlink_to(content.removeprefix("-> "))
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return root


def manifest(**fields: Any) -> dict[str, Any]:
    return {"$schema": SCHEMA, "name": "tools-of-ana", **fields}


def servers(**entries: Any) -> dict[str, Any]:
    return {"$schema": MCP_SCHEMA, "mcpServers": entries}


def read(root: Path) -> PluginPackage:
    return read_plugin(root, root.parent / "data")


def reasons(plugin: PluginPackage) -> dict[str, str]:
    return {each.part: each.reason for each in plugin.skipped}


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"$schema": None}, "$schema"),
        ({"$schema": "https://agent-plugins.org/schemas/9.0.0/plugin.schema.json"}, "9.0.0"),
        *(
            ({"name": name}, "name")
            for name in ("", "My-Plugin", "-a", "a-", "a--b", "a..b", "a_b", ".a", "a" * 65, 3, None)
        ),
        ({"version": 1}, "version"),
        ({"description": []}, "description"),
        ({"license": {}}, "license"),
        ({"author": "Ana"}, "author"),
        ({"author": {"phone": "1"}}, "author.phone"),
        ({"author": {"name": 1}}, "author.name"),
        ({"keywords": ["a", 1]}, "keywords"),
    ],
)
def test_a_manifest_that_breaks_a_rule_rejects_the_plugin_and_is_named(
    tmp_path: Path, fields: dict[str, Any], complaint: str
) -> None:
    root = write(tmp_path / "p", {"plugin.json": manifest(**fields), "skills/a/SKILL.md": SKILL.format("a")})
    with pytest.raises(PluginError, match=r"plugin\.json") as error:
        read(root)
    assert complaint in str(error.value)


@pytest.mark.parametrize("content", ["", "[]", "{", "nul\0l", "[" * 100_000, '{"a": NaN'])
def test_a_manifest_that_is_no_json_object_rejects_the_plugin(tmp_path: Path, content: str) -> None:
    with pytest.raises(PluginError):
        read(write(tmp_path / "p", {"plugin.json": content}))


@pytest.mark.parametrize(
    "fields",
    [
        {"version": "not semantic", "homepage": "no address", "license": "none of SPDX", "repository": ""},
        {"author": {"email": "no address", "url": "x"}, "keywords": []},
        {"extensions": {"com.example": [1, 2], "org.else": None}},
        {"name": "a"},
        {"name": "acme.tools-2"},
    ],
)
def test_what_the_format_does_not_forbid_is_no_fault(tmp_path: Path, fields: dict[str, Any]) -> None:
    assert read(write(tmp_path / "p", {"plugin.json": manifest(**fields)})).skipped == ()


@pytest.mark.parametrize(
    ("fields", "part"),
    [
        ({"hooks": {}}, "plugin.json: hooks"),
        ({"mcpServers": {}}, "plugin.json: mcpServers"),
        ({"extensions": []}, "plugin.json: extensions"),
    ],
)
def test_an_unknown_field_is_named_and_the_rest_is_used(
    tmp_path: Path, fields: dict[str, Any], part: str
) -> None:
    plugin = read(
        write(tmp_path / "p", {"plugin.json": manifest(**fields), "skills/a/SKILL.md": SKILL.format("a")})
    )
    assert list(reasons(plugin)) == [part]
    assert [each.name for each in plugin.skills] == ["a"]


def test_skills_lie_right_below_their_folder_and_bad_ones_are_skipped(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside", {"SKILL.md": SKILL.format("evil")})
    root = write(
        tmp_path / "p",
        {
            "plugin.json": manifest(),
            "skills/good/SKILL.md": SKILL.format("good"),
            "skills/good/references/deeper/SKILL.md": SKILL.format("deeper"),
            "skills/other-name/SKILL.md": SKILL.format("good2"),
            "skills/no-head/SKILL.md": "Do it.",
            "skills/no-skill/README.md": "Hello.",
            "skills/small/skill.md": SKILL.format("small"),
            "skills/evil": f"-> {outside}",
            "skills/link/SKILL.md": f"-> {outside}/SKILL.md",
            "skills/folder/SKILL.md/x": "",
        },
    )
    plugin = read(root)
    assert [each.name for each in plugin.skills] == ["good"]
    assert set(reasons(plugin)) == {
        f"skills/{name}" for name in ("other-name", "no-head", "evil", "link", "folder")
    }
    assert "leads out of the plugin" in reasons(plugin)["skills/link"]


@pytest.mark.parametrize(
    ("files", "part"),
    [
        ({"skills": "a file"}, "skills"),
        ({"skills": "-> /etc"}, "skills"),
        ({"mcp.json/x": ""}, "mcp.json"),
        ({"mcp.json": "-> /etc/passwd"}, "mcp.json"),
        ({"mcp.json": "-> nowhere"}, "mcp.json"),
        ({"mcp.json": "{"}, "mcp.json"),
        ({"mcp.json": {"mcpServers": {}}}, "mcp.json"),
        ({"mcp.json": {"$schema": SCHEMA, "mcpServers": {}}}, "mcp.json"),
        ({"mcp.json": {"$schema": MCP_SCHEMA, "mcpServers": []}}, "mcp.json"),
        ({"mcp.json": {**servers(), "more": 1}}, "mcp.json"),
        ({"dev.hermes-tui": "a file"}, "dev.hermes-tui"),
        ({"dev.hermes-tui": "-> /etc"}, "dev.hermes-tui"),
        (
            {"dev.hermes-tui/plugin.yaml": "a: [", "dev.hermes-tui/handler.py": ""},
            "dev.hermes-tui/plugin.yaml",
        ),
        ({"dev.hermes-tui/handler.py": "-> /etc/passwd"}, "dev.hermes-tui/handler.py"),
        ({"dev.hermes-tui/hooks.yaml": "[]"}, "dev.hermes-tui/hooks.yaml"),
    ],
)
def test_a_part_that_is_wrong_disables_no_other_one(tmp_path: Path, files: dict[str, Any], part: str) -> None:
    good: dict[str, Any] = {
        "plugin.json": manifest(),
        "mcp.json": servers(one={"type": "stdio", "command": "x"}),
        "skills/good/SKILL.md": SKILL.format("good"),
    }
    kept = {name: value for name, value in good.items() if part not in name}
    plugin = read(write(tmp_path / "p", kept | files))
    assert list(reasons(plugin)) == [part]
    assert len(plugin.skills) == ("skills" not in part)
    assert len(plugin.servers) == ("mcp.json" not in part)
    assert plugin.handler is None


def test_a_manifest_outside_of_the_plugin_rejects_it(tmp_path: Path) -> None:
    write(tmp_path, {"other.json": manifest()})
    with pytest.raises(PluginError, match="leads out of the plugin"):
        read(write(tmp_path / "p", {"plugin.json": "-> ../other.json"}))


GOOD_SERVERS = {
    "bare": {"type": "stdio", "command": "node", "args": ["${PLUGIN_ROOT}/x", "${HOME}", "$PLUGIN_ROOT"]},
    "own": {
        "type": "stdio",
        "command": "./bin/probe token",
        "cwd": "./data",
        "env": {"A": "${PLUGIN_DATA}/b"},
    },
    "rooted": {"type": "stdio", "command": "x", "cwd": "${PLUGIN_ROOT}/sub"},
    "kept": {"type": "stdio", "command": "x", "cwd": "${PLUGIN_DATA}"},
    "far": {"type": "streamable-http", "url": "https://a.example/mcp", "headers": {"X-Tenant": "public"}},
    "near": {"type": "streamable-http", "url": "http://127.0.0.1:3000/mcp"},
    "named": {"type": "sse", "url": "http://localhost:3000/sse"},
    "six": {"type": "sse", "url": "http://[::1]:3000/sse"},
}
BAD_SERVERS = {
    "untyped": {"command": "x"},
    "odd": {"type": "websocket", "url": "wss://a.example"},
    "mixed": {"type": "stdio", "command": "x", "url": "https://a.example"},
    "listed": {"type": ["stdio"], "command": "x"},
    "more": {"type": "stdio", "command": "x", "shell": True},
    "none": {"type": "stdio"},
    "line": {"type": "stdio", "command": "node server.js"},
    "above": {"type": "stdio", "command": "../bin/x"},
    "absolute": {"type": "stdio", "command": "/bin/sh"},
    "relative": {"type": "stdio", "command": "bin/x"},
    "placeheld": {"type": "stdio", "command": "${PLUGIN_ROOT}/x"},
    "linked": {"type": "stdio", "command": "./escape"},
    "folder": {"type": "stdio", "command": "./bin"},
    "args": {"type": "stdio", "command": "x", "args": "a b"},
    "env": {"type": "stdio", "command": "x", "env": {"A": 1}},
    "reserved": {"type": "stdio", "command": "x", "env": {"PLUGIN_ROOT": "/"}},
    "reserved2": {"type": "stdio", "command": "x", "env": {"PLUGIN_DATA": "/"}},
    "cwd": {"type": "stdio", "command": "x", "cwd": "data"},
    "cwd2": {"type": "stdio", "command": "x", "cwd": "./../.."},
    "cwd3": {"type": "stdio", "command": "x", "cwd": "${PLUGIN_DATA}/../.."},
    "cwd4": {"type": "stdio", "command": "x", "cwd": "${PLUGIN_ROOT}x"},
    "cwd5": {"type": "stdio", "command": "x", "cwd": ""},
    "plain": {"type": "streamable-http", "url": "http://a.example/mcp"},
    "user": {"type": "streamable-http", "url": "https://u:p@a.example/mcp"},
    "fragment": {"type": "streamable-http", "url": "https://a.example/mcp#x"},
    "scheme": {"type": "sse", "url": "ftp://a.example"},
    "nowhere": {"type": "sse", "url": "/mcp"},
    "twice": {"type": "sse", "url": "https://a.example", "headers": {"A": "1", "a": "2"}},
    "split": {"type": "sse", "url": "https://a.example", "headers": {"A": "1\r\nB: 2"}},
    "header": {"type": "sse", "url": "https://a.example", "headers": {"A B": "1"}},
    "near-by-name": {"type": "sse", "url": "http://localhost.example/sse"},
    "text": "x",
}


def test_each_server_is_read_by_itself(tmp_path: Path) -> None:
    root = write(
        tmp_path / "p",
        {
            "plugin.json": manifest(),
            "mcp.json": servers(**GOOD_SERVERS, **BAD_SERVERS),
            "bin/probe token": "",
            "data/x": "",
            "escape": "-> /bin/sh",
        },
    )
    plugin = read(root)
    assert [each.name for each in plugin.servers] == list(GOOD_SERVERS)
    assert set(reasons(plugin)) == {f"mcp.json: {name}" for name in BAD_SERVERS}


def test_placeholders_are_replaced_once_and_both_variables_are_set_last(tmp_path: Path) -> None:
    entry = {
        "type": "stdio",
        "command": "x",
        "args": ["${PLUGIN_ROOT}:${PLUGIN_DATA}", "${OTHER}", "${PLUGIN_ROOT"],
        "env": {"A": "${PLUGIN_DATA}/a", "${PLUGIN_ROOT}": "b"},
        "cwd": "${PLUGIN_DATA}/sub",
    }
    root = write(tmp_path / "${PLUGIN_DATA}", {"plugin.json": manifest(), "mcp.json": servers(one=entry)})
    data = (tmp_path / "data").resolve()
    (server,) = [each.expand(root.resolve(), data) for each in read(root).servers]
    assert server.args == (f"{root.resolve()}:{data}", "${OTHER}", "${PLUGIN_ROOT")
    assert server.env == {
        "A": f"{data}/a",
        "${PLUGIN_ROOT}": "b",
        "PLUGIN_ROOT": str(root.resolve()),
        "PLUGIN_DATA": str(data),
    }
    assert server.cwd == f"{data}/sub"
    plain = read(
        write(tmp_path / "q", {"plugin.json": manifest(), "mcp.json": servers(a=GOOD_SERVERS["bare"])})
    )
    assert plain.servers[0].expand(plain.root, data).cwd == str(plain.root)


EXTRAS = """\
name: short-one
version: 2
description: "Red \\e[31m text"
in_process: maybe
colour: red
capabilities:
  tools: [good_one, "bad one", 3]
  paths: {read: [".", "~/notes", "*.md"], write: x, execute: [a]}
  hosts: [api.example.org, "https://a.example/x"]
  events: [before_tool, on_fire]
  env: [EXAMPLE_KEY, PYTHONPATH, "a b"]
  spaceships: 1
"""


@pytest.mark.parametrize("form", ["short", "agent-plugin"])
def test_both_forms_are_read_as_the_same_and_what_is_wrong_is_not_granted(tmp_path: Path, form: str) -> None:
    prefix = "" if form == "short" else "dev.hermes-tui/"
    files: dict[str, Any] = {
        f"{prefix}plugin.yaml": EXTRAS,
        f"{prefix}handler.py": "def register(ctx): ...",
        f"{prefix}hooks.yaml": "before_tool:\n- {command: check}\n- {command: 3}\non_fire: []\n",
        "skills/good/SKILL.md": SKILL.format("good"),
    }
    if form == "agent-plugin":
        files["plugin.json"] = manifest()
    plugin = read(write(tmp_path / "p", files))
    assert plugin.name == ("short-one" if form == "short" else "tools-of-ana")
    assert plugin.form == form and plugin.version == "2" and plugin.description == "Red text"
    assert plugin.handler is not None and not plugin.in_process
    assert [each.command for each in plugin.hooks] == ["check"]
    granted = plugin.capabilities
    assert granted.tools == ("good_one",) and granted.read == (".", "~/notes") and granted.write == ()
    assert granted.hosts == ("api.example.org",) and granted.events == ("before_tool",)
    assert granted.env == ("EXAMPLE_KEY",)
    begin = f"{prefix}plugin.yaml: "
    assert {each.removeprefix(begin) for each in reasons(plugin) if each.startswith(begin)} == {
        "in_process",
        "colour",
        "capabilities.tools: bad one",
        "capabilities.tools: 3",
        "capabilities.paths.read: *.md",
        "capabilities.paths.write",
        "capabilities.paths.execute",
        "capabilities.hosts: https://a.example/x",
        "capabilities.events: on_fire",
        "capabilities.env: PYTHONPATH",
        "capabilities.env: a b",
        "capabilities.spaceships",
    }
    assert {f"{prefix}hooks.yaml: before_tool 2", f"{prefix}hooks.yaml: on_fire"} <= set(reasons(plugin))


def _nothing(root: Path) -> None:
    root.mkdir()


def _a_file(root: Path) -> None:
    root.write_text("")


def _no_name(root: Path) -> None:
    write(root, {"plugin.yaml": "version: 1\n", "handler.py": ""})


def _aliases(root: Path) -> None:
    write(root, {"plugin.yaml": "a: &a [x, x]\nb: &b [*a, *a]\nname: [*b, *b]\n"})


@pytest.mark.parametrize("make", [lambda root: None, _nothing, _a_file, _no_name, _aliases])
def test_what_is_no_plugin_is_said_in_a_sentence(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "p")
    with pytest.raises(PluginError) as error:
        read(tmp_path / "p")
    assert str(error.value).endswith(".") and "\n" not in str(error.value)
