"""First seconds by lot: what is typed into a start, and what befalls it, on a real terminal.

A draw is made of a seed, so each can be looked at alone:

    python -m tests.support.first_seconds typed 17
    python -m tests.support.first_seconds struck 17
"""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import sqlite3
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pyte

from tests.support.command import STARTED, environment, run
from tests.support.model_process import ServerProcess
from tests.support.terminal import Terminal

SCRIPT = "script = lambda request: say('Heard.')"
OWNED = [
    *STARTED[:-1],
    "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);" + STARTED[-1],
]
"""The command on a terminal that controls it, as a shell starts it."""
LIMIT = 60.0
"""Seconds after which something that did not come counts as never coming."""

NUMBERS = ["2", "1 bug to fix", "2 tests fail", "fix 1 bug", "3.14 or 22/7?", "42", "10 files", "1", "7 8 9"]
ANSWERS = [
    "y",
    "yes",
    "n",
    "no thanks",
    "ja",
    "q",
    "quit the loop early",
    "ok",
    "j",
    "jk",
    "kill it",
    "o",
    "go",
]
SIGNS = [
    "?",
    "why?",
    "(a + b) * c",
    "*bold*",
    "# title",
    "- item",
    "> quoted",
    "~",
    "[x] done",
    "a=b;c",
    "\\n",
]
SHELL = ["ls -la", "cd ..", "exit", "git push --force", "rm -rf build", "make run", "echo $HOME", "a | b > c"]
PATHS = ["/usr/bin is full", "/etc/hosts: what is it?", "@nobody said so", "src/main.py:12 fails", "./run it"]
WIDE = ["naïve café", "龍の子", "emoji 🎉 works", "Ωmega", "привет", "e\u0301clair", "שלום"]
BLANK = ["  leading blanks", " x", "two  blanks", "trailing "]
LINES = [
    "first line\nsecond line",
    "def f():\n    return 1\n",
    "1\n2\n3",
    "y\nn",
    "\n\nafter blank lines",
    "a\tb",
]
KINDS = [NUMBERS, ANSWERS, SIGNS, SHELL, PATHS, WIDE, BLANK, LINES]
SITUATIONS = ["plain", "resumed", "dialog", "key", "asked"]
"""A model is there; a session continues; none is chosen; its key is missing; one is named by the command."""
SIZES = [(80, 24), (120, 40), (60, 18), (100, 30)]


def sentence(draw: random.Random) -> str:
    """A first sentence, of one kind or of two."""
    text = draw.choice(draw.choice(KINDS))
    if draw.random() < 0.3:
        text += " " + draw.choice(draw.choice(KINDS[:-1]))
    return text


class Place:
    """A home with a provider whose key is set, a folder to work in, and a hub that nobody may ask."""

    def __init__(self, folder: Path, server: ServerProcess) -> None:
        self.home, self.work, self.server = folder / "home", folder / "work", server
        self.home.mkdir()
        self.work.mkdir()
        self._hub = socket.create_server(("127.0.0.1", 0))
        self._hub.setblocking(False)
        weights = f"http://127.0.0.1:{self._hub.getsockname()[1]}/tiny.gguf"
        (self.home / "config.yaml").write_text(
            f"providers: {{mine: {{base_url: '{server.base_url}', api_key_env: MINE_KEY}}}}\n"
            f"local: {{url: '{weights}', sha256: {'a' * 64}}}\n"
        )
        self.before = self._everything()

    def environ(self, model: str = "mine/test-model") -> dict[str, str]:
        named = {"HERMES_MODEL": model} if model else {}
        return environment(self.home, MINE_KEY="a-key", TERM="xterm-256color", **named)

    def _everything(self) -> dict[str, str]:
        return {
            name: (self.home / name).read_text()
            for name in ("config.yaml", ".env")
            if (self.home / name).exists()
        }

    def check_untouched(self) -> None:
        """Nothing was fetched, and nothing was chosen for good."""
        try:
            self._hub.accept()
        except BlockingIOError:
            pass
        else:
            raise AssertionError("a download began")
        assert self._everything() == self.before, "a setting was changed"
        assert not (self.home / "models").exists() or not any((self.home / "models").iterdir())

    def check_store(self) -> None:
        """The store is whole, and the log has no trace of an error."""
        if (file := self.home / "state.db").exists() or (file := self.home / "hermes.db").exists():
            with closing(sqlite3.connect(file)) as store:
                assert store.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        log = self.home / "logs" / "hermes.log"
        assert not log.exists() or "Traceback" not in log.read_text("utf-8", "replace"), log.read_text()[
            -3000:
        ]
        assert not list((self.home / "logs").glob("crash-*"))

    def messages(self) -> list[str]:
        """Every message of the person that reached the model, in order; each has one answer."""
        found: list[str] = []
        for request in self.server.requests():
            said = [each["content"] for each in request["body"]["messages"] if each["role"] == "user"]
            said = [text if isinstance(text, str) else text[0]["text"] for text in said]
            if request["body"].get("tools") and request["body"]["messages"][-1]["role"] == "user":
                found.append(said[-1])
        return found

    def reset(self) -> None:
        """Forget what was chosen, as the next draw begins without it."""
        for name in ("config.yaml", ".env"):
            if name in self.before:
                (self.home / name).write_text(self.before[name])
            else:
                (self.home / name).unlink(missing_ok=True)

    def close(self) -> None:
        self._hub.close()


