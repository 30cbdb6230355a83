"""The access of a session to the buffers and terminals of its editor."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.services.editor import EditorSide, KnownTexts, Screen

log = logging.getLogger(__name__)

PATIENCE = 5.0
"""Seconds that an editor has for a file request; after three late answers it gets no more of them."""
MOST_LATE = 3


class EditorOffer:
    """The capabilities that the editor announced; none before `initialize`."""

    def __init__(self, capabilities: Any = None) -> None:
        files = getattr(capabilities, "fs", None)
        self.reads = bool(getattr(files, "read_text_file", False))
        self.writes = bool(getattr(files, "write_text_file", False))
        self.terminals = bool(getattr(capabilities, "terminal", False))
        elicits = getattr(capabilities, "elicitation", None)
        self.forms = getattr(elicits, "form", None) is not None


class SessionEditor(EditorSide):
    """The editor's services for one session. Used on the event loop and in the threads of commands."""

    def __init__(
        self,
        offer: EditorOffer,
        connection: Callable[[], Any],
        session: Callable[[], str],
        screen: Callable[[str], Screen | None],
    ) -> None:
        """`screen` returns a function that writes to an editor terminal for a call's id, or None."""
        self._offer = offer
        self._connection = connection
        self._session = session
        self._screen = screen
        self._late = 0
        self.known_texts = KnownTexts()

    @property
    def reads(self) -> bool:
        """True if the editor can return the text of files."""
        return self._offer.reads and self._late < MOST_LATE

    @property
    def writes(self) -> bool:
        """True if the editor can write text to files."""
        return self._offer.writes and self._late < MOST_LATE

    async def text(self, path: Path) -> str | None:
        """Return the text of a file as it is in the editor; None if that is unavailable."""
        answer = await self._request(
            "a file", lambda it: it.read_text_file(session_id=self._session(), path=str(path))
        )
        content = getattr(answer, "content", None)
        return content if isinstance(content, str) else None

    async def save(self, path: Path, text: str) -> bool:
        """Write a text to a file through the editor; return whether that worked."""

        async def write(it: Any) -> bool:
            await it.write_text_file(session_id=self._session(), path=str(path), content=text)
            return True

        return bool(await self._request("text for a file", write))

    def screen(self, call: str) -> Screen | None:
        """Return a function that writes a call's output to an editor terminal; None if there can be none."""
        return self._screen(call) if self._offer.terminals else None

    async def _request(self, what: str, ask: Callable[[Any], Any]) -> Any:
        if not self._session():
            return None
        try:
            async with asyncio.timeout(PATIENCE):
                return await ask(self._connection())
        except TimeoutError:
            self._late += 1
            log.warning("the editor did not answer about %s", what)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            log.info("the editor refused %s: %s", what, error)
        return None
