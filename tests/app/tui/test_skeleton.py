"""The still frame: when it is drawn, what is in it, and that it agrees with the first real frame."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tui.startup import skeleton, startup_theme_read
from app.tui.startup.handover import as_events, without_answers
from app.tui.startup.startup_theme_read import NIGHT, PLAIN
from themes.skin import Skin


def drawn(look: startup_theme_read.Look, columns: int, rows: int) -> list[str]:
    screen = pyte.Screen(columns, rows)
    pyte.Stream(screen).feed(skeleton.frame_output(look, columns, rows))
    return list(screen.display)


@pytest.mark.thorough
@given(st.integers(1, 300), st.integers(1, 100))
def test_the_frame_stays_inside_a_terminal_of_any_size(columns: int, rows: int) -> None:
    picture = skeleton.frame_output(NIGHT, columns, rows)
    assert re.sub(r"\x1b\[[0-9;]*[mHJ]", "", picture).isprintable()
    for row, column in re.findall(r"\x1b\[(\d+);(\d+)H", picture):
        assert 1 <= int(row) <= rows and 1 <= int(column) <= columns
    assert all(len(line) == columns for line in drawn(NIGHT, columns, rows))


def test_a_tiny_terminal_gets_its_background_only() -> None:
    assert not "".join(drawn(NIGHT, 10, 3)).strip()


def test_words_are_those_of_the_real_screen() -> None:
    assert (PLAIN["name"], PLAIN["symbol"]) == (Skin().agent_name, Skin().prompt_symbol)


def test_colours_are_drawn_only_where_they_are_known_and_wanted() -> None:
    assert startup_theme_read.default_look({"COLORTERM": "truecolor"}) == NIGHT
    assert startup_theme_read.default_look({"COLORTERM": "truecolor", "NO_COLOR": "1"}) == PLAIN
    assert startup_theme_read.default_look({}) == PLAIN
    assert not re.search(r"[34]8;[25];", skeleton.frame_output(PLAIN, 120, 40))


def test_the_size_is_told_by_the_environment_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "get_terminal_size", lambda _number: os.terminal_size((90, 30)))
    assert skeleton.size({}) == (90, 30)
    assert skeleton.size({"COLUMNS": "70", "LINES": "20"}) == (70, 20)
    assert skeleton.size({"COLUMNS": "0", "LINES": "many"}) == (90, 30)
    assert skeleton.size({"COLUMNS": "9" * 5000, "LINES": "-1"}) == (90, 30)


def test_without_a_terminal_nothing_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "isatty", lambda _number: False)
    assert skeleton.show([], {"TERM": "xterm"}) is None


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_terminal_that_can_do_nothing_gets_no_frame(monkeypatch: pytest.MonkeyPatch, term: str) -> None:
    monkeypatch.setattr(os, "isatty", lambda _number: True)
    assert skeleton.show([], {"TERM": term}) is None


def test_early_keys_become_events_in_order() -> None:
    events = [
        getattr(each, "text", getattr(each, "key", ""))
        for each in as_events("hé 龍\x7f\n\x15x\t\x1b[Ay\x1bOPz")
    ]
    assert events == ["hé 龍", "backspace", "enter", "ctrl+u", "x", "tab", "y", "z"]


def test_answers_of_the_terminal_before_the_start_are_no_keys() -> None:
    typed = b"ls\x1b[?62;22c \x1b]11;rgb:1e1e/1e1e/1e1e\x1b\\-l\x1b[12;40R\x1b[A\x1bP>|tm\x1b]11;rgb:1e"
    assert without_answers(typed) == b"ls -l\x1b[12;40R\x1b[A"
    assert [getattr(each, "text", "") for each in as_events(without_answers(typed).decode())] == ["ls -l"]


@given(
    st.text(alphabet=st.sampled_from(["a", "龍", "\n", "\x1b", "[", "O", "\x03", " ", "\x00"]), max_size=20)
)
def test_early_keys_hold_no_control_character(text: str) -> None:
    for event in as_events(text):
        assert getattr(event, "text", "x").isprintable()


def remember(home: Path, lines: list[str]) -> dict[str, str]:
    home.mkdir(exist_ok=True)
    environ = {"HERMES_HOME": str(home), "COLORTERM": "truecolor", "TERM": "xterm"}
    content = "\n".join([startup_theme_read.HEADING, startup_theme_read.signature([], environ), *lines])
    (home / startup_theme_read.NAME).write_text(content, "utf-8")
    return environ


def lines_of(look: startup_theme_read.Look) -> list[str]:
    return [*(f"{name}={value}" for name, value in look.items()), "{}"]


def test_a_remembered_look_is_drawn(tmp_path: Path) -> None:
    look = NIGHT | {"name": "nova", "symbol": "➤", "rule": "38;2;1;2;3"}
    assert startup_theme_read.read_look([], remember(tmp_path / "home", lines_of(look))) == look


def test_a_remembered_look_is_void_once_the_settings_changed(tmp_path: Path) -> None:
    environ = remember(tmp_path / "home", lines_of(NIGHT | {"name": "nova"}))
    (tmp_path / "home" / "config.yaml").write_text("display: {}\n")
    assert startup_theme_read.read_look([], environ) == NIGHT


@pytest.mark.parametrize(
    "wrong",
    [
        {"rule": "38m\x1b]52;c;aGk=\x07"},
        {"name": "x" * 25},
        {"name": "a\x1b[2J"},
        {"symbol": "\x9b31m"},
        {"extra": "1"},
        {"rule": "²"},
    ],
)
def test_a_forged_look_never_reaches_the_terminal(tmp_path: Path, wrong: dict[str, str]) -> None:
    assert startup_theme_read.read_look([], remember(tmp_path / "home", lines_of(NIGHT | wrong))) == NIGHT


@given(st.binary(max_size=300))
def test_any_bytes_in_the_file_give_the_default(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    home = tmp_path_factory.getbasetemp() / "any-bytes"
    environ = remember(home, [])
    with (home / startup_theme_read.NAME).open("ab") as file:
        file.write(b"\n" + content)
    assert startup_theme_read.read_look([], environ) == NIGHT
