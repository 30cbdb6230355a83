"""Everyday commands of version control, run by a session in its boundary and by a plain shell beside it.

python -m tests.agent.session.turns.everyday     # prints what differs, by kind
"""

from __future__ import annotations

import asyncio
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.support.engines import bench
from tests.support.replies import by_step, call, say

_WHOLE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
PINNED = {
    "GIT_AUTHOR_DATE": "2026-01-02T03:04:05Z",
    "GIT_COMMITTER_DATE": "2026-01-02T03:04:05Z",
    "GIT_CONFIG_NOSYSTEM": "1",
    "USER": "tester",
    "EDITOR": "true",
}
_PASSING = (
    re.compile(r"\b[0-9a-f]{10,64}\b"),
    re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?"),
    re.compile(r"\b\d+(\.\d+)? (KiB|MiB|bytes)(/s)?|\b\d+(\.\d+)?s\b"),
)


@dataclass(frozen=True)
class Work:
    """Commands in one project: `given` is there before, `state` says how the project stands."""

    name: str
    needs: str
    given: str
    commands: tuple[str, ...]
    state: str


WORKS = {
    each["name"]: Work(
        each["name"], each.get("needs", ""), each["given"], tuple(each["commands"]), each["state"]
    )
    for each in _WHOLE
}


@dataclass
class Found:
    """What differs between inside and outside, and what was asked."""

    count: int = 0
    asked: list[str] = field(default_factory=list)
    differs: list[str] = field(default_factory=list)


@contextmanager
def room() -> Iterator[Path]:
    """A new folder where no private `/tmp` covers it, whatever the home of the tests is."""
    made = Path(tempfile.mkdtemp(prefix=".hermes-everyday-", dir=pwd.getpwuid(os.getuid()).pw_dir)).resolve()
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def lacks(work: Work) -> list[str]:
    """The programs that this machine has not."""
    return [each for each in work.needs.split() if not shutil.which(each)]


def _plain(text: str, folder: Path) -> str:
    text = re.sub(r"\x1b\[K|^.*\r", "", text.replace(str(folder), "TOP"), flags=re.MULTILINE)
    for pattern in _PASSING:
        text = pattern.sub("…", text)
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE).strip()


def _shell(folder: Path, text: str, environ: dict[str, str]) -> tuple[int, str]:
    done = subprocess.run(
        ["bash", "-c", text], cwd=folder, env=environ, capture_output=True, text=True,
        errors="replace", stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


async def compare(work: Work, root: Path, config: str = "") -> Found:
    """Run the commands of a work both ways below `root`; nobody is there to be asked."""
    found = Found(len(work.commands))
    environ = {**os.environ, **PINNED, "HOME": str(root / "user")}
    (root / "user").mkdir()
    beside = root / "beside" / "work"
    beside.mkdir(parents=True)
    async with bench(root, lambda *_: None) as b:
        b.environ |= environ
        b.config(config)
        for folder in (b.workspace, beside):
            code, said = _shell(folder, f"set -e\n{work.given}", environ)
            assert not code, said
        b.server.script = by_step([*(call("terminal", command=each) for each in work.commands), say("done")])
        await b.turn("go", attended=False, approve="normal")
        results = [_result(b, number) for number, _ in enumerate(work.commands, 1)]
        for command, told in zip(work.commands, results, strict=True):
            code, said = _shell(beside, command, environ)
            here = _plain(str(told.get("output", told)), b.workspace.parent)
            there = _plain(said, beside.parent)
            if told.get("status") == "blocked" or "git-config(" in str(told.get("note")):
                found.asked.append(f"{command}: {told}")
            elif told.get("exit_code") != code or sorted(here.splitlines()) != sorted(there.splitlines()):
                ours, theirs = f"inside  {told.get('exit_code')}: {here}", f"outside {code}: {there}"
                found.differs.append(f"{command}\n  {ours}\n  {theirs}\n  {told.get('note', '')}")
            elif told.get("note"):
                found.differs.append(f"{command}: {told['note']}")
        states = [_plain(_shell(each, work.state, environ)[1], each.parent) for each in (b.workspace, beside)]
        if states[0] != states[1]:
            found.differs.append(f"the project: {_difference(*states)}")
    return found


def _result(b: Any, number: int) -> dict[str, Any]:
    from tests.agent.session.turns.test_guarded_changes import result

    return result(b, number)


def _difference(one: str, other: str) -> str:
    import difflib

    return "\n".join(
        difflib.unified_diff(one.splitlines(), other.splitlines(), "inside", "outside", lineterm="", n=0)
    )


async def _main(names: list[str]) -> None:
    for name, work in WORKS.items():
        if names and name not in names:
            continue
        if lacks(work):
            print(f"{name}: not had: {', '.join(lacks(work))}")
            continue
        with room() as root:
            found = await compare(work, root)
        print(f"{name}: {found.count} commands, {len(found.asked)} asked, {len(found.differs)} differ")
        for each in (*found.asked, *found.differs):
            print("   ", each.replace("\n", "\n    "))


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1:]))
