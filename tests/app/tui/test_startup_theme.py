"""What the next start knows of the looks of this one."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from rich.color import ColorSystem

from app.tui.startup import startup_theme_read
from app.tui.startup.startup_theme_write import frame_in_skin, keep, kept_skin
from tests.support.command import HERMES, environment
from tests.support.terminal import Terminal
from themes.loader import builtin_names, load_skin
from themes.skin import Skin


def environ_of(home: Path) -> dict[str, str]:
    return {"HERMES_HOME": str(home), "TERM": "xterm", "COLORTERM": "truecolor"}


def test_the_default_look_is_the_default_skin() -> None:
    assert frame_in_skin(Skin(), ColorSystem.TRUECOLOR) == startup_theme_read.NIGHT


@pytest.mark.parametrize("name", builtin_names())
def test_every_skin_comes_back_as_it_was(tmp_path: Path, name: str) -> None:
    skin, environ = load_skin(name).skin, environ_of(tmp_path / "home")
    look = frame_in_skin(skin, ColorSystem.EIGHT_BIT)
    keep(startup_theme_read.signature([], environ), look, skin, environ)
    assert kept_skin([], environ) == skin
    assert startup_theme_read.read_look([], environ) == look
    assert stat.S_IMODE((tmp_path / "home" / startup_theme_read.NAME).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "change",
    [
        {"colors": {}},
        {"colors": {**Skin().colors, "text": "red; rm"}},
        {"spinner": [1]},
        {"verbs": ["a\x1b[2J"]},
        {"dark": 1},
        {"name": None},
    ],
)
def test_a_forged_skin_is_no_skin(tmp_path: Path, change: dict[str, object]) -> None:
    environ = environ_of(tmp_path / "home")
    keep(startup_theme_read.signature([], environ), startup_theme_read.NIGHT, Skin(), environ)
    file = tmp_path / "home" / startup_theme_read.NAME
    *head, skin = file.read_text("utf-8").split("\n")
    file.write_text("\n".join([*head, json.dumps({**json.loads(skin), **change})]), "utf-8")
    assert kept_skin([], environ) is None


def test_a_look_that_could_steer_the_terminal_is_not_kept(tmp_path: Path) -> None:
    environ = environ_of(tmp_path / "home")
    keep("x", startup_theme_read.NIGHT | {"name": "a\x1b"}, replace(Skin()), environ)
    assert not (tmp_path / "home" / startup_theme_read.NAME).exists()


@pytest.mark.thorough
def test_the_second_start_wears_the_chosen_skin_from_its_first_byte(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text("display:\n  skin: amber\n")
    env = environment(home)
    with Terminal([*HERMES, "--model", "demo"], env, tmp_path, (80, 24)) as first:
        first.until(lambda: (home / startup_theme_read.NAME).exists())
    ground = frame_in_skin(load_skin("amber").skin, ColorSystem.TRUECOLOR)["ground"].encode()
    night = startup_theme_read.NIGHT["ground"].encode()
    with Terminal([*HERMES, "--model", "demo"], env, tmp_path, (80, 24)) as second:
        second.until(b"context")
    assert ground in second.painted[:200] and night not in second.painted
