"""A terminal that notes when each byte was painted and answers questions; and the processes behind it."""

from __future__ import annotations

import bisect
import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

from benchmarks.beside import family
from benchmarks.peers.catalogue import MARK, Home

SIZE = (120, 40)
TICK = os.sysconf("SC_CLK_TCK")
QUESTIONS = re.compile(rb"\x1b\[6n|\x1b\[>?0?c|\x1b\[\?u|\x1b\]1[01];\?(?:\x07|\x1b\\)|\x1b\[\?\d+\$p")


def reply(question: bytes) -> bytes:
    """What a plain, dark terminal answers."""
    if question == b"\x1b[6n":
        return b"\x1b[1;1R"
    if question.startswith(b"\x1b]"):
        code, colour = question[2:4], b"e0e0" if question[2:4] == b"10" else b"1010"
        return b"\x1b]%s;rgb:%s/%s/%s\x1b\\" % (code, colour, colour, colour)
    if question.endswith(b"c"):
        return b"\x1b[>41;390;0c" if b">" in question else b"\x1b[?62;22c"
    if question.endswith(b"$p"):
        return question[:-2] + b";0$y"
    return b""  # no keyboard protocol


class Screen:
    """Runs a program in a home for the length of a `with` block; all that it started ends with the block."""

    patience = 1.0
    """A factor for every limit, above 1 on a busy machine."""

    def __init__(self, home: Home, *more: str) -> None:
        self.home = home
        self._command = home.command(*more)
        self.painted = bytearray()
        self._moments: list[float] = []
        self._ends: list[int] = []
        self._asked = 0

    def __enter__(self) -> Self:
        self.fd, inner = os.openpty()
        attributes = termios.tcgetattr(inner)
        attributes[3] &= ~termios.ECHO  # else the kernel shows keys that the program has not seen
        termios.tcsetattr(inner, termios.TCSANOW, attributes)
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", SIZE[1], SIZE[0], 0, 0))
        env = self.home.env()
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            self._command,
            env=env,
            cwd=self.home.work,
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(inner)
        return self

    def __exit__(self, *_: object) -> None:
        end_all(self.process.pid, self.home.token)
        self.process.wait()
        os.close(self.fd)

    def press(self, keys: str) -> float:
        """Send keys; the moment they left."""
        data = keys.encode()
        moment = time.monotonic()
        while data:
            ready = select.select([self.fd], [self.fd], [], 5.0)
            if ready[0]:
                self.read(0)
            if ready[1]:
                data = data[os.write(self.fd, data[:512]) :]
            if not any(ready[:2]):
                raise TimeoutError("the program takes no keys")
        return moment

    def read(self, seconds: float) -> bool:
        """Take in what is painted within so many seconds, at once if there is something. False at the end."""
        if not select.select([self.fd], [], [], max(seconds, 0))[0]:
            return True
        try:
            piece = os.read(self.fd, 1 << 16)
        except OSError:
            return False
        self._moments.append(time.monotonic())
        self.painted += piece
        self._ends.append(len(self.painted))
        for question in QUESTIONS.finditer(self.painted, self._asked):
            self._asked = question.end()
            if answer := reply(question[0]):
                os.write(self.fd, answer)
        return True

    def watch(self, seconds: float) -> None:
        """Read for a while, as a terminal does."""
        self.until(lambda: False, seconds, fails=False)

    def until(
        self, seen: Callable[[], bool] | str, limit: float = 20.0, since: int = 0, *, fails: bool = True
    ) -> bool:
        """Read until a text is painted or a condition holds. Raises `TimeoutError` if that is a failure."""
        limit *= self.patience if fails else 1
        end = time.monotonic() + limit
        text = seen.encode() if isinstance(seen, str) else b""
        while not (self.painted.find(text, since) >= 0 if isinstance(seen, str) else seen()):
            left = end - time.monotonic()
            if left <= 0 or not self.read(min(left, 0.02)):
                if not fails and left <= 0:
                    return False
                what = "the program ended" if left > 0 else f"nothing within {limit:.0f} s"
                raise TimeoutError(f"{what}; last painted: {plain(bytes(self.painted[-1500:]))[-160:]!r}")
        return True

    def moment(self, text: str, since: int = 0) -> float:
        """When a text was first painted at or after an offset. Raises `ValueError` if it was not."""
        at = self.painted.index(text.encode(), since)
        return self._moments[bisect.bisect_right(self._ends, at)]

    def first_paint(self) -> float:
        return self._moments[0]


SEQUENCE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]P_^X].*?(?:\x07|\x1b\\)|[ -/]*[0-~])", re.DOTALL)


def plain(data: bytes) -> str:
    """Painted bytes without escape sequences and empty room, for messages."""
    text = SEQUENCE.sub(b" ", data).decode(errors="replace")
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def relatives(pid: int, token: str) -> set[int]:
    """A process, all below it, and all that carry the mark of this measurement, wherever they went."""
    found = {pid} if Path(f"/proc/{pid}").exists() else set[int]()
    wanted = f"{MARK}={token}\0".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if wanted in (entry / "environ").read_bytes():
                    found.add(int(entry.name))
            except OSError:
                continue
    for root in list(found):
        try:
            found |= set(family(root))
        except OSError:
            continue
    return found


def end_all(pid: int, token: str) -> None:
    """Kill a process and everything it started, until nothing of it is left."""
    for _ in range(5):
        left = relatives(pid, token) - {os.getpid()}
        alive = [each for each in left if state(each) not in ("Z", "")]
        if not alive:
            return
        for each in alive:
            try:
                os.kill(each, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.05)


def state(pid: int) -> str:
    """The letter of a process's state; empty when it is gone."""
    return next(iter(fields(pid)), "")


def fields(pid: int) -> list[str]:
    """What /proc says of a process, from its state on; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def cpu(screen: Screen) -> float:
    """Seconds of CPU of the whole tree so far, with those of children that ended."""
    ticks = (fields(each)[11:15] for each in relatives(screen.process.pid, screen.home.token))
    return sum(sum(map(int, each)) for each in ticks) / TICK


def memory(screen: Screen) -> float:
    """MB of the whole tree; what several processes share counts in parts."""
    return sum(pss(each) for each in relatives(screen.process.pid, screen.home.token)) / 1024


def pss(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return int(text.partition("\nPss:")[2].split()[0])


def letters(first: int) -> Iterator[str]:
    """Characters that no program shows of itself, from a code on."""
    while True:
        yield chr(first)
        first += 1
