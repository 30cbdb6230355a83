"""Folders of a batch: one for each attempt, locked while a run works in it."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from agent.core.config.environment import environment
from agent.core.config.loader import LoadedSettings
from agent.core.home import PRIVATE_FILE, Home, private_folder
from agent.errors import ExitCode, HermesError
from agent.session.spending.budget import Budget
from tools.kit.files import lock_file


class WorkspaceNotLaidError(HermesError):
    """Error: the folder of a task cannot be created."""


_COPIED = ("config.yaml", "permissions.yaml", "SOUL.md")
_LINKED = ("skills", "models", "plugins")
_ERRNO = re.compile(r"^\[Errno \d+\] |: '.*'$", re.DOTALL)
"""What the text of an `OSError` has around its cause."""


def lay_home(folder: Path, home: Home) -> None:
    """Turn `folder` into a home folder with the person's settings, rules and skills, but its own sessions."""
    private_folder(folder)
    for name in _COPIED:
        source, target = home.root / name, folder / name
        if source.is_file():
            shutil.copyfile(source, target)
            target.chmod(PRIVATE_FILE)
        else:
            target.unlink(missing_ok=True)
    for name in _LINKED:
        source, target = home.root / name, folder / name
        if source.is_dir() and not os.path.lexists(target):
            target.symlink_to(source)


def variables(home: Home, folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the batch's sessions: the person's variables, those of `.env`, and the
    batch's home.
    """
    return {**environment(home, environ), "HERMES_HOME": str(folder)}


def batch_settings(loaded: LoadedSettings, home: Home, total: Budget, runner: str) -> dict[str, Any]:
    """Return the settings that override the person's in every session of a batch.

    Features that outlive a session or need a person to look at them are off. File changes are recorded,
    because only reversible changes are allowed without approval. `total` is the budget of all sessions
    together; `runner` says where commands run.
    """
    settings: dict[str, Any] = {
        "memory": {"enabled": False},
        "learnings": {"enabled": False},
        "watcher": {"enabled": False},
        "sandbox": {"hidden": [*loaded.settings.sandbox.hidden, str(home.root)]},
    }
    ceilings = {name: value for name, value in (("tokens", total.tokens), ("money", total.money)) if value}
    if ceilings:
        settings["budget"] = {"total": ceilings}
    if runner in ("docker", "ssh"):
        # Not in the folder that the person's settings name: each task has one of its own.
        settings["terminal"] = {"backend": runner, "workdir": ""}
    return settings


def lay_workspace(folder: Path, files: Mapping[str, str], source: str = "") -> None:
    """Make the folder of a task: a copy of `source` with the task's files written over it.

    An existing folder is left unchanged, because the task continues in it. Raises `WorkspaceNotLaidError`.
    """
    try:
        if not folder.exists():
            _write_files(folder, files, source)
    except shutil.Error as error:
        # All that could not be copied, each with its cause as text; its message is a list in Python.
        path, _, cause = error.args[0][0]
        told = _ERRNO.sub("", str(cause))
        raise WorkspaceNotLaidError(f"{path} cannot be copied for the task: {told}.") from error
    except OSError as error:
        place, cause = error.filename or folder, error.strerror or error
        raise WorkspaceNotLaidError(f"The folder of the task cannot be made: {place}: {cause}.") from error


def _write_files(folder: Path, files: Mapping[str, str], source: str) -> None:
    private_folder(folder.parent)
    made = folder.with_name(f".{folder.name}")
    shutil.rmtree(made, ignore_errors=True)
    if source:
        shutil.copytree(source, made, symlinks=True)
        made.chmod(0o700)
    else:
        made.mkdir(mode=0o700)
    for path, text in files.items():
        target = made / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8", errors="surrogateescape", newline="")
    made.rename(folder)


_PATIENCE, _PAUSE = 30.0, 0.05


class FolderBusyError(HermesError):
    """Error: another run works on the same folder."""

    exit_code = ExitCode.USAGE


class FolderLock:
    """Two locks of a batch folder: that of the run, held until `close`, and one that lasts until all workers
    ended.
    """

    def __init__(self, root: Path) -> None:
        """Lock the folder `root`.

        Blocks while earlier workers end. Raises `FolderBusyError` and `OSError`.
        """
        self._run = _open(root / "lock")
        self.of_workers = -1
        """The descriptor that workers inherit."""
        try:
            if not _try_lock(self._run):
                raise FolderBusyError(f"Another run works on {root}; wait for it, or choose another with -o.")
            self.of_workers = _open(root / "workers.lock")
            give_up = time.monotonic() + _PATIENCE
            while not _try_lock(self.of_workers):
                if time.monotonic() > give_up:
                    raise FolderBusyError(
                        f"Workers of a run that was killed still end in {root}; try again in a minute."
                    )
                time.sleep(_PAUSE)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release the locks, so that another run can begin once the workers have ended."""
        for descriptor in (self._run, self.of_workers):
            if descriptor >= 0:
                os.close(descriptor)
        self._run = self.of_workers = -1

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)


def _try_lock(descriptor: int) -> bool:
    return lock_file(descriptor, seconds=0)
