"""`hermes plugin`: from nothing to a plugin that is installed, changed, agreed to again and removed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.main import main
from tests.support.plugins import write_plugin
from themes.loader import list_skins


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HERMES_HOME", str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


def listed(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["plugin", "list", "--json"]) == 0
    return json.loads(capsys.readouterr().out)["plugins"]


@pytest.mark.thorough
def test_a_plugin_is_begun_tested_installed_changed_and_removed(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plugin", "create", "words"]) == 0
    assert main(["plugin", "test", "words"]) == 0
    assert "3 of 3 passed" in capsys.readouterr().out
    assert main(["plugin", "install", "words"]) == 2
    assert "add --yes" in capsys.readouterr().err
    assert listed(capsys) == [] and not list((home / "plugins").iterdir())

    assert main(["plugin", "install", "words", "--yes"]) == 0
    said = capsys.readouterr().out
    assert "adds tools: words_count" in said and "slash commands: /words" in said
    (row,) = listed(capsys)
    assert row["standing"] == "enabled" and row["registered"]["tools"][0]["name"] == "words_count"
    assert (home / "plugins.json").stat().st_mode & 0o777 == 0o600
    assert (home / "plugins" / "words").stat().st_mode & 0o777 == 0o700

    handler = home / "plugins" / "words" / "handler.py"
    handler.write_text(handler.read_text().replace("words_count", "todo_write"))
    (row,) = listed(capsys)
    assert row["standing"] == "changed" and row["changed"] == ["~ handler.py"]
    (changed,) = row["differences"]
    assert changed["path"] == "handler.py" and '+        "todo_write",' in changed["diff"]
    assert main(["plugin", "enable", "words", "--yes"]) == 0
    said = capsys.readouterr().out
    assert "changed since you agreed:\n    ~ handler.py (+1 -1)\n--- agreed/handler.py\n" in said
    assert changed["diff"].rstrip() in said and "does not declare it" in said
    assert listed(capsys)[0]["differences"] == []
    (texts,) = (home / "plugin-texts").iterdir()
    assert (texts.parent.stat().st_mode | texts.stat().st_mode) & 0o077 == 0

    manifest = home / "plugins" / "words" / "plugin.yaml"
    manifest.write_text(manifest.read_text().replace("words_count", "todo_write"))
    assert main(["plugin", "enable", "words", "--yes"]) == 0
    assert "its name is taken" in capsys.readouterr().out

    assert main(["plugin", "disable", "words"]) == 0
    assert listed(capsys)[0]["standing"] == "disabled"
    assert not list((home / "plugin-texts").iterdir())
    assert main(["plugin", "uninstall", "words"]) == 0
    assert listed(capsys) == []


def test_inspecting_runs_nothing_and_names_what_is_not_used(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "evil"
    folder.mkdir()
    (folder / "plugin.yaml").write_text('name: evil\nversion: "\\e[31m1"\ncapabilities: {hosts: [1]}\n')
    (folder / "handler.py").write_text("open('ran', 'w')")
    assert main(["plugin", "inspect", str(folder), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["components"]["handler"] and found["capabilities"]["hosts"] == []
    assert found["skipped"] == [{"part": "plugin.yaml: capabilities.hosts: 1", "reason": "it is not text"}]
    assert main(["plugin", "inspect", str(folder)]) == 0
    assert "\x1b" not in capsys.readouterr().out
    assert not (tmp_path / "ran").exists() and not (folder / "ran").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["inspect", "nowhere"], "There is no folder"),
        (["install", "not-installed"], "install it with pip"),
        (["install", "./nowhere"], "give one of the two"),
        (["enable", "nobody"], "There is no plugin 'nobody'"),
        (["create", "Not A Name"], "not a plugin name"),
        (["create", "home"], "exists already"),
        (["test", "."], "holds no plugin"),
    ],
)
def test_a_mistake_is_one_sentence(
    home: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(["plugin", *arguments]) == 2
    told = capsys.readouterr().err
    assert said in told and told.count("\n") == 1


def test_a_case_that_fails_says_what_came_instead(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plugin", "create", "words"]) == 0
    cases = tmp_path / "words" / "cases.yaml"
    cases.write_text(cases.read_text().replace("words: 3", "words: 4") + "- {tool: gone, result: 1}\n")
    assert main(["plugin", "test", "words"]) == 1
    said = capsys.readouterr().out
    assert "It gave {'words': 3, 'characters': 13} instead of {'words': 4" in said
    assert "There is no tool gone." in said and "2 of 4 passed" in said


@pytest.mark.thorough
def test_a_command_and_a_skin_of_a_plugin_are_there_until_it_is_disabled(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_plugin(
        tmp_path / "loud",
        "def register(ctx):\n"
        "    ctx.register_cli_command('loud', 'Say it loud.', lambda words: ' '.join(words).upper() or 3)\n"
        "    ctx.register_skin('looks/own-dusk.yaml')\n    ctx.register_skin('looks/paper.yaml')\n",
        **{"looks__own-dusk.yaml": "description: Dusk.\n", "looks__paper.yaml": "description: Taken.\n"},
    )
    assert main(["plugin", "install", str(folder), "--yes"]) == 0
    assert "there is a skin of that name" in capsys.readouterr().out
    assert main(["loud", "hello", "--there"]) == 0
    assert capsys.readouterr().out == "HELLO --THERE\n"
    assert main(["loud"]) == 3
    assert [each.name for each in list_skins(home / "skins") if each.own] == ["own-dusk"]
    assert main(["plugin", "disable", "loud"]) == 0
    assert [each.name for each in list_skins(home / "skins") if each.own] == []
    with pytest.raises(SystemExit):
        main(["loud", "hello"])
