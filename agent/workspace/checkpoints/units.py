"""Units: state that is spread over many files, such as a repository, and the role of each file in it.

`units.yaml` is the table of kinds, which are recognised by content. The role of a file determines how a step
and a restore treat it:

- `passing`: temporary; never covered. - `objects`: git's objects; not read, kept by hard links (`git_keep`),
never removed. - `contents`: like `store`, but of any size; kept by hard links (`objects.py`). - `store`: only
ever added; restored when missing, and removed only with the whole unit. - `state`: restored together with the
other state of the unit, or left unchanged together with it. - `alone`: restored separately, such as settings
and hooks. - `beside`: derived from other files; restored or removed only with the whole unit. -
`bookkeeping`: rewritten by commands that only read; alone it is never a step or a conflict.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from tools.kit.lazy_pattern import lazy_pattern

Role = Literal["passing", "objects", "contents", "store", "state", "alone", "beside", "bookkeeping"]

TABLE = Path(__file__).with_name("units.yaml")
ORDINARY = ""
"""The pseudo-kind of a folder in a unit that contains ordinary files, such as a work tree."""
TOP = "."
"""The path of the workspace as a unit: a bare repository that contains its work trees."""
PASSING = "is there for a moment only"
APART = "belongs to git"
"""The reason why objects are not read: they are kept by hard links (see `git_keep`)."""
_NAME = ".git"


@dataclass(frozen=True, slots=True)
class UnitKind:
    """A kind of unit: a row of the table."""

    name: str
    holds: tuple[str, ...]
    roles: re.Pattern[str]
    named: str = ""
    versions: bool = False
    told: str = ""
    """The name in reports."""
    locks: tuple[str, ...] = ()
    """Files that programs of this kind treat as locks, held during a restore."""

    again: tuple[str, ...] = ()
    """Files removed during a restore, because programs take equal size in the same second for no change."""

    def role(self, rest: str) -> Role:
        """Return the role of a file, given its path in the unit. Pure."""
        found = self.roles.match(rest)
        return found.lastgroup if found else "state"  # type: ignore[return-value]

    def fits(self, name: str, entries: Mapping[str, bool]) -> bool:
        """Return whether a folder with this name and these entries is of this kind.

        `entries` maps each name to whether it is a folder.
        """
        wanted = any if self.named and name.casefold() == self.named else all
        return wanted(_stands(sign, entries) for sign in self.holds)


@dataclass(frozen=True, slots=True)
class UnitPart:
    """The position of a path in a unit: the folder of the unit, and the path in it."""

    root: str
    """The folder of the outermost unit, which is restored or left unchanged as a whole."""
    kind: str
    """The kind of the innermost unit that contains the path."""
    inner: str
    """The folder of that unit, usually the same as `root`."""
    rest: str
    """The path in `inner`; empty for the folder itself."""

    @property
    def role(self) -> Role:
        return kinds()[self.kind].role(self.rest)


@dataclass(frozen=True, slots=True)
class Units:
    """The units of a workspace or of some of its steps: a mapping from folders to kinds."""

    places: Mapping[str, str] = field(default_factory=dict)

    def part(self, path: str) -> UnitPart | None:
        """Return the position of a path in a unit; None for an ordinary path.

        Anything called `.git` counts even if unknown, because steps of older versions did not record it.
        """
        if not self.places and _NAME not in path and _NAME not in path.casefold():
            return None
        root = inner = kind = None
        for folder in (TOP, *above(path), path):
            found = self.places.get(folder)
            if found is None and root is None and is_git_name(folder.rpartition("/")[2]) and folder != path:
                found = "git"
            if found == ORDINARY:
                root = inner = kind = None
            elif found is not None:
                root, inner, kind = root if root is not None else folder, folder, found
        if root is None or inner is None or kind is None:
            return UnitPart(path, "git", path, "") if is_git_name(path.rpartition("/")[2]) else None
        rest = path if inner == TOP and path != TOP else path[len(inner) + 1 :]
        return UnitPart(root, kind, inner, rest)

    def role(self, path: str) -> Role | None:
        """Return the role of a path; None for an ordinary path, and for the folder of a unit itself."""
        found = self.part(path)
        return found.role if found is not None and found.rest else None

    def group(self, path: str) -> str:
        """Return the folder of the unit with which a path is restored; empty if it is restored separately."""
        found = self.part(path)
        if found is None or (found.rest and found.role == "alone"):
            return ""
        return found.root if found.rest or found.inner != found.root else ""

    def kind(self, root: str) -> str:
        """Return the kind of the unit in a folder."""
        return self.places.get(root) or "git"

    def of(self, paths: Iterable[str]) -> Units:
        """Return only the units that contain some of these paths."""
        wanted: dict[str, str] = {}
        for path in paths:
            for folder in (TOP, *above(path), path):
                if folder in self.places:
                    wanted[folder] = self.places[folder]
        return Units(wanted)

    def __or__(self, other: Units) -> Units:
        return Units({**self.places, **other.places}) if other.places else self


NO_UNITS = Units()


def uncovered(units: Units, path: str) -> str:
    """Return why checkpoints never cover this path; empty if they may cover it."""
    return {"passing": PASSING, "objects": APART}.get(units.role(path) or "", "")


def is_git_name(name: str) -> bool:
    """Return whether git usually stores its data under this name."""
    return len(name) == len(_NAME) and name.casefold() == _NAME


def within(folder: str, rest: str) -> str:
    """Return the path of an entry in a folder of the workspace."""
    return rest if folder == TOP else f"{folder}/{rest}"


def above(path: str) -> Iterator[str]:
    """Yield the folders above a path, topmost first."""
    cut = path.find("/", 1)
    while cut >= 0:
        yield path[:cut]
        cut = path.find("/", cut + 1)


@cache
def kinds() -> Mapping[str, UnitKind]:
    """Return the kinds of units by name."""
    from tools.kit.yaml_text import load_table

    rows = load_table(TABLE)
    return {
        name: UnitKind(
            name,
            tuple(row["holds"]),
            _roles(row.get("roles", {})),
            row.get("named", ""),
            bool(row.get("versions", False)),
            row.get("told", name),
            tuple(row.get("locks", ())),
            tuple(row.get("again", ())),
        )
        for name, row in rows.items()
    }


@cache
def signs() -> frozenset[str]:
    """Return the names that suggest a unit. A folder without any of them is not a unit."""
    return frozenset(
        sign.rstrip("/") for kind in kinds().values() for sign in kind.holds[: 1 + 9 * bool(kind.named)]
    )


def kind_of(name: str, entries: Mapping[str, bool]) -> str:
    """Return the kind of unit that a folder with this name and these entries is; empty if it is none.

    `entries` maps each name to whether it is a folder.
    """
    return next((kind.name for kind in kinds().values() if kind.fits(name, entries)), "")


def units_among(paths: Iterable[str]) -> Units:
    """Return the units in a workspace, given a complete list of its paths."""
    keys = signs()
    known = set(paths) if not isinstance(paths, (set, Mapping)) else paths
    folders = {path.rpartition("/")[0] for path in known if path[path.rfind("/") + 1 :] in keys}
    found: dict[str, str] = {}
    for folder in folders:
        entries: dict[str, bool] = {}
        for sign in {each for kind in kinds().values() for each in kind.holds}:
            name = sign.rstrip("/")
            if within(folder or TOP, name) in known:
                entries[name] = sign.endswith("/")
        if kind := kind_of(folder.rpartition("/")[2], entries):
            found[folder or TOP] = kind
    return Units(found)


def _stands(sign: str, entries: Mapping[str, bool]) -> bool:
    name, folder = sign.rstrip("/"), sign.endswith("/")
    if "*" not in name:
        return entries.get(name) is folder
    pattern = re.compile(_regex(name))
    return any(pattern.fullmatch(each) for each, is_folder in entries.items() if is_folder is folder)


def _roles(rows: Mapping[str, list[str]]) -> re.Pattern[str]:
    groups = [f"(?P<{role}>{'|'.join(map(_regex, patterns))})" for role, patterns in rows.items()]
    return lazy_pattern(f"(?:{'|'.join(groups)})\\Z" if groups else r"(?!)")


def _regex(pattern: str) -> str:
    text = re.escape(pattern).replace(r"\*\*", ".*").replace(r"\*", "[^/]*")
    return re.sub(r"\\\[(.*?)\\\]", lambda found: f"[{found[1].replace(chr(92), '')}]", text)
