"""The parts of a repository that git needs in the sandbox, and guarded and copied ones that name programs."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import struct
import subprocess
import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from agent.safety.sandbox.landlock import launcher_argv
from agent.workspace.placeholders import is_missing
from tools.kit.files import read_bytes
from tools.kit.lazy_pattern import lazy_pattern
from tools.kit.umask import person_umask
from tools.services.sandbox import SandboxPolicy

_RUNS_PROGRAMS = ("hooks", "config", "config.worktree", "commondir")
_HARMLESS = {"commondir": b".\n"}
"""Neutral content: the repository is its own common folder; an empty file would make git fail."""
_LONGEST = 4096
"""The number of bytes read of a file that holds one path, or of a configuration."""
_INDEX = 65_536
_MOST = 64
_WORD = 0xFFFFFFFF
_WORK_TREE = lazy_pattern(r"^\[core\][^\[]*?^\s*worktree\s*=\s*(.+)$", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Repository:
    """The folders of a git repository. Git writes to `store`; the files in `guarded` can make git run
    programs.
    """

    store: tuple[Path, ...]
    guarded: tuple[Path, ...]
    alternates: tuple[Path, ...] = ()
    """Further folders from which git reads objects."""

    def gaps(self) -> tuple[list[Path], dict[Path, bytes]]:
        """Return the missing folders, and the missing files with neutral content, among `guarded`."""
        open_names = self.open_names()
        missing = [path for path in self.guarded if is_missing(path) and path not in open_names]
        files = {path: _HARMLESS.get(path.name, b"") for path in missing if path.name != "hooks"}
        return [path for path in missing if path not in files], files

    def open_names(self) -> tuple[Path, ...]:
        """Return missing files that no placeholder can reserve; if a command creates one, it is removed.

        A placeholder for `commondir` would make git lock the reference tables of a main work tree twice, and
        then no commit works.
        """
        return tuple(
            path
            for path in self.guarded
            if path.name == "commondir"
            and path.parent in self.store
            and (path.parent / "reftable").is_dir()
            and is_missing(path)
        )


NONE = Repository((), ())


def repository_of(workspace: Path) -> Repository:
    """Return the repository that contains `workspace`, if git may use it with this user's rights; else
    `NONE`.

    A linked work tree counts only if the repository points back to it: a file in the workspace could have
    been written to give access to another folder.
    """
    for folder in (workspace, *workspace.parents):
        marker = folder / ".git"
        if marker.is_symlink():
            return NONE
        if marker.is_dir():
            return _plain(marker)
        if marker.is_file():
            return _linked(marker)
    return NONE


def _plain(store: Path) -> Repository:
    if not (store / "HEAD").exists():
        return NONE
    guarded = [store / name for name in _RUNS_PROGRAMS]
    guarded += [module / name for module in _modules(store) for name in ("hooks", "config")]
    return Repository((store,), tuple(guarded), tuple(_alternates(store)))


def _modules(store: Path) -> list[Path]:
    """Return the repositories of submodules, whose names may contain slashes, and of their submodules."""
    found: list[Path] = []
    queue = [store / "modules"]
    for folder in queue:
        if len(queue) > _MOST or folder.is_symlink():
            break
        try:
            below = [each for each in sorted(folder.iterdir()) if each.is_dir() and not each.is_symlink()]
        except OSError:
            continue
        for each in below:
            if (each / "HEAD").exists():
                found.append(each)
                queue.append(each / "modules")
            else:
                queue.append(each)
    return found


def _alternates(store: Path) -> Iterator[Path]:
    """Yield further folders from which the repository reads objects."""
    for line in _line(store / "objects" / "info" / "alternates").splitlines()[:_MOST]:
        if (folder := (store / "objects" / line)).is_dir():
            yield folder.resolve()


def _linked(marker: Path) -> Repository:
    named = _line(marker)
    if not named.startswith("gitdir: "):
        return NONE
    own = (marker.parent / named.removeprefix("gitdir: ")).resolve()
    back, common = _line(own / "gitdir"), _line(own / "commondir")
    if not back and (not common or (own / common).resolve() == own):
        plain = _plain(own) if _belongs(own, marker.parent) else NONE
        return Repository(plain.store, (*plain.guarded, marker), plain.alternates) if plain.store else NONE
    if not back or not common or (own / back).resolve() != marker.resolve():
        return NONE
    store = (own / common).resolve()
    if own.parent != store / "worktrees":
        return NONE
    plain = _plain(store)
    guarded = (*plain.guarded, marker, own / "config.worktree", own / "commondir")
    return Repository(plain.store, guarded, plain.alternates)


def _belongs(store: Path, tree: Path) -> bool:
    """Return whether a repository outside its work tree, such as a submodule's, belongs to `tree`.

    Its settings may name the work tree. If they do not (`git init --separate-git-dir`), its index is compared
    with the files. A new repository counts too, because nothing in it can be lost.
    """
    for name in ("config", "config.worktree"):
        if named := _WORK_TREE.search(_line(store / name)):
            return (store / named[1].strip().strip('"')).resolve() == tree.resolve()
    if store.is_relative_to(tree):
        return True
    if store.name == ".git" or (store / "worktrees").exists():
        return False
    try:
        with (store / "index").open("rb") as file:
            return _is_index_of(file.read(_INDEX), tree)
    except FileNotFoundError:
        refs = store / "refs"
        named = (store / "packed-refs").exists() or any(each.is_file() for each in refs.rglob("*"))
        return (refs / "heads").is_dir() and not named
    except OSError:
        return False


def _is_index_of(data: bytes, tree: Path) -> bool:
    """Return whether one of the first entries of a git index (version 2 or 3) matches a file that exists in
    `tree`.
    """
    place = 12
    while data[:4] == b"DIRC" and data[7] in (2, 3) and place + 64 < len(data):
        device, number = struct.unpack_from(">II", data, place + 16)
        start = place + (64 if data[place + 60] & 0x40 else 62)
        end = data.find(b"\0", start)
        if end < 0:
            return False
        try:
            status = (tree / os.fsdecode(data[start:end])).lstat()
            if (status.st_dev & _WORD, status.st_ino & _WORD) == (device, number):
                return True
        except (OSError, ValueError):
            pass
        place += (end - place + 8) & ~7
    return False


def _line(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(_LONGEST).strip()
    except OSError:
        return ""


MOST = 16
"""The number of settings files copied at once, those of the workspace's own repository first."""
_NAMES = ("config", "config.worktree")
_BYTES = 1_000_000
_PATIENCE = 10.0