@contextmanager
def place(folder: Path) -> Iterator[Place]:
    with ServerProcess(SCRIPT, folder, options=()) as server:
        there = Place(folder, server)
        try:
            yield there
        finally:
            there.close()


class Seen:
    """What a person sees on a terminal, kept up with what is painted."""

    def __init__(self, terminal: Terminal, size: tuple[int, int]) -> None:
        self._terminal = terminal
        self._screen = pyte.Screen(*size)
        self._stream = pyte.ByteStream(self._screen)
        self._upto = 0
        self._display = ""

    def __str__(self) -> str:
        if new := bytes(self._terminal.painted[self._upto :]):
            self._upto += len(new)
            self._stream.feed(new)
            self._display = "\n".join(self._screen.display)
        return self._display

    def until(self, text: str, limit: float = LIMIT) -> None:
        """Wait until it is seen. Raises `AssertionError`."""
        end = time.monotonic() + limit
        while text not in str(self):
            assert time.monotonic() < end, f"{text!r} is not seen"
            assert self._terminal.process.poll() is None, f"it ended before {text!r} was seen"
            settle(self._terminal, 0.1)


def settle(terminal: Terminal, seconds: float) -> None:
    """Read what is painted for so long."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        terminal.read(left)


def type_out(terminal: Terminal, text: str, draw: random.Random) -> None:
    """Type as a person or as a paste, in pieces with gaps between them."""
    pasted = "\n" in text or "\t" in text or draw.random() < 0.1
    if pasted:
        # What is pasted before the terminal was told to say so is typed, for all that anybody can know.
        terminal.until(b"\x1b[?2004h", LIMIT)
        terminal.press(f"\x1b[200~{text}\x1b[201~".replace("\n", "\r"))
        return
    gap = draw.choice([0.0, 0.0, 0.02, 0.08])
    for letter in text:
        terminal.press(letter)
        if gap:
            settle(terminal, gap * draw.random() * 2)


def typed(seed: int, there: Place) -> str:
    """Type one sentence into one start; what was drawn. Raises `AssertionError` if something got lost."""
    draw = random.Random(seed)
    situation, size, text = draw.choice(SITUATIONS), draw.choice(SIZES), sentence(draw)
    moment = draw.choice(["at once", "frame", "live", "drawn", "late"])
    at_once = draw.random() < 0.5
    if moment == "late" and situation in ("dialog", "key") and len(text.strip()) == 1:
        text += " more"  # a digit alone is an answer to a dialog that is there
    what = f"{seed}: {text!r} {moment}, {situation}, {size}, {'⏎' if at_once else '⏎ later'}"
    model = {"dialog": "", "key": "openrouter/some-model"}.get(situation, "mine/test-model")
    arguments = {"resumed": ["--continue"], "asked": ["--model", "mine/test-model"]}.get(situation, [])
    if situation == "resumed" and not there.messages():
        run("-p", "an earlier message", env=there.environ(), cwd=there.work)
    before = len(there.messages())
    with Terminal([*OWNED, *arguments], there.environ(model), there.work, size) as terminal:
        seen = Seen(terminal, size)
        try:
            _begin(terminal, moment, situation, draw)
            type_out(terminal, text, draw)
            if at_once:
                terminal.press("\r")
            if situation in ("dialog", "key"):
                seen.until("Choose a model")
                settle(terminal, 1.0)
                there.check_untouched()
                _choose_mine(terminal, seen)
            if not at_once:
                settle(terminal, 0.6)
                seen.until("test-model")
                settle(terminal, 0.3)
                terminal.press("\r")
            wanted = text.strip()
            try:
                terminal.until(lambda: len(there.messages()) > before, LIMIT)
            except TimeoutError as error:
                raise AssertionError(f"nothing was sent\n{seen}") from error
            said = there.messages()[before:]
            assert len(said) == 1 and said[0].strip() == wanted, f"{said!r} instead of {wanted!r}"
            seen.until("Heard.")
            terminal.process.send_signal(signal.SIGTERM)
            assert terminal.drain() == 143
            check_restored(terminal)
        except (AssertionError, TimeoutError) as error:
            raise AssertionError(f"{what}\n{error}\n{seen}") from error
    there.reset()
    return what


def _begin(terminal: Terminal, moment: str, situation: str, draw: random.Random) -> None:
    """Wait for the moment at which typing begins."""
    if moment == "frame":
        terminal.until(b"\x1b[?2026l", LIMIT)
    elif moment == "live":
        terminal.until(b"\x1b]22;", LIMIT)
    elif moment == "drawn":
        settle(terminal, draw.random() * 2)
    elif moment == "late":
        terminal.until(b"Choose a model" if situation in ("dialog", "key") else b"test-model", LIMIT)
        settle(terminal, draw.random())


def _choose_mine(terminal: Terminal, seen: Seen) -> None:
    """Choose the model of the provider whose key is set, as somebody would who reads the dialog."""
    settle(terminal, 0.5)
    terminal.press("\x1b[A")
    settle(terminal, 0.3)
    screen = str(seen)
    number = re.search(r"(\d)\s+Choose a model of mine", screen)
    assert number is not None, f"the choice is not there\n{screen}"
    terminal.press(number[1])
    seen.until("mine/test-model")
    settle(terminal, 0.5)
    terminal.press("\r")


MODES = ("1000", "1002", "1003", "1004", "1006", "1015", "1016", "1049", "2004", "2048")


def check_restored(terminal: Terminal) -> None:
    """The terminal is as it was before, modes and settings."""
    painted = bytes(terminal.painted)
    for mode in MODES:
        last = max(painted.rfind(f"\x1b[?{mode}h".encode()), 0)
        assert painted.rfind(f"\x1b[?{mode}l".encode()) > last or not last, f"mode {mode} is left on"
    if b"\x1b[?25l" in painted:
        assert painted.rfind(b"\x1b[?25h") > painted.rfind(b"\x1b[?25l"), "the cursor is hidden"
    assert painted.count(b"\x1b[>1u") + painted.count(b"\x1b[>25u") <= painted.count(b"\x1b[<u"), (
        "keys in full"
    )
    assert termios.tcgetattr(terminal.fd) == terminal.settings, "the settings of the terminal"
    assert b"Traceback" not in painted and b"Internal error" not in painted, painted[-2000:]


KEYS = [
    "\x1b",
    "\x03",
    "\x04",
    "\x1b[A",
    "\x1b[B",
    "\t",
    "\x1b[Z",
    "\x1bOP",
    "\x1b1",
    "\x1b3",
    "\x10",
    "\x06",
]
KEYS += [
    "\x1b[<0;5;5M\x1b[<0;5;5m",
    "\x1b[<64;9;9M",
    "\x1b[I",
    "\x1b[12;40R",
    "hello",
    "/",
    "@",
    "\r",
    "\x7f",
    "\x15",
]
KEYS += ["\x1b[?62;22c", "\xff\xfe", "\x1b[200~cut", "\x1bm", "\x00", "\x11", "\x13", "\x1c"]
SIGNALS = [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGQUIT]


def struck(seed: int, there: Place) -> str:
    """Let keys, sizes and a signal befall one start; what was drawn. Raises `AssertionError` on damage."""
    draw = random.Random(1_000_000 + seed)
    model = draw.choice(["mine/test-model", "mine/test-model", "", "openrouter/some-model"])
    arguments = draw.choice([[], [], ["--continue"] if there.messages() else []])
    size = draw.choice(SIZES)
    end = draw.choice([*SIGNALS, signal.SIGTERM, signal.SIGHUP, "gone", "keys"])
    happens = sorted(
        (draw.random() * 2, draw.choice(["key", "key", "size"])) for _ in range(draw.choice([0, 1, 3, 6]))
    )
    pressed = [draw.choice(KEYS) for _ in happens]
    moment = draw.random() * 2
    what = f"{seed}: {getattr(end, 'name', end)} at {moment:.2f}, {pressed}, {model!r} {arguments} {size}"
    with Terminal([*OWNED, *arguments], there.environ(model), there.work, size) as terminal:
        try:
            for (at, kind), key in zip(happens, pressed, strict=True):
                if at > moment or terminal.process.poll() is not None:
                    break
                settle(terminal, terminal.started + at - time.monotonic())
                if kind == "size":
                    terminal.resize(draw.randint(1, 200), draw.randint(1, 60))
                else:
                    _past_interpreter(terminal, key == "\x03")
                    terminal.press(key)
            settle(terminal, terminal.started + moment - time.monotonic())
            _past_interpreter(terminal, end in (signal.SIGINT, "keys"))
            code = _end(terminal, end)
            allowed = {
                signal.SIGTERM: {143, -15, 130, 0},
                signal.SIGHUP: {129, -1, 130, 0},
                signal.SIGINT: {130, -2, 143, 0},
                signal.SIGKILL: {-9, 130, 0},
                signal.SIGQUIT: {131, -3, 143, 130, 0},
                "gone": {129, -1, 130, 0},
                # Who leaves the choice of a model with escape is told what is missing.
                "keys": {0, 130, -2, 143} | (set() if model.startswith("mine/") else {2}),
            }[end]
            assert code in allowed, f"exit code {code}"
            if end not in (signal.SIGKILL, "gone"):
                check_restored(terminal)
            assert b"Traceback" not in terminal.painted and b"Internal error" not in terminal.painted
            there.check_untouched()
            there.check_store()
        except (AssertionError, TimeoutError) as error:
            raise AssertionError(f"{what}\n{error}\n{bytes(terminal.painted[-1500:])!r}") from error
        finally:
            if terminal.fd < 0:
                terminal.fd = os.open(os.devnull, os.O_RDONLY)
    return what


def _past_interpreter(terminal: Terminal, interrupts: bool) -> None:
    """Wait until a line of ours can have run before it is interrupted: before that Python itself says so."""
    if interrupts and not terminal.painted:
        terminal.until(lambda: bool(terminal.painted) or terminal.process.poll() is not None, LIMIT)


def _end(terminal: Terminal, end: signal.Signals | str) -> int:
    deadline = time.monotonic() + LIMIT
    if end == "gone":
        # Until it controls the terminal, which is before a line of ours, Python itself finds its output gone.
        terminal.until(lambda: os.tcgetpgrp(terminal.fd) > 0 or terminal.process.poll() is not None, LIMIT)
        os.close(terminal.fd)
        terminal.fd = -1
        return terminal.process.wait(LIMIT)
    if end == "keys":
        presses = 0
        while terminal.process.poll() is None:
            assert time.monotonic() < deadline, "no key ends it"
            terminal.press("\x03" if presses % 3 else "\x1b")
            presses += 1
            settle(terminal, 0.3)
            if presses > 30:
                terminal.process.send_signal(signal.SIGTERM)
    elif isinstance(end, signal.Signals):
        terminal.process.send_signal(end)
    while terminal.process.poll() is None:
        assert time.monotonic() < deadline, "it does not end"
        terminal.read(0.1)
    settle(terminal, 0.05)
    return terminal.process.returncode


def check_next(there: Place) -> None:
    """The next start works, and answers."""
    done = run("-p", "and the next", env=there.environ(), cwd=there.work)
    assert (done.returncode, done.stdout.strip()) == (0, "Heard."), done
    there.check_store()


def main() -> None:
    # A shell lets what runs in the background ignore these, and its children with it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    kind, first = sys.argv[1], int(sys.argv[2])
    last = int(sys.argv[3]) if len(sys.argv) > 3 else first + 1
    failed = 0
    with tempfile.TemporaryDirectory() as folder, place(Path(folder)) as there:
        for seed in range(first, last):
            try:
                print("ok  ", {"typed": typed, "struck": struck}[kind](seed, there), flush=True)
            except AssertionError as error:
                failed += 1
                print("FAIL", error, flush=True)
                there.reset()
        check_next(there)
    print(f"{failed} of {last - first} failed")


if __name__ == "__main__":
    main()
