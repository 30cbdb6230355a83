"""The documents that one server has open, and what is newly wrong in one after an edit."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from agent.integrations.diagnostics.findings import Finding, news
from agent.integrations.diagnostics.languages import Language
from agent.integrations.diagnostics.server_process import ServerProcess
from tools.services.diagnostics import FileEdit

_CREATED, _CHANGED, _DELETED = 1, 2, 3
MOST_OPEN = 50
"""Documents that are open at once; those edited longest ago are closed."""


@dataclass(slots=True)
class _Document:
    """A document as the server has it."""

    text: str
    version: int
    since: int
    """Marks the messages that are about this version."""
    known: tuple[Finding, ...] | None
    """What the model knows of, or was there before it began; None: not found out yet."""


class Documents:
    """What one server has open."""

    def __init__(self, server: ServerProcess, language: Language, *, silent_when_same: bool) -> None:
        self._server = server
        self._language = language
        self._silent_when_same = silent_when_same
        self._open: dict[Path, _Document] = {}

    async def after(self, edit: FileEdit, deadline: float) -> list[Finding] | None:
        """What is new after an edit; None: not found out by `deadline`, in seconds of the loop's clock.

        Raises `ServerFault`.
        """
        uri = edit.path.as_uri()
        if edit.after is None:
            self._close(edit.path)
            self._on_disk(uri, _DELETED)
            return []
        document = self._open.pop(edit.path, None)
        if document is None:
            document = self._opened(edit.path, edit.after if edit.before is None else edit.before)
            document.known = () if edit.before is None else None
        self._open[edit.path] = document  # the newest last
        if document.known is None and not await self._learn(uri, document, deadline):
            # The text before the edit stays with the server, so that what is new can be told later.
            return None
        if edit.before is not None and edit.before != document.text:
            # Somebody else changed it meanwhile: that is not the edit's doing.
            self._change(uri, document, edit.before)
            await self._learn(uri, document, deadline)
        if edit.after != document.text:
            self._change(uri, document, edit.after)
        self._on_disk(uri, _CREATED if edit.before is None else _CHANGED)
        self._server.tell("textDocument/didSave", {"textDocument": {"uri": uri}})
        before = document.known or ()
        if not await self._learn(uri, document, deadline):
            return None
        self._forget_oldest()
        return news(before, document.known or ())

    async def _learn(self, uri: str, document: _Document, deadline: float) -> bool:
        """Find out what is wrong in a document as it is; False when there was no time for it."""
        try:
            async with asyncio.timeout_at(deadline):
                document.known = await self._server.diagnostics(uri, document.version, document.since)
        except TimeoutError:
            if not self._silent_when_same or document.known is None:
                return False
            document.known = self._server.published(uri)
        return True

    def _opened(self, path: Path, text: str) -> _Document:
        document = _Document(text, 1, self._server.mark(), None)
        item = {
            "uri": path.as_uri(),
            "languageId": self._language.files[path.suffix.lower()],
            "version": 1,
            "text": text,
        }
        self._server.tell("textDocument/didOpen", {"textDocument": item})
        return document

    def _change(self, uri: str, document: _Document, text: str) -> None:
        document.text, document.version, document.since = text, document.version + 1, self._server.mark()
        self._server.tell(
            "textDocument/didChange",
            {
                "textDocument": {"uri": uri, "version": document.version},
                "contentChanges": [{"text": text}],
            },
        )

    def _close(self, path: Path) -> None:
        if self._open.pop(path, None) is not None:
            self._server.tell("textDocument/didClose", {"textDocument": {"uri": path.as_uri()}})

    def _on_disk(self, uri: str, kind: int) -> None:
        self._server.tell("workspace/didChangeWatchedFiles", {"changes": [{"uri": uri, "type": kind}]})

    def _forget_oldest(self) -> None:
        for path in list(self._open)[:-MOST_OPEN]:
            self._close(path)
