"""What the person sends, on its way to the engine: images are read first, order is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.engine import Engine
    from agent.mailbox import Letter
    from agent.messages import Attachment
    from app.host import EngineHost
    from widgets.prompt.dropped import Mentioned


class Outbox:
    """Messages between prompt and engine. Those sent before the session is open wait here."""

    def __init__(
        self, host: EngineHost, show: Callable[[tuple[str, ...]], None], complain: Callable[[str], None]
    ) -> None:
        self._host = host
        self._show = show
        self._complain = complain
        self._held: list[Letter] = []
        self._last: asyncio.Task[None] | None = None

    @property
    def workspace(self) -> Path:
        """Where relative paths begin."""
        engine = self._host.engine
        return Path(engine.session.record.workspace) if engine is not None else Path.cwd()

    def send(self, text: str, images: Sequence[Mentioned] = (), *, steer: bool = False) -> None:
        """Send a message, at once when nothing must be read first; what comes later leaves later."""
        before = self._last if self._last is not None and not self._last.done() else None
        if not images and before is None:
            from agent.mailbox import Letter

            self._deliver(Letter(text), steer=steer)
        else:
            sending = self._read_and_deliver(text, images, steer, before)
            self._last = asyncio.create_task(sending, name="outbox")

    def release(self, engine: Engine) -> None:
        """The session is open: what waited for it leaves."""
        held, self._held = self._held, []
        for letter in held:
            engine.submit(letter.text, letter.attachments)

    def waiting(self) -> list[str]:
        """The messages that wait for the engine or in its queue, in order."""
        engine = self._host.engine
        return list(engine.queue) if engine is not None else [letter.text for letter in self._held]

    def set_waiting(self, texts: Sequence[str]) -> None:
        """Replace the messages that wait; a text that stays keeps its images."""
        if self._host.engine is not None:
            self._host.engine.set_queue(texts)
        else:
            from agent.mailbox import readdressed

            self._held = readdressed(texts, self._held)
            self._show(tuple(texts))

    async def _read_and_deliver(
        self, text: str, images: Sequence[Mentioned], steer: bool, before: asyncio.Task[None] | None
    ) -> None:
        attachments: tuple[Attachment, ...] = ()
        if images:
            attachments, problems = await asyncio.to_thread(self._take, images, self.workspace)
            for problem in problems:
                self._complain(problem)
        if before is not None:
            await asyncio.wait([before])
        from agent.mailbox import Letter

        self._deliver(Letter(text, attachments), steer=steer)

    def _take(self, images: Sequence[Mentioned], workspace: Path) -> tuple[tuple[Attachment, ...], list[str]]:
        from agent.attachments import AttachmentStore
        from agent.home import Home
        from app.attaching import take

        return take(images, AttachmentStore(Home.locate().attachments), workspace)

    def _deliver(self, letter: Letter, *, steer: bool) -> None:
        engine = self._host.engine
        if engine is None:
            self._held.append(letter)
            self._show(tuple(self.waiting()))
        elif steer:
            engine.steer(letter.text, letter.attachments)
        else:
            engine.submit(letter.text, letter.attachments)
