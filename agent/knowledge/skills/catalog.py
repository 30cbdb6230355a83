"""The skills of one workspace: the active ones, and the others with the reason.

The rest of the program asks `SkillCatalog`. It reads the disk each time but skips unchanged files, so it
needs no notifications.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agent.core.config import trust
from agent.core.home import PRIVATE_FILE, Home, from_home, private_folder
from agent.knowledge.skills.hub.bundle import HubError, hashes, tree_digest
from agent.knowledge.skills.hub.lock import SkillApprovals
from agent.knowledge.skills.skill import Scope, Skill, SkillFormatError, for_platform, load, skill_name
from tools.kit.files import read_bytes, read_plain, write_atomically
from tools.text.safe_text import clean
from tools.text.words import plural

if TYPE_CHECKING:
    from agent.core.config.schema import Settings


DEEPEST = 3
"""Folder levels below a root that are searched: category, sub-category, skill."""
MOST_FOLDERS = 5_000
"""The maximum number of folders checked in one root."""

PROJECT_FOLDERS = (".hermes", ".agents", ".claude")
"""Project folders whose subfolder `skills` is read, nearest first."""

BUNDLED = Path(__file__).with_name("bundled")
"""The skills that ship with the program. They are read in place, never copied."""

_NAMED = 3
"""The maximum number of broken skills named when a session begins."""
_PASSED_OVER = frozenset({"node_modules", "__pycache__", ".git", ".hub", ".quarantine"})


@dataclass(frozen=True, slots=True)
class SkillRoot:
    """A folder that holds skills."""

    path: Path
    scope: Scope
    deepest: int = DEEPEST
    """Folder levels below it that are searched; 0: it is itself a skill."""


@dataclass(frozen=True, slots=True)
class BrokenSkill:
    """A folder with a SKILL.md that cannot be read, and the reason."""

    folder: Path
    scope: Scope
    reason: str


@dataclass(frozen=True, slots=True)
class SkillOff:
    """A skill that is not active, and the reason."""

    skill: Skill
    reason: str
    """Half a sentence, such as `it is for macos`."""


@dataclass(frozen=True, slots=True)
class SkillSet:
    """All skills found: active, inactive and broken ones."""

    skills: tuple[Skill, ...] = ()
    """The active skills, by name."""
    shadowed: tuple[Skill, ...] = ()
    """Skills hidden by a nearer one of the same name."""
    broken: tuple[BrokenSkill, ...] = ()
    off: tuple[SkillOff, ...] = ()
    """Skills that would be active but may not be used, with the reason."""
    notes: tuple[str, ...] = ()
    """Notices for the user, a sentence each."""
    renewed: tuple[str, ...] = ()
    """Bundled skills with a new version that a changed copy hides, a sentence each."""

    def troubles(self) -> tuple[str, ...]:
        """Return notices for the user at the beginning of a session, one sentence each."""
        broken = [
            f"The skill in {clean(each.folder.name)} ({each.scope}) is not used: {each.reason}."
            for each in self.broken[:_NAMED]
        ]
        if len(self.broken) > _NAMED:
            more = plural(len(self.broken) - _NAMED, "more skill")
            broken.append(f"{more} cannot be used; see `hermes skills list`.")
        return (*self.notes, *broken)

    def get(self, name: str) -> Skill | None:
        """Return the active skill with that name; None if there is none."""
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
    """Return the folders searched for skills, nearest first.

    `home` is the home of Hermes, `user` the home of the user. `project` is the root of a project whose skills
    are trusted, otherwise None. `further` are folders from the settings, `plugins` folders of single skills.
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
    """A reader of skills that caches what it read."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, int, int], Skill | BrokenSkill]] = {}

    def find(self, places: Iterable[SkillRoot]) -> SkillSet:
        """Return the skills in these folders, nearest first. Touches the disk."""
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
    """Return the file status of a folder's SKILL.md; None if it cannot be read."""
    name = skill_name(folder)
    try:
        return Path(folder, name).stat() if name else None
    except OSError:
        return None


