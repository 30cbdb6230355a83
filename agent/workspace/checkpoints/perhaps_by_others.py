"""Files that a person may have changed while a command ran: nothing tells that the command did."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from agent.errors import HermesError
from agent.workspace.checkpoints.entries import PathChange, PathEntry, PathKind, UnitMark
from agent.workspace.checkpoints.objects import ObjectStore
from agent.workspace.checkpoints.units import Units, kinds
from agent.workspace.ignored_names import is_noise
from tools.kit.files import read_bytes

MOST = 20
"""More files than a person changes while a command runs."""
TYPED_BYTES = 1_000_000
"""A larger file was not typed."""
SCRIPT_BYTES = 300_000
_SCRIPTS = 30
_WORD = re.compile(r"[^\s;|&<>()'\"=`$]+")
_BUILDS = (
    *("Makefile", "makefile", "GNUmakefile", "CMakeLists.txt", "meson.build", "build.ninja", "justfile"),
    *("package.json", "Cargo.toml", "pyproject.toml", "setup.py", "setup.cfg", "tox.ini", "noxfile.py"),
    *("build.gradle", "build.gradle.kts", "pom.xml", "Rakefile", "Taskfile.yml", "dvc.yaml", "Snakefile"),
)
"""What programs read without being told its name."""
_BY_TOOLS = re.compile(
    r".*[.-]lock(?:\.json|\.yaml|b)?|go\.sum|go\.mod|\.gitmodules|\.gitattributes|\.fslckout|_FOSSIL_|.*\.(?:min\.js|map)"
)
"""Files that tools keep: lock files of packages, and those of version control."""


def perhaps_by_others(
    changes: Sequence[PathChange],
    command: str,
    folder: Path,
    root: Path,
    marks: Mapping[str, UnitMark],
    objects: ObjectStore,
) -> tuple[str, ...]:
    """Paths of plain texts that neither the command nor a file which it reads names. Blocking.

    `command` runs in `folder` (resolved); `marks` are those of units that it changed.
    """
    units = Units({place: mark.kind for place, mark in marks.items()})
    made = {each.path for each in changes if each.before is None and _is_folder(each.after)}
    found = [
        each.path
        for each in changes
        if not any(part in command or is_noise(part, folder=True) for part in each.path.split("/"))
        and not is_noise(name := each.path.rpartition("/")[2], folder=False)
        and not _BY_TOOLS.fullmatch(name)
        and each.path.rpartition("/")[0] not in made
        and not _of_versions(each.path, units, marks)
        and _is_text(each.after or each.before, objects)
    ]
    if len(found) > MOST:
        return ()
    texts = tuple(_read_by(command, folder, root)) if found else ()
    return tuple(path for path in found if not any(_names(text, path) for text in texts))


def _of_versions(path: str, units: Units, marks: Mapping[str, UnitMark]) -> bool:
    """Whether it is of a unit, or of the work tree of version control with which the command worked."""
    if units.part(path) is not None:
        return True
    above = (place.rpartition("/")[0] for place, mark in marks.items() if mark.kind in _versions())
    return any(path.startswith(f"{folder}/" if folder else "") for folder in above)


def _versions() -> frozenset[str]:
    return frozenset(name for name, kind in kinds().items() if kind.versions)


def _is_folder(entry: PathEntry | None) -> bool:
    return entry is not None and entry.kind is PathKind.FOLDER


def _is_text(entry: PathEntry | None, objects: ObjectStore) -> bool:
    if entry is None or entry.kind is not PathKind.FILE or not entry.digest or entry.size > TYPED_BYTES:
        return False
    try:
        return "\0" not in objects.read(entry.digest).decode()
    except (HermesError, OSError, UnicodeDecodeError):
        return False


def _read_by(command: str, folder: Path, root: Path) -> Iterator[str]:
    """Texts of the workspace that a command names or that programs read by themselves."""
    words = dict.fromkeys((*_WORD.findall(command), *_BUILDS))
    paths = [folder / word for word in words if len(word) < 1000]
    for path in paths[: _SCRIPTS + len(_BUILDS)]:
        try:
            if path.resolve().is_relative_to(root) and path.is_file():
                yield read_bytes(path, SCRIPT_BYTES)[0].decode("utf-8", "replace")
        except (OSError, ValueError):
            continue


def _names(text: str, path: str) -> bool:
    """Whether a text names a file, or at least what its name begins with."""
    stem = re.split(r"[.\d_-]", path.rpartition("/")[2].lstrip("._"))[0]
    return path.rpartition("/")[2] in text or (len(stem) > 2 and stem in text)
