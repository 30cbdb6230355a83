"""Finding the file that a call names, checking whether it may be used, and texts of errors."""

from __future__ import annotations

import errno
import os
import pwd
import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from tools.context import ToolContext
from tools.kit.files import NotAFileError
from tools.kit.lazy_pattern import lazy_pattern
from tools.results import ToolError
from tools.secret_places import NAMES, PUBLIC_NAMES, READABLE, STORES, STORES_ANYWHERE, SYSTEM, any_of, rows
from tools.services.actions import DeletePath, ReadPath, WritePath
from tools.terminal.terminals import Terminals

_KERNEL_FOLDERS = ("/proc", "/sys", "/dev")


def resolve(text: str, workspace: Path) -> Path:
    """Return the path `text` names: `~` expanded, relative to `workspace`, all links followed.

    Variables are not expanded. Raises `ToolError` for paths that cannot name a file and for the folders of
    the kernel (/proc, /sys, /dev).
    """
    path = Path(os.path.realpath(_absolute(text, workspace)))
    if os.path.islink(path):  # noqa: PTH114 - Path.is_symlink raises for names that are too long
        raise ToolError(f"Cannot use {text}: its links form a loop.")
    _refuse_kernel_folders(path, text)
    return path


def resolve_entry(text: str, workspace: Path) -> Path:
    """Return the path like `resolve`, but keep a link at the end: the name to delete or move."""
    absolute = _absolute(text, workspace)
    name = absolute.name
    if name in ("", ".", ".."):
        raise ToolError(f"{text} names no file.")
    path = Path(os.path.realpath(absolute.parent)) / name
    _refuse_kernel_folders(path, text)
    return path


def display_path(path: Path, workspace: Path) -> str:
    """Return `path` as users and models read it: relative inside the workspace, else absolute."""
    try:
        return printable(str(path.relative_to(workspace)))
    except ValueError:
        return printable(str(path))


def printable(name: str) -> str:
    r"""Return a file name as valid text; bytes that are not UTF-8 become `\xff`."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _absolute(text: str, workspace: Path) -> Path:
    if not text.strip():
        raise ToolError("The path is empty; name a file.")
    if "\0" in text:
        raise ToolError("The path holds a NUL byte; no file can have such a name.")
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise ToolError("The path holds characters no file name can have.") from None
    return workspace / os.path.expanduser(text)  # noqa: PTH111 - Path.expanduser raises for unknown users


def _refuse_kernel_folders(path: Path, text: str) -> None:
    for folder in _KERNEL_FOLDERS:
        if path == Path(folder) or Path(folder) in path.parents:
            raise ToolError(f"Cannot use {text}: {folder} holds devices and kernel data, not files.")


PROTECTED_OPTION = "files.protected"
"""The tool option that lists further protected files or folders, as absolute paths."""

_GUARDED_IN_HOME = (".config/systemd", "Library/LaunchAgents")
_GUARDED_IN_SYSTEM = (
    "/etc/passwd*",
    "/etc/group*",
    "/etc/pam.d",
    "/etc/ssh",
    "/etc/systemd",
    "/etc/ld.so.preload",
    "/etc/cron*",
    "/var/spool/cron",
    "/lib/systemd",
    "/usr/lib/systemd",
    "/run/systemd",
    "/boot",
    "/Library/LaunchDaemons",
    "/Library/LaunchAgents",
)


def _exactly(patterns: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern for the names that fit one of these patterns."""
    return lazy_pattern(f"(?:{any_of(patterns)})\\Z", re.IGNORECASE)


