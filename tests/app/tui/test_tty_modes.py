"""Terminals that change behind the screen: sizes, modes and questions follow the one that is there."""

from __future__ import annotations

import signal
from pathlib import Path

from tests.support.command import HERMES, environment
from tests.support.terminal import Terminal


def test_a_signal_about_the_size_is_believed_whatever_the_terminal_reported_before(tmp_path: Path) -> None:
    env = environment(tmp_path / "home")
    with Terminal([*HERMES, "--model", "demo"], env, tmp_path, (100, 26)) as shown:
        shown.until(b"TODO")
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