@dataclass(slots=True)
class _Copy:
    """A copy of one settings file."""

    real: Path
    copy: Path
    link: Path
    base: bytes
    """The content of the original when the copy was last made equal to it."""


@dataclass(frozen=True, slots=True)
class SettingsFileChange:
    """The change that a command made to the copy of a git settings file."""

    path: Path
    before: bytes
    after: bytes


class CommandCopies:
    """The copies of git settings for one command, in a separate folder that it may write. Thread-safe."""

    def __init__(self, folder: Path, files: Iterable[Path]) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._copies: list[_Copy] = []
        folder.mkdir(mode=0o700, parents=True)
        inside = folder / "written"
        inside.mkdir(mode=0o700)
        for number, real in enumerate(files):
            place = inside / str(number)
            place.mkdir(mode=0o700)
            link = folder / str(number)
            link.symlink_to(place.resolve() / real.name)
            self._copies.append(_Copy(real, place / real.name, link, b""))
            self._renew(self._copies[-1])

    def within(self, policy: SandboxPolicy) -> SandboxPolicy:
        """Return the policy with the copies mounted over the original files."""
        copied = {each.real for each in self._copies}
        return replace(
            policy,
            writable=(*policy.writable, (self.folder / "written").resolve()),
            protected=tuple(path for path in policy.protected if path not in copied),
            links=tuple((each.link, each.real) for each in self._copies),
        )

    def refresh(self) -> None:
        """Update copies that no command has changed from the original files."""
        with self._lock:
            for each in self._copies:
                if _content(each.copy) == each.base and _content(each.real) != each.base:
                    self._renew(each)

    def changes(self) -> list[SettingsFileChange]:
        """Return the changes that commands have made to the copies."""
        with self._lock:
            copies = [(each.real, each.base, _content(each.copy)) for each in self._copies]
        return [SettingsFileChange(*each) for each in copies if each[1] != each[2]]

    def reset(self) -> None:
        """Reset the copies to the original files, after the changes were judged."""
        with self._lock:
            for each in self._copies:
                self._renew(each)

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _renew(self, each: _Copy) -> None:
        each.base = _content(each.real)
        with suppress(OSError):
            fresh = each.copy.with_name("fresh")
            fresh.write_bytes(each.base)
            fresh.chmod(0o644)
            fresh.replace(each.copy)


def _content(path: Path) -> bytes:
    """Return the content of a regular file; empty if it is missing or unreadable. A link is not followed."""
    try:
        return read_bytes(path, _BYTES)[0]
    except OSError:
        return b""


class SettingsCopies:
    """A source of separate copies of git settings for each command of a session, in `folder`. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._active: set[CommandCopies] = set()
        self._ended: set[CommandCopies] = set()

    def copies_for(self, files: Iterable[Path]) -> CommandCopies | None:
        """Return copies of those files that are git settings; None if there are none or it is impossible."""
        chosen = [path for path in files if path.name in _NAMES and path.is_file() and not path.is_symlink()]
        if not chosen or not can_mount_links():
            return None
        copies = CommandCopies(self._folder / secrets.token_hex(8), chosen[:MOST])
        self._active.add(copies)
        return copies

    def release(self, copies: CommandCopies | None) -> None:
        """Record that the command with these copies has ended; they are kept until its changes are judged."""
        if copies is not None and copies in self._active:
            self._active.discard(copies)
            if copies.changes():
                self._ended.add(copies)
            else:
                copies.remove()

    def refresh(self) -> None:
        """Update copies that no command has changed from the original files."""
        for copies in tuple(self._active):
            copies.refresh()

    @property
    def has_copies(self) -> bool:
        """Return whether copies exist, so that there may be changes to judge."""
        return bool(self._ended or self._active)

    def changes(self) -> list[SettingsFileChange]:
        """Return the changes by commands that have not been judged yet. Reads the disk."""
        return [change for copies in (*self._ended, *self._active) for change in copies.changes()]

    def reset(self) -> None:
        """Reset copies in use and remove the others, because all changes were judged."""
        for copies in tuple(self._active):
            copies.reset()
        while self._ended:
            self._ended.pop().remove()

    @property
    def is_in_use(self) -> bool:
        """Return whether copies are in use. The original files must not be replaced then, as that would
        unmount the copies.
        """
        return bool(self._active)


@cache
def can_mount_links() -> bool:
    """Return whether this machine can mount links over files for a command. Blocks the first time."""
    argv, fds = launcher_argv({"links": []})
    try:
        done = subprocess.run(
            [*argv, "true"],
            pass_fds=fds,
            timeout=_PATIENCE,
            check=False,
            capture_output=True,
            umask=person_umask(),
        )
    except (OSError, subprocess.SubprocessError):
        return False
    finally:
        for descriptor in fds:
            os.close(descriptor)
    return done.returncode == 0