def _at_or_below(patterns: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern for the paths that fit one of these patterns, and all paths below."""
    return lazy_pattern(f"(?:{any_of(patterns)})(?:/|\\Z)", re.IGNORECASE)


_STORES = rows(STORES_ANYWHERE + STORES)
_IS_SECRET_NAME = _exactly(rows(NAMES))
_IS_PUBLIC_NAME = _exactly(rows(PUBLIC_NAMES))
_IS_SECRET_IN_HOME = _at_or_below(_STORES)
_IS_READABLE_IN_HOME = _exactly(rows(READABLE))
_IS_SECRET_IN_SYSTEM = _at_or_below(rows(SYSTEM))
_IS_GUARDED_IN_HOME = _at_or_below((*_GUARDED_IN_HOME, ".ssh"))
_IS_GUARDED_IN_SYSTEM = _at_or_below(_GUARDED_IN_SYSTEM)


_FOREIGN_HOME = lazy_pattern(r"/(?:home|Users)/[^/]+/")


class CredentialGuard:
    """The protected paths for one set of options. Creating it reads the disk."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        homes = _homes()
        self._homes = tuple(f"{home}/" for home in homes)
        places = [form for text in options.get(PROTECTED_OPTION, ()) for form in _both_forms(str(text))]
        places += _linked_stores(homes)
        self._protected = frozenset(places)

    def hides(self, path: Path) -> bool:
        """Return whether the model may not see the content of `path`, which must be resolved."""
        text = str(path)
        if self._is_protected(text) or _IS_SECRET_IN_SYSTEM.match(text):
            return True
        below = self._below_home(text)
        if below is not None and _IS_SECRET_IN_HOME.match(below):
            return not _IS_READABLE_IN_HOME.match(below)
        name = path.name
        return bool(_IS_SECRET_NAME.match(name)) and not _IS_PUBLIC_NAME.match(name)

    def check_read(self, path: Path, shown: str) -> None:
        """Raise `ToolError` if `path` may not be read."""
        if self.hides(path):
            raise ToolError(
                f"{shown} holds credentials and is not shown; ask the user for the one value you need."
            )

    def check_write(self, path: Path, shown: str) -> None:
        """Raise `ToolError` if `path` may not be created, changed or deleted."""
        if self.hides(path):
            raise ToolError(f"{shown} holds credentials and is not changed; ask the user to edit it.")
        text = str(path)
        below = self._below_home(text)
        if _IS_GUARDED_IN_SYSTEM.match(text) or (below is not None and _IS_GUARDED_IN_HOME.match(below)):
            raise ToolError(f"{shown} guards the system and is not changed; ask the user to edit it.")

    def _is_protected(self, text: str) -> bool:
        while self._protected and text not in ("", "/"):
            if text in self._protected:
                return True
            text = text.rpartition("/")[0]
        return False

    def _below_home(self, text: str) -> str | None:
        """Return the part of a path below a user's home folder; None if it is not in one."""
        for home in self._homes:
            if text.startswith(home):
                return text[len(home) :]
        foreign = _FOREIGN_HOME.match(text)
        return text[foreign.end() :] if foreign else None


def _homes() -> tuple[str, ...]:
    """Return the home folders of this user and of root, as written and as resolved."""
    homes = ["/root", os.environ.get("HOME", "")]
    try:
        homes.append(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        pass
    forms = {form for home in homes if home for form in _both_forms(home)}
    return tuple(sorted(forms - {"/"}))


def _linked_stores(homes: Iterable[str]) -> Iterator[str]:
    """Yield the real paths of the user's credential stores that are links."""
    for home in homes:
        for store in _STORES:
            place = home
            for part in store.split("/"):
                place = f"{place}/{part}"
                if os.path.islink(place):  # noqa: PTH114 - a Path for each would take longer than the look
                    yield os.path.realpath(f"{home}/{store}")
                    break


def _both_forms(text: str) -> tuple[str, str]:
    """Return a path as written and as resolved.

    Both are checked, so that links cannot bypass a protection.
    """
    return os.path.normpath(text), os.path.realpath(text)


class Access:
    """The permitted file operations of `tool` in the call `ctx`. Every method raises `ToolError`."""

    def __init__(self, ctx: ToolContext, tool: str) -> None:
        self._ctx = ctx
        self._tool = tool
        self.guard = CredentialGuard(ctx.options)

    def target(self, text: str) -> Path:
        """Return the file that `text` names, with links followed."""
        return resolve(self._locate(text), self._ctx.workspace)

    def entry(self, text: str) -> Path:
        """Return the path that `text` names, without following a final link."""
        return resolve_entry(self._locate(text), self._ctx.workspace)

    def name(self, path: Path) -> str:
        """Return `path` in the form that the model is shown."""
        boundary = self._ctx.service(Terminals).boundary
        return display_path(path if boundary is None else boundary.path_in_sandbox(path), self._ctx.workspace)

    def _locate(self, text: str) -> str:
        """Return `text` as a path of this machine.

        A path in `/tmp` may mean the private `/tmp` that commands have.
        """
        terminals = self._ctx.service(Terminals)
        if place := terminals.remote_name:
            raise ToolError(
                f"Files are on {place}, where commands run, and {self._tool} sees this machine only; use the "
                "terminal tool there, such as `sed -n 1,200p FILE` to read and a heredoc to write."
            )
        boundary = terminals.boundary
        if boundary is None or not text.startswith(("/tmp", "/var/tmp")):
            return text
        try:
            return boundary.locate(text)
        except ValueError:
            # No name of a file; the reason is given where it is resolved.
            return text

    async def permit_read(self, path: Path) -> None:
        self.guard.check_read(path, self.name(path))
        await self._ctx.permit(ReadPath(tool=self._tool, path=path))

    async def permit_write(self, path: Path, *, creates: bool) -> None:
        self.guard.check_write(path, self.name(path))
        await self._ctx.permit(WritePath(tool=self._tool, path=path, creates=creates))

    async def permit_delete(self, path: Path) -> None:
        self.guard.check_write(path, self.name(path))
        await self._ctx.permit(DeletePath(tool=self._tool, path=path))


_MOST = 3
_CLOSE = 0.6
_MAX_ENTRIES = 5_000
"""The maximum number of directory entries searched for similar names."""
_SKIPPED = frozenset(
    {".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox", "target"}
)


def missing(path: Path, name: str, workspace: Path) -> ToolError:
    """Return the error for a missing file, with similar names."""
    near = near_names(path, workspace)
    if not near:
        return ToolError(f"{name} does not exist; use search with target files to find it.")
    return ToolError(f"{name} does not exist. Did you mean {' or '.join(near)}?", similar=near)


def near_names(path: Path, workspace: Path) -> list[str]:
    """Return up to three existing paths like `path`: in its folder first, then in the workspace."""
    found: list[Path] = []
    try:
        siblings = sorted(entry.name for entry in os.scandir(path.parent))[:_MAX_ENTRIES]
    except OSError:
        siblings = []
    found.extend(path.parent / name for name in _close_to(path.name, siblings))
    if len(found) < _MOST:
        elsewhere = list(_files(workspace))
        same = [file for file in elsewhere if file.name.lower() == path.name.lower()]
        close = _close_to(path.name, sorted({file.name for file in elsewhere}))
        found.extend(same)
        found.extend(file for name in close for file in elsewhere if file.name == name)
    unique = dict.fromkeys(file for file in found if file != path)
    return [display_path(file, workspace) for file in list(unique)[:_MOST]]


def _close_to(name: str, names: list[str]) -> list[str]:
    folded: dict[str, str] = {}
    for candidate in names:
        folded.setdefault(candidate.lower(), candidate)
    wanted = name.lower()
    same_stem = [real for low, real in folded.items() if Path(low).stem == Path(wanted).stem]
    close = [folded[low] for low in get_close_matches(wanted, list(folded), n=_MOST, cutoff=_CLOSE)]
    return list(dict.fromkeys([*close, *same_stem]))[:_MOST]


def _files(root: Path) -> Iterator[Path]:
    """Yield files below `root`, upper levels first, until `_MAX_ENTRIES` entries were seen."""
    waiting = [root]
    seen = 0
    while waiting:
        folder = waiting.pop(0)
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            seen += 1
            if seen > _MAX_ENTRIES:
                return
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _SKIPPED:
                    waiting.append(Path(entry.path))
            else:
                yield Path(entry.path)


_CAUSES = {
    errno.ENOENT: "it does not exist",
    errno.EACCES: "permission is missing",
    errno.EPERM: "the system does not permit it",
    errno.EROFS: "the file system is read-only",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file would be larger than allowed",
    errno.ENAMETOOLONG: "its name is too long",
    errno.ENOTDIR: "a part of the path is not a folder, or was swapped for a link meanwhile",
    errno.ELOOP: "it was swapped for a link meanwhile, or its links form a loop",
    errno.EISDIR: "it is a folder",
    errno.EEXIST: "it exists already",
    errno.ENOTEMPTY: "the folder is not empty",
    errno.EXDEV: "source and target are on different file systems",
    errno.ETXTBSY: "the program is running",
    errno.EMFILE: "too many files are open",
    errno.EIO: "the disk reports an error",
}


def explain(error: OSError, doing: str) -> ToolError:
    """Return the error for a failed system call, such as `Cannot write a.txt: the disk is full.`"""
    # Not needed to open a file, which is done before the first picture.
    from tools.results import ToolError

    if isinstance(error, NotAFileError):
        return ToolError(f"Cannot {doing}: it is a {error.kind}, not a file.")
    cause = _CAUSES.get(error.errno or 0) or (error.strerror or str(error)).lower()
    return ToolError(f"Cannot {doing}: {cause}.")
