"""The watchers of the git branch and of scheduled jobs."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from agent.errors import HermesError
from agent.events import Event, FilesChanged, Noticed, SessionOpened, ToolFinished
from agent.workspace.git import Checkout, checkout
from app.tui.startup.preload import yielding_thread
from tools.kit.umask import person_umask

if TYPE_CHECKING:
    from agent.automation.schedule.book import JobBook


Tell = Callable[[Checkout | None], object]


class GitBranchWatch:
    """A listener of session events that reports the branch checked out in the workspace.

    It does not run git: it reads a few small files in a thread, one reading at a time for any number of
    events.
    """

    HEARD = (SessionOpened, ToolFinished, FilesChanged, Noticed)

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._root: Path | None = None
        self._looking: asyncio.Task[None] | None = None
        self._again = False

    def __call__(self, event: Event) -> None:
        match event:
            case SessionOpened():
                self._root = Path(event.workspace)
                self.check()
            case ToolFinished() | FilesChanged() | Noticed(kind="process"):
                self.check()

    def check(self) -> None:
        """Schedule a reading of the branch. Needs a running event loop."""
        self._again = True
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())

    async def _look(self) -> None:
        while self._again and (root := self._root) is not None:
            self._again = False
            found = await asyncio.to_thread(checkout, root)
            if root == self._root:
                self._tell(found)


log = logging.getLogger(__name__)

SETTLED = 5.0
"""The pause in seconds between the start of the application and the first check for due jobs."""
BEAT = 1.0
"""Seconds to wait for a heartbeat check before due jobs are looked for anyway."""
LONGEST = 2_000
"""The number of characters of a job's output that are shown; the job's log has all of it."""


class RunStarter:
    """Starts a child process that runs due jobs; it continues when this process ends."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Start a child process, unless the last one still runs."""
        if self._process is not None and self._process.poll() is None:
            return
        self._process = subprocess.Popen(
            # Without the current folder on the search path: its modules are not part of the program.
            [sys.executable, "-P", "-m", "app.main", "cron", "run", "--once"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            umask=person_umask(),
        )

    def wait(self) -> None:
        """Wait until the last child process has ended. Blocking."""
        if self._process is not None:
            self._process.wait()


async def watch_jobs(show: Callable[[str, str], None]) -> None:
    """Start due jobs and pass title and output of finished ones to `show`, every `schedule.tick` seconds.

    Returns if the schedule is disabled, or after a `HermesError`.
    """
    await asyncio.sleep(SETTLED)
    await yielding_thread(_read_parts)
    from agent.automation.schedule.book import JobBook
    from agent.automation.schedule.heartbeat import Heartbeats
    from agent.core.config.loader import load
    from agent.core.home import Home
    from agent.core.store.store import Store

    home = Home.locate()
    try:
        settings = (await asyncio.to_thread(load, home, dict(os.environ), Path.home())).settings
        if not settings.schedule.enabled:
            return
        starter = RunStarter()
        async with await Store.open(home.database) as store:
            book = JobBook(store.database, home.schedule)
            beats = Heartbeats(store.database, home, settings.heartbeat)
            async with _limit_wait(beats.look) as beat:
                while True:
                    await beat()
                    await check_jobs(book, starter.begin, show)
                    await asyncio.sleep(settings.schedule.tick)
    except HermesError as error:
        log.warning("jobs are not looked at: %s", error)


@asynccontextmanager
async def _limit_wait(beat: Callable[[], Awaitable[object]]) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Yield a function that starts a heartbeat check and waits at most `BEAT` seconds for its end."""
    under_way: asyncio.Future[object] | None = None

    async def briefly() -> None:
        nonlocal under_way
        under_way = under_way or asyncio.ensure_future(beat())
        if (await asyncio.wait({under_way}, timeout=BEAT))[0]:
            over, under_way = under_way, None
            over.result()

    try:
        yield briefly
    finally:
        if under_way is not None:
            under_way.cancel()
            await asyncio.wait({under_way})


def _read_parts() -> None:
    """Import the modules for jobs in a thread; on the event loop this would delay key presses by 150 ms."""
    from agent.automation.schedule.book import JobBook  # noqa: F401
    from agent.automation.schedule.heartbeat import Heartbeats  # noqa: F401
    from agent.core.config.loader import load  # noqa: F401
    from agent.core.home import Home  # noqa: F401
    from agent.core.store.store import Store  # noqa: F401


async def check_jobs(book: JobBook, begin: Callable[[], None], show: Callable[[str, str], None]) -> None:
    """Pass finished runs that were not shown yet to `show`; start due jobs if no other process does."""
    for job, run in await book.notices():
        show(job.title, (run.output or run.error)[:LONGEST])
    _, soonest = await book.waits()
    if soonest is not None and soonest <= time.time() and not await asyncio.to_thread(book.is_watched):
        await asyncio.to_thread(begin)
