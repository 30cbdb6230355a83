"""Finds the skills there are: folders, their order, and which skill shadows which.

Nearest wins: project, user, plugins, bundled. Folders are read again only when a
SKILL.md in them changed (time and size), so that asking is cheap.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from agent.knowledge.skills.frontmatter import SkillFormatError
from agent.knowledge.skills.skill import Scope, Skill, load, skill_name
from tools.text.safe_text import clean

DEEPEST = 3
"""Levels of folders below a root in which skills are looked for: category, sub-category, skill."""
MOST_FOLDERS = 5_000
"""Folders of one root that are looked at."""

PROJECT_FOLDERS = (".hermes", ".agents", ".claude")
"""Folders of a project whose `skills` are read, nearest first."""

BUNDLED = Path(__file__).with_name("bundled")
"""The skills that ship with the program. They are read where they are, never copied."""

_NAMED = 3
"""Broken skills that are named when a session begins."""
_PASSED_OVER = frozenset({"node_modules", "__pycache__", ".git", ".hub", ".quarantine"})


@dataclass(frozen=True, slots=True)
class SkillRoot:
    """A folder that holds skills."""

    path: Path
    scope: Scope
    deepest: int = DEEPEST
    """Levels of folders below it in which skills are looked for; 0: it is itself one."""


@dataclass(frozen=True, slots=True)
class BrokenSkill:
    """A folder that wants to be a skill and is none, and why."""

    folder: Path
    scope: Scope
    reason: str


@dataclass(frozen=True, slots=True)
class SkillOff:
    """A skill that is not used, and why."""

    skill: Skill
    reason: str
    """Half a sentence, such as `it is for macos`."""


@dataclass(frozen=True, slots=True)
class SkillSet:
    """All skills that were found."""

    skills: tuple[Skill, ...] = ()
    """Those in force, by name."""
    shadowed: tuple[Skill, ...] = ()
    """Those that a nearer one of the same name hides."""
    broken: tuple[BrokenSkill, ...] = ()
    off: tuple[SkillOff, ...] = ()
    """Those that would be in force, were they not switched off."""
    notes: tuple[str, ...] = ()
    """What a person should hear, a sentence each."""
    renewed: tuple[str, ...] = ()
    """Bundled skills with a new version that a changed copy keeps from being used, a sentence each."""

    def troubles(self) -> tuple[str, ...]:
        """What a person should hear when a session begins, a sentence each."""
        broken = [
            f"The skill in {clean(each.folder.name)} ({each.scope}) is not used: {each.reason}."
            for each in self.broken[:_NAMED]
        ]
        if len(self.broken) > _NAMED:
            broken.append(
                f"{len(self.broken) - _NAMED} more skills cannot be used; see `hermes skills list`."
            )
        return (*self.notes, *broken)

    def get(self, name: str) -> Skill | None:
        """The skill of that name."""
        return next((each for each in self.skills if each.name == name), None)


def roots(
    home: Path,
    user: Path,
    project: Path | None,
    bundled: Path = BUNDLED,
    *,
    further: Iterable[Path] = (),
    plugins: Iterable[Path] = (),
) -> tuple[SkillRoot, ...]:
    """Where skills are looked for, nearest first.

    `home` is that of Hermes, `user` that of the person; `project` is the root of a project whose skills
    are trusted, else None; `further` are folders that the person named, `plugins` those of single skills.
    """
    found: list[SkillRoot] = []
    if project is not None:
        found += [SkillRoot(project / folder / "skills", "project") for folder in PROJECT_FOLDERS]
    found += [SkillRoot(home / "skills", "user"), SkillRoot(user / ".agents" / "skills", "user")]
    found += [SkillRoot(path, "user") for path in further]
    found += [SkillRoot(path, "plugin", 0) for path in plugins]
    found.append(SkillRoot(bundled, "bundled"))
    return tuple(found)


class SkillIndex:
    """Reads skills, and remembers what it read."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, int, int], Skill | BrokenSkill]] = {}

    def find(self, places: Iterable[SkillRoot]) -> SkillSet:
        """The skills in these roots, nearest first. Touches the disk."""
        chosen: dict[str, Skill] = {}
        shadowed: list[Skill] = []
        broken: list[BrokenSkill] = []
        seen: set[str] = set()
        for root in places:
            for folder, real, category in _folders(str(root.path), root.deepest):
                if real in seen:
                    continue
                seen.add(real)
                found = self._load(folder, root, category)
                if isinstance(found, BrokenSkill):
                    broken.append(found)
                elif found.name in chosen:
                    shadowed.append(found)
                else:
                    chosen[found.name] = found
        ordered = tuple(chosen[name] for name in sorted(chosen))
        return SkillSet(ordered, tuple(shadowed), tuple(broken))

    def _load(self, folder: str, root: SkillRoot, category: str) -> Skill | BrokenSkill:
        status = _status(folder)
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino) if status is not None else (0, 0, 0)
        known = self._known.get(folder)
        if known is not None and known[0] == stamp and status is not None and known[1].scope == root.scope:
            return known[1]
        try:
            found: Skill | BrokenSkill = load(Path(folder), root.scope, category)
        except SkillFormatError as error:
            found = BrokenSkill(Path(folder), root.scope, clean(str(error)))
        self._known[folder] = (stamp, found)
        return found


# Plain text instead of paths from here on: each session looks at some hundred folders as it opens.


def _status(folder: str) -> os.stat_result | None:
    """Time and size of the SKILL.md of a folder; None if it cannot be looked at."""
    name = skill_name(folder)
    try:
        return Path(folder, name).stat() if name else None
    except OSError:
        return None


def _folders(root: str, deepest: int) -> Iterator[tuple[str, str, str]]:
    """Folders with a SKILL.md below a root, where they really are, and their category.

    Links that lead out of the root are passed over.
    """
    try:
        real_root = os.path.realpath(root, strict=True)
    except OSError:
        return
    waiting: deque[tuple[str, str, int]] = deque([(root, real_root, 0)])
    looked = 0
    while waiting:
        folder, real, depth = waiting.popleft()
        looked += 1
        if looked > MOST_FOLDERS:
            return
        if (depth or not deepest) and skill_name(folder):
            yield folder, real, clean(folder.rpartition("/")[0][len(root) :].strip("/")) if depth else ""
            continue
        if depth < deepest:
            waiting += [(*each, depth + 1) for each in _subfolders(folder, real, real_root)]


def _subfolders(folder: str, real: str, root: str) -> list[tuple[str, str]]:
    """The folders in a folder, by name, each with where it really is."""
    found: list[tuple[str, str]] = []
    try:
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda each: each.name):
                if entry.name in _PASSED_OVER or not _leads(entry):
                    continue
                place = f"{real.rstrip('/')}/{entry.name}"
                if entry.is_symlink():
                    place = os.path.realpath(entry.path)
                    if place != root and not place.startswith(root.rstrip("/") + "/"):
                        continue
                found.append((entry.path, place))
    except OSError:
        return []
    return found


def _leads(entry: os.DirEntry[str]) -> bool:
    """Whether it is a folder, or a link to one; a link to itself is none."""
    try:
        return entry.is_dir()
    except OSError:
        return False
