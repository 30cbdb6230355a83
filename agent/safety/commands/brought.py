"""What archives, patches and copied folders bring along: they are looked into where they can be.

A patch may change what a CI service runs, an archive may hold a Git hook. What lies on
the disk is read, up to a limit; what is not there yet counts as unknown when another part
of the same script could have made it.
"""

from __future__ import annotations

import itertools
import os
import re
import stat
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from agent.safety.commands.call import Call, Opinion, ask, fine
from agent.safety.commands.ground import TEMPORARY
from agent.safety.look import current
from agent.safety.places import absolute
from agent.safety.shell.marks import GLOBS, UNKNOWN

MOST_ENTRIES = 4_000
"""Members of an archive, or files of a folder, that are looked at."""
MOST_BYTES = 24_000_000
"""Size of an archive or patch that is read."""
UNREAD = ask("brings in files that are not known here")
_READABLE = fine("can be looked into")
LINKS = ask("brings in links to places outside of it")

Names = Sequence[str] | None
"""Paths something brings, as they are written in it; None when they cannot be known."""


def bundle(call: Call, archive: str | None, folder: str, *, strip: int = 0) -> Opinion | None:
    """What speaks against unpacking an archive into a folder. Paths may be relative."""
    if archive is None or archive == "-":
        return UNREAD
    if (early := _unseen(call, archive)) is not _READABLE:
        return early
    names = current().once(("archive", call.path(archive)), lambda: _members(call.path(archive)))
    if names is None:
        return None if call.ground.below(call.path(folder)) and _is_near(call, archive) else UNREAD
    return landing(call, names, folder, strip)


def changes(call: Call, file: str | None, folder: str = ".") -> Opinion | None:
    """What speaks against applying a patch, given as a file or (None) on standard input."""
    if file is None or file in ("-", "/dev/stdin"):
        if call.stdin is not None:
            return _each(call, call.stdin, folder)
        if len(call.inputs) != 1:
            return UNREAD
        file = call.inputs[0]
    if (early := _unseen(call, file)) is not _READABLE:
        return early
    text = current().once(("patch", call.path(file)), lambda: _text(call.path(file)))
    return UNREAD if text is None else _each(call, [text], folder)


def tree(call: Call, source: str, target: str, *, inside: bool | None = None) -> Opinion | None:
    """What speaks against copying or moving a file or folder to a place.

    `inside` says whether a target is a folder in which it will lie under its own name;
    None when that depends on whether there is such a folder.
    """
    path, goal, look = call.path(source), call.path(target), current()
    if _is_open(path) or look.once(("aside", call.ground, goal), lambda: _is_aside(call, goal)):
        return None
    name = absolute(path).rpartition("/")[2]
    within = "" if source.endswith(("/.", "/", "/..")) or source in (".", "..") else f"{name}/"
    if inside is None:
        inside = target.endswith("/") or look.once(("folder", goal), lambda: _is_folder(goal))
    place = f"{target.rstrip('/')}/{within}" if inside else f"{target}/"
    # Most of what is copied is a single file, or made by another part of the script.
    names = None if look.missing(path) else look.once(("tree", path), lambda: _files(path))
    if names:
        return landing(call, names, place)
    if not within and not os.path.lexists(path) and not _is_near(call, source):
        return UNREAD
    return call.changed([place.rstrip("/")]) if within and inside else None


def _is_aside(call: Call, path: str) -> bool:
    """Whether a place is one for scraps, where nothing is guarded, and not in the workspace."""
    return path.startswith(tuple(f"{place}/" for place in TEMPORARY)) and not call.ground.inside(path)


def landing(call: Call, names: Iterable[str], folder: str, strip: int = 0) -> Opinion | None:
    """What speaks against files of these names below a folder."""
    for name in names:
        if name == _LINK:
            return LINKS
        steps = name.split("/")
        if ".." in steps or name.startswith("/"):
            return ask("writes outside of the folder it is unpacked to")
        rest = "/".join(step for step in steps if step not in ("", "."))
        rest = "/".join(rest.split("/")[strip:])
        if rest and (reason := call.ground.write(call.path(f"{folder.rstrip('/')}/{rest}"))):
            return ask(reason)
    return None


