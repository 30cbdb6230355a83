"""Imports of a CLAUDE.md: other files of the project that a line such as `@docs/style.md` takes in.

The form is that of Claude Code: a path relative to the file that names it, nothing inside code, up to
`DEEPEST` files deep. Only files of the project are taken in, and none that holds credentials.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from agent.knowledge.context.references import references
from tools.files.access import CredentialGuard
from tools.results import ToolError

IMPORTING = ("CLAUDE.md",)
"""Names of project files whose imports are followed."""
DEEPEST = 5
MOST = 50
"""Files that one file takes in, those of its imports included."""

_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
_DOCUMENTS = (".md", ".mdc", ".markdown", ".txt", ".rst")
"""What a mention ends with that surely means a file, so that its absence is worth a word."""


@dataclass(slots=True)
class Imports:
    """What a file takes in, in order, and a sentence for each import that is not followed."""

    files: list[Path] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def imports_of(path: Path, root: Path, read: Callable[[Path, Path], str]) -> Imports:
    """The files that the project file at `path` takes in from below `root`; raises nothing.

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
    """Line and path of each mention outside of code."""
    plain = _CODE.sub(lambda match: " " * len(match.group()), text)
    for each in references(plain, plain=True):
        if each.plain:
            yield plain.count("\n", 0, each.start) + 1, each.target


def _problem(real: Path, target: str, root: Path, depth: int, count: int) -> str | None:
    """Why a file is not taken in; empty where the mention is only a word, None where it can be read."""
    try:
        inside = real.is_relative_to(root.resolve())
        if not real.is_file():
            named = inside and target.endswith(_DOCUMENTS)
            return "there is no such file" if named else ""
        if not inside:
            return "it lies outside of the project"
        CredentialGuard({}).check_read(real, target)
    except ToolError:
        return "it holds credentials"
    except (OSError, ValueError):
        return ""
    if depth > DEEPEST:
        return f"imports are followed {DEEPEST} files deep"
    return None if count < MOST else f"a file takes in at most {MOST} others"
