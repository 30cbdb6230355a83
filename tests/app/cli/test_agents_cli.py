"""`hermes agents`, and what `hermes config trust` says of the agents of a project."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent.errors import ExitCode
from app.main import main
from app.tui.screens.agents.agent_files import with_name


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path / "home"))
    (tmp_path / "work" / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def write(folder: Path, name: str, front: str = "description: Does it.", body: str = "Do it.") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.md"
    path.write_text(f"---\n{front}\n---\n{body}\n")
    return path


def test_the_list_names_every_kind_where_it_is_from_and_what_is_wrong(
    places: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(places / "home" / "agents", "mine")
    write(places / "home" / "agents", "broken", "nonsense: 1")
    write(places / "home" / "agents", "far", "description: x\nmodel: nobody-sells-this")
    write(places / "work" / ".hermes" / "agents", "theirs")
    assert main(["agents", "list"]) == ExitCode.DONE
    out = capsys.readouterr().out
    assert "explorer  Finds out how" in out
    assert "mine      Does it.   (yours)" in out
    assert "broken    cannot be sent, see `hermes agents check`   (yours)" in out
    assert "far       x   (yours; has problems, see `hermes agents check`)" in out
    assert main(["agents", "list", "--json"]) == ExitCode.DONE
    rows = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    assert rows["mine"]["source"] == "yours" and rows["mine"]["isolation"] == "shared"
    assert rows["broken"]["problems"] and rows["far"]["problems"] and "theirs" not in rows
    assert main(["agents", "show", "mine", "--json"]) == ExitCode.DONE
    assert json.loads(capsys.readouterr().out)["instructions"] == "Do it."
    assert "theirs" not in out and "which were not read; see `hermes config trust`." in out


def test_check_names_file_field_and_mend_and_ends_with_2(
    places: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(places / "home" / "agents", "broken", "description: x\nisolation: none")
    write(places / "home" / "agents", "odd", "description: x\ntools: [flie]")
    assert main(["agents", "check"]) == ExitCode.USAGE
    out = capsys.readouterr().out
    assert "✗ agents/broken.md line 3, column 12: `isolation` must be shared, readonly or copy." in out
    assert "▲ odd: `tools` names flie, which is not a toolset or tool here" in out
    assert "✓ reviewer" in out
    assert main(["agents", "check", "reviewer"]) == ExitCode.DONE


def test_a_file_can_be_checked_before_it_is_put_in_place(
    places: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(places / "drafts", "draft")
    assert main(["agents", "check", str(path)]) == ExitCode.DONE
    path.write_text("x")
    assert main(["agents", "check", str(path)]) == ExitCode.USAGE
    assert "the first line must be" in capsys.readouterr().out


def test_show_tells_limits_and_instructions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agents", "show", "@reviewer"]) == ExitCode.DONE
    out = capsys.readouterr().out
    assert "reviewer (built-in): " in out and "file, session, todo · readonly · 40 requests" in out
    assert "You review code that somebody else wrote." in out
    assert main(["agents", "show", "reviwer"]) == ExitCode.USAGE
    assert "There is no kind of agent `reviwer`; did you mean `reviewer`?" in capsys.readouterr().err


def test_new_writes_a_private_file_that_is_sound_and_never_over_another(
    places: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["agents", "new", "helper"]) == ExitCode.DONE
    path = places / "home" / "agents" / "helper.md"
    assert path.stat().st_mode & 0o777 == 0o600
    assert main(["agents", "check", "helper"]) == ExitCode.DONE
    assert main(["agents", "new", "helper"]) == ExitCode.USAGE
    assert "is there already" in capsys.readouterr().err
    assert main(["agents", "new", "../x"]) == ExitCode.USAGE
    assert "is not a name for an agent" in capsys.readouterr().err


def test_new_can_start_from_another_kind(places: Path) -> None:
    assert main(["agents", "new", "my-reviewer", "--from", "reviewer"]) == ExitCode.DONE
    assert main(["agents", "check", "my-reviewer"]) == ExitCode.DONE
    text = (places / "home" / "agents" / "my-reviewer.md").read_text()
    assert "name: my-reviewer\n" in text and "isolation: readonly" in text


def test_only_the_field_is_renamed() -> None:
    assert with_name("---\nname: a\n---\nname: x\n", "b") == "---\nname: b\n---\nname: x\n"
    assert with_name("---\ntools: []\n---\nname: x\n", "b") == "---\ntools: []\n---\nname: x\n"
    assert with_name("nothing", "b") == "nothing"


def test_trust_shows_the_agents_of_a_project_and_lets_them_in(
    places: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = places / "work" / ".hermes" / "agents"
    write(folder, "theirs", "description: Ours\nisolation: readonly")
    write(folder, "hidden", 'description: "Ours \\e[31m"')
    write(folder, "bad", "x: 1")
    (folder / "out.md").symlink_to("/etc/hostname")
    assert main(["config", "trust"]) == ExitCode.DONE
    out = capsys.readouterr().out
    assert "theirs: Ours" in out and "(all tools of its sender · readonly)" in out
    assert "holds characters that cannot be seen" in out
    assert "✗ agents/bad.md line 2" in out and "✗ agents/out.md: it is not read: it leads out of" in out
    assert "\x1b" not in out
    assert main(["agents", "list"]) == ExitCode.DONE
    listed = capsys.readouterr().out
    assert "(project)" in listed and "\x1b" not in listed
