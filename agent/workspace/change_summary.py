"""Summaries of changed files: which were added, modified, removed or renamed, and their diffs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from agent.workspace.changes import ProjectChanges, ShownFileDiff, path_text
from agent.workspace.fingerprints import ContentKind
from agent.workspace.project_tree import FileDifference, in_order
from tools.files.access import CredentialGuard
from tools.files.diffs import diff_texts, shorten_diff
from tools.files.text_files import decode
from tools.text.redact import redact

_DIFF_CHARACTERS = 8_000
"""The number of characters after which the diff of one file is cut."""


def summarize(differences: Sequence[FileDifference], root: Path, guard: CredentialGuard) -> ProjectChanges:
    """Return the differences as one value. Blocking, because it computes diffs.

    Files that `guard` protects are named, but their content is not shown.
    """
    renamed = _renames(differences)
    moved = {path for pair in renamed for path in pair}
    left = [difference for difference in differences if difference.path not in moved]
    diffs = (_diff(difference) for difference in left if not guard.hides(root / difference.path))
    return ProjectChanges(
        added=tuple(item.path for item in left if item.before is None),
        modified=tuple(item.path for item in left if item.before is not None and item.after is not None),
        removed=tuple(item.path for item in left if item.after is None),
        diffs=tuple(diff for diff in diffs if diff is not None),
        renamed=renamed,
    )


def _renames(differences: Iterable[FileDifference]) -> tuple[tuple[str, str], ...]:
    """Return pairs of a removed and an added file with the same content, if the match is unambiguous."""
    gone: dict[bytes, list[str]] = {}
    come: dict[bytes, list[str]] = {}
    for item in differences:
        if item.before is not None and item.after is None and item.before.size > 0:
            gone.setdefault(item.before.digest, []).append(item.path)
        elif item.before is None and item.after is not None:
            come.setdefault(item.after.digest, []).append(item.path)
    pairs: list[tuple[str, str]] = []
    for digest, old in gone.items():
        new = come.get(digest, [])
        if len(old) == len(new) == 1:
            pairs.append((old[0], new[0]))
        else:
            # Several files with the same content: those with an unchanged name have moved with their folder.
            before, after = _by_name(old), _by_name(new)
            pairs.extend((path, after[name]) for name, path in before.items() if name in after)
    return tuple(in_order(pairs))


def _by_name(paths: Iterable[str]) -> dict[str, str]:
    """Return the paths by file name, without file names that occur twice."""
    named: dict[str, list[str]] = {}
    for path in paths:
        named.setdefault(path.rpartition("/")[2], []).append(path)
    return {name: found[0] for name, found in named.items() if len(found) == 1}


def _diff(item: FileDifference) -> ShownFileDiff | None:
    """Return the diff of a file; None for a removed file, and unless each version is a stored text."""
    sides = ((item.before, item.text_before), (item.after, item.text_after))
    if any(
        entry is not None and (entry.kind is not ContentKind.TEXT or text is None) for entry, text in sides
    ):
        return None
    if item.after is None:
        return None
    old, new = (decode(text).text if text is not None else "" for _, text in sides)
    old_name = f"a/{path_text(item.path)}" if item.before is not None else "/dev/null"
    diff = diff_texts(redact(old), redact(new), old_name, f"b/{path_text(item.path)}")
    return ShownFileDiff(item.path, shorten_diff(diff.text, _DIFF_CHARACTERS), diff.added, diff.removed)
