"""`hermes skins`, as a person types it."""

from __future__ import annotations

import json
import os
import pty
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.main import main
from app.tui.screens.skins.skin_files import sample
from themes.loader import builtin_names, load_skin
from themes.skin import ROLES
from widgets.palette import Palette

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Said:
    """What one command printed, and its exit code."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home of mine"


@pytest.fixture
def hermes(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Said]:
    monkeypatch.setenv("HERMES_HOME", str(home))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Said:
        try:
            code = main(("skins", *arguments))
        except SystemExit as exit_:
            code = int(exit_.code or 0)
        captured = capsys.readouterr()
        return Said(code, captured.out, captured.err)

    return run


def own(home: Path, name: str, text: str) -> Path:
    folder = home / "skins"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.yaml"
    path.write_text(text, "utf-8")
    return path


def test_list_names_every_skin_and_marks_ones_own(hermes: Callable[..., Said], home: Path) -> None:
    own(home, "mine", "description: Dusty")
    own(home, "torn", "colors: [")
    said = hermes("list")
    assert said.returncode == 0
    lines = said.stdout.splitlines()
    assert [line.split()[0] for line in lines] == [*builtin_names(), "mine", "torn"]
    assert lines[0] == "night           dark   Neutral dark; the default."
    assert lines[-2] == "mine            dark   Dusty   (your own)"
    assert "has problems" in lines[-1]
    assert next(line for line in lines if line.startswith("mono")).split()[1] == "any"
    rows = json.loads(hermes("list", "--json").stdout)
    assert [row["name"] for row in rows] == [line.split()[0] for line in lines]
    assert [(row["own"], bool(row["problems"])) for row in rows[-2:]] == [(True, False), (True, True)]
    assert json.loads(hermes("show", "mine", "--json").stdout)["description"] == "Dusty"


def test_listing_creates_nothing(hermes: Callable[..., Said], home: Path) -> None:
    hermes("list")
    assert not (home / "skins").exists()


def test_show_without_a_terminal_is_plain_words(hermes: Callable[..., Said]) -> None:
    said = hermes("show", "tide")
    assert said.returncode == 0
    assert "\x1b" not in said.stdout
    assert said.stdout.startswith("tide (dark): Deep water and foam.\n")
    assert all(f"  {role} " in said.stdout for role in ROLES)


def test_a_name_that_is_not_there_is_one_sentence_with_the_nearest(hermes: Callable[..., Said]) -> None:
    for action in (("show", "nigth"), ("check", "nigth"), ("new", "x", "--from", "nigth")):
        said = hermes(*action)
        assert said.returncode == 2
        assert said.stderr == "hermes: There is no skin `nigth`; did you mean `night`?\n"


def test_check_is_content_with_what_comes_with_hermes(hermes: Callable[..., Said]) -> None:
    said = hermes("check")
    assert said.returncode == 0
    assert said.stdout.splitlines() == [f"✓ {name}" for name in builtin_names()]


def test_check_tells_mistakes_and_what_is_hard_to_read(hermes: Callable[..., Said], home: Path) -> None:
    path = own(home, "mine", 'colors:\n  acent: "#fff"\n  dim: "#444444"\n')
    said = hermes("check", "mine")
    assert said.returncode == 2
    lines = said.stdout.splitlines()
    assert lines[0] == "✗ mine.yaml:2: `acent` is not a role of a skin; did you mean `accent`?"
    assert all(line.startswith("▲ mine: `dim` on ") for line in lines[1:])
    assert len(lines) > 3
    assert hermes("check", str(path)) == said


def test_check_takes_a_file_anywhere(hermes: Callable[..., Said], tmp_path: Path) -> None:
    (tmp_path / "draft.yaml").write_text("welcome: Hello")
    assert hermes("check", "draft.yaml").stdout == "✓ draft\n"
    said = hermes("check", "./none.yaml")
    assert said.returncode == 2
    assert said.stderr.startswith("hermes: There is no file ./none.yaml; `")
    assert said.stderr.endswith("skins list` names the skins there are.\n")


def test_new_writes_a_private_file_that_passes_the_check(hermes: Callable[..., Said], home: Path) -> None:
    said = hermes("new", "mine", "--from", "ember")
    path = home / "skins" / "mine.yaml"
    assert said.returncode == 0
    assert str(path) in said.stdout
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert hermes("check", "mine").stdout == "✓ mine\n"
    assert load_skin("mine", home / "skins").skin.colors == load_skin("ember").skin.colors


def test_new_never_overwrites(hermes: Callable[..., Said], home: Path) -> None:
    path = own(home, "mine", "welcome: Precious")
    own(home, "other", "").rename(home / "skins" / "other.yml")
    for name in ("mine", "other"):
        said = hermes("new", name)
        assert said.returncode == 2
        assert "is there already" in said.stderr
    assert path.read_text() == "welcome: Precious"
    (home / "skins" / "link.yaml").symlink_to(home / "elsewhere")
    assert hermes("new", "link").returncode == 2
    assert not (home / "elsewhere").exists()


@pytest.mark.parametrize("name", ["../evil", "a/b", "", "a b"])
def test_new_refuses_names_that_are_paths(hermes: Callable[..., Said], home: Path, name: str) -> None:
    said = hermes("new", name)
    assert said.returncode == 2
    assert "is not a name for a skin" in said.stderr
    assert not home.exists() or not list(home.rglob("*.yaml"))


def test_path_is_the_folder_of_ones_own_skins(hermes: Callable[..., Said], home: Path) -> None:
    assert hermes("path").stdout == f"{home / 'skins'}\n"


def test_hostile_texts_of_a_skin_do_not_reach_the_terminal(hermes: Callable[..., Said], home: Path) -> None:
    own(home, "mine", 'description: "\\e[2Jcleared"\n"a\\e[31m": 1\nbase: "\\e]0;x\\a"\n')
    for action in (("list",), ("show", "mine"), ("check", "mine")):
        said = hermes(*action)
        assert "\x1b" not in said.stdout + said.stderr
        assert "Traceback" not in said.stderr


def in_terminal(home: Path, **variables: str) -> str:
    """What `hermes skins show tide` prints in a real terminal."""
    primary, secondary = pty.openpty()
    environ = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "HERMES_HOME": str(home), "COLUMNS": "80"}
    with subprocess.Popen(
        [sys.executable, "-c", "import app.main, sys; sys.exit(app.main.main(['skins', 'show', 'tide']))"],
        stdin=secondary,
        stdout=secondary,
        stderr=secondary,
        env={**environ, **variables},
        cwd=ROOT,
    ) as process:
        os.close(secondary)
        output = b""
        while True:
            try:
                piece = os.read(primary, 65536)
            except OSError:
                break
            if not piece:
                break
            output += piece
        assert process.wait(60) == 0, output
    os.close(primary)
    return output.decode()


def test_show_in_a_terminal_draws_the_skin_in_its_colours(home: Path) -> None:
    output = in_terminal(home, TERM="xterm-256color", COLORTERM="truecolor")
    assert "48;2;13;26;33" in output, "the background of tide"
    assert "Where does the current take us?" in output


def test_show_in_a_terminal_of_sixteen_colours_uses_those(home: Path) -> None:
    output = in_terminal(home, TERM="xterm")
    assert "38;2;" not in output and "38;5;" not in output
    assert re.search(r"\x1b\[[0-9;]*36[;m]", output), "cyan for the accent of tide"


def test_show_respects_no_color(home: Path) -> None:
    output = in_terminal(home, TERM="xterm-256color", NO_COLOR="1")
    assert "\x1b" not in output
    assert output.startswith("tide (dark)")


@pytest.mark.parametrize("width", [20, 54, 78])
def test_a_specimen_fills_its_width_and_shows_every_role(width: int) -> None:
    skin = load_skin("orchid").skin
    lines = sample(skin, width)
    assert {line.cell_len for line in lines} == {width}
    if width == 78:
        drawn = {span.style for line in lines for span in line.spans}
        palette = Palette(skin)
        for role in ("text", "dim", "accent", "user", "reasoning", "rule", "success", "warning", "error"):
            assert {palette.style(role), palette.style(role, "surface")} & drawn, role
        for role in ("keyword", "string", "number", "comment", "function"):
            assert palette.style(role, "code_background") in drawn, role
