"""A scan of all files in a workspace: which of them differ from their known state.

A scan reads no contents. It runs before and after each program of the agent.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from pathlib import Path

from agent.workspace.checkpoints.entries import KnownPath, LeftOut, unreadable
from agent.workspace.checkpoints.units import (
    NO_UNITS,
    ORDINARY,
    TOP,
    UnitKind,
    Units,
    is_git_name,
    kind_of,
    kinds,
    signs,
)
from agent.workspace.checkpoints.watched_folders import WatchedFolders
from agent.workspace.placeholders import TIME, is_placeholder

MOVING = "was moved while it was looked at"

_KIND, _IS_FOLDER = 0o170000, stat.S_IFDIR
"""Bits of a mode, compared inline because that runs for each path at every command."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(slots=True)
class ManifestScan:
    """The result of scanning a whole workspace: changed and removed paths, and units found."""

    changed: dict[str, os.stat_result] = field(default_factory=dict)
    """The status of new paths and of those with another stamp."""
    gone: list[str] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    """Folders that were not entered and paths that could not be read, with the reasons."""
    units: dict[str, str] = field(default_factory=dict)
    """The kinds of units, by folder; work trees within units have an empty kind."""
    linked: dict[tuple[int, int], list[str]] = field(default_factory=dict)
    """The paths of files with several hard links, by device and inode."""
    read: dict[str, set[str]] = field(default_factory=dict)
    """The folders that were read in a partial scan, each with its subfolders that were not read."""

    def twin(self, path: str, status: os.stat_result) -> str:
        """Return another path in the workspace that is a hard link to the same file; empty without one."""
        names = self.linked.get((status.st_dev, status.st_ino), ())
        return next((name for name in names if name != path), "")


def scan(
    root: Path,
    known: Mapping[str, KnownPath],
    ours: Path | None = None,
    *,
    units: Units = NO_UNITS,
    versions: bool = True,
    watches: WatchedFolders | None = None,
) -> ManifestScan:
    """Compare everything below `root` (resolved) with the `known` states. Blocking; never raises.

    `ours` is a folder that is not read: Hermes's own data. Placeholders of a sandbox count as missing.
    `units` are those known so far, because a damaged one cannot be recognised. Without `versions` neither
    version control data nor the mode of `root` is read. With `watches`, only folders changed since the last
    such scan are read, if that suffices; the result is the same.
    """
    if watches is not None:
        dirty = watches.changed_folders()
        found = None if dirty is None else _scan_changed(root, known, ours, units, watches, dirty)
        if found is not None:
            return found
        watches.start_scan()
    found = ManifestScan()
    names: list[str] = []
    folders = _walk(root, found, ours, units, versions, watches)
    met = _compare(root, known, folders, found, names)
    if met < len(known):
        found.gone = _missing(known, names, found)
    if not versions:
        for folder in (TOP, *found.units):
            found.changed.pop(folder, None)
    if watches is not None:
        watches.record(lambda _: True, found.units, found.left_out)
        watches.read_again(_uncertain(found))
    return found


def _scan_changed(
    root: Path,
    known: Mapping[str, KnownPath],
    ours: Path | None,
    units: Units,
    watches: WatchedFolders,
    dirty: set[str],
) -> ManifestScan | None:
    """Scan only the `dirty` folders and new ones; return None if that does not suffice."""
    former = dict(watches.folders) if dirty else watches.folders
    if identity_of(root) != former[""].identity:
        return None
    found = ManifestScan()
    names: list[str] = []
    _compare(root, known, _walk(root, found, ours, units, True, watches, dirty), found, names)
    read = found.read
    if not names or any(each.reason == MOVING or not each.path for each in found.left_out):
        return None
    if any(each.st_nlink > 1 and not stat.S_ISDIR(each.st_mode) for each in found.changed.values()):
        # The folder of a file's other hard link had no event.
        return None
    for folder in dirty & read.keys():
        # In a folder that became a unit, or is no longer one, other files count.
        place, same = folder or TOP, former[folder].identity == watches.folders[folder].identity
        if same and found.units.get(place) != watches.units.get(place):
            return None
    stands = cache(lambda folder: _stands(folder, read))
    found.left_out += (
        each
        for each in watches.left_out
        if each.path not in read and (above := _above(each.path)) not in read and stands(above)
    )
    if read:
        there, hidden = set(names), {each.path for each in found.left_out}
        for path in known:
            above = _above(path)
            is_there = path in there if above in read else stands(above) and above in watches.folders
            if not is_there and not _is_hidden(path, hidden):
                found.gone.append(path)
    for place, kind in watches.units.items():
        folder = "" if place == TOP else place
        if folder not in read and stands(folder):
            found.units[place] = kind
    watches.record(stands, found.units, found.left_out)
    watches.read_again(_uncertain(found))
    return found


