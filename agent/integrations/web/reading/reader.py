"""The way to the process that reads documents."""

from __future__ import annotations

import asyncio
import json

from agent.integrations.web.reading.page import ReadPage, UnreadableError
from tools.kit.children import IDLE, WorkerError, WorkerProcess

SECONDS = 20.0
"""For one document."""
_MUCH = 100_000


class DocumentReader:
    """Reads one document at a time, in a process of its own. `seconds` for each."""

    def __init__(self, seconds: float = SECONDS, idle: float = IDLE) -> None:
        self._seconds = seconds
        self._worker = WorkerProcess("agent.integrations.web.reading.child", seconds=seconds, idle=idle)

    async def read(
        self,
        data: bytes,
        content_type: str = "",
        url: str = "",
        *,
        wants_plain: bool = False,
        wants_links: bool = False,
    ) -> ReadPage:
        """The document as text. Raises `UnreadableError`."""
        order = {
            "content_type": content_type,
            "url": url,
            "wants_plain": wants_plain,
            "wants_links": wants_links,
        }
        try:
            told = await self._worker.ask(order, data)
            answer = await asyncio.to_thread(json.loads, told) if len(told) > _MUCH else json.loads(told)
        except TimeoutError:
            raise UnreadableError(f"took more than {self._seconds:g} s to read") from None
        except (WorkerError, ValueError) as error:
            raise UnreadableError("made the process that read it fail") from error
        if "problem" in answer:
            raise UnreadableError(str(answer["problem"]))
        return ReadPage.from_json(answer["page"])

    async def close(self) -> None:
        """End the process. It starts again when it is needed again."""
        await self._worker.close()
