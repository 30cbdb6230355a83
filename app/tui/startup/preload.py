"""Importing the modules for the first answer in advance, while no user is typing.

An import holds the interpreter's lock. During the first answer it would delay keys. The modules are therefore
imported one by one in a thread, each after a pause in typing. As a module imports others, the thread also
waits before each of those until the event loop is idle.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import ModuleType
from typing import TypeVar

DRAWING_TEXT = ("markdown_it", "mdurl", "linkify_it")
DRAWING_CODE = ("pygments.lexers", "pygments.lexers.python", "pygments.lexers.shell", "rich.syntax")
"""The modules that display an answer, or the conversation of a resumed session."""
ASKING = ("httpx2", "anyio._backends._asyncio")
"""The modules that query a model: imported while the session opens, as its first steps wait for the disk."""
SENDING = ("openai",)
"""The modules that send a message: imported last, or while the session opens if a key was pressed."""
READING = ("tree_sitter", "tree_sitter_bash")
"""The modules that parse shell commands in an answer: imported once a key was pressed.

These lists are in the order in which an answer needs them; modules that are not installed are skipped. A
module whose package imports it must not be listed: another thread importing the package would wait for the
module, and the module for the package.
"""
SURFACE = (
    *("agent.core.config.loader", "app.tui.conversation.bridge", "app.tui.commands.keys"),
    *("themes.loader", "themes.contrast", "app.tui.commands.agent_actions"),
    *("app.tui.questions.dialog_stage", "app.tui.conversation.background_watch", "app.cli.options"),
)
"""The modules that show an open session: imported on the event loop, some would delay a key by 60 ms."""
QUIET = 0.4
"""Seconds without a key press before the next module is imported."""
PATIENCE, TRIES = 0.02, 3
"""Seconds that an import waits for the event loop, and the number of waits in vain after which it no longer
waits.
"""

FIRST = 0.5
"""The longest time in seconds for which imports leave the interpreter to a first message."""

Result = TypeVar("Result")

log = logging.getLogger(__name__)
_changing = threading.Lock()
_hurried = threading.Event()
"""Set while a message waits for the session to open."""
_complete: dict[str, ModuleType] = {}
"""Completely imported modules; in `sys.modules` are also those that another thread still imports."""


async def import_yielding(name: str) -> ModuleType:
    """Import a module in a thread that yields to the event loop, and return it."""
    known = _complete.get(name)
    if known is None or sys.modules.get(name) is not known:
        known = _complete[name] = await yielding_thread(lambda: importlib.import_module(name))
    return known


def set_hurried(waits: bool) -> None:
    """Set whether a message waits for the session to open; imports then no longer wait for the event loop.

    The interpreter still switches threads every millisecond, so keys are echoed.
    """
    if waits:
        _hurried.set()
    else:
        _hurried.clear()


async def import_surface() -> None:
    """Import the modules that show a session in a yielding thread, and discover the tools, which define how
    calls are displayed.
    """
    for name in SURFACE:
        await import_yielding(name)
    from tools.discovery import discover

    await yielding_thread(discover)


async def import_dialogs(last_key: Callable[[], float]) -> None:
    """Import the modules of the question dialogs, as `read` does."""
    from app.tui.questions.question_kind import kinds

    for kind in await yielding_thread(kinds):
        await read(kind.reads, last_key)


async def import_engine() -> None:
    """Import the modules that open a session in this process, in a yielding thread."""
    from agent.api.opening import READ_FIRST

    for name in READ_FIRST:
        await import_yielding(name)


async def yielding_thread(work: Callable[[], Result]) -> Result:
    """Run `work` in a thread whose imports yield to the event loop."""
    finder = _YieldingFinder(asyncio.get_running_loop())

    def work_yielding() -> Result:
        with _first_finder(finder):
            finder.start()
            return work()

    return await asyncio.to_thread(work_yielding)


@contextmanager
def _first_finder(finder: _YieldingFinder) -> Iterator[None]:
    """Put `finder` first in `sys.meta_path` while the block runs.

    The list is replaced, never modified: another thread that imports may iterate over it, and would skip a
    finder if the entries moved up.
    """
    with _changing:
        sys.meta_path = [finder, *sys.meta_path]
    try:
        yield
    finally:
        with _changing:
            sys.meta_path = [each for each in sys.meta_path if each is not finder]


class _YieldingFinder:
    """A module finder that finds nothing, but makes imports in one thread wait for the event loop.

    A finder is the only place where an import can be delayed. Each import in the thread waits until the event
    loop has run once, so that keys and screen updates are delayed by one module at most.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread = 0
        self._round = threading.Event()
        self._round.set()
        self._timeouts = 0

    def start(self) -> None:
        """Make the imports of the current thread yield from now on."""
        self._thread = threading.get_ident()

    def find_spec(self, _name: str, _path: object = None, _target: object = None) -> None:
        """Wait for the event loop; in a thread other than the yielding one, end the waiting of the yielding
        thread.

        Waits are short, as other threads cannot import meanwhile, and few in a row, as the loop may itself
        wait for this import.
        """
        if threading.get_ident() != self._thread:
            self._timeouts = TRIES
            return
        if _hurried.is_set():
            return
        if self._round.is_set():
            self._round.clear()
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._loop.call_soon, self._finish_round)
        if self._timeouts < TRIES and not self._round.wait(PATIENCE):
            self._timeouts += 1

    def _finish_round(self) -> None:
        self._timeouts = 0
        self._round.set()


async def warm_up(
    last_key: Callable[[], float], touched: asyncio.Event, busy: Callable[[], bool], *, asks: bool = True
) -> None:
    """Import in advance the modules that show dialogs and answers and send messages; with `asks` also, after
    the first key press, those that parse shell commands.

    `last_key` returns the time of the last key press on the monotonic clock; `touched` is set by the first
    one. Imports wait, for at most `FIRST` seconds, while `busy` returns True: a first message is being sent.
    """
    end = time.monotonic() + FIRST
    while busy() and time.monotonic() < end:  # noqa: ASYNC110 - the request sets no event here
        await asyncio.sleep(FIRST / 10)
    await import_dialogs(last_key)
    await read((*DRAWING_TEXT, *DRAWING_CODE, *SENDING), last_key)
    await _wait_for_pause(last_key)
    from widgets.transcript.markdown import prepare

    await yielding_thread(prepare)
    if asks:
        await touched.wait()
        await read(READING, last_key)


async def read(modules: Sequence[str], last_key: Callable[[], float] = lambda: float("-inf")) -> None:
    """Import each of `modules` after a pause in typing, yielding; modules not installed are skipped."""
    for name in modules:
        if name in sys.modules:
            continue
        await _wait_for_pause(last_key)
        try:
            await import_yielding(name)
        except ImportError as error:
            log.info("not read ahead: %s", error)


async def _wait_for_pause(last_key: Callable[[], float]) -> None:
    while (left := last_key() + QUIET - time.monotonic()) > 0:  # noqa: ASYNC110 - a key sets no event here
        await asyncio.sleep(left)
