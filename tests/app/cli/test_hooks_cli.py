"""`hermes hooks`: what it lists, and agreeing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.main import main

SETTINGS = """hooks:
  before_tool:
    - {command: "check \\e[31m", match: "terminal|mcp__*", required: true}
  session_end:
    - {command: cat}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HERMES_HOME", str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


def test_hooks_are_listed_agreed_to_and_disagreed_with_by_a_change(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "config.yaml").write_text(SETTINGS)
    assert main(["hooks", "list"]) == 0
    out = capsys.readouterr().out
    assert "◆ before_tool [terminal|mcp__*]: check" in out
    assert "\x1b" not in out
    assert main(["hooks", "trust", "--yes"]) == 0
    assert (home / "hooks.json").stat().st_mode & 0o777 == 0o600
    (home / "config.yaml").write_text(SETTINGS.replace("{command: cat}", "{command: tac}"))
    capsys.readouterr()
    assert main(["hooks", "list", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["hooks"]
    assert [(each["event"], each["agreed"]) for each in shown] == [
        ("before_tool", True),
        ("session_end", False),
    ]


def test_without_hooks_there_is_nothing_to_agree_to(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hooks", "list"]) == 0
    assert "no hooks" in capsys.readouterr().out
    assert main(["hooks", "trust", "--yes"]) == 2
    assert "nothing to agree to" in capsys.readouterr().err


def test_nobody_agrees_where_nobody_can_be_asked(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "config.yaml").write_text(SETTINGS)
    assert main(["hooks", "trust"]) == 2
    assert "add --yes" in capsys.readouterr().err
    assert not (home / "hooks.json").exists()


@pytest.mark.parametrize(
    "wrong",
    [
        "{on_fire: [{command: x}]}",
        "{before_tool: [{}]}",
        "{before_tool: x}",
        "{before_tool: [{command: 3}]}",
        "[]",
    ],
)
def test_wrong_hooks_are_named_and_the_other_settings_count(
    home: Path, capsys: pytest.CaptureFixture[str], wrong: str
) -> None:
    (home / "config.yaml").write_text(f"hooks: {wrong}\n")
    assert main(["hooks", "list"]) == 0
    said = capsys.readouterr()
    assert "config.yaml" in said.err
    assert "hooks" in said.err
