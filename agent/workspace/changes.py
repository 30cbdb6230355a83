"""What changed in the project: one value, a sentence for the person, a note for the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from tools.text import clean, reveal

NOTE_CHARACTERS = 2_000
"""Room of a note."""

MAX_NAMED = 20
"""Files up to which a note names each and shows what changed in it."""

_NAMED_IN_SENTENCE = 3
_NAME_CHARACTERS = 120
_NO_ROOM = "\n[more of the diff is left out; read the file]\n"


@dataclass(frozen=True, slots=True)
class FileDiff:
    """A unified diff of one file, and the lines it adds and removes. `text` may be shortened or empty."""

    path: str
    text: str
    added: int
    removed: int


@dataclass(frozen=True, slots=True)
class Changes:
    """Files that changed, as paths relative to the project folder with `/`, sorted.

    A renamed file is in `renamed` only (from, to), if its content stayed; else it
    is removed and added. There are no diffs of binary, large and secret files,
    and none at all when more than `MAX_NAMED` files changed.
    """

    added: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    diffs: tuple[FileDiff, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()

    @property
    def count(self) -> int:
        """How many files changed."""
        return len(self.added) + len(self.modified) + len(self.removed) + len(self.renamed)

    def __bool__(self) -> bool:
        return self.count > 0

    def followed_by(self, later: Changes) -> Changes:
        """Both as one, as far as they can be told apart: a file that came and changed has come."""
        was_absent = {*self.added, *later.added} - {*self.removed, *self.modified}
        is_absent = {*self.removed, *later.removed} - {*later.added}
        touched = {*self.added, *self.modified, *self.removed, *later.added, *later.modified, *later.removed}
        return Changes(
            added=tuple(sorted(was_absent - is_absent)),
            modified=tuple(sorted(touched - was_absent - is_absent)),
            removed=tuple(sorted(is_absent - was_absent)),
            diffs=(*self.diffs, *later.diffs),
            renamed=(*self.renamed, *later.renamed),
        )

    def sentence(self) -> str:
        """What happened in one line, such as `You changed src/settings.py (+1 −1)`. Safe to show."""
        lines = {diff.path: _lines(diff) for diff in self.diffs}
        modified = [shown(path) + lines.get(path, "") for path in self.modified]
        added = [shown(path) for path in self.added]
        removed = [shown(path) for path in self.removed]
        renamed = [f"{shown(old)} to {shown(new)}" for old, new in self.renamed]
        parts = [
            f"{verb} {_listed(names)}"
            for verb, names in (
                ("changed", modified),
                ("added", added),
                ("removed", removed),
                ("renamed", renamed),
            )
            if names
        ]
        return f"You {_joined(parts)}" if parts else "Nothing changed"

    def note(self) -> str:
        """The same for the model, with what changed, in at most `NOTE_CHARACTERS` characters."""
        head = "The person changed files of the project since you last looked:\n" + self._list()
        if len(head) > NOTE_CHARACTERS:
            cut = head.rfind("\n", 0, NOTE_CHARACTERS - 40) + 1
            return f"{head[:cut]}… and more of {self.count:,} files\n"
        return head + _fitted([clean(diff.text) for diff in self.diffs], NOTE_CHARACTERS - len(head))

    def _list(self) -> str:
        lines = {diff.path: _lines(diff) for diff in self.diffs}
        rows = [
            *(f"- changed {shown(path)}{lines.get(path, '')}" for path in self.modified[:MAX_NAMED]),
            *(f"- added {shown(path)}{lines.get(path, '')}" for path in self.added[:MAX_NAMED]),
            *(f"- removed {shown(path)}" for path in self.removed[:MAX_NAMED]),
            *(f"- renamed {shown(old)} to {shown(new)}" for old, new in self.renamed[:MAX_NAMED]),
        ]
        if self.count <= MAX_NAMED:
            return "\n".join(rows) + "\n"
        groups = (
            ("changed", self.modified),
            ("added", self.added),
            ("removed", self.removed),
            ("renamed", tuple(new for _, new in self.renamed)),
        )
        rows = [f"- {verb} {len(paths):,} {_places(paths)}" for verb, paths in groups if paths]
        return "\n".join(rows) + "\n"


def shown(path: str) -> str:
    """`path` in one line that hides nothing, its middle left out when it is long."""
    text = reveal(path).replace("\n", "\\n").replace("\t", "\\t")
    if len(text) <= _NAME_CHARACTERS:
        return text
    half = _NAME_CHARACTERS // 2
    return f"{text[: half - 1]}…{text[-half:]}"


def _lines(diff: FileDiff) -> str:
    return f" (+{diff.added} −{diff.removed})" if diff.added or diff.removed else ""


def _listed(names: Sequence[str]) -> str:
    if len(names) <= _NAMED_IN_SENTENCE:
        return _joined(names)
    return f"{len(names):,} files"


def _joined(parts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)


def _places(paths: Sequence[str]) -> str:
    """Where many files are: `files in src, tests and 3 more folders`."""
    tops = sorted({PurePosixPath(path).parts[0] if "/" in path else "." for path in paths})
    named = ["the project folder" if top == "." else shown(top) for top in tops[:_NAMED_IN_SENTENCE]]
    if len(tops) > len(named):
        named.append(f"{len(tops) - len(named):,} more folders")
    return f"{'file' if len(paths) == 1 else 'files'} in {_joined(named)}"


def _fitted(diffs: Sequence[str], room: int) -> str:
    """The diffs as far as they fit, each whole or cut at a line with a word about it."""
    text = ""
    for diff in diffs:
        if not diff:
            continue
        piece = f"\n{diff}"
        if len(text) + len(piece) > room:
            cut = piece.rfind("\n", 0, max(room - len(text) - len(_NO_ROOM), 0))
            kept = piece[:cut] if piece.count("\n", 0, max(cut, 0)) > _NAMED_IN_SENTENCE else ""
            return text + kept + _NO_ROOM if len(text + kept + _NO_ROOM) <= room else text
        text += piece
    return text
