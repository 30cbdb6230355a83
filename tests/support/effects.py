"""Effects of commands, seen by playing them in a container: own user, mounts, processes and network."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.safety.rules import is_listed

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Played:
    """What came of one command: the verdict, and where it was played what it did unasked."""

    command: str
    verdict: str
    outside: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    @property
    def harm(self) -> str:
        """What it did beyond the workspace, or to what undo does not bring back; empty when nothing.

        What is only read from a host on the list may pass unasked; nobody is told anything there.
        """
        hosts = [each for each in self.hosts if not is_listed(each.rpartition(":")[0])]
        return "; ".join((*self.outside, *(f"object {each}" for each in self.lost), *hosts))


def container(*, nested: bool = False) -> list[str]:
    """The command line of a container in which nothing of this machine can be changed.

    `nested`: one in which Hermes' boundary, itself such a container, can be drawn. The kernel mounts
    `/proc` only where all of another one can be seen, so processes are not kept apart by the outer one.
    """
    program = shutil.which("bwrap")
    assert program is not None
    site = Path(sys.prefix)
    return [
        program,
        *("--ro-bind", "/", "/"),
        *(("--bind", "/proc", "/proc") if nested else ("--proc", "/proc", "--unshare-pid")),
        *("--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/home", "--tmpfs", "/run"),
        *("--dir", "/home/ada", "--dir", "/home/template"),
        *("--unshare-user", "--unshare-net", "--unshare-ipc", "--unshare-uts"),
        *("--uid", "1000", "--gid", "1000", "--setenv", "HOME", "/home/ada", "--die-with-parent"),
        *("--ro-bind", str(ROOT), str(ROOT), "--ro-bind", str(site), str(site)),
        *("--chdir", str(ROOT)),
    ]


def works() -> bool:
    """Whether this machine lets containers be made, one inside the other."""
    if shutil.which("bwrap") is None:
        return False
    inner = ["bwrap", "--ro-bind", "/", "/", "--unshare-all", "--proc", "/proc", "true"]
    return subprocess.run([*container(nested=True), *inner], capture_output=True, check=False).returncode == 0


def played(commands: Sequence[str], *, closed: bool, ungated: bool = False) -> list[Played]:
    """Play commands that pass unasked, behind Hermes' boundary or without one; all if `ungated`."""
    how = ["closed" if closed else "none", *(["ungated"] if ungated else [])]
    argv = [*container(nested=closed), sys.executable, "-m", "tests.support.effects_child", *how]
    done = subprocess.run(argv, input=json.dumps(list(commands)), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2_000:])
    found = json.loads(done.stdout)
    return [
        Played(
            command,
            each["verdict"],
            tuple(each.get("outside", ())),
            tuple(each.get("lost", ())),
            tuple(each.get("hosts", ())),
        )
        for command, each in zip(commands, found, strict=True)
    ]