def _above(path: str) -> str:
    return path.rpartition("/")[0]


def _stands(folder: str, read: Mapping[str, set[str]]) -> bool:
    """Return whether a folder still exists, judged by the folders that were `read`."""
    while folder and folder not in read:
        above = _above(folder)
        if above in read and folder not in read[above]:
            return False
        folder = above
    return True


def _uncertain(found: ManifestScan) -> Iterator[str]:
    """Yield the folders to read again without any event.

    In them something differs from what is known until that is accepted; or something could not be read; or a
    file has another hard link, through which it can change without an event here.
    """
    for each in found.left_out:
        yield each.path
        yield _above(each.path)
    for path in (*found.changed, *found.gone, *chain.from_iterable(found.linked.values())):
        yield _above(path)


def _compare(
    root: Path,
    known: Mapping[str, KnownPath],
    folders: Iterable[tuple[str, list[tuple[str, os.stat_result]]]],
    found: ManifestScan,
    names: list[str],
) -> int:
    """Add the entries that differ from what is known to `found`; return how many paths are known."""
    met = 0
    get, held = known.get, TIME * 1_000_000_000
    # Written without helpers, because this runs for each path of a workspace at every command.
    for prefix, listed in folders:
        for name, status in listed:
            path = prefix + name
            if status.st_mtime_ns == held and is_placeholder(root / path):
                continue
            names.append(path)
            before = get(path)
            mode = status.st_mode
            if before is not None:
                met += 1
                if before.settled and before.entry is not None:
                    if mode & _KIND == _IS_FOLDER:
                        if before.stamp == (mode,):
                            continue
                    elif before.stamp == (
                        mode,
                        status.st_ino,
                        status.st_size,
                        status.st_mtime_ns,
                        status.st_ctime_ns,
                    ):
                        if status.st_nlink > 1:
                            _note_link(found, path, status)
                        continue
            found.changed[path] = status
            if status.st_nlink > 1 and stat.S_ISREG(mode):
                _note_link(found, path, status)
    return met


def _note_link(found: ManifestScan, path: str, status: os.stat_result) -> None:
    found.linked.setdefault((status.st_dev, status.st_ino), []).append(path)


def _missing(known: Mapping[str, KnownPath], names: Iterable[str], found: ManifestScan) -> list[str]:
    there = set(names)
    gone = [path for path in known if path not in there]
    hidden = {item.path for item in found.left_out}
    return [path for path in gone if not _is_hidden(path, hidden)] if hidden else gone


def _is_hidden(path: str, hidden: set[str]) -> bool:
    """Return whether a path is, or is in, an unreadable folder."""
    if "" in hidden:
        return True
    cut = path.find("/")
    while cut >= 0:
        if path[:cut] in hidden:
            return True
        cut = path.find("/", cut + 1)
    return path in hidden


