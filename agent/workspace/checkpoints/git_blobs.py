"""Contents of git objects, read through the one way to run git.

A command may delete `.git`, or have git throw objects away. So while a workspace is
recorded, the packs of its repository and the single objects in question have
second names (hard links) in a folder of ours, from which they can still be read.
That costs no room and is possible on the same file system only.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import secrets
import shutil
import stat
import time
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from agent.home import PRIVATE_FILE, private_folder
from agent.workspace.git import GitError, run_git
from agent.workspace.order import in_order
from agent.workspace.repository import common_folder, git_folder, top_folder
from tools.files.descriptors import read_bytes

T = TypeVar("T")

_COUNT, _BYTES = 500, 32_000_000
"""Objects, and bytes of them, that are asked for at once."""
_ANSWER = 2 * _BYTES + 60_000_000
"""Bytes of one answer: a single object may have up to 50 MB."""
_SECONDS = 20.0
_PATIENCE = 60.0
"""Seconds for all questions of one call together: a broken repository must not hold anybody for hours."""
_ASKED = 20_000
_LINKS = 60_000
"""Second names at most."""


class GitObjects:
    """The objects of the repository around `root`. Methods block: for a thread beside the loop.

    `links` is the folder for second names of all workspaces.
    """

    def __init__(self, root: Path, loop: asyncio.AbstractEventLoop, links: Path) -> None:
        self._root = root
        self._loop = loop
        self._links = Links(links)

    def read(self, wanted: Mapping[str, int]) -> Iterator[tuple[str, bytes]]:
        """Contents by id, some at a time; `wanted` gives the size expected. What cannot be had is missing."""
        until = time.monotonic() + _PATIENCE
        left = dict(wanted)
        for place in (self._root, self._links.folder):
            if place is None or not left:
                continue
            for ids in _portions(left):
                found = self._run(_some(place, ids, until))
                yield from found.items()
                for each in found:
                    left.pop(each, None)

    def present(self, ids: Iterable[str]) -> set[str]:
        """Which of these objects there are. Looks at no contents."""
        wanted = in_order(ids)
        until = time.monotonic() + _PATIENCE
        portions = (wanted[start : start + _ASKED] for start in range(0, len(wanted), _ASKED))
        return {each for portion in portions for each in self._run(_present(self._root, portion, until))}

    def hold(self, ids: Iterable[str]) -> None:
        """Give these objects second names, as far as that can be done."""
        with suppress(OSError):
            self._links.hold(self._root, ids)

    def close(self) -> None:
        """Give the second names up."""
        self._links.drop()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


class Links:
    """A git folder of ours below `folder` with second names of objects. It is locked while it is in use."""

    def __init__(self, folder: Path) -> None:
        self._all = folder
        self._lock = -1
        self.folder: Path | None = None

    def hold(self, root: Path, ids: Iterable[str]) -> None:
        """Link all packs, and those of `ids` that stand alone. Raises `OSError` where that cannot be."""
        top = top_folder(root)
        git = git_folder(top) if top is not None else None
        if git is None:
            return
        objects = common_folder(git).resolve() / "objects"
        if self.folder is None:
            self._sweep()
            self._begin()
        assert self.folder is not None
        ours = self.folder / ".git" / "objects"
        packs = [name for name in _listed(objects / "pack") if name.endswith((".pack", ".idx"))]
        _link_all(objects / "pack", ours / "pack", packs)
        for each in list(ids)[:_LINKS]:
            _link(objects / each[:2] / each[2:], ours / each[:2] / each[2:])
        self._borrow(objects, ours)

    def drop(self) -> None:
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            os.close(self._lock)
            self.folder, self._lock = None, -1

    def _begin(self) -> None:
        private_folder(self._all)
        folder = self._all / secrets.token_hex(8)
        private_folder(folder)
        self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for part in ("objects/pack", "objects/info", "refs"):
            (folder / ".git" / part).mkdir(parents=True)
        (folder / ".git" / "HEAD").write_text("ref: refs/heads/none\n")
        (folder / ".git" / "config").write_text("[core]\n\trepositoryformatversion = 0\n")
        self.folder = folder

    def _borrow(self, objects: Path, ours: Path) -> None:
        """Go on reading from where the repository itself borrows objects."""
        with suppress(OSError):
            data, _ = read_bytes(objects / "info" / "alternates", 100_000)
            places = [objects / os.fsdecode(line) for line in data.split(b"\n") if line.strip()]
            (ours / "info" / "alternates").write_bytes(b"".join(os.fsencode(each) + b"\n" for each in places))

    def _sweep(self) -> None:
        """Remove what killed processes left."""
        for name in _listed(self._all):
            with suppress(OSError):
                descriptor = os.open(self._all / name / "lock", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(self._all / name, ignore_errors=True)
                finally:
                    os.close(descriptor)


def _listed(folder: Path) -> list[str]:
    try:
        return sorted(each.name for each in folder.iterdir())[:_LINKS]
    except OSError:
        return []


def _link_all(source: Path, target: Path, names: Iterable[str]) -> None:
    for name in names:
        _link(source / name, target / name)


def _link(source: Path, target: Path) -> None:
    """A second name, for a plain file only. Raises `OSError` when no file can have one here."""
    try:
        if not stat.S_ISREG(source.lstat().st_mode):
            return
        target.parent.mkdir(exist_ok=True)
        os.link(source, target, follow_symlinks=False)
    except (FileNotFoundError, FileExistsError):
        return


def _portions(wanted: Mapping[str, int]) -> list[tuple[str, ...]]:
    portions: list[list[str]] = [[]]
    size = 0
    for each in sorted(wanted):
        if portions[-1] and (len(portions[-1]) == _COUNT or size + wanted[each] > _BYTES):
            portions.append([])
            size = 0
        portions[-1].append(each)
        size += wanted[each]
    return [tuple(portion) for portion in portions]


async def _some(place: Path, ids: tuple[str, ...], until: float) -> dict[str, bytes]:
    if time.monotonic() > until:
        return {}
    lines = "".join(f"{each}\n" for each in ids).encode("ascii")
    try:
        result = await run_git(place, "cat-file", "--batch", seconds=_SECONDS, input=lines, limit=_ANSWER)
    except (GitError, OSError):
        if len(ids) == 1:
            return {}
        half = len(ids) // 2
        return await _some(place, ids[:half], until) | await _some(place, ids[half:], until)
    return dict(_objects(result.output))


async def _present(root: Path, ids: list[str], until: float) -> list[str]:
    if time.monotonic() > until:
        return []
    lines = "".join(f"{each}\n" for each in ids).encode("ascii")
    try:
        result = await run_git(root, "cat-file", "--batch-check", seconds=_SECONDS, input=lines)
    except (GitError, OSError):
        return []
    words = (line.split() for line in result.output.split(b"\n"))
    return [each[0].decode("ascii") for each in words if len(each) == 3 and each[1] == b"blob"]


def _objects(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The objects of an answer: a line `id kind size` before each, a line feed after it."""
    at = 0
    while (end := data.find(b"\n", at)) >= 0:
        words = data[at:end].split()
        at = end + 1
        if len(words) == 3 and words[2].isdigit():
            size = int(words[2])
            if words[1] == b"blob":
                yield words[0].decode("ascii"), data[at : at + size]
            at += size + 1
