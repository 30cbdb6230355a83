"""Changes to files of the project, as a value, as a sentence for the user, and as a note for the model."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from tools.text.safe_text import clean, reveal
from tools.text.words import plural

T = TypeVar("T")

NOTE_CHARACTERS = 2_000
"""The length limit on a note in characters."""

MAX_NAMED = 20
"""The number of files up to which a note names each file with its changes."""

_NAMED_IN_SENTENCE = 3
_NAME_CHARACTERS = 120
_NO_ROOM = "\n[more of the diff is left out; read the file]\n"


@dataclass(frozen=True, slots=True)
class ShownFileDiff:
    """A unified diff of one file, and how many lines it adds and removes. `text` may be cut or empty."""

    path: str
    text: str
    added: int
    removed: int


@dataclass(frozen=True, slots=True)
class ProjectChanges:
    """The changed files, as sorted paths relative to the project folder, with `/`.

    A renamed file is in `renamed` (from, to) only if its content is unchanged. Otherwise it counts as removed
    and added. There are no diffs of binary, large and secret files, and none at all if more than `MAX_NAMED`
    files changed.
    """

    added: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    diffs: tuple[ShownFileDiff, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    folder: Literal["", "gone", "back"] = ""
    """`gone` if the project folder was moved, removed or became unreachable, `back` if it returned."""

    @property
    def count(self) -> int:
        """Return the number of changed files."""
        return len(self.added) + len(self.modified) + len(self.removed) + len(self.renamed)

    def __bool__(self) -> bool:
        return self.count > 0 or self.folder != ""

    def followed_by(self, later: ProjectChanges) -> ProjectChanges:
        """Return these changes combined with later ones: a file added and then changed counts as added.

        This is slow with very many files and should then run in a thread.
        """
        if not self or not later:
            return later or self
        was_absent = {*self.added, *later.added} - {*self.removed, *self.modified}
        is_absent = {*self.removed, *later.removed} - {*later.added}
        touched = {*self.added, *self.modified, *self.removed, *later.added, *later.modified, *later.removed}
        return ProjectChanges(
            added=tuple(sorted(was_absent - is_absent)),
            modified=tuple(sorted(touched - was_absent - is_absent)),
            removed=tuple(sorted(is_absent - was_absent)),
            diffs=(*self.diffs, *later.diffs),
            renamed=(*self.renamed, *later.renamed),
            folder=later.folder or self.folder,
        )

    def sentence(self) -> str:
        """Return one line such as `You changed src/settings.py (+1 −1)`, safe for display."""
        if self.folder:
            held = f", with {self.count:,} {'file' if self.count == 1 else 'files'}" if self.count else ""
            return f"The project folder is {self.folder}{held}"
        lines = {diff.path: _lines(diff) for diff in self.diffs}
        parts = [
            *_part("changed", self.modified, lambda path: path_text(path) + lines.get(path, "")),
            *_part("added", self.added, path_text),
            *_part("removed", self.removed, path_text),
            *_part("renamed", self.renamed, lambda pair: f"{path_text(pair[0])} to {path_text(pair[1])}"),
        ]
        return f"You {_joined(parts)}" if parts else "Nothing changed"

    def note(self) -> str:
        """Return the note for the model, with the diffs, in at most `NOTE_CHARACTERS` characters."""
        if self.folder == "gone":
            return "The project folder is gone: nothing can be read or written there until it is back.\n"
        head = "The person changed files of the project since you last looked:\n" + self._list()
        if self.folder == "back":
            head = f"The project folder is back.\n{head}"
        if len(head) > NOTE_CHARACTERS:
            cut = head.rfind("\n", 0, NOTE_CHARACTERS - 40) + 1
            return f"{head[:cut]}… and more of {self.count:,} files\n"
        return head + _fit_diffs([clean(diff.text) for diff in self.diffs], NOTE_CHARACTERS - len(head))

    def _list(self) -> str:
        return "\n".join(self._files() if self.count <= MAX_NAMED else self._groups()) + "\n"

    def _files(self) -> list[str]:
        lines = {diff.path: _lines(diff) for diff in self.diffs}
        return [
            *(f"- changed {path_text(path)}{lines.get(path, '')}" for path in self.modified),
            *(f"- added {path_text(path)}{lines.get(path, '')}" for path in self.added),
            *(f"- removed {path_text(path)}" for path in self.removed),
            *(f"- renamed {path_text(old)} to {path_text(new)}" for old, new in self.renamed),
        ]

    def _groups(self) -> list[str]:
        groups = (
            ("changed", self.modified),
            ("added", self.added),
            ("removed", self.removed),
            ("renamed", sorted(new for _, new in self.renamed)),
        )
        return [f"- {verb} {len(paths):,} {_places(paths)}" for verb, paths in groups if paths]


def path_text(path: str) -> str:
    """Return `path` on one line, with hidden characters visible and a long path shortened in the middle."""
    text = reveal(path).replace("\n", "\\n").replace("\t", "\\t")
    if len(text) <= _NAME_CHARACTERS:
        return text
    half = _NAME_CHARACTERS // 2
    return f"{text[: half - 1]}…{text[-half:]}"


def _lines(diff: ShownFileDiff) -> str:
    return f" (+{diff.added} −{diff.removed})" if diff.added or diff.removed else ""


def _part(verb: str, items: Sequence[T], show: Callable[[T], str]) -> list[str]:
    """Return the part of the sentence about these items, in a list; empty without items. At most three are
    named.
    """
    if not items:
        return []
    if len(items) > _NAMED_IN_SENTENCE:
        return [f"{verb} {plural(len(items), 'file')}"]
    return [f"{verb} {_joined([show(item) for item in items])}"]


def _joined(parts: Sequence[str]) -> str:
    """Return `a`, `a and b`, or `a, b and c`."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else "".join(parts)


def _places(paths: Sequence[str]) -> str:
    """Return a phrase with the top folders of sorted paths: `files in src, tests and 3 more folders`."""
    tops = _tops(paths)
    named = ["the project folder" if top == "." else path_text(top) for top in tops[:_NAMED_IN_SENTENCE]]
    if len(tops) > len(named):
        named.append(plural(len(tops) - len(named), "more folder"))
    return f"{'file' if len(paths) == 1 else 'files'} in {_joined(named)}"


def _tops(paths: Sequence[str]) -> list[str]:
    """Return the top-level folders of sorted paths; `.` stands for files that are not in a folder."""
    found: set[str] = set()
    place = 0
    while place < len(paths):
        top, slash, _ = paths[place].partition("/")
        found.add(top if slash else ".")
        # After all paths that begin with `top/`: "0" is the character after "/".
        place = bisect_left(paths, f"{top}0", place + 1) if slash else place + 1
    return sorted(found)


def _fit_diffs(diffs: Sequence[str], room: int) -> str:
    """Return as many diffs as fit into `room` characters; the last one may be cut at a line, with a note."""
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
