"""Contents of git objects, read through the one way to run git."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from agent.workspace.git import GitError, run_git

_AT_ONCE = 500
_MAX_BYTES = 400_000_000
"""Bytes of one answer; what does not fit is asked for one by one."""
_SECONDS = 60.0


async def blobs(root: Path, ids: Iterable[str]) -> dict[str, bytes]:
    """The contents of objects of the repository around `root`, by id; what cannot be had is missing."""
    wanted = sorted(ids)
    found: dict[str, bytes] = {}
    for start in range(0, len(wanted), _AT_ONCE):
        found |= await _some(root, tuple(wanted[start : start + _AT_ONCE]))
    return found


async def _some(root: Path, ids: tuple[str, ...]) -> dict[str, bytes]:
    lines = "".join(f"{each}\n" for each in ids).encode("ascii")
    try:
        result = await run_git(root, "cat-file", "--batch", seconds=_SECONDS, input=lines, limit=_MAX_BYTES)
    except GitError:
        if len(ids) == 1:
            return {}
        half = len(ids) // 2
        return await _some(root, ids[:half]) | await _some(root, ids[half:])
    return dict(_objects(result.output))


def _objects(data: bytes) -> Iterable[tuple[str, bytes]]:
    """The objects of an answer: a line `id kind size` before each, a line feed after it."""
    at = 0
    while (end := data.find(b"\n", at)) >= 0:
        words = data[at:end].split()
        at = end + 1
        if len(words) == 3 and words[1] == b"blob" and words[2].isdigit():
            size = int(words[2])
            yield words[0].decode("ascii"), data[at : at + size]
            at += size + 1
