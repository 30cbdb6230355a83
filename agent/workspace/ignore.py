"""The paths of a project that git ignores, found from its ignore files without running git.

The rules are those of git. The last matching line decides; lines of deeper files come later, and
`.git/info/exclude` comes first. A path in an ignored folder cannot be included again. Files that are tracked
although they are ignored are not known here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from agent.workspace.git import common_folder, git_folder, top_folder
from tools.kit.files import open_file
from tools.kit.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern


_FOLDERS = frozenset(
    (
        *(".git", ".hg", ".svn", ".jj", ".bzr", "CVS"),
        *("node_modules", ".venv", "__pycache__", "__pypackages__", ".eggs"),
        *(".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".tox", ".nox", ".cache"),
        *(".idea", ".gradle", ".terraform", ".direnv", ".ipynb_checkpoints"),
    )
)

_FILES = lazy_pattern(
    r"""
      \.hermes-.*                   # our own unfinished files
    | \.git                         # the pointer file of a worktree or submodule
    | \.DS_Store | \.directory | Thumbs\.db | desktop\.ini
    | .*\.py[co]
    | .*~ | \#.*\# | \.\#.*         # backups, Emacs
    | \..*\.sw[a-px] | 4913         # Vim
    | \..*\.kate-swp | .*\.crswap
    | .*___jb_(?:tmp|old)___        # JetBrains
    | \.goutputstream-.* | \.~lock\..*\#
    | \.nfs[0-9a-f]+ | \.fuse_hidden.*
    """,
    re.VERBOSE | re.DOTALL,
)


def is_noise(name: str, *, folder: bool) -> bool:
    """Return whether a file or folder called `name` is ignored in every project."""
    if folder:
        return name in _FOLDERS or name.startswith(".hermes-")
    return _FILES.fullmatch(name) is not None


MAX_LINES = 50_000
"""The number of lines that are read of one ignore file."""
MAX_TRIED = 2_000
"""The number of rules with wildcards that are used for one folder, from all ignore files."""

_MAX_LENGTH = 500
_STARS_IN_ALL, _STARS_IN_NAME = 6, 3
"""The number of wildcards allowed in one rule. Matching time may grow exponentially with them."""

_STARS = lazy_pattern(r"\*+")
_PLAIN = lazy_pattern(r"[^*?\[\]\\]*")
_SPACES_AT_END = lazy_pattern(r"(?<!\\) +\Z")
_ODD_SET = lazy_pattern(r"\[[^\]]*(?:\[|--|&&|\|\||~~)")
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
class IgnoreRule:
    """A line of an ignore file.

    `line` is its number. `brings_back` is True if it begins with `!`, `folders_only` if it ends with `/`.
    """

    line: int
    brings_back: bool
    folders_only: bool


@dataclass(frozen=True, slots=True)
class Tried:
    """A rule with wildcards. It only matches paths that begin with `start`."""

    rule: IgnoreRule
    pattern: GitIgnoreSpecPattern
    start: str
    by_name: bool
    """True if `start` is the beginning of a name in any folder, and not of a path."""

    def fits(self, path: str, name: str) -> bool:
        """Return whether the rule matches exactly `path`, which is relative to the ignore file's folder."""
        if not (name if self.by_name else path).startswith(self.start):
            return False
        result = self.pattern.match_file(path)
        # The library also matches paths below a folder; whether those are ignored was decided at the folder.
        return result is not None and result.match.groupdict().get("ps_d") is None


@dataclass(slots=True)
class IgnoreRules:
    """The rules of one ignore file, for fast lookup by path."""

    names: dict[str, list[IgnoreRule]] = field(default_factory=dict)
    paths: dict[str, list[IgnoreRule]] = field(default_factory=dict)
    endings: dict[str, list[IgnoreRule]] = field(default_factory=dict)
    """Rules for name endings that begin with a period: `*.py`."""
    tried: list[Tried] = field(default_factory=list)
    complete: bool = True
    """False if rules were left out because there are too many."""

    def __bool__(self) -> bool:
        return bool(self.names or self.paths or self.endings or self.tried)

    def deciding(self, path: str, *, folder: bool) -> IgnoreRule | None:
        """Return the last rule that matches `path`; None if no rule does."""
        best: IgnoreRule | None = None
        name = path.rpartition("/")[2]
        for rule in self._looked_up(path, name):
            if (best is None or rule.line > best.line) and (folder or not rule.folders_only):
                best = rule
        for tried in reversed(self.tried):
            if best is not None and tried.rule.line < best.line:
                break
            if (folder or not tried.rule.folders_only) and tried.fits(path, name):
                return tried.rule
        return best

    def _looked_up(self, path: str, name: str) -> Iterator[IgnoreRule]:
        yield from self.names.get(name, ())
        yield from self.paths.get(path, ())
        if self.endings:
            stop = name.find(".")
            while stop >= 0:
                yield from self.endings.get(name[stop:], ())
                stop = name.find(".", stop + 1)


