"""Rules of a project in `.cursor/rules/*.mdc`: which always hold, and which for files that a pattern names.

The head between `---` is read line by line, as patterns such as `**/*.ts` are no YAML. A rule holds always
with `alwaysApply: true`, and where it names neither patterns nor a description; with patterns when work
reaches a file they fit. What has only a description is for a person to name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pathspec

from tools.kit.files import open_file

FOLDER = (".cursor", "rules")
MOST = 50
"""Rules that are read of one folder."""
_HEAD_BYTES = 8_192
_KEY = re.compile(r"(\w+)\s*:\s*(.*)")


@dataclass(frozen=True, slots=True)
class CursorRule:
    """One rule. `base` is the folder its patterns start from."""

    path: Path
    base: Path
    globs: tuple[str, ...]
    always: bool
    _spec: pathspec.PathSpec = field(repr=False, compare=False)

    def fits(self, place: Path) -> bool:
        """Whether a file is one of those it is for. Pure."""
        if not place.is_relative_to(self.base) or place == self.base:
            return False
        return self._spec.match_file(place.relative_to(self.base).as_posix())


def rules_of(folders: Iterable[Path], root: Path) -> tuple[CursorRule, ...]:
    """The rules that lie in these folders, below `root`, by name. What cannot be read is left out."""
    found: list[CursorRule] = []
    for folder in folders:
        place = folder.joinpath(*FOLDER)
        try:
            paths = sorted(place.rglob("*.mdc"))[:MOST] if place.is_dir() else []
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
    """What the head says by key, in lower case; items of a list are joined with commas. Pure."""
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
    """Patterns between commas, each of `{a,b}` by itself. Pure."""
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
