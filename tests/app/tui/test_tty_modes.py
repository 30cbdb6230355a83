"""Terminals that change behind the screen: sizes, modes and questions follow the one that is there."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

from textual import events

from app.tui.terminal import terminals
from app.tui.terminal.terminals import known_terminal, mouse_policy
from app.tui.terminal.tty_input import InputDecoder, Keyboard, add_key_sequences
from app.tui.terminal.tty_modes import prints_questions
from tests.support.command import HERMES, environment
from tests.support.terminal import Terminal
from themes.loader import load_skin


def test_a_signal_about_the_size_is_believed_whatever_the_terminal_reported_before(tmp_path: Path) -> None:
    env = environment(tmp_path / "home")
    with Terminal([*HERMES, "--model", "demo"], env, tmp_path, (100, 26)) as shown:
        shown.until(b"should I do?")
        shown.press("\x1b[?2048;2$y")
        shown.until(b"\x1b[?2048h")
        shown.press("\x1b[48;26;100;390;700t")
        shown.until(b"\x1b[?1016h")

        since = len(shown.painted)
        shown.resize(70, 21)
        shown.process.send_signal(signal.SIGWINCH)
        shown.until(b"\x1b[21;", since=since)
        # No report came with it: this is another terminal, which is set up and asked as at the start.
        shown.until(b"\x1b[?2048$p", since=since)
        assert b"\x1b[?1016l" in shown.painted[since:]
        shown.until(b"hermes", since=shown.painted.find(b"\x1b[?2048$p", since))

        since = len(shown.painted)
        shown.process.send_signal(signal.SIGWINCH)
        shown.until(b"\x1b[?1049h", since=since)
        shown.until(b"\x1b[?2004h", since=since)


def test_a_terminal_that_prints_questions_about_modes_is_asked_none(tmp_path: Path) -> None:
    env = environment(tmp_path / "home", WINDOWID="0", COLORFGBG="15;0")
    with Terminal([*HERMES, "--model", "demo"], env, tmp_path, (100, 26)) as shown:
        shown.until(b"should I do?")
        shown.press("/quit\r")
        shown.drain()
    assert b"$p" not in shown.painted and not re.search(rb"\x1b\[[<>][0-9]*u", shown.painted)


def test_what_is_asked_first_agrees_with_the_table() -> None:
    values = {"WINDOWID": "0", "COLORFGBG": "15;0", "TERM_PROGRAM": "Apple_Terminal", "TERM": "linux"}
    silent = [row for row in terminals._table() if row.asks_modes == "no" and "TERM" not in row.variables]
    silent += [row for row in terminals._table() if row.name == "the Linux console"]
    assert len(silent) == 3
    for row in silent:
        assert prints_questions({name: values[name] for name in row.variables}), row.name


def test_keys_of_other_layouts_and_input_methods_arrive_and_alt_of_xterm_is_put_back(tmp_path: Path) -> None:
    env = environment(tmp_path / "home", XTERM_VERSION="XTerm(379)")
    with Terminal([*HERMES, "--model", "demo"], env, tmp_path, (100, 26)) as shown:
        shown.until(b"\x1b[>29u")  # alternate keys besides what Textual asks for
        shown.until(b"\x1b[?1039$p")
        shown.press("\x1b[?1036;2$y\x1b[?1039;2$y")
        shown.until(b"\x1b[?1036h")
        shown.until(b"\x1b[?1039h")
        long = "漢字かな" * 20
        shown.press("\x1b[0;;71:114:252:223:101:32:97:117:115:32:75:246:108:110u")
        shown.until("Grüße aus Köln".encode())
        shown.press(f"\x1b[0;129;{':'.join(str(ord(letter)) for letter in long)}u")
        shown.until("漢字かな".encode())
        assert b"[0;" not in shown.painted.replace(b"\x1b[0;", b"")
        for key in ("\x1b[1089::99;5u", "\x1b[1089::99;133u"):  # ctrl+c clears, then asks
            shown.press(key)
        shown.press("/quit\r")
        shown.drain()
    after = shown.painted[shown.painted.rfind(b"\x1b[?1039h") :]
    assert after.count(b"\x1b[?1039l") == after.count(b"\x1b[?1036l") == 1 and after.count(b"\x1b[<u") == 1
    assert shown.painted.count(b"\x1b[>29u") == 1


def test_gnu_screen_gets_nothing_that_it_prints(tmp_path: Path) -> None:
    env = environment(tmp_path / "home", STY="1.pts", XTERM_VERSION="XTerm(379)")
    with Terminal([*HERMES, "--model", "demo"], env, tmp_path, (100, 26)) as shown:
        shown.until(b"should I do?")
        shown.press("/quit\r")
        shown.drain()
    assert b"\x1b[<u" not in shown.painted and b"1039" not in shown.painted


def test_the_skin_auto_follows_the_page_of_the_terminal_and_its_changes(tmp_path: Path) -> None:
    env = environment(tmp_path / "home")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.yaml").write_text("display:\n  skin: auto\n")
    with Terminal([*HERMES, "--model", "demo"], env, tmp_path, (100, 26)) as shown:
        shown.until(b"\x1b]11;?")
        assert b"\x1b[?2031h" in shown.painted
        shown.press("\x1b]11;rgb:ffff/ffff/ffff\x1b\\")
        ground = load_skin("paper").skin.colors["background"]
        light = "48;2;" + ";".join(str(int(ground[at : at + 2], 16)) for at in (1, 3, 5))
        shown.until(light.encode())
        since = len(shown.painted)
        shown.press("\x1b[?997;1n")
        shown.until(b"48;2;20;22;27", since=since)
        shown.press("/quit\r")
        shown.drain()
    assert shown.painted.count(b"\x1b[?2031l") == 1
    assert "paper" != load_skin("auto", light=True).skin.name == "auto"


def test_the_title_says_what_happens_and_is_put_back(tmp_path: Path) -> None:
    env = environment(tmp_path / "home", WT_SESSION="1")
    with Terminal([*HERMES, "--model", "demo"], env, tmp_path, (100, 26)) as shown:
        shown.until(b"\x1b]2;hermes")
        shown.until(b"should I do?")
        shown.press("hello\r")
        shown.until(b"\x1b]2;hermes works")
        shown.until(b"\x1b]9;4;3\x07")
        shown.process.send_signal(signal.SIGTERM)
        shown.drain()
    assert shown.painted.count(b"\x1b[22;2t") == shown.painted.count(b"\x1b[23;2t") == 1
    assert shown.painted.count(b"\x1b]9;4;0\x07") >= 1


def test_a_terminal_is_put_back_even_when_the_program_is_killed(tmp_path: Path) -> None:
    with Terminal([*HERMES, "--model", "demo"], environment(tmp_path / "home"), tmp_path, (100, 26)) as shown:
        shown.until(b"\x1b[22;2t")  # the title is kept, which the guard is told
        shown.until(lambda: bool(children_of(shown.process.pid)))
        since = len(shown.painted)
        time.sleep(0.2)
        shown.process.kill()
        shown.until(b"hermes --continue", since=since)
        after = bytes(shown.painted[since:])
    for mode in (b"1000l", b"1003l", b"2004l", b"1049l", b"25h"):
        assert b"\x1b[?" + mode in after
    assert b"\x1b[<u" in after and b"\x1b[23;2t" in after


def children_of(pid: int) -> str:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text() or ""


def test_the_mouse_is_left_to_gnu_screen_which_would_hold_back_escape() -> None:
    assert mouse_policy("full", {"STY": "1.pts"}) == "off"
    assert mouse_policy("wheel", {"TMUX": "x"}) == mouse_policy("wheel", {}) == "wheel"


def test_alt_before_an_arrow_of_rxvt_and_mlterm_is_one_key_and_escape_twice_is_two() -> None:
    assert known_terminal({"COLORTERM": "rxvt-xpm"}).doubles_escape == "yes"
    assert known_terminal({"MLTERM": "3.9.0"}).doubles_escape == "yes"
    keys = {
        b"\x1b\x1b[A": ["alt+up"],
        b"\x1b\x1b[1;3A": ["alt+up"],  # mlterm tells it twice
        b"\x1b\x1b[5~": ["alt+pageup"],
        b"\x1b\x1b": ["escape", "escape"],
    }
    for sequence, expected in keys.items():
        decoder, keyboard = InputDecoder(), Keyboard(lambda: True)
        found = decoder.feed(sequence, 0.0) + decoder.idle(1.0)
        assert [each.key for each in keyboard.to_messages(found) if isinstance(each, events.Key)] == expected


def test_ctrl_home_and_ctrl_end_of_rxvt_are_not_mixed_up() -> None:
    add_key_sequences()
    for sequence, key in ((b"\x1b[7^", "ctrl+home"), (b"\x1b[8^", "ctrl+end")):
        messages = Keyboard().to_messages(InputDecoder().feed(sequence, 0.0))
        assert [each.key for each in messages if isinstance(each, events.Key)] == [key]
