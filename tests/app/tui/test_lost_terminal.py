"""Terminals that go away or stop reading while the application runs: it ends, and nothing is lost."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command import HERMES, environment, run
from tests.support.terminal import Terminal

LIMIT = 30
"""Seconds until a program that does not end counts as hung, on a machine with much to do."""


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(
        [*HERMES, "--model", "demo", "--approve", "careful"],
        environment(tmp_path / "home"),
        tmp_path,
        (80, 24),
    )
    with terminal:
        try:
            yield terminal
        finally:
            # Leaving closes it once more; its number may be somebody else's by now.
            if terminal.fd < 0:
                terminal.fd = os.open(os.devnull, os.O_RDONLY)


def hang_up(terminal: Terminal) -> None:
    os.close(terminal.fd)
    terminal.fd = -1


def ask(terminal: Terminal, text: str = "hello") -> None:
    terminal.until(b"demo")
    terminal.press(text)
    terminal.until(text.encode())
    time.sleep(0.1)
    terminal.press("\r")


def ended(terminal: Terminal) -> int:
    return terminal.process.wait(LIMIT)


def log_of(home: Path) -> str:
    file = home / "logs" / "hermes.log"
    return file.read_text() if file.exists() else ""


def check_kept(tmp_path: Path) -> None:
    listed = run("sessions", "list", env=environment(tmp_path / "home"), cwd=tmp_path)
    assert listed.returncode == 0 and "hello" in listed.stdout, listed
    log = log_of(tmp_path / "home")
    assert "Traceback" not in log and "did not end by itself" not in log
    assert not list((tmp_path / "home" / "logs").glob("crash-*"))


def test_a_terminal_that_goes_during_an_answer_leaves_the_session(shown: Terminal, tmp_path: Path) -> None:
    ask(shown)
    shown.until(b"Thinking")
    hang_up(shown)
    assert ended(shown) == 129
    check_kept(tmp_path)
    assert "the terminal has gone" in log_of(tmp_path / "home")


@pytest.mark.thorough
def test_a_terminal_that_goes_under_a_dialog_leaves_the_session(shown: Terminal, tmp_path: Path) -> None:
    ask(shown)
    shown.until(b"Deny and tell why")
    hang_up(shown)
    assert ended(shown) == 129
    check_kept(tmp_path)


@pytest.mark.thorough
def test_a_signal_ends_the_application_on_a_terminal_that_reads_nothing(
    shown: Terminal, tmp_path: Path
) -> None:
    ask(shown)
    shown.until(b"Deny and tell why")
    for size in range(60, 120):  # each asks for a whole picture; nobody takes them
        shown.resize(size, 40)
        time.sleep(0.02)
    shown.process.send_signal(signal.SIGTERM)
    assert ended(shown) == 143
    check_kept(tmp_path)


@pytest.mark.thorough
def test_a_terminal_that_controls_the_process_takes_it_along(tmp_path: Path) -> None:
    """As when a window is closed or the server of a multiplexer ends: a signal comes first."""
    outer, inner = os.openpty()
    process = subprocess.Popen(
        [*HERMES, "--model", "demo", "--approve", "careful"],
        env={**environment(tmp_path / "home"), "TERM": "xterm-256color"},
        cwd=tmp_path,
        stdin=inner,
        stdout=inner,
        stderr=inner,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(inner)
    try:
        seen = b""
        while b"demo" not in seen:
            seen = seen[-100:] + os.read(outer, 1 << 16)
        os.close(outer)
        assert process.wait(LIMIT) == 129
        assert "did not end by itself" not in log_of(tmp_path / "home")
    finally:
        process.kill()
        process.wait()
