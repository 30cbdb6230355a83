"""A newer version beside what is installed: what is new, what the person edited, and where both meet."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from agent.knowledge.skills.hub.bundle import SkillFile
from tools.files.diffs import diff_texts, shorten_diff
from tools.text.safe_text import clean

Side = Literal["mine", "theirs"]
"""Whose version of a file counts where the person and the source both changed it."""
_DIFF_CHARS = 20_000


@dataclass(frozen=True, slots=True)
class SkillFileChange:
    """What an update does to one file."""

    path: str
    what: Literal["added", "removed", "changed", "kept"]
    """`kept`: the person's edit stays."""
    diff: str = ""


@dataclass(frozen=True, slots=True)
class Merge:
    """Installed files and a newer version, put together."""

    files: tuple[SkillFile, ...]
    changes: tuple[SkillFileChange, ...]
    conflicts: tuple[str, ...]
    """Paths that the person and the source both changed, and nobody has decided about."""


def merged(
    base: Mapping[str, str],
    installed: Iterable[SkillFile],
    newer: Iterable[SkillFile],
    side: Side | None = None,
) -> Merge:
    """Put a newer version together with what is installed; `base` are the hashes of the version before."""
    mine = {file.path: file for file in installed}
    theirs = {file.path: file for file in newer}
    files: list[SkillFile] = []
    changes: list[SkillFileChange] = []
    conflicts: list[str] = []
    for path in sorted(mine.keys() | theirs.keys()):
        own, new, old = mine.get(path), theirs.get(path), base.get(path)
        if _hash(own) == old or _hash(own) == _hash(new):
            chosen = new
        elif _hash(new) == old:
            chosen = own
        elif side is None:
            conflicts.append(path)
            chosen = own
        else:
            chosen = own if side == "mine" else new
        if chosen is not None:
            files.append(chosen)
        change = _change(path, own, chosen, new)
        if change is not None:
            changes.append(change)
    return Merge(tuple(files), tuple(changes), tuple(conflicts))


def _hash(file: SkillFile | None) -> str | None:
    return hashlib.sha256(file.content).hexdigest() if file is not None else None


def _change(
    path: str, own: SkillFile | None, chosen: SkillFile | None, new: SkillFile | None
) -> SkillFileChange | None:
    if _hash(own) == _hash(chosen):
        return SkillFileChange(path, "kept") if _hash(chosen) != _hash(new) else None
    what: Literal["added", "removed", "changed"] = (
        "added" if own is None else "removed" if chosen is None else "changed"
    )
    return SkillFileChange(path, what, difference(path, own, chosen))


def difference(path: str, old: SkillFile | None, new: SkillFile | None) -> str:
    """The diff from one version of a file to another, as clean text; a sentence where one is no text."""
    names = [f"{side}/{path}" if file is not None else "/dev/null" for side, file in (("a", old), ("b", new))]
    try:
        texts = [file.content.decode("utf-8") if file is not None else "" for file in (old, new)]
    except UnicodeDecodeError:
        return f"{clean(path)} is no text.\n"
    return shorten_diff(clean(diff_texts(texts[0], texts[1], names[0], names[1]).text), _DIFF_CHARS)