def _folders(root: str, deepest: int) -> Iterator[tuple[str, str, str]]:
    """Yield each folder with a SKILL.md below a root: its path, its real path and its category.

    Links that lead out of the root are skipped.
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
    """Return the subfolders, sorted by name: each with its path and its real path."""
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
    """Return whether an entry is a folder or a link to one; a link to itself is neither."""
    try:
        return entry.is_dir()
    except OSError:
        return False


MOST_FILES = 5_000
"""The maximum number of files of all skills of a project."""
MOST_BYTES = 50_000_000
"""The maximum size of all skills of a project together, in bytes."""

ProjectState = Literal["none", "trusted", "untrusted", "too_much"]


@dataclass(frozen=True, slots=True)
class ProjectSkills:
    """The skills of a project, and a hash of their files."""

    root: Path
    """The root of the project, resolved."""
    folders: tuple[Path, ...]
    """The folders that contain skills."""
    digest: str
    """SHA-256 over names and contents of all files; empty if they cannot be read."""
    problem: str = ""
    """Why they cannot be used, in a sentence."""

    def roots(self) -> tuple[SkillRoot, ...]:
        """Return the roots of the project's skills."""
        return tuple(SkillRoot(each, "project") for each in self.folders)


class _TooMuchError(Exception):
    """The skills have more files or bytes than should be read before each session."""


def read_project_skills(home: Home, workspace: Path) -> ProjectSkills | None:
    """Return the skills of the project that contains `workspace`; None if it has none. Touches the disk."""
    root = trust.project_root(workspace)
    own = {os.path.realpath(home.skills), os.path.realpath(_user() / ".agents" / "skills")}
    folders = tuple(
        path
        for name in PROJECT_FOLDERS
        if (path := root / name / "skills").is_dir() and os.path.realpath(path) not in own
    )
    if not folders:
        return None
    total = hashlib.sha256()
    try:
        for path, content in _contents(root, folders):
            name = path.relative_to(root).as_posix()
            head = f"{name}\0{len(content)}\0"
            total.update(head.encode("utf-8", "surrogateescape") + content)
    except _TooMuchError:
        most = f"{MOST_FILES:,} files or {MOST_BYTES // 1_000_000} MB"
        return ProjectSkills(root, folders, "", f"The skills of this project have more than {most}.")
    return ProjectSkills(root, folders, total.hexdigest())


def state_of(home: Home, project: ProjectSkills | None) -> ProjectState:
    """Return whether a project has skills, and whether they are trusted or too large to check."""
    if project is None:
        return "none"
    if not project.digest:
        return "too_much"
    known = trust.trusted_digest(home, project.root, "skills")
    return "trusted" if known == project.digest else "untrusted"


def trust_skills(home: Home, project: ProjectSkills) -> None:
    """Trust these skills in their current state; no effect if unreadable. Raises `ConfigError`."""
    if project.digest:
        trust.trust_digest(home, project.root, project.digest, "skills")


def _contents(root: Path, folders: tuple[Path, ...]) -> Iterator[tuple[Path, bytes]]:
    """Yield every file below the folders with the bytes that identify it, in order. Raises `_TooMuchError`.

    Links to folders, unreadable files and links out of the project are not used, so only their existence
    counts.
    """
    total = 0
    for files, path in enumerate(_walk(folders), 1):
        real = Path(os.path.realpath(path))
        try:
            if not real.is_relative_to(root) or real.is_dir():
                content = b"link to " + os.fsencode(real)
            else:
                content = read_bytes(real, MOST_BYTES)[0]
        except OSError as error:
            content = f"unreadable: {error.errno}".encode()
        total += len(content)
        if files > MOST_FILES or total > MOST_BYTES:
            raise _TooMuchError
        yield path, content


def _walk(folders: tuple[Path, ...]) -> Iterator[Path]:
    for folder in folders:
        for parent, below, files in os.walk(folder):
            below.sort()
            links = [name for name in below if Path(parent, name).is_symlink()]
            yield from (Path(parent, name) for name in sorted([*files, *links]))


def _user() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        return Path("/nonexistent")


_LARGEST = 1_000_000


def digest_of(folder: Path) -> str:
    """Return one hash of a skill's files without `__pycache__`; empty if one cannot be read."""
    try:
        found = hashes(folder)
    except HubError:
        return ""
    return tree_digest({path: each for path, each in found.items() if "__pycache__" not in path.split("/")})