def _walk(
    root: Path,
    found: ManifestScan,
    ours: Path | None,
    units: Units,
    versions: bool,
    watches: WatchedFolders | None = None,
    dirty: set[str] | None = None,
) -> Iterator[tuple[str, list[tuple[str, os.stat_result]]]]:
    """Yield `root` and then every folder in it: the path prefix, and the entries with their status.

    Links are not followed and other file systems not entered. Of a unit, only files that a step may record
    are listed. With `dirty` only these folders are read, and those that the watches do not know.
    """
    try:
        top = root.stat()
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        found.left_out.append(_unread("", error))
        return
    yield "", [(TOP, top)]
    own = identity_of(ours)
    keys = signs()
    former = dict(watches.folders) if watches is not None and dirty else {}
    # The last one comes first: each folder before those in it.
    order = sorted(dirty or (), reverse=True)
    waiting: list[tuple[str, tuple[int, int], UnitKind | None, int]] = []
    if dirty is None:
        waiting.append(("", (top.st_dev, top.st_ino), None, 0))
    while waiting or order:
        if not waiting:
            folder = order.pop()
            if folder not in found.read and _stands(folder, found.read):
                waiting.append((folder, *former[folder][:3]))
            continue
        folder, expected, kind, cut = waiting.pop()
        prefix = f"{folder}/" if folder else ""
        try:
            descriptor = os.open(root / folder, _FOLDER)
        except OSError as error:
            if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
                found.left_out.append(_unread(folder, error))
            continue
        try:
            # Between listing and opening, a folder above may have become a link.
            status = os.fstat(descriptor)
            if (status.st_dev, status.st_ino) != expected:
                found.left_out.append(LeftOut(folder, MOVING))
                continue
            if watches is not None:
                watches.watch(folder, descriptor, kind, cut)
            listed = _list_folder(descriptor, prefix, found)
        finally:
            os.close(descriptor)
        unread: set[str] = set()
        if dirty is not None:
            found.read[folder] = unread
        place = folder or TOP
        if place in units.places or not keys.isdisjoint(dict(listed)):
            name = _unit(place, listed, units, within=kind is not None)
            if name is not None:
                found.units[place] = name
                kind, cut = kinds().get(name), len(prefix)
                if kind is not None and kind.versions and not versions:
                    continue
        closed = set()
        for name, status in listed:
            is_folder = status.st_mode & _KIND == _IS_FOLDER
            if kind is None and versions and not is_folder:
                # This applies to most paths of most workspaces.
                continue
            if (kind is not None and kind.role(prefix[cut:] + name) in ("passing", "objects")) or (
                not versions and is_git_name(name)
            ):
                closed.add(name)
            elif is_folder:
                if reason := _closed(status, top, own):
                    found.left_out.append(LeftOut(prefix + name, reason))
                    closed.add(name)
                else:
                    path, identity = prefix + name, (status.st_dev, status.st_ino)
                    if dirty is not None and (each := former.get(path)) and each[:3] == (identity, kind, cut):
                        unread.add(path)
                    else:
                        waiting.append((path, identity, kind, cut))
        yield prefix, [each for each in listed if each[0] not in closed] if closed else listed


def _unit(folder: str, listed: list[tuple[str, os.stat_result]], units: Units, *, within: bool) -> str | None:
    """Return the kind of unit that begins at a folder; `ORDINARY` if a unit ends there, None for neither."""
    entries = {name: stat.S_ISDIR(status.st_mode) for name, status in listed}
    if kind := kind_of(folder.rpartition("/")[2], entries):
        return kind
    if within and entries.get(".git") is False:
        return ORDINARY
    return units.places.get(folder)


def _list_folder(descriptor: int, prefix: str, found: ManifestScan) -> list[tuple[str, os.stat_result]]:
    """Return the names in an open folder with their status; record unreadable entries as left out."""
    listed: list[tuple[str, os.stat_result]] = []
    try:
        with os.scandir(descriptor) as entries:
            for entry in entries:
                try:
                    listed.append((entry.name, entry.stat(follow_symlinks=False)))
                except FileNotFoundError:
                    continue
                except OSError as error:
                    found.left_out.append(_unread(prefix + entry.name, error))
    except OSError as error:
        found.left_out.append(_unread(prefix.rstrip("/"), error))
    return listed


def _unread(path: str, error: OSError) -> LeftOut:
    return LeftOut(path, unreadable(error))


def identity_of(folder: Path | None) -> tuple[int, int]:
    """Return device and inode of a folder; zeros if there is none."""
    try:
        status = folder.stat() if folder is not None else None
    except OSError:
        status = None
    return (status.st_dev, status.st_ino) if status is not None else (0, 0)


def _closed(status: os.stat_result, top: os.stat_result, own: tuple[int, int]) -> str:
    if (status.st_dev, status.st_ino) == own:
        return "is where Hermes keeps its own files"
    return "is on another file system" if status.st_dev != top.st_dev else ""
