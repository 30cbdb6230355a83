"""Processes that belong to a command, and ending all of them, even if Hermes is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tools.kit.children import kill_group

MARK = "HERMES_CALL"
"""The environment variable by which descendants are recognised; children inherit it."""

GRACE = 0.1
"""Seconds between asking processes to end and killing them."""

_PROC = Path("/proc")
_ROUNDS = 20


@dataclass(frozen=True, slots=True)
class ChildProcess:
    """A living descendant of a shell."""

    pid: int
    group: int
    name: str
    is_reaper: bool = False
    """Whether it is the first process of a sandbox, which only waits for the others."""


@dataclass(frozen=True, slots=True)
class _Stat:
    pid: int
    name: str
    state: str
    parent: int
    group: int
    session: int


def relatives(root: int, mark: str) -> list[ChildProcess]:
    """Return living processes that descend from the shell `root`, including `root`.

    A descendant is found by its session (`setsid` leaves it), by its living parents (a daemon has none), or
    by the mark in its environment (`env -i` drops it). Returns an empty list without /proc.
    """
    table = {stat.pid: stat for stat in _table()}
    kin = {pid for pid, stat in table.items() if pid == root or stat.session == root}
    kin |= {pid for pid in table.keys() - kin if _is_marked(pid, mark)}
    children: dict[int, list[int]] = {}
    for stat in table.values():
        children.setdefault(stat.parent, []).append(stat.pid)
    waiting = list(kin)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in kin:
                kin.add(child)
                waiting.append(child)
    kin.discard(os.getpid())
    return [
        ChildProcess(pid, table[pid].group, table[pid].name, _is_first(pid))
        for pid in sorted(kin)
        if table[pid].state not in "ZX"
    ]


def kill(root: int, mark: str, grace: float = GRACE) -> None:
    """End the shell `root` and its relatives: SIGTERM, then after `grace` seconds SIGKILL, a few times.

    Without /proc only the process group is ended. Blocks for little more than `grace`; meant for a thread.
    """
    if not _PROC.is_dir():
        kill_group(root, signal.SIGTERM)
        time.sleep(grace)
        kill_group(root, signal.SIGKILL)
        return
    until = time.monotonic() + grace
    found = _signal_all(root, mark, signal.SIGTERM)
    # A stopped process acts on SIGTERM only once it runs again.
    _signal(found, signal.SIGCONT)
    while found and time.monotonic() < until:
        time.sleep(0.01)
        found = [relative.pid for relative in relatives(root, mark)]
    for _ in range(_ROUNDS):
        if not _signal_all(root, mark, signal.SIGKILL):
            break
        time.sleep(0.005)


def kill_marked(mark: str) -> None:
    """Kill every process with the mark, whatever its parents and sessions. Does nothing without /proc.

    Blocks for a moment; meant for a thread.
    """
    for _ in range(_ROUNDS):
        pids = [each.pid for each in _table() if each.state not in "ZX" and _is_marked(each.pid, mark)]
        if not pids:
            break
        _signal(pids, signal.SIGKILL)
        time.sleep(0.005)


def _signal_all(root: int, mark: str, number: signal.Signals) -> list[int]:
    pids = [relative.pid for relative in relatives(root, mark)]
    _signal(pids, number)
    return pids


def _signal(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            pass


def _table() -> Iterable[_Stat]:
    try:
        names = os.listdir(_PROC)  # noqa: PTH208 thousands of paths nobody needs
    except OSError:
        return
    for name in names:
        if name.isdigit() and (stat := _stat(name)) is not None:
            yield stat


def _stat(pid: str) -> _Stat | None:
    text = _read(pid, "stat").decode(errors="replace")
    # The name is in brackets and may hold anything, brackets and blanks too.
    start, end = text.find("("), text.rfind(")")
    fields = text[end + 2 :].split(maxsplit=4)
    if len(fields) < 5:
        return None
    state, parent, group, session = fields[:4]
    return _Stat(int(pid), text[start + 1 : end], state, int(parent), int(group), int(session))


def _is_first(pid: int) -> bool:
    """Return whether a process is the first one (PID 1) of its own namespace."""
    status = _read(pid, "status").decode(errors="replace")
    numbers = status.partition("\nNSpid:")[2].partition("\n")[0].split()
    return len(numbers) > 1 and numbers[-1] == "1"


def _is_marked(pid: int, mark: str) -> bool:
    return f"{MARK}={mark}\0".encode() in _read(pid, "environ") + b"\0"


def _read(pid: int | str, name: str) -> bytes:
    """Return the content of a file in a process's folder of /proc; empty if the process is gone.

    It is kept simple for speed, because it runs for every process.
    """
    try:
        descriptor = os.open(f"{_PROC}/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    pieces: list[bytes] = []
    try:
        while piece := os.read(descriptor, 65_536):
            pieces.append(piece)
    except OSError:
        return b""
    finally:
        os.close(descriptor)
    return b"".join(pieces)


# Lines `+ group` and `- group` keep the list of groups, which is all there is without /proc.
_SCRIPT = """
groups=
while read -r sign group; do
  case $sign in
    +) groups="$groups $group" ;;
    -) rest=; for one in $groups; do [ "$one" = "$group" ] || rest="$rest $one"; done; groups=$rest ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group"; done
for round in 1 2 3; do
  for file in $(grep -ls "$1=$2[.]" /proc/[0-9]*/environ); do
    pid=${file#/proc/}
    kill -s KILL "${pid%/environ}"
  done
done
"""


class KillGuard:
    """The guard process of one owner. It guards all processes whose mark begins with `owner` and a dot."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._process: subprocess.Popen[bytes] | None = None
        self._groups: set[int] = set()

    def add(self, group: int) -> None:
        """Watch a process group. Starts the guard if it is not running."""
        self._groups.add(group)
        if self._process is None or self._process.poll() is not None:
            self._release()
            self._start()
        else:
            self._send(f"+ {group}\n")

    def remove(self, group: int) -> None:
        """Stop watching an ended process group."""
        if group in self._groups:
            self._groups.discard(group)
            self._send(f"- {group}\n")

    def close(self) -> None:
        """Have the guard kill the processes that are left; wait up to 5 s. Blocks; meant for a thread."""
        process, self._process = self._process, None
        if process is not None:
            try:
                process.communicate(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _release(self) -> None:
        """Release the resources of a guard that was killed."""
        if self._process is not None and self._process.stdin is not None:
            try:
                self._process.stdin.close()
            except OSError:
                # What was still to be written has no reader any more.
                pass

    def _start(self) -> None:
        try:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _SCRIPT, "hermes-guard", MARK, self._owner],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"PATH": "/usr/bin:/bin"},
                cwd="/",
                start_new_session=True,
            )
        except OSError:
            # Without a guard commands still run; only the death of Hermes itself could leave some behind.
            self._process = None
            return
        self._send("".join(f"+ {group}\n" for group in sorted(self._groups)))

    def _send(self, lines: str) -> None:
        if self._process is None or self._process.stdin is None:
            return
        try:
            self._process.stdin.write(lines.encode())
            self._process.stdin.flush()
        except OSError:
            # The guard was killed; the next `add` starts a new one.
            pass
