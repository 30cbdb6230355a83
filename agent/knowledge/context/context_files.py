"""The files that describe the agent (SOUL.md) and the project to agents.

Only plain files up to a size limit are read. Devices and links that lead out of the project are not.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pathspec

from agent.knowledge.context.quarantine import KeptPassage, quarantine_passages
from agent.knowledge.context.references import references
from tools.files.access import CredentialGuard
from tools.files.text_files import decode, mark_of
from tools.kit.files import open_file
from tools.kit.lazy_pattern import lazy_pattern
from tools.results import ToolError
from tools.text.safe_text import clean

IMPORTING = ("CLAUDE.md",)
"""Names of project files whose imports are followed."""
DEEPEST = 5
MOST = 50
"""The maximum number of files that one file may import, including indirect imports."""

_CODE = lazy_pattern(r"(`+)(?!`).+?(?<!`)\1(?!`)")
_DOCUMENTS = (".md", ".mdc", ".markdown", ".txt", ".rst")
"""File name endings for which an import certainly means a file, so that a missing one is reported."""


@dataclass(slots=True)
class Imports:
    """The files that a file imports, in order, and a sentence for each import that is not followed."""

    files: list[Path] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def imports_of(path: Path, root: Path, read: Callable[[Path, Path], str]) -> Imports:
    """Return the files below `root` that the project file at `path` imports. Never raises.

    `read` gives the text of a file below a root and may raise `OSError`, `RuntimeError` or `ValueError`.
    """
    found = Imports()

    def follow(path: Path, depth: int) -> None:
        try:
            mentions = list(_mentioned(read(path, root)))
        except (OSError, RuntimeError, ValueError):
            return
        for line, target in mentions:
            place = path.parent / os.path.expanduser(target)  # noqa: PTH111 - Path.expanduser raises
            real = os.path.realpath(place)
            if real in seen:
                continue
            problem = _problem(Path(real), target, root, depth, len(found.files))
            if problem is None:
                seen.add(real)
                found.files.append(place)
                follow(place, depth + 1)
            elif problem:
                found.problems.append(f"{path}:{line} takes in @{target}, which is not read: {problem}.")

    seen = {os.path.realpath(path)}
    follow(path, 1)
    return found


def _mentioned(text: str) -> Iterator[tuple[int, str]]:
    """Yield line number and path of each import outside of code blocks."""
    plain = _CODE.sub(lambda match: " " * len(match.group()), text)
    for each in references(plain, plain=True):
        if each.plain:
            yield plain.count("\n", 0, each.start) + 1, each.target


def _problem(real: Path, target: str, root: Path, depth: int, count: int) -> str | None:
    """Return why the file `real` is not imported; None if it can be read.

    The reason is empty if `target` is probably not meant as a file, so that nothing is reported.
    """
    try:
        inside = real.is_relative_to(root.resolve())
        if not real.is_file():
            named = inside and target.endswith(_DOCUMENTS)
            return "there is no such file" if named else ""
        if not inside:
            return "it is outside of the project"
        CredentialGuard({}).check_read(real, target)
    except ToolError:
        return "it holds credentials"
    except (OSError, ValueError):
        return ""
    if depth > DEEPEST:
        return f"imports are followed {DEEPEST} files deep"
    return None if count < MOST else f"a file takes in at most {MOST} others"


FOLDER = (".cursor", "rules")
MOST_RULES = 50
"""The maximum number of rules read from one folder."""
_HEAD_BYTES = 8_192
_KEY = lazy_pattern(r"(\w+)\s*:\s*(.*)")


@dataclass(frozen=True, slots=True)
class CursorRule:
    """One Cursor rule. Its patterns are relative to the folder `base`."""

    path: Path
    base: Path
    globs: tuple[str, ...]
    always: bool
    _spec: pathspec.PathSpec = field(repr=False, compare=False)

    def fits(self, place: Path) -> bool:
        """Return whether the rule applies to the file at `place`. Pure."""
        if not place.is_relative_to(self.base) or place == self.base:
            return False
        return self._spec.match_file(place.relative_to(self.base).as_posix())


def rules_of(folders: Iterable[Path], root: Path) -> tuple[CursorRule, ...]:
    """Return the Cursor rules in these folders below `root`, by folder and path, without unreadable ones."""
    found: list[CursorRule] = []
    for folder in folders:
        place = folder.joinpath(*FOLDER)
        try:
            paths = sorted(place.rglob("*.mdc"))[:MOST_RULES] if place.is_dir() else []
        except OSError:
            continue
        for path in paths:
            if (rule := _rule(path, folder, root)) is not None:
                found.append(rule)
    return tuple(found)


def _rule(path: Path, base: Path, root: Path) -> CursorRule | None:
    try:
        real = path.resolve(strict=True)
        if not real.is_relative_to(root.resolve()):
            return None
        with os.fdopen(open_file(real), "rb") as file:
            head = file.read(_HEAD_BYTES).decode("utf-8-sig", "replace")
    except (OSError, RuntimeError, ValueError):
        return None
    said = _head(head.replace("\r\n", "\n").split("\n"))
    globs = tuple(each for each in (part.strip(" \"'") for part in _split(said.get("globs", ""))) if each)
    always = said.get("alwaysapply", "").lower() == "true"
    try:
        spec = pathspec.PathSpec.from_lines("gitignore", globs)
    except ValueError:
        return None
    return CursorRule(path, base, globs, always or not (globs or said.get("description")), spec)


def _head(lines: Sequence[str]) -> dict[str, str]:
    """Return the front matter by key in lower case; empty if it has no end. Commas join list items. Pure."""
    said: dict[str, str] = {}
    if not lines or lines[0].strip() != "---":
        return said
    key = ""
    for line in lines[1:]:
        if line.strip() == "---":
            return said
        if line.lstrip().startswith("- ") and key:
            said[key] = f"{said[key]},{line.lstrip()[2:]}"
        elif match := _KEY.fullmatch(line.strip()):
            key = match[1].lower()
            said[key] = match[2].strip().removeprefix("[").removesuffix("]")
    # No end: all of it is text.
    return {}


def _split(text: str) -> list[str]:
    """Split patterns at commas and expand each `{a,b}`. Pure."""
    parts: list[str] = []
    depth, part = 0, ""
    for character in text:
        depth += (character == "{") - (character == "}")
        if character == "," and depth <= 0:
            parts.append(part)
            part = ""
        else:
            part += character
    return [one for each in [*parts, part] for one in _spelled_out(each)]


_MOST_SPELLED = 64


def _spelled_out(glob: str) -> list[str]:
    found, waiting = [], [glob]
    while waiting and len(found) + len(waiting) <= _MOST_SPELLED:
        each = waiting.pop()
        if (braces := re.search(r"\{([^{}]*)\}", each)) is None:
            found.append(each)
        else:
            waiting += [each[: braces.start()] + one + each[braces.end() :] for one in braces[1].split(",")]
    return found


PROJECT_NAMES = (
    (".hermes.md", "HERMES.md"),
    ("AGENTS.md",),
    ("CLAUDE.md",),
    (".cursorrules",),
    (".github/copilot-instructions.md",),
)
"""The kinds of project files in display order. Of the names of one kind, the first that exists is used."""

MAX_BYTES = 4_000_000
"""The maximum number of bytes read from one file, whatever limit is set."""

_LOOKED_AT = 8_192
"""The number of bytes at the start in which a NUL shows that a file is not text."""

HEAD, TAIL = 0.7, 0.2
"""The shares of the limit that go to the beginning and the end of a long file."""


@dataclass(frozen=True, slots=True)
class ContextFile:
    """A context file as the model sees it. `truncated` is set if its middle was left out."""

    name: str
    path: Path
    text: str
    truncated: bool
    passages: tuple[KeptPassage, ...] = ()
    """Passages kept back because they read like an order to an agent."""
    notes: tuple[str, ...] = ()
    """Notes for the user on how the file is shown."""

    def has_same_text(self, other: ContextFile) -> bool:
        """Return whether both files have the same text, including text that is hidden from the model."""
        mine, theirs = ([each.digest for each in file.passages] for file in (self, other))
        return self.text == other.text and mine == theirs


def paragraphs(text: str) -> tuple[str, ...]:
    """Return the paragraphs of a text, at least one; a block of code is one paragraph. Pure."""
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
    """Return the user's description of the agent; None if it is missing, empty or unreadable.

    `limit` is in characters; `allowed` are the hashes of suspicious passages that the user approved (also in
    the functions below).
    """
    return read_context_file(path, limit, path.parent, allowed)


def project_files(workspace: Path, limit: int, allowed: Collection[str] = ()) -> tuple[ContextFile, ...]:
    """Return the project's files for agents that work in the workspace. `limit` is in characters of one file.

    They come from all folders from the root of the repository to the workspace, the nearest last. Without a
    repository only the workspace is searched.
    """
    root = repository_root(workspace)
    return files_of_folders(folders_between(root, workspace), root, limit, allowed)


def files_of_folders(
    folders: Sequence[Path], root: Path, limit: int, allowed: Collection[str] = ()
) -> tuple[ContextFile, ...]:
    """Return the project files in each of `folders` that lies below `root`, in order.

    Files that a `CLAUDE.md` imports follow it; Cursor rules that always apply end each folder. A file with
    the same text as an earlier one, such as a link to it, is left out.
    """
    found: list[ContextFile] = []
    for folder in folders:
        for names in PROJECT_NAMES:
            read = (read_context_file(folder / name, limit, root, allowed) for name in names)
            file = next((each for each in read if each is not None), None)
            if file is None:
                continue
            taken_in = imports_of(file.path, root, text_of).files if file.name in IMPORTING else ()
            files = (file, *(read_context_file(path, limit, root, allowed) for path in taken_in))
            for each in files:
                if each is not None and not any(each.has_same_text(other) for other in found):
                    found.append(each)
        always = [rule.path for rule in rules_of([folder], root) if rule.always]
        found += [
            file for path in always if (file := read_context_file(path, limit, root, allowed)) is not None
        ]
    return tuple(found)


def repository_root(workspace: Path) -> Path:
    """Return the nearest folder with a `.git`, from the workspace upwards; without one, the workspace."""
    return next(
        (folder for folder in (workspace, *workspace.parents) if os.path.lexists(folder / ".git")), workspace
    )


def folders_between(root: Path, folder: Path) -> tuple[Path, ...]:
    """Return the folders from `root` down to `folder`, both included; empty if `folder` is not below `root`.
    Pure.
    """
    if not folder.is_relative_to(root):
        return ()
    below = folder.relative_to(root).parts
    return tuple(root.joinpath(*below[:depth]) for depth in range(len(below) + 1))


def read_context_file(path: Path, limit: int, inside: Path, allowed: Collection[str]) -> ContextFile | None:
    """Return a plain file below `inside`, cut to `limit`; None if missing, empty, unreadable or unwanted."""
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
        plain, passages = quarantine_passages("\n".join(lines), path.name, allowed, first)
        shown.append(plain)
        kept += passages
    return ContextFile(path.name, path, "".join(shown).strip(), len(text) > limit, tuple(kept))


def text_of(path: Path, inside: Path) -> str:
    r"""Return the text of a plain file below `inside`, in any encoding that the `read_file` tool can decode.

    Line breaks become `\n`, and only the first `MAX_BYTES` bytes are read. Raises `OSError`, also if it is
    not text, and `RuntimeError` for circular links.
    """
    real = path.resolve(strict=True)
    if not real.is_relative_to(inside.resolve()):
        raise OSError(errno.EXDEV, "it leads out of the folder it stands for")
    with os.fdopen(open_file(real), "rb") as file:
        content = file.read(MAX_BYTES)
    marked = mark_of(content)
    if marked is None and b"\0" in content[:_LOOKED_AT]:
        raise OSError(errno.EILSEQ, "it is not text")
    if marked is not None or len(content) == MAX_BYTES:
        # Of a long file the last character may be cut, which must not change how the others are read.
        mark, encoding = marked or (b"", "utf-8")
        return content[len(mark) :].decode(encoding, "replace").replace("\r\n", "\n")
    return decode(content).text


def unread(soul: Path, workspace: Path) -> list[str]:
    """Return a sentence for each identity or project file, or import, that cannot be read. Reads files."""
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
        except (OSError, ValueError, RuntimeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            # Up to Python 3.12 resolving such a path raises, later opening it does.
            if isinstance(error, RuntimeError) or getattr(error, "errno", None) == errno.ELOOP:
                reason = "it is a link to itself"
            told.append(f"{clean(str(path))} is not read: {reason}.")
    return told


def _pieces(text: str, limit: int, path: Path) -> list[tuple[str, int]]:
    """Return the parts of a text to show within `limit` characters, each with its first line number."""
    if len(text) <= limit:
        return [(text, 1)]
    head, tail = int(limit * HEAD), int(limit * TAIL)
    left_out = len(text) - head - tail
    mark = f"\n\n[… {left_out:,} characters left out; the whole file is {path} …]\n\n"
    behind = text.count("\n", 0, len(text) - tail) + 1
    return [(text[:head], 1), (mark, 1), *([(text[-tail:], behind)] if tail else [])]
