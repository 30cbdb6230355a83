"""Which paths of a project git ignores, read from its ignore files without running git.

The rules are those of git: the last line that fits decides, deeper files come
after the ones above them, `.git/info/exclude` comes before all, and nothing in
an ignored folder can be brought back. What is tracked in spite of being ignored
is not known here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agent.workspace.noise import is_noise
from agent.workspace.repository import common_folder, git_folder, top_folder
from tools.files.descriptors import read_bytes

if TYPE_CHECKING:
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

MAX_BYTES = 500_000
"""Size up to which an ignore file is read."""

_MAX_RULES = 2_000
_MAX_LENGTH = 500
_STARS_IN_ALL, _STARS_IN_NAME = 6, 3
"""Wildcards in one rule. Matching may take time to their power, and a project may be hostile."""

_STARS = re.compile(r"\*+")
_SPACES_AT_END = re.compile(r"(?<!\\) +\Z")
_ODD_SET = re.compile(r"\[[^\]]*(?:\[|--|&&|\|\||~~)")
_CLASSES = {
    "[:alnum:]": "a-zA-Z0-9",
    "[:alpha:]": "a-zA-Z",
    "[:blank:]": " \t",
    "[:digit:]": "0-9",
    "[:lower:]": "a-z",
    "[:space:]": " \t\n\r\f\v",
    "[:upper:]": "A-Z",
    "[:xdigit:]": "0-9a-fA-F",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of an ignore file. `brings_back` is a leading `!`, `folders_only` a trailing `/`."""

    pattern: GitIgnoreSpecPattern
    brings_back: bool
    folders_only: bool

    def fits(self, path: str, folder: bool) -> bool:
        """Whether the rule names exactly `path`, relative to the folder of the ignore file."""
        if self.folders_only and not folder:
            return False
        result = self.pattern.match_file(path)
        # The library also matches what is below a folder; whether that is ignored was settled above it.
        return result is not None and result.match.groupdict().get("ps_d") is None


@dataclass(frozen=True, slots=True)
class _Level:
    """The rules of one ignore file, for what stands below `prefix`, and those that come before them."""

    rules: tuple[Rule, ...]
    prefix: str
    above: _Level | None


class Ignore:
    """The ignore rules of the project at `root` (resolved). Paths are relative to it, with `/`; "" is itself.

    Ignore files are read when a folder is first asked about and kept until `forget`.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._top = top_folder(root) or root
        inside = root.relative_to(self._top).as_posix()
        self._above = "" if inside == "." else f"{inside}/"
        self._levels: dict[str, _Level | None] = {}

    def skips(self, path: str, *, folder: bool) -> bool:
        """Whether `path` is ignored, or noise. The folders above it are taken as not ignored."""
        parent, _, name = path.rpartition("/")
        if is_noise(name, folder=folder):
            return True
        level = self._level(parent)
        absolute = f"{self._above}{path}"
        while level is not None:
            relative = absolute[len(level.prefix) :]
            for rule in reversed(level.rules):
                if rule.fits(relative, folder):
                    return not rule.brings_back
            level = level.above
        return False

    def forget(self, folder: str) -> None:
        """Read the ignore files in `folder` and below anew when they are next needed."""
        below = f"{folder}/" if folder else ""
        for known in list(self._levels):
            if known == folder or known.startswith(below):
                del self._levels[known]

    def _level(self, folder: str) -> _Level | None:
        if folder not in self._levels:
            self._levels[folder] = self._read_level(folder)
        return self._levels[folder]

    def _read_level(self, folder: str) -> _Level | None:
        place = self._root / folder if folder else self._root
        if folder:
            above = self._level(folder.rpartition("/")[0])
            prefix = f"{self._above}{folder}/"
        else:
            above, prefix = self._levels_above_root(), self._above
        if folder and os.path.lexists(place / ".git"):
            # A repository within the project goes by its own rules.
            git = git_folder(place)
            above = _added(None, common_folder(git) / "info" / "exclude", prefix) if git else None
        return _added(above, place / ".gitignore", prefix)

    def _levels_above_root(self) -> _Level | None:
        git = git_folder(self._top)
        level = _added(None, common_folder(git) / "info" / "exclude", "") if git is not None else None
        parts = self._root.relative_to(self._top).parts
        for count in range(len(parts)):
            place = "".join(f"{part}/" for part in parts[:count])
            level = _added(level, self._top / place / ".gitignore", place)
        return level


def parse(text: str) -> Iterator[Rule]:
    """The rules in the text of an ignore file; lines that git or we cannot use are left out."""
    for count, line in enumerate(text.removeprefix("\ufeff").split("\n")):
        if count >= _MAX_RULES:
            return
        rule = _rule(line.removesuffix("\r"))
        if rule is not None:
            yield rule


def _rule(line: str) -> Rule | None:
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    line = _SPACES_AT_END.sub("", line)
    brings_back = line.startswith("!")
    folders_only = line.endswith("/")
    core = line.removeprefix("!").removesuffix("/")
    if line.startswith("#") or not core or core.endswith("/") or not _is_cheap(core):
        return None
    for name, characters in _CLASSES.items():
        core = core.replace(name, characters)
    if _ODD_SET.search(core):
        return None
    if core.startswith(("#", "!")):
        core = "\\" + core
    try:
        pattern = GitIgnoreSpecPattern(core)
    except (ValueError, re.error):
        return None
    return Rule(pattern, brings_back, folders_only) if pattern.include else None


def _is_cheap(pattern: str) -> bool:
    most = max(len(_STARS.findall(name)) for name in pattern.split("/"))
    return (
        len(pattern) <= _MAX_LENGTH
        and most <= _STARS_IN_NAME
        and len(_STARS.findall(pattern)) <= _STARS_IN_ALL
    )


def _added(above: _Level | None, file: Path, prefix: str) -> _Level | None:
    """The level of `file` on top of `above`; `above` itself when there is nothing to read."""
    try:
        data, _ = read_bytes(file, MAX_BYTES)
    except (OSError, ValueError):
        return above
    rules = tuple(parse(os.fsdecode(data)))
    return _Level(rules, prefix, above) if rules else above
