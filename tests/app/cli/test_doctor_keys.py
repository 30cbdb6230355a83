"""`hermes doctor keys`: what arrives in which terminal, and what was pressed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.cli.health.keys import key_reports, key_sequence, spelling
from app.tui.commands.keys import bindables, resolve
from tests.support import command
from tests.support.terminal import Terminal


def arrivals(environ: dict[str, str]) -> dict[str, tuple[str, str]]:
    return {each.key: (each.arrives, each.hint) for each in key_reports(environ, resolve({}))}


def test_with_the_kitty_protocol_every_key_of_every_command_arrives() -> None:
    found = arrivals({"GHOSTTY_RESOURCES_DIR": "/x"})
    assert {arrives for arrives, _ in found.values()} == {"yes"}
    assert set(found) == {key for each in bindables().values() for key in each.keys}


@pytest.mark.parametrize(
    ("environ", "key", "arrives", "word"),
    [
        ({"TERM_PROGRAM": "Apple_Terminal"}, "alt+m", "no", "Option as Meta"),
        ({"XTERM_VERSION": "XTerm(379)"}, "alt+m", "yes", ""),
        ({"XTERM_VERSION": "XTerm(379)"}, "alt+enter", "perhaps", "own key"),
        ({"XTERM_VERSION": "XTerm(379)"}, "shift+enter", "no", "Kitty"),
        ({"KITTY_WINDOW_ID": "1"}, "ctrl+shift+left", "perhaps", "own key"),
        ({"TMUX": "x"}, "ctrl+b", "perhaps", "prefix"),
        ({"STY": "x"}, "ctrl+a", "perhaps", "screen"),
        ({"TMUX": "x"}, "ctrl+p", "yes", ""),
    ],
)
def test_each_terminal_has_its_own_keys_and_remedies(
    environ: dict[str, str], key: str, arrives: str, word: str
) -> None:
    found, hint = arrivals(environ)[key]
    assert (found, word in hint) == (arrives, True)


def test_a_sequence_is_spelled_as_people_write_it() -> None:
    assert [spelling(key_sequence(key, protocol=False)) for key in ("ctrl+p", "alt+m", "f2")] == [
        "^P",
        "ESC m",
        "ESC OQ",
    ]
    assert spelling(key_sequence("shift+enter", protocol=True)) == "ESC [13;2u"


def test_on_a_terminal_each_key_that_is_pressed_is_named_until_esc(tmp_path: Path) -> None:
    env = command.environment(tmp_path / "home", KITTY_WINDOW_ID="1")
    with Terminal([*command.HERMES, "doctor", "keys"], env, tmp_path) as shown:
        shown.until(b"esc ends")
        shown.until(b"\x1b[>29u")
        shown.press("\x1b[1089::99;5u")
        shown.until(b"ctrl+c")
        shown.press("\x1b[27u")
        assert shown.drain() == 0
    # Keys are read on the screen on which the application reads them; what came is told behind it.
    before, _, after = bytes(shown.painted).partition(b"\x1b[<u\x1b[?1049l")
    assert before.index(b"\x1b[?1049h") < before.index(b"\x1b[>29u")
    assert after.split()[0] == b"ctrl+c"


def test_a_script_gets_a_list(tmp_path: Path) -> None:
    done = command.run("doctor", "keys", "--json", env=command.environment(tmp_path / "home"), cwd=tmp_path)
    assert {"command", "key", "arrives", "arrives_as", "hint"} <= set(json.loads(done.stdout)[0])