_LINK = "\0link"
_PATHS = re.compile(
    r"^(?:(?:\+\+\+|---|\*\*\*) (?!\d+(?:,\d+)? )([^\t\n]+)|(?:rename|copy) to (.+)|Index: (.+)"
    r"|diff --git .*? (b/.+))$",
    re.MULTILINE,
)
_LINK_MODE = re.compile(r"^(?:new file mode|new mode) 120000$", re.MULTILINE)


def _each(call: Call, texts: Sequence[str], folder: str) -> Opinion | None:
    for text in texts:
        if UNKNOWN in text or (text.strip() and not _PATHS.search(text)):
            return UNREAD
        if _LINK_MODE.search(text):
            return LINKS
        found = (next(filter(None, match.groups())) for match in _PATHS.finditer(text))
        paths = {path.strip().strip('"').rstrip("\r") for path in found} - {"/dev/null"}
        steps = [re.sub(r"^[ab]/", "", path) for path in paths]
        if opinion := landing(call, steps, folder):
            return opinion
    return None


def _unseen(call: Call, file: str) -> Opinion | None:
    """The opinion on a file that cannot be looked at; `_READABLE` when it can."""
    path = call.path(file)
    if _is_open(path):
        return None if _is_near(call, file) and UNKNOWN not in path else UNREAD
    if file.rpartition("/")[2] in call.named:
        return UNREAD  # another part of the script changes or makes it
    if not os.path.lexists(path):
        return None if _is_near(call, file) else UNREAD
    return _READABLE


def _is_near(call: Call, file: str) -> bool:
    path = call.path(file)
    return call.ground.inside(path) or call.ground.private(path)


def _is_open(path: str) -> bool:
    # Marks are no ASCII characters.
    return not path.isascii() and (UNKNOWN in path or any(mark in path for mark in GLOBS))


def _is_folder(path: str) -> bool:
    return not _is_open(path) and not current().missing(path) and Path(path).is_dir()


def _text(path: str) -> str | None:
    try:
        file = Path(path)
        if not file.is_file() or file.stat().st_size > MOST_BYTES:
            return None
        return file.read_text("utf-8", "replace")
    except (OSError, ValueError):
        return None


def _members(path: str) -> Names:
    """The paths in an archive; None when it is too large or of an unknown kind."""
    try:
        status = os.stat(path)  # noqa: PTH116 - as cheap as it gets
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:
            return None
        with open(path, "rb") as file:  # noqa: PTH123
            start = file.read(2)
        if start == b"PK":
            with zipfile.ZipFile(path) as packed:
                names = [_LINK if _is_link(each) else each.filename for each in packed.infolist()]
        else:
            names = list(_tar_names(path))
    except (OSError, ValueError, EOFError, tarfile.TarError, zipfile.BadZipFile, NotImplementedError):
        return None
    except Exception:  # compressors raise errors of their own
        return None
    return names if len(names) <= MOST_ENTRIES else None


def _tar_names(path: str) -> Iterator[str]:
    with tarfile.open(path, "r:*") as packed:
        for member in itertools.islice(packed, MOST_ENTRIES + 1):
            if packed.fileobj is not None and packed.fileobj.tell() > 4 * MOST_BYTES:
                raise ValueError(path)
            leaves = member.linkname.startswith("/") or ".." in member.linkname.split("/")
            yield _LINK if (member.issym() or member.islnk()) and leaves else member.name


def _is_link(entry: zipfile.ZipInfo) -> bool:
    return stat.S_ISLNK(entry.external_attr >> 16)


def _files(path: str) -> list[str]:
    """Paths of all files in a folder, seen from it, up to a limit."""
    found: list[str] = []
    for folder, folders, files in os.walk(path):
        inner = os.path.relpath(folder, path)
        found += [name if inner == "." else f"{inner}/{name}" for name in (*files, *folders)]
        if len(found) > MOST_ENTRIES:
            break
    return found
