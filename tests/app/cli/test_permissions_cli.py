from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.main import main


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "home"
    workspace = tmp_path / "work"
    workspace.mkdir()
    monkeypatch.setenv("HERMES_HOME", str(root))
    monkeypatch.chdir(workspace)
    return root


def test_a_rule_is_added_and_comments_stay(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home.mkdir()
    file = home / "permissions.yaml"
    file.write_text("# mine\nrules:\n  # never\n  fetch: deny  # no network\n")
    assert main(["permissions", "deny", "terminal(git push *)"]) == 0
    assert file.read_text() == (
        "# mine\nrules:\n  # never\n  fetch: deny  # no network\n  terminal(git push *): deny\n"
    )
    assert file.stat().st_mode & 0o777 == 0o600
    capsys.readouterr()
    assert main(["permissions", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [(row["rule"], row["verdict"], row["line"]) for row in listed["rules"]] == [
        ("fetch", "deny", 4),
        ("terminal(git push *)", "deny", 5),
    ]
    assert listed["mode"] == "normal"


def test_what_lets_more_pass_needs_a_yes(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["permissions", "allow", "terminal(npm run *)"]) == 2
    assert "add --yes" in capsys.readouterr().err
    assert not (home / "permissions.yaml").exists()
    assert main(["permissions", "allow", "terminal(npm run *)", "--yes"]) == 0
    assert main(["permissions", "deny", "terminal(npm run *)"]) == 0
    assert (home / "permissions.yaml").read_text() == "rules:\n  terminal(npm run *): deny\n"
    assert main(["permissions", "ask", "terminal(npm run *)"]) == 2  # milder than before


def test_a_wrong_rule_or_a_broken_file_is_told_and_nothing_is_written(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["permissions", "deny", "termnal(x)"]) == 2
    assert "did you mean `terminal`?" in capsys.readouterr().err
    home.mkdir(exist_ok=True)
    (home / "permissions.yaml").write_text("rules: {nosuch: deny}")
    assert main(["permissions", "deny", "terminal(x)"]) == 2
    assert "Fix that first" in capsys.readouterr().err
    assert (home / "permissions.yaml").read_text() == "rules: {nosuch: deny}"


def test_examples_are_checked(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home.mkdir()
    rule = "rules:\n  terminal(git push *): {verdict: deny, match: [git push, git %s]}\n"
    (home / "permissions.yaml").write_text(rule % "push -f")
    assert main(["permissions", "test"]) == 0
    assert "2 examples checked, all hold." in capsys.readouterr().out
    (home / "permissions.yaml").write_text(rule % "pull")
    assert main(["permissions", "test"]) == 2
    assert "does not cover `git pull`" in capsys.readouterr().out


def test_explain_tells_the_rule_that_decides(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["permissions", "deny", "terminal(git push *)"])
    capsys.readouterr()
    assert main(["permissions", "explain", "--json", "--", "cd x && git  push"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["verdict"] == "deny" and "permissions.yaml line 2" in said["reasons"][0]


def test_trusting_a_project_shows_what_it_allows(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(".hermes")
    folder.mkdir()
    (folder / "permissions.yaml").write_text("rules: {terminal(make): allow}")
    assert main(["config", "trust"]) == 0
    assert "terminal(make): allow" in capsys.readouterr().out
    main(["permissions", "list"])
    assert "terminal(make)" in capsys.readouterr().out