class SkillOriginals:
    """Digests of bundled skills, recorded when they were copied. Every method touches the disk."""

    def __init__(self, home: Home) -> None:
        self._skills = home.skills
        self._path = home.skills / ".hub" / "originals.json"

    def remember(self, folder: Path, digest: str) -> None:
        """Record that `folder` is a copy of the bundled skill with this digest. Raises `OSError`."""
        known = {**self._read(), self._key(folder): digest}
        kept = {key: each for key, each in known.items() if (self._skills / key).is_dir()}
        private_folder(self._path.parent)
        write_atomically(self._path, json.dumps(kept, indent=1).encode(), PRIVATE_FILE)

    def prefer_bundled(self, found: SkillSet) -> SkillSet:
        """Return the skills with unchanged copies replaced by newer versions of the bundled originals.

        Changed copies get a note.
        """
        known = self._read()
        if not known:
            return found
        bundled = {each.name: each for each in found.shadowed if each.scope == "bundled"}
        skills, shadowed, notes = list(found.skills), list(found.shadowed), list(found.renewed)
        for at, skill in enumerate(found.skills):
            original = bundled.get(skill.name)
            if skill.scope != "user" or original is None or not (was := known.get(self._key(skill.folder))):
                continue
            if digest_of(original.folder) == was:
                continue
            if digest_of(skill.folder) == was:
                skills[at] = original
                shadowed[shadowed.index(original)] = skill
            else:
                notes.append(_note(skill))
        return replace(found, skills=tuple(skills), shadowed=tuple(shadowed), renewed=tuple(notes))

    def _key(self, folder: Path) -> str:
        try:
            return folder.relative_to(self._skills).as_posix()
        except ValueError:
            return ""

    def _read(self) -> Mapping[str, str]:
        try:
            told = json.loads(read_plain(self._path, _LARGEST))
        except (OSError, ValueError, RecursionError):
            return {}
        found = told.items() if isinstance(told, dict) else ()
        return {key: each for key, each in found if key and isinstance(each, str)}


def _note(skill: Skill) -> str:
    return (
        f"The bundled skill {skill.name} has a new version; yours, which you changed, stays in force. "
        f"Delete {from_home(skill.folder)} to use the new one."
    )


_INDEX = SkillIndex()
"""The cache of this process; unchanged skills are not read again."""

Doubt = Callable[[Skill], str]
"""A function that returns why a skill must not be used, as half a sentence; empty if it may be used."""

NOT_TRUSTED = "This project brings skills, which are not used; see `hermes config trust`."


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillCatalog:
    """The folders searched for skills, and the reasons for which some skills are disabled."""

    home: Home
    workspace: Path
    user: Path
    """The user's home folder."""
    bundled: Path = BUNDLED
    further: Sequence[Path] = ()
    """Folders from the settings."""
    plugins: Sequence[Path] = ()
    """Folders of plugin skills, one each."""
    disabled: frozenset[str] = frozenset()
    """Names of skills that the user switched off."""
    doubts: Sequence[Doubt] = ()
    """Checks run on every skill that would be active."""
    index: SkillIndex = field(default_factory=lambda: _INDEX)

    def places(self) -> tuple[tuple[SkillRoot, ...], tuple[str, ...]]:
        """Return the folders to search, nearest first, and notices for the user."""
        project = read_project_skills(self.home, self.workspace)
        state = state_of(self.home, project)
        notes: tuple[str, ...] = ()
        if project is not None and state != "trusted":
            notes = (f"{project.problem} They are not used." if project.problem else NOT_TRUSTED,)
        root = project.root if project is not None and state == "trusted" else None
        found = roots(
            self.home.root, self.user, root, self.bundled, further=self.further, plugins=self.plugins
        )
        return found, notes

    def load(self) -> SkillSet:
        """Return all current skills. Touches the disk."""
        places, notes = self.places()
        found = SkillOriginals(self.home).prefer_bundled(self.index.find(places))
        off = {each.name: reason for each in found.skills if (reason := self._why_not(each))}
        return replace(
            found,
            skills=tuple(each for each in found.skills if each.name not in off),
            off=tuple(SkillOff(each, off[each.name]) for each in found.skills if each.name in off),
            notes=notes,
        )

    def _why_not(self, skill: Skill) -> str:
        if skill.name in self.disabled:
            return "it is switched off in the settings"
        if not for_platform(skill):
            return f"it is for {', '.join(skill.platforms)}"
        return next((reason for doubt in self.doubts if (reason := doubt(skill))), "")


def skill_catalog(home: Home, workspace: Path, settings: Settings) -> SkillCatalog:
    """Return the catalog of a workspace as configured; the caller adds skills of plugins."""
    try:
        user = Path.home()
    except RuntimeError:  # the user's home folder is unknown
        user = home.root
    return SkillCatalog(
        home=home,
        workspace=workspace,
        user=user,
        further=tuple(Path(each).expanduser() for each in settings.skills.folders if each.strip()),
        disabled=frozenset(settings.skills.disabled),
        doubts=(SkillApprovals(home).doubt,),
    )


def missing_variables(skill: Skill, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return required environment variables that are not set."""
    return tuple(name for name in skill.required_variables if not environ.get(name))
