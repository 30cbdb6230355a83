"""Contents of git objects, read by running git.

A command may delete `.git`, or make git remove objects. The objects have hard links in a folder of Hermes
(`git_keep`), from which they can still be read and restored.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from agent.errors import HermesError
from agent.workspace.checkpoints.entries import LeftOut
from agent.workspace.checkpoints.git_keep import GitKeep
from agent.workspace.git import GitError, common_folder, git_folder, run_git, top_folder
from agent.workspace.project_tree import in_order

T = TypeVar("T")

_COUNT, _BYTES = 500, 32_000_000
"""The limits on the number of objects, and on their bytes, requested at once."""
_ANSWER = 2 * _BYTES + 60_000_000
"""The size limit of one answer in bytes: a single object may have up to 50 MB."""
_SECONDS = 20.0
_PATIENCE = 60.0
"""Seconds for all requests of one call: a broken repository must not block for hours."""
_ASKED = 5_000


class GitObjects:
    """The git objects of the repositories in and around `root`. Methods block: call them in a thread.

    `folder` holds the hard links to objects of all repositories.
    """

    def __init__(self, root: Path, loop: asyncio.AbstractEventLoop, folder: Path) -> None:
        self._root = root
        self._loop = loop
        self._folder = folder
        self._keeps: dict[Path, GitKeep] = {}

    def read(self, wanted: Mapping[str, int]) -> Iterator[tuple[str, bytes]]:
        """Yield id and contents of objects; `wanted` gives the expected size for each id.

        Unavailable objects are left out.
        """
        until = time.monotonic() + _PATIENCE
        left = dict(wanted)
        for place in (self._root, *(keep.place for keep in self._keeps.values())):
            if not left:
                continue
            for ids in _portions(left):
                found = self._run(_some(place, ids, until))
                yield from found.items()
                for each in found:
                    left.pop(each, None)

    def present(self, ids: Iterable[str]) -> Iterator[set[str]]:
        """Yield in groups which of these objects exist. Reads no contents."""
        wanted = set(ids)
        for keep in self._keeps.values():
            held = keep.holds(wanted)
            wanted -= held
            yield held
        until = time.monotonic() + _PATIENCE
        ordered = in_order(wanted)
        for start in range(0, len(ordered), _ASKED):
            yield set(self._run(_present(self._root, ordered[start : start + _ASKED], until)))

    def hold(self, places: Iterable[Path]) -> Iterator[None]:
        """Create hard links to new objects in these object folders, and in that of the work tree.

        Yields between pieces of work. Never raises; `uncovered` names folders where it failed.
        """
        for place in dict.fromkeys((*_own(self._root), *places)):
            try:
                objects = place.resolve(strict=True)
                keep = self._keeps.setdefault(objects, GitKeep(self._folder, objects))
                yield from keep.refresh()
            except (OSError, HermesError) as error:
                keep = self._keeps.setdefault(place, GitKeep(self._folder, place))
                keep.reason = str(getattr(error, "strerror", None) or error).lower()

    def uncovered(self) -> tuple[LeftOut, ...]:
        """Return the object folders that are not completely kept, with the reasons."""
        found = []
        for keep in self._keeps.values():
            if keep.reason:
                inside = keep.source.is_relative_to(self._root)
                name = keep.source.relative_to(self._root).as_posix() if inside else str(keep.source)
                found.append(LeftOut(name, keep.reason))
        return tuple(found)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


def _own(root: Path) -> list[Path]:
    """Return the object folder of the repository that contains `root`, in a list; empty if there is none."""
    with suppress(OSError, RuntimeError):
        top = top_folder(root)
        git = git_folder(top) if top is not None else None
        if git is not None:
            return [common_folder(git).resolve() / "objects"]
    return []


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
    """Yield id and contents of the blobs in git's output.

    Each has a line `id kind size` before it and a line feed after it.
    """
    at = 0
    while (end := data.find(b"\n", at)) >= 0:
        words = data[at:end].split()
        at = end + 1
        if len(words) == 3 and words[2].isdigit():
            size = int(words[2])
            if words[1] == b"blob":
                yield words[0].decode("ascii"), data[at : at + size]
            at += size + 1
