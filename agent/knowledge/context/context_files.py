"""Context files: who the agent is (SOUL.md), and what a project wrote down for agents.

Only plain files are read, never a device or a link that leads out of the
project, and never more than a bounded part.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.knowledge.context.cursor_rules import rules_of
from agent.knowledge.context.imports import IMPORTING, imports_of
from agent.knowledge.context.quarantine import KeptPassage, quarantined
from tools.files.text_files import decode, mark_of
from tools.kit.files import open_file
from tools.text.safe_text import clean

PROJECT_NAMES = (
    (".hermes.md", "HERMES.md"),
    ("AGENTS.md",),
    ("CLAUDE.md",),
    (".cursorrules",),
    (".github/copilot-instructions.md",),
)
"""Kinds of project files in the order in which they are shown; of names of one kind the first one counts."""

MAX_BYTES = 4_000_000
"""Bytes read of one file, whatever limit is set."""

_LOOKED_AT = 8_192
"""Bytes at the start in which a NUL tells a file that is no text."""

HEAD, TAIL = 0.7, 0.2
"""Shares of the limit that the beginning and the end of a long file get."""


@dataclass(frozen=True, slots=True)
class ContextFile:
    """A file as the model is shown it. `truncated` tells that its middle was left out."""

    name: str
    path: Path
    text: str
    truncated: bool
    passages: tuple[KeptPassage, ...] = ()
    """What was kept back of it because it reads like an order to an agent."""
    notes: tuple[str, ...] = ()
    """What a person should know of how it is shown."""

    def says_the_same(self, other: ContextFile) -> bool:
        """Whether both have the same text, also where it is kept back."""
        mine, theirs = ([each.digest for each in file.passages] for file in (self, other))
        return self.text == other.text and mine == theirs


def paragraphs(text: str) -> tuple[str, ...]:
    """The pieces between empty lines; a block of code is one piece. At least one. Pure."""
    pieces: list[list[str]] = [[]]
    fence = ""
    for line in text.split("\n"):
        mark = line.lstrip()[:3]
        if mark in ("```", "~~~") and fence in ("", mark):
            fence = "" if fence else mark
        if line.strip() or fence:
            pieces[-1].append(line)
        elif pieces[-1]:
            pieces.append([])
    return tuple("\n".join(piece) for piece in pieces if piece) or ("",)


def soul_file(path: Path, limit: int, allowed: Collection[str] = ()) -> ContextFile | None:
    """The identity of the agent, if the person wrote one. `limit` is in characters.

    `allowed` are the hashes of passages that a person let in, here and below.
    """
    return _read(path, limit, path.parent, allowed)


def project_files(workspace: Path, limit: int, allowed: Collection[str] = ()) -> tuple[ContextFile, ...]:
    """What the project says to agents that work in the workspace. `limit` is in characters of one file.

    The files of all folders from the root of the repository down to the workspace, so that the
    nearer one has the last word; without a repository only those of the workspace itself.
    """
    root = repository_root(workspace)
    return files_of_folders(folders_between(root, workspace), root, limit, allowed)


def files_of_folders(
    folders: Sequence[Path], root: Path, limit: int, allowed: Collection[str] = ()
) -> tuple[ContextFile, ...]:
    """The project files in each of `folders`, in order, as far as they lie below `root`.

    What a `CLAUDE.md` takes in stands behind it. A file that says the same as one before it, such as a link
    to it, is left out.
    """
    found: list[ContextFile] = []
    for folder in folders:
        for names in PROJECT_NAMES:
            read = (_read(folder / name, limit, root, allowed) for name in names)
            file = next((each for each in read if each is not None), None)
            if file is None:
                continue
            taken_in = imports_of(file.path, root, text_of).files if file.name in IMPORTING else ()
            files = (file, *(_read(path, limit, root, allowed) for path in taken_in))
            for each in files:
                if each is not None and not any(each.says_the_same(other) for other in found):
                    found.append(each)
        always = [rule.path for rule in rules_of([folder], root) if rule.always]
        found += [file for path in always if (file := _read(path, limit, root, allowed)) is not None]
    return tuple(found)


def rule_file(path: Path, root: Path, limit: int, allowed: Collection[str] = ()) -> ContextFile | None:
    """A rule that holds for what was reached."""
    return _read(path, limit, root, allowed)


def repository_root(workspace: Path) -> Path:
    """The nearest folder from the workspace upwards that holds `.git`; without one, the workspace itself."""
    return next(
        (folder for folder in (workspace, *workspace.parents) if os.path.lexists(folder / ".git")), workspace
    )


def folders_between(root: Path, folder: Path) -> tuple[Path, ...]:
    """The folders from `root` down to `folder`, both included; none if it lies elsewhere. Pure."""
    if not folder.is_relative_to(root):
        return ()
    below = folder.relative_to(root).parts
    return tuple(root.joinpath(*below[:depth]) for depth in range(len(below) + 1))


def _read(path: Path, limit: int, inside: Path, allowed: Collection[str]) -> ContextFile | None:
    """A plain file below `inside`, or None if there is none, it is empty, or it cannot be read."""
    if limit <= 0:
        return None
    try:
        text = text_of(path, inside).rstrip()
    except (OSError, RuntimeError, ValueError):
        return None
    if not text.strip():
        return None
    shown: list[str] = []
    kept: list[KeptPassage] = []
    for piece, first in _pieces(text, limit, path):
        # Line by line, so that the lines keep their numbers.
        lines = [clean(line).replace("\n", " ") for line in piece.split("\n")]
        plain, passages = quarantined("\n".join(lines), path.name, allowed, first)
        shown.append(plain)
        kept += passages
    return ContextFile(path.name, path, "".join(shown).strip(), len(text) > limit, tuple(kept))


def text_of(path: Path, inside: Path) -> str:
    """The text of a plain file below `inside`, in any encoding that `read_file` reads; lines end in `\\n`.

    Raises `OSError`; `RuntimeError` for links in a circle.
    """
    real = path.resolve(strict=True)
    if not real.is_relative_to(inside.resolve()):
        raise OSError(errno.EXDEV, "it leads out of the folder it stands for")
    with os.fdopen(open_file(real), "rb") as file:
        content = file.read(MAX_BYTES)
    marked = mark_of(content)
    if marked is None and b"\0" in content[:_LOOKED_AT]:
        raise OSError(errno.EILSEQ, "it is no text")
    if marked is not None or len(content) == MAX_BYTES:
        # Of a long file the last character may be cut, which must not change how the others are read.
        mark, encoding = marked or (b"", "utf-8")
        return content[len(mark) :].decode(encoding, "replace").replace("\r\n", "\n")
    return decode(content).text


def unread(soul: Path, workspace: Path) -> list[str]:
    """Sentences on the identity and the project files that are there and cannot be read. Reads files."""
    root = repository_root(workspace)
    places = [(soul, soul.parent)]
    for folder in folders_between(root, workspace):
        places += [(folder / name, root) for names in PROJECT_NAMES for name in names]
    told: list[str] = []
    for path, inside in places:
        if not os.path.lexists(path):
            continue
        try:
            text_of(path, inside)
            if path.name in IMPORTING:
                told += map(clean, imports_of(path, inside, text_of).problems)
        except RuntimeError:
            told.append(f"{clean(str(path))} is not read: it is a link to itself.")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            told.append(f"{clean(str(path))} is not read: {reason}.")
    return told


def _pieces(text: str, limit: int, path: Path) -> list[tuple[str, int]]:
    """What is shown of a text, in order, with the number of the first line of each piece."""
    if len(text) <= limit:
        return [(text, 1)]
    head, tail = int(limit * HEAD), int(limit * TAIL)
    left_out = len(text) - head - tail
    mark = f"\n\n[… {left_out:,} characters left out; the whole file is {path} …]\n\n"
    behind = text.count("\n", 0, len(text) - tail) + 1
    return [(text[:head], 1), (mark, 1), *([(text[-tail:], behind)] if tail else [])]
