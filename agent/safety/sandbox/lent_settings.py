"""Copies of git's settings that commands write in place of the files: what counts is judged afterwards.

In the view of a command a link lies where the file is; git follows it, and locks and replaces the copy. So a
setting that runs something never stands where a program outside of the boundary would read it.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from agent.safety.sandbox.launch import launcher_argv
from tools.kit.files import read_bytes
from tools.kit.umask import person_umask
from tools.services.sandbox import SandboxPolicy

MOST = 16
"""Files that are lent at once, those of the workspace's own repository first."""
_NAMES = ("config", "config.worktree")
_BYTES = 1_000_000
_PATIENCE = 10.0


@dataclass(slots=True)
class _Copy:
    """One file that is lent."""

    real: Path
    copy: Path
    link: Path
    base: bytes
    """What the file held when the copy was last the same."""


@dataclass(frozen=True, slots=True)
class LentChange:
    """What a command wrote to the copy of a file of git's settings."""

    path: Path
    before: bytes
    after: bytes


class LentSettings:
    """The copies of one boundary, in a folder of its own that commands write. Thread-safe."""

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
        """A policy with the copies in place of the files."""
        lent = {each.real for each in self._copies}
        return replace(
            policy,
            writable=(*policy.writable, (self.folder / "written").resolve()),
            protected=tuple(path for path in policy.protected if path not in lent),
            links=tuple((each.link, each.real) for each in self._copies),
        )

    def refresh(self) -> None:
        """Bring the copies that no command changed to what the files hold now."""
        with self._lock:
            for each in self._copies:
                if _content(each.copy) == each.base and _content(each.real) != each.base:
                    self._renew(each)

    def changes(self) -> list[LentChange]:
        """What commands changed and nobody has judged yet."""
        with self._lock:
            copies = [(each.real, each.base, _content(each.copy)) for each in self._copies]
        return [LentChange(*each) for each in copies if each[1] != each[2]]

    def put_back(self) -> None:
        """What changed was judged: the copies are again what the files are."""
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
    """What a plain file holds; nothing where there is none. A link is not followed."""
    try:
        return read_bytes(path, _BYTES)[0]
    except OSError:
        return b""


class SettingsLender:
    """Lends copies to every start of one session, each its own, below `folder`. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._active: set[LentSettings] = set()
        self._ended: set[LentSettings] = set()

    def lend(self, files: Iterable[Path]) -> LentSettings | None:
        """Copies of those of the files that are settings; None where there are none, or it cannot be done."""
        chosen = [path for path in files if path.name in _NAMES and path.is_file() and not path.is_symlink()]
        if not chosen or not can_lend():
            return None
        lent = LentSettings(self._folder / secrets.token_hex(8), chosen[:MOST])
        self._active.add(lent)
        return lent

    def ended(self, lent: LentSettings | None) -> None:
        """Nobody writes these copies any more; they stay until what changed is judged."""
        if lent is not None and lent in self._active:
            self._active.discard(lent)
            if lent.changes():
                self._ended.add(lent)
            else:
                lent.remove()

    def refresh(self) -> None:
        """Bring copies that no command changed up to date."""
        for lent in tuple(self._active):
            lent.refresh()

    def changes(self) -> list[LentChange]:
        """What commands wrote that nobody has judged yet. Looks at the disk."""
        return [change for lent in (*self._ended, *self._active) for change in lent.changes()]

    def judged(self) -> None:
        """What they wrote was taken over as far as it may be."""
        for lent in tuple(self._active):
            lent.put_back()
        while self._ended:
            self._ended.pop().remove()

    @property
    def is_lending(self) -> bool:
        """Whether a file of settings must not be replaced: what lies over it in a view would go away."""
        return bool(self._active)


@cache
def can_lend() -> bool:
    """Whether this machine lays links over files in the view of a command. Blocks once."""
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
