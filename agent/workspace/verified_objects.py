"""Objects of a git repository whose contents are what their names say.

Git believes what lies in its folder of objects. Who can write there can put another tree under the name of a
commit that somebody trusts, so each object is compared with its name here before anything is read in it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from agent.workspace.git import GitError, run_git

_SECONDS = 20.0
MOST_COMMITS = 20_000
"""Commits between two that are read to find out whether one is an ancestor of the other."""


class UnknownObjectError(GitError):
    """An object that is not there, or is not what its name says."""


class VerifiedObjects:
    """Reads commits and trees of the repository around `root`. Each object is read once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._read: dict[str, tuple[str, bytes]] = {}

    async def entry(self, commit: str, path: str) -> tuple[str, str] | None:
        """Mode and object of `path` (relative to the top) in a commit; None where it has none.

        Raises `GitError` where the commit cannot be read, or one of its objects is forged.
        """
        lines = (await self._object(commit, "commit")).split(b"\n", 1)
        kind, name = "40000", lines[0].decode("ascii", "replace").removeprefix("tree ")
        for part in path.split("/"):
            if kind != "40000":
                return None
            entries = dict(_entries(await self._object(name, "tree"), len(commit) // 2))
            if part not in entries:
                return None
            kind, name = entries[part]
        return kind, name

    async def parents(self, commit: str) -> list[str]:
        """The commits that one follows. Raises `GitError`."""
        return _parents(await self._object(commit, "commit"))

    async def text(self, blob: str) -> bytes:
        """The contents of a file. Raises `GitError`."""
        return await self._object(blob, "blob")

    async def is_before(self, commit: str, tips: Iterable[str]) -> bool:
        """Whether one of `tips` is `commit` or follows it, by commits none of which is forged."""
        tips = list(dict.fromkeys(tips))
        if commit in tips:
            return True
        if not tips:
            return False
        limit = f"--max-count={MOST_COMMITS}"
        asked = "\n".join([f"^{commit}", *tips]).encode()
        found = await run_git(
            self._root,
            *("rev-list", "--ancestry-path", "--ignore-missing", limit, "--stdin"),
            seconds=_SECONDS,
            input=asked,
        )
        between = found.output.decode("ascii", "replace").split()
        if found.code or not between or len(between) >= MOST_COMMITS:
            return False
        await self._fetch(between)
        queue, seen = [tip for tip in tips if tip in self._read], set(tips)
        for each in queue:
            for parent in _parents(await self._object(each, "commit")):
                if parent == commit:
                    return True
                if parent in self._read and parent not in seen:
                    seen.add(parent)
                    queue.append(parent)
        return False

    async def _object(self, name: str, kind: str) -> bytes:
        if name not in self._read:
            await self._fetch([name])
        found = self._read.get(name)
        if found is None or found[0] != kind:
            raise UnknownObjectError(f"The {kind} {name[:12]} cannot be read.")
        return found[1]

    async def _fetch(self, names: Iterable[str]) -> None:
        wanted = [name for name in names if name not in self._read]
        asked = "".join(f"{name}\n" for name in wanted).encode()
        found = await run_git(self._root, "cat-file", "--batch", seconds=_SECONDS, input=asked)
        self._read.update(_verified(found.output))


def _verified(output: bytes) -> Mapping[str, tuple[str, bytes]]:
    """What `cat-file --batch` printed, by name, without objects that are missing or forged."""
    found: dict[str, tuple[str, bytes]] = {}
    at = 0
    while (end := output.find(b"\n", at)) >= 0:
        words = output[at:end].decode("ascii", "replace").split(" ")
        at = end + 1
        if len(words) != 3 or not words[2].isdigit():
            continue
        name, kind, size = words[0], words[1], int(words[2])
        data = output[at : at + size]
        at += size + 1
        if object_name(kind, data, name) == name:
            found[name] = (kind, data)
    return found


def object_name(kind: str, data: bytes, like: str) -> str:
    """The name that git gives an object, by the hash that the name `like` was made with."""
    make = hashlib.sha256 if len(like) == 64 else hashlib.sha1
    return make(f"{kind} {len(data)}\0".encode() + data).hexdigest()


def _parents(commit: bytes) -> list[str]:
    head = commit.partition(b"\n\n")[0].split(b"\n")
    return [line[7:].decode("ascii", "replace") for line in head if line.startswith(b"parent ")]


def _entries(tree: bytes, width: int) -> Iterator[tuple[str, tuple[str, str]]]:
    """Name, mode and object of all that is in a tree; `width` is the bytes of an object's name."""
    at = 0
    while at < len(tree):
        space = tree.index(b" ", at)
        end = tree.index(b"\0", space)
        name = os.fsdecode(tree[space + 1 : end])
        yield name, (tree[at:space].decode("ascii", "replace"), tree[end + 1 : end + 1 + width].hex())
        at = end + 1 + width
