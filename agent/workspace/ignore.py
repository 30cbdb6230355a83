"""Tells which paths of a project git ignores, from its ignore files, without running git.

The rules are those of git: the last line that fits decides, deeper files come
after the ones above them, `.git/info/exclude` comes before all, and nothing in
an ignored folder can be brought back. What is tracked in spite of being ignored
is not known here.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from agent.workspace.ignore_rules import MAX_TRIED, IgnoreRules, parse
from agent.workspace.ignored_names import is_noise
from agent.workspace.repository import common_folder, git_folder, top_folder
from tools.kit.files import open_file

MAX_BYTES = 4_000_000
"""Size up to which an ignore file is read."""


@dataclass(frozen=True, slots=True)
class _Level:
    """The rules of one ignore file, for what stands below `prefix`, and those that come before them."""

    rules: IgnoreRules
    prefix: str
    above: _Level | None
    tried: int
    """Rules, of these and those before, that are tried one by one."""


class IgnoreFiles:
    """The ignore rules of the project at `root` (resolved). Paths are relative to it, with `/`; "" is itself.

    Ignore files are read when a folder is first asked about and kept until `forget`.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._top = top_folder(root) or root
        inside = root.relative_to(self._top).as_posix()
        self._above = "" if inside == "." else f"{inside}/"
        self._levels: dict[str, _Level | None] = {}
        self.cut: set[str] = set()
        """Ignore files that have more rules than are used, as paths from the top of the repository."""

    def skips(self, path: str, *, folder: bool) -> bool:
        """Whether `path` is ignored, or noise. The folders above it are taken as not ignored."""
        parent, _, name = path.rpartition("/")
        if is_noise(name, folder=folder):
            return True
        level = self._level(parent)
        absolute = f"{self._above}{path}"
        while level is not None:
            rule = level.rules.deciding(absolute[len(level.prefix) :], folder=folder)
            if rule is not None:
                return not rule.brings_back
            level = level.above
        return False

    def passes_over(self, path: str) -> bool:
        """Whether a path or a folder above it is ignored, or noise."""
        ends = (at for at, char in enumerate(f"{path}/") if char == "/")
        return self.skips(path, folder=False) or any(self.skips(path[:end], folder=True) for end in ends)

    def forget(self, folder: str) -> None:
        """Read the ignore files in `folder` and below anew when they are next needed."""
        below = f"{folder}/" if folder else ""
        for known in list(self._levels):
            if known == folder or known.startswith(below):
                del self._levels[known]
        self.cut = {path for path in self.cut if not path.startswith(f"{self._above}{below}")}

    def _level(self, folder: str) -> _Level | None:
        # From the top down: folders may lie deeper in each other than calls can.
        wanted, unread = folder, list[str]()
        while folder not in self._levels:
            unread.append(folder)
            if not folder:
                break
            folder = folder.rpartition("/")[0]
        for each in reversed(unread):
            self._levels[each] = self._read_level(each)
        return self._levels[wanted]

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
            above = self._added(None, common_folder(git) / "info" / "exclude", prefix) if git else None
        return self._added(above, place / ".gitignore", prefix)

    def _levels_above_root(self) -> _Level | None:
        git = git_folder(self._top)
        level = self._added(None, common_folder(git) / "info" / "exclude", "") if git is not None else None
        parts = self._root.relative_to(self._top).parts
        for count in range(len(parts)):
            place = "".join(f"{part}/" for part in parts[:count])
            level = self._added(level, self._top / place / ".gitignore", place)
        return level

    def _added(self, above: _Level | None, file: Path, prefix: str) -> _Level | None:
        """The level of `file` on top of `above`; `above` itself when there is nothing to read."""
        try:
            with os.fdopen(open_file(file), "rb") as opened:
                data = opened.read(MAX_BYTES + 1)
        except (OSError, ValueError):
            return above
        whole = len(data) <= MAX_BYTES
        if not whole:
            data = data[: data.rfind(b"\n", 0, MAX_BYTES) + 1]
        tried = above.tried if above is not None else 0
        rules = parse(os.fsdecode(data), MAX_TRIED - tried)
        if not (whole and rules.complete):
            self.cut.add(f"{prefix}{file.name}")
        return _Level(rules, prefix, above, tried + len(rules.tried)) if rules else above
