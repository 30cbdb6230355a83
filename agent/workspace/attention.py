"""The watcher in the service of a session: changes become events, notices and notes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from agent.events import Event, FileChange, FilesChanged, Noticed
from agent.workspace.changes import Changes
from agent.workspace.watcher import Watcher
from tools.redact import mask_known


class Attention:
    """Notices what changes in the workspace, and tells whose work it was.

    `remember` receives the note for the model's next request. `secrets` are values, by name,
    that are masked in what is told.
    """

    def __init__(
        self,
        workspace: Path,
        emit: Callable[[Event], None],
        remember: Callable[[str], None],
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        self._emit = emit
        self._remember = remember
        self._secrets = secrets or {}
        self._watcher = Watcher(workspace, self._others_changed)
        self._calls = 0
        """How many calls are under way."""

    async def start(self) -> None:
        """Begin to watch, in the background."""
        await self._watcher.start()

    async def stop(self) -> None:
        await self._watcher.stop()

    async def switch(self, on: bool) -> str:
        """Tell what others change from now on, or tell it no longer; what holds now, in a sentence."""
        await self._watcher.catch_up()
        self.enabled = on
        if on:
            await self.start()
            return "Changes that others make in the project are noticed."
        return "Changes that others make in the project go unnoticed in this session."

    @property
    def coverage(self) -> str:
        """What is watched, in a sentence."""
        return self._watcher.coverage

    @property
    def enabled(self) -> bool:
        return self._watcher.enabled

    @enabled.setter
    def enabled(self, on: bool) -> None:
        self._watcher.enabled = on

    @asynccontextmanager
    async def during(self, call: str) -> AsyncIterator[None]:
        """What changes while this is open is the work of the call, or without one of Hermes itself.

        A project that is still being read for the first time delays nothing; what changes
        meanwhile is told as nobody's work rather than as that of the person.
        """
        async with self._watcher.claim() as claim:
            self._calls += bool(call)
            try:
                yield
            finally:
                self._calls -= bool(call)
        # A call that is under way gets the same changes, and tells them.
        if claim.changes and (call or not self._calls):
            self._emit(FilesChanged(by="agent", call=call, files=files_of(claim.changes, self._secrets)))

    def _others_changed(self, changes: Changes) -> None:
        self._emit(FilesChanged(by="others", files=files_of(changes, self._secrets)))
        self._emit(Noticed(kind="files", text=mask_known(changes.sentence(), self._secrets)))
        self._remember(mask_known(changes.note(), self._secrets))


def files_of(changes: Changes, secrets: Mapping[str, str] | None = None) -> tuple[FileChange, ...]:
    """Changes file by file, `secrets` masked in the diffs; a renamed file is removed and added."""
    diffs = {diff.path: diff for diff in changes.diffs}
    kinds = [
        *((path, "modified") for path in changes.modified),
        *((path, "added") for path in changes.added),
        *((new, "added") for _, new in changes.renamed),
        *((path, "removed") for path in changes.removed),
        *((old, "removed") for old, _ in changes.renamed),
    ]
    files = []
    for path, kind in kinds:
        diff = diffs.get(path)
        lines = (
            (diff.added, diff.removed, mask_known(diff.text, secrets or {}))
            if diff is not None
            else (0, 0, "")
        )
        files.append(FileChange(path, kind, *lines))  # type: ignore[arg-type]
    return tuple(files)