def parse(text: str, room: int = MAX_TRIED) -> IgnoreRules:
    """Parse the rules of an ignore file, without lines that git or Hermes cannot use.

    At most `room` rules with wildcards are kept.
    """
    rules = IgnoreRules()
    lines = text.removeprefix("\ufeff").split("\n", MAX_LINES)
    for number, line in enumerate(lines[:MAX_LINES]):
        _add(rules, number, line.removesuffix("\r"), room)
    if any(lines[MAX_LINES:]):
        rules.complete = False
    return rules


def _add(rules: IgnoreRules, number: int, line: str, room: int) -> None:
    line = _SPACES_AT_END.sub("", line)
    core = line.removeprefix("!").removesuffix("/")
    if line.startswith("#") or not core or core.endswith("/"):
        return
    rule = IgnoreRule(number, line.startswith("!"), line.endswith("/"))
    if len(core) <= _MAX_LENGTH and _PLAIN.fullmatch(core) and "//" not in core:
        place = rules.paths if "/" in core else rules.names
        place.setdefault(core.removeprefix("/"), []).append(rule)
    elif len(core) <= _MAX_LENGTH and core.startswith("*.") and "/" not in core and _PLAIN.fullmatch(core, 1):
        rules.endings.setdefault(core[1:], []).append(rule)
    elif (pattern := _pattern(core)) is not None:
        if len(rules.tried) >= room:
            rules.complete = False
            return
        start = _PLAIN.match(core.removeprefix("/"))
        assert start is not None
        rules.tried.append(Tried(rule, pattern, start[0], "/" not in core))


def _pattern(core: str) -> GitIgnoreSpecPattern | None:
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    if not _is_cheap(core):
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
    return pattern if pattern.include else None


def _is_cheap(pattern: str) -> bool:
    most = max(len(_STARS.findall(name)) for name in pattern.split("/"))
    return (
        len(pattern) <= _MAX_LENGTH
        and most <= _STARS_IN_NAME
        and len(_STARS.findall(pattern)) <= _STARS_IN_ALL
    )


MAX_BYTES = 4_000_000
"""The size in bytes up to which an ignore file is read."""


@dataclass(frozen=True, slots=True)
class _Level:
    """The rules of one ignore file, for paths below `prefix`, and of the files above it."""

    rules: IgnoreRules
    prefix: str
    above: _Level | None
    tried: int
    """The number of wildcard rules in this level and those above."""


class IgnoreFiles:
    """The ignore rules of the project at `root` (resolved). Paths are relative to it; "" is `root` itself.

    Ignore files are read on first use and cached until `forget`. `home` is the folder of Hermes's own files,
    which is ignored if it is inside the project.
    """

    def __init__(self, root: Path, home: Path | None = None) -> None:
        self._root = root
        home = home and home.resolve()
        self._home = home.relative_to(root).as_posix() if home and home.is_relative_to(root) else None
        self._top = top_folder(root) or root
        inside = root.relative_to(self._top).as_posix()
        self._above = "" if inside == "." else f"{inside}/"
        self._levels: dict[str, _Level | None] = {}
        self.cut: set[str] = set()
        """Ignore files with more rules than are used, as paths from the top folder of the repository."""

    def skips(self, path: str, *, folder: bool) -> bool:
        """Return whether `path` is ignored by a rule or in every project.

        Its parent folders are assumed not to be ignored.
        """
        parent, _, name = path.rpartition("/")
        if path == self._home or is_noise(name, folder=folder):
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
        """Return whether a path, or a folder above it, is ignored by a rule or in every project."""
        ends = (at for at, char in enumerate(f"{path}/") if char == "/")
        return self.skips(path, folder=False) or any(self.skips(path[:end], folder=True) for end in ends)

    def forget(self, folder: str) -> None:
        """Drop the cached ignore files in `folder` and below, so that they are read again."""
        below = f"{folder}/" if folder else ""
        for known in list(self._levels):
            if known == folder or known.startswith(below):
                del self._levels[known]
        self.cut = {path for path in self.cut if not path.startswith(f"{self._above}{below}")}

    def _level(self, folder: str) -> _Level | None:
        # From the top down, because folders may be nested more deeply than function calls can be.
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
            # A repository within the project has its own rules.
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
        """Return the level with the rules of `file` added to `above`; `above` itself if the file has none."""
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
