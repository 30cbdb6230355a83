"""The example plugins of the documentation, and servers of plugins among those of a session."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.core.home import Home
from agent.integrations.plugins.cases import read_cases, run_cases
from agent.integrations.plugins.installing import PluginEnvironment
from agent.integrations.plugins.package import PluginServer, read_plugin
from agent.integrations.plugins.session_plugins import BroughtServer
from agent.session.wiring.plugin_servers import plugin_servers

EXAMPLES = sorted(
    path for path in (Path(__file__).parents[4] / "docs" / "plugins").iterdir() if path.is_dir()
)


def test_there_are_two_examples() -> None:
    assert [path.name for path in EXAMPLES] == ["house-style", "word-count"]


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda path: path.name)
async def test_an_example_is_read_whole_and_passes_its_cases(folder: Path, tmp_path: Path) -> None:
    home = Home((tmp_path / "home").resolve())
    (tmp_path / "work").mkdir()
    plugin = read_plugin(folder, tmp_path / "data")
    assert plugin.skipped == () and plugin.handler is not None
    around = PluginEnvironment.of(home, tmp_path / "work", dict(os.environ), "auto")
    registered, results = await run_cases(
        plugin, around.launch(plugin, home.plugin_data / "x"), read_cases(folder)
    )
    assert registered.skipped == ()
    assert [each for each in results if each.wrong] == [] and len(results) >= 3


def test_servers_of_plugins_get_names_of_their_own(tmp_path: Path) -> None:
    def brought(name: str, **fields: object) -> BroughtServer:
        server = PluginServer(name=name, **({"kind": "stdio", "command": "x"} | fields))  # type: ignore[arg-type]
        return BroughtServer("words", tmp_path, tmp_path / "data", server.expand(tmp_path, tmp_path / "data"))

    given = [
        brought("one", args=("${PLUGIN_ROOT}/a",)),
        brought("odd name\x1b", kind="streamable-http", command="", url="https://a.example/mcp"),
        brought("taken"),
        brought("held", args=("${HOME}",)),
    ]
    found, problems = plugin_servers(given, {"words.taken"})
    one, odd = (each.config for each in found)
    assert (one.name, one.transport, one.args) == ("words.one", "stdio", (f"{tmp_path}/a",))
    assert one.readable == (str(tmp_path),) and one.writable == (str(tmp_path / "data"),) and one.sandbox
    assert one.env["PLUGIN_DATA"] == str(tmp_path / "data")
    assert (odd.name, odd.transport) == ("words.odd_name_", "http")
    assert len(problems) == 2 and "name is taken" in problems[0] and "variable" in problems[1]
