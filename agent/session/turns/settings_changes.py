"""Takes over what commands wrote to the copies of git's settings that were lent to them, as far as it may be.

What runs nothing is taken over at once. About everything else a person is asked by key, once for all of it;
until then it stands nowhere but in the copy.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from agent.workspace.checkpoints.git_settings import Settings, is_plain, listed, questioned, take_over
from tools.context import ToolContext
from tools.kit.files import create_file
from tools.results import DeniedError
from tools.services.actions import SetGitSettings

if TYPE_CHECKING:
    from agent.safety.sandbox.repository import LentChange, SettingsLender

T = TypeVar("T")

_PATIENCE = 2.0
"""Seconds that somebody else's lock on the settings is waited for."""
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class _Judged:
    """One file of settings whose copy was written."""

    change: LentChange
    before: Settings
    after: Settings
    asked: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SettledSettings:
    """What became of the settings that a call wrote."""

    written: tuple[Path, ...] = ()
    note: str = ""
    refused: bool = False
    """Whether something of it was not taken over."""


class SettingsChanges:
    """Looks after the settings that the calls of one agent write.

    `had` gives the addresses of remotes, by name, that a git folder had before the session.
    """

    def __init__(self, lender: SettingsLender, had: Callable[[Path], Mapping[str, str]]) -> None:
        self._lender = lender
        self._had = had

    async def settle(self, tool: str, context: ToolContext) -> SettledSettings:
        """Take over what may be, ask about the rest."""
        changes = await asyncio.to_thread(self._lender.changes)
        if not changes:
            return SettledSettings()
        judged: list[_Judged] = []
        notes: list[str] = []
        for change in changes:
            try:
                judged.append(await asyncio.to_thread(self._judge, change))
            except (OSError, ValueError):
                notes.append(f"{_shown(change.path)} was not changed: git cannot read what was written.")
        keys = tuple(dict.fromkeys(key for each in judged for key in each.asked))
        refused = bool(notes)
        try:
            if keys:
                await context.permit(SetGitSettings(tool=tool, keys=keys))
        except DeniedError as denied:
            refused = True
            named = ", ".join(f"git-config({key})" for key in keys[:_SHOWN])
            notes.append(
                f"{named}: this may run a program or send elsewhere, so it was not taken over into git's "
                f"settings, whatever the output says; the rest was. {denied}"
            )
            judged = [_without(each) for each in judged]
        written: list[Path] = []
        for each in judged:
            try:
                if await asyncio.to_thread(self._write, each):
                    written.append(each.change.path)
            except (OSError, ValueError) as error:
                refused = True
                notes.append(f"{_shown(each.change.path)} was not changed: {error}.")
        await asyncio.to_thread(self._lender.judged)
        return SettledSettings(tuple(written), " ".join(notes), refused)

    def _judge(self, change: LentChange) -> _Judged:
        before, after = _listed(change.before), _listed(change.after)
        had = self._had(change.path.parent)
        return _Judged(change, before, after, tuple(questioned(before, after, had)))

    def _write(self, judged: _Judged) -> bool:
        """Whether the file is another one now."""
        path, change = judged.change.path, judged.change
        keys = [
            key
            for key in dict.fromkeys((*judged.before, *judged.after))
            if judged.before.get(key) != judged.after.get(key)
        ]
        lock = path.with_name(f"{path.name}.lock")
        descriptor = _locked(lock)
        try:
            now = path.read_bytes() if path.exists() else b""
            is_same = now == change.before and judged.after == _listed(change.after)
            if is_same and is_plain(change.after, change.before):
                text = change.after
            else:
                text = _renewed(now, [(key, judged.after.get(key, ())) for key in keys])
            if text == now:
                return False
            os.write(descriptor, text)
            os.fchmod(descriptor, path.stat().st_mode & 0o777 if path.exists() else 0o644)
            if self._lender.is_lending:
                # What lies over it in the view of a program that still runs would go away with it.
                with path.open("r+b") as file:
                    file.write(text)
                    file.truncate()
            else:
                lock.replace(path)
            return True
        finally:
            os.close(descriptor)
            with suppress(FileNotFoundError):
                lock.unlink()


def _without(judged: _Judged) -> _Judged:
    """The same with the keys that were asked about as they were."""
    after = {key: values for key, values in judged.after.items() if key not in judged.asked}
    after |= {key: judged.before[key] for key in judged.asked if key in judged.before}
    return _Judged(judged.change, judged.before, after, ())


def _listed(text: bytes) -> Settings:
    return _in_file(text, listed)


def _renewed(text: bytes, values: Sequence[tuple[str, Sequence[str]]]) -> bytes:
    def changed(file: Path) -> bytes:
        for key, new in values:
            take_over(file, key, listed(file).get(key, ()), new)
        return file.read_bytes()

    return _in_file(text, changed)


def _in_file(text: bytes, work: Callable[[Path], T]) -> T:
    """What `work` makes of a private file with this text."""
    import tempfile

    with tempfile.TemporaryDirectory(prefix="hermes-git-") as folder:
        file = Path(folder) / "config"
        file.write_bytes(text)
        return work(file)


def _locked(lock: Path) -> int:
    """The lock that git takes too, opened. Raises `OSError`."""
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            return create_file(lock, 0o644)
        except FileExistsError:
            if time.monotonic() > until:
                raise OSError(f"{lock.name} is there, so another program is writing it") from None
            time.sleep(0.02)


def _shown(path: Path) -> str:
    return "/".join(path.parts[-2:])
