"""Reports of the file watcher to a session: changes become events, notices and notes for the model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from itertools import islice
from pathlib import Path
from typing import Literal

from agent.events import Event, FileChange, FilesChanged, Noticed
from agent.workspace.changes import ProjectChanges, ShownFileDiff
from agent.workspace.watcher import Watcher, WriteClaim
from tools.text.redact import mask_known

MAX_TOLD = 500
"""The number of files named in one event, because switching a branch can change a hundred thousand."""

PATIENCE = 1.0
"""Seconds for which a message waits for the report of what changed while the session was closed."""

Kind = Literal["added", "modified", "removed"]


class ChangeReporter:
    """A watcher of the workspace that reports changes to the session, and who made them.

    `remember` receives the note for the model's next request, and the sentence that the user sees instead.
    `secrets` are values, by name, that are masked in reports. `home` is the folder of Hermes's own files,
    changes to which are not reported.
    """

    def __init__(
        self,
        workspace: Path,
        emit: Callable[[Event], None],
        remember: Callable[[str, str], None],
        secrets: Mapping[str, str] | None = None,
        home: Path | None = None,
    ) -> None:
        self._emit = emit
        self._remember = remember
        self._secrets = secrets or {}
        self._watcher = Watcher(workspace, self._others_changed, home=home)
        self._calls: list[WriteClaim] = []
        """The claims of running tool calls to changes."""
        self.earlier: asyncio.Task[None] | None = None
        """The task that reports what changed while the session was closed; None if there is none."""

    async def start(self) -> None:
        """Start to watch, in the background."""
        await self._watcher.start()

    async def stop(self) -> None:
        await self._watcher.stop()

    async def catch_up(self) -> None:
        """Report all changes made so far, as before a message that may refer to them."""
        if self.earlier is not None:
            await asyncio.wait([self.earlier], timeout=PATIENCE)
        await self._watcher.catch_up()

    async def switch(self, on: bool) -> str:
        """Turn reports of changes by other programs and users on or off; return the new state as a sentence
        for the user.
        """
        await self._watcher.catch_up()
        self.enabled = on
        if on:
            await self.start()
            return "Changes that others make in the project are noticed."
        return "Changes that others make in the project go unnoticed in this session."

    @property
    def coverage(self) -> str:
        """Return a sentence about which part of the project is watched."""
        return self._watcher.coverage

    @property
    def enabled(self) -> bool:
        return self._watcher.enabled

    @enabled.setter
    def enabled(self, on: bool) -> None:
        self._watcher.enabled = on

    @asynccontextmanager
    async def during(self, call: str, emit: Callable[[Event], None] | None = None) -> AsyncIterator[None]:
        """Attribute changes inside this block to the call `call`, or to Hermes if it is empty.

        `emit` receives the event instead of the session's; calls of agents have their own. If the project is
        still being read for the first time, nothing waits for that, and the changes are not attributed.
        """
        with ExitStack() as ended:
            async with self._watcher.claim() as claim:
                if call:
                    self._calls.append(claim)
                    ended.callback(self._calls.remove, claim)
                yield
            # Calls that still run have the same changes, which are cleared so that nothing is reported twice.
            changes = claim.changes
            if changes and (call or not self._calls):
                for each in self._calls:
                    each.changes = ProjectChanges()
                (emit or self._emit)(changes_event(changes, "agent", call, self._secrets))

    def _others_changed(self, changes: ProjectChanges) -> None:
        self._emit(changes_event(changes, "others", secrets=self._secrets))
        sentence = mask_known(changes.sentence(), self._secrets)
        self._emit(Noticed(kind="files", text=sentence))
        self._remember(mask_known(changes.note(), self._secrets), sentence)


def changes_event(
    changes: ProjectChanges,
    by: Literal["agent", "others"],
    call: str = "",
    secrets: Mapping[str, str] | None = None,
) -> FilesChanged:
    """Return changes as an event that names at most `MAX_TOLD` files and counts the others."""
    files = files_of(changes, secrets)
    # Both names of a renamed file are reported.
    more = changes.count + len(changes.renamed) - len(files)
    return FilesChanged(by=by, call=call, files=files, more=more)


def files_of(changes: ProjectChanges, secrets: Mapping[str, str] | None = None) -> tuple[FileChange, ...]:
    """Return the first `MAX_TOLD` changes file by file, with `secrets` masked in the diffs.

    A renamed file counts as removed and added.
    """
    diffs = {diff.path: diff for diff in changes.diffs}
    return tuple(
        _file(path, kind, diffs.get(path), secrets or {}) for path, kind in islice(_kinds(changes), MAX_TOLD)
    )


def _kinds(changes: ProjectChanges) -> Iterator[tuple[str, Kind]]:
    groups: tuple[tuple[Kind, Iterable[str]], ...] = (
        ("modified", changes.modified),
        ("added", changes.added),
        ("added", (new for _, new in changes.renamed)),
        ("removed", changes.removed),
        ("removed", (old for old, _ in changes.renamed)),
    )
    return ((path, kind) for kind, paths in groups for path in paths)


def _file(path: str, kind: Kind, diff: ShownFileDiff | None, secrets: Mapping[str, str]) -> FileChange:
    if diff is None:
        return FileChange(path, kind)
    return FileChange(path, kind, diff.added, diff.removed, mask_known(diff.text, secrets))
