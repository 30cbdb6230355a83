"""Changes to a workspace by others, while a session was inactive or while a command ran."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from agent.core.home import Home
from agent.errors import HermesError, StoreError
from agent.workspace.checkpoints import state_listings
from agent.workspace.checkpoints.entries import (
    PathChange,
    PathEntry,
    PathKind,
    Step,
    UnitMark,
    is_folder,
    is_outside,
)
from agent.workspace.checkpoints.objects import ObjectStore
from agent.workspace.checkpoints.root_identity import strangers
from agent.workspace.checkpoints.state_listings import alike
from agent.workspace.checkpoints.step_log import StepLog
from agent.workspace.checkpoints.store import CheckpointStore
from agent.workspace.checkpoints.units import TOP, Units, kinds
from agent.workspace.ignore import is_noise
from tools.kit.files import read_bytes
from tools.kit.lazy_pattern import lazy_pattern
from tools.text.safe_text import clean

NAMED = 12
"""The number of paths of each kind that a sentence names."""


def steps_since(store: CheckpointStore, root: str, moment: float) -> tuple[Step, ...]:
    """Return the steps of all sessions in the workspace `root` after `moment`, oldest first.

    `moment` is in seconds since the epoch. An unreadable step log is skipped. Blocking.
    """
    found: list[Step] = []
    for session in store.sessions():
        line = store.line(session)
        try:
            if line.path.stat().st_mtime < moment:
                continue
            steps = line.steps()
        except (OSError, StoreError):
            continue
        found += [step for step in steps if step.created > moment and step.root == root]
    strange = set(map(id, strangers(found, Path(root))))
    found = [step for step in found if id(step) not in strange]
    return tuple(sorted(found, key=lambda step: (step.created, step.number)))


def net(steps: Sequence[Step]) -> tuple[PathChange, ...]:
    """Return the net effect of steps (oldest first), as changes sorted by path."""
    found: dict[str, PathChange] = {}
    for step in steps:
        for change in step.changes:
            known = found.get(change.path)
            found[change.path] = PathChange(
                change.path, known.before if known else change.before, change.after
            )
    return tuple(found[path] for path in sorted(found) if not alike(found[path].before, found[path].after))


def change_names(changes: Sequence[PathChange]) -> str:
    """Return the paths of changes by kind, at most `NAMED` each: `changed a, b; new c; gone d`."""
    kinds = {"changed": [], "new": [], "gone": []}
    for change in changes:
        kind = "new" if change.before is None else "gone" if change.after is None else "changed"
        kinds[kind].append(clean(change.path))
    parts = []
    for kind, paths in kinds.items():
        more = f" and {len(paths) - NAMED:,} more" if len(paths) > NAMED else ""
        parts += [f"{kind} {', '.join(paths[:NAMED])}{more}"] if paths else []
    return "; ".join(parts)


def path_count(changes: tuple[PathChange, ...], what: str) -> str:
    """Return the number of changed paths followed by `what`, for the label of a step."""
    return f"{len(changes):,} {'path' if len(changes) == 1 else 'paths'} {what}"


ELSEWHERE = "is outside of the workspace and no note or skill of Hermes, so it is left alone"
LINKED = "would become another name of a file outside of the workspace, so it is left alone"


def refusal(path: str, entry: PathEntry | None, objects: ObjectStore) -> str:
    """Return the reason why a restore must not turn `path` into `entry`; empty if it may.

    `objects` are those of the checkpoints in Hermes's home folder. Reads the disk.
    """
    if path == TOP and (entry is None or entry.kind is PathKind.FOLDER):
        return ""
    if not is_plain(path) or (is_outside(path) and not _is_ours(path, objects)):
        return ELSEWHERE
    twin = "" if entry is None else entry.twin
    if twin and (is_outside(twin) != is_outside(path) or refusal(twin, None, objects)):
        return LINKED
    return ""


def is_plain(path: str) -> bool:
    """Return whether a path in a step has no NUL byte and no empty, `.` or `..` component."""
    parts = path.removeprefix("/").split("/")
    return "\0" not in path and not any(part in ("", ".", "..") for part in parts)


def is_own_folder(path: str, wanted: PathEntry | None, objects: ObjectStore) -> bool:
    """Return whether a path is the workspace or the folder of notes or skills, which must not be removed or
    replaced.
    """
    if path == TOP:
        return wanted is None
    return Path(path) in _folders(objects) and (wanted is None or wanted.kind is PathKind.FOLDER)


def _folders(objects: ObjectStore) -> tuple[Path, Path]:
    home = Home(objects.folder.parent.parent)
    return home.memories, home.skills


def _is_ours(path: str, objects: ObjectStore) -> bool:
    place = Path(path)
    try:
        folder = place.parent.resolve()
        roots = [each.resolve() for each in _folders(objects)]
    except (OSError, RuntimeError):
        return False
    # A link in the path may lead elsewhere, whatever the prefix.
    return folder == place.parent and any(place != root and place.is_relative_to(root) for root in roots)


MOST = 20
"""The limit on files that a user is assumed to change while a command runs."""
TYPED_BYTES = 1_000_000
"""The size in bytes above which a file is assumed not to be written by hand."""
SCRIPT_BYTES = 300_000
_SCRIPTS = 30
_WORD = lazy_pattern(r"[^\s;|&<>()'\"=`$]+")
_BUILDS = (
    *("Makefile", "makefile", "GNUmakefile", "CMakeLists.txt", "meson.build", "build.ninja", "justfile"),
    *("package.json", "Cargo.toml", "pyproject.toml", "setup.py", "setup.cfg", "tox.ini", "noxfile.py"),
    *("build.gradle", "build.gradle.kts", "pom.xml", "Rakefile", "Taskfile.yml", "dvc.yaml", "Snakefile"),
)
"""Files that build programs read by default."""
_BY_TOOLS = lazy_pattern(
    r".*[.-]lock(?:\.json|\.yaml|b)?|go\.sum|go\.mod|\.gitmodules|\.gitattributes|\.fslckout|_FOSSIL_|.*\.(?:min\.js|map)"
)
"""Files maintained by tools: lock files of packages, and those of version control."""


def possible_user_changes(
    changes: Sequence[PathChange],
    command: str,
    folder: Path,
    root: Path,
    marks: Mapping[str, UnitMark],
    objects: ObjectStore,
) -> tuple[str, ...]:
    """Return changed text files that neither the command nor a file it reads mentions. Blocking.

    Other programs or users may have changed them. `command` runs in `folder` (resolved); `marks` are those of
    units that it changed.
    """
    units = Units({place: mark.kind for place, mark in marks.items()})
    made = {each.path for each in changes if each.before is None and is_folder(each.after)}
    # Package managers write the list of packages and its lock together.
    locked = {folder for folder, name in map(_split, changes) if _BY_TOOLS.fullmatch(name)}
    found = [
        each.path
        for each in changes
        if not any(part in command or is_noise(part, folder=True) for part in each.path.split("/"))
        and not is_noise(name := each.path.rpartition("/")[2], folder=False)
        and not _BY_TOOLS.fullmatch(name)
        and not (name in _BUILDS and _split(each)[0] in locked)
        and each.path.rpartition("/")[0] not in made
        and not _of_versions(each.path, units, marks)
        and _is_text(each.after or each.before, objects)
    ]
    if len(found) > MOST:
        return ()
    texts = tuple(_read_by(command, folder, root)) if found else ()
    return tuple(path for path in found if not any(_names(text, path) for text in texts))


def _split(change: PathChange) -> tuple[str, str]:
    folder, _, name = change.path.rpartition("/")
    return folder, name


def _of_versions(path: str, units: Units, marks: Mapping[str, UnitMark]) -> bool:
    """Return whether a path is in a unit, or in a work tree whose version control the command used."""
    if units.part(path) is not None:
        return True
    above = (place.rpartition("/")[0] for place, mark in marks.items() if mark.kind in _versions())
    return any(path.startswith(f"{folder}/" if folder else "") for folder in above)


def _versions() -> frozenset[str]:
    return frozenset(name for name, kind in kinds().items() if kind.versions)


def _is_text(entry: PathEntry | None, objects: ObjectStore) -> bool:
    if entry is None or entry.kind is not PathKind.FILE or not entry.digest:
        return False
    if not 0 < entry.size <= TYPED_BYTES:
        return False
    try:
        return "\0" not in objects.read(entry.digest).decode()
    except (HermesError, OSError, UnicodeDecodeError):
        return False


def _read_by(command: str, folder: Path, root: Path) -> Iterator[str]:
    """Yield texts of files in the workspace that a command names or that programs read by default."""
    words = dict.fromkeys((*_WORD.findall(command), *_BUILDS))
    paths = [folder / word for word in words if len(word) < 1000]
    for path in paths[: _SCRIPTS + len(_BUILDS)]:
        try:
            if path.resolve().is_relative_to(root) and path.is_file():
                yield read_bytes(path, SCRIPT_BYTES)[0].decode("utf-8", "replace")
        except (OSError, ValueError):
            continue


def _names(text: str, path: str) -> bool:
    """Return whether a text contains the name of a file, or at least the beginning of its name."""
    stem = re.split(r"[.\d_-]", path.rpartition("/")[2].lstrip("._"))[0]
    return path.rpartition("/")[2] in text or (len(stem) > 2 and stem in text)


_THERE, _BACK = "aside-", "back-"


def keep_detached(
    store: CheckpointStore, line: str, changes: Iterable[PathChange], root: str, session: str, label: str
) -> int:
    """Record steps that make `changes` and undo them again; return the position between them. Blocking.

    So the state at the end of the step log is unchanged. For paths that no step changed, `before` of the
    change counts. Raises `StoreError`.
    """
    log = store.line(line)
    left = state_listings.last_states(log.steps())
    known = [(each, left.get(each.path, each.before)) for each in changes]
    there = tuple(PathChange(each.path, now, each.after) for each, now in known if not alike(now, each.after))
    if not there:
        return log.last
    name = secrets.token_hex(6)
    step = log.append(
        kind="restore", session=session, call=f"{_THERE}{name}", label=label, root=root, changes=there
    )
    _lead_back(log, step)
    return step.number


def finish_detached(log: StepLog) -> bool:
    """Complete the steps of `keep_detached` if a killed process left them half done; return whether it did.

    Blocking. Raises `StoreError`.
    """
    steps = log.steps(log.last - 1)
    if not steps or not steps[-1].call.startswith(_THERE):
        return False
    _lead_back(log, steps[-1])
    return True


def _lead_back(log: StepLog, step: Step) -> None:
    log.append(
        kind="restore",
        session=step.session,
        call=_BACK + step.call.removeprefix(_THERE),
        label=f"back from {step.label}",
        root=step.root,
        changes=tuple(PathChange(each.path, each.after, each.before) for each in step.changes),
    )
