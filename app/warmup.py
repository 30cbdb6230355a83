"""Reading ahead what the first answer needs, while nobody types.

An import holds the interpreter's lock; done when the first answer comes it would be felt by
who types then. So the modules are read one by one in a thread, each only after a pause
in typing, and the interpreter changes threads more often meanwhile.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import sys
import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TypeVar

MODULES = (
    "markdown_it",
    "mdurl",
    "linkify_it",
    "pygments.lexers",
    "pygments.lexers.python",
    "pygments.lexers.shell",
    "rich.syntax",
    "httpx2",
    "openai.types",
    "openai",
    "tree_sitter",
    "tree_sitter_bash",
)
"""In the order in which an answer needs them; what is not installed is passed over."""
SESSION = (
    *("agent.runtime", "agent.config.loader", "app.bridge", "app.keys", "themes.loader", "themes.contrast"),
    *(
        "agent.model.demo",
        "agent.model.codecs.native",
        "agent.workspace.watcher",
        "agent.workspace.attention",
    ),
    *("agent.workspace.attention", "app.screens.stage", "app.branch", "app.cli.options"),
)
"""What opening a session needs: read on the event loop, some of these would hold up a key for 60 ms."""
QUIET = 0.7
"""Seconds without a key before the next module is read."""
SWITCH = 0.001
"""Seconds after which another thread may run; Python's own is five times as long."""

Result = TypeVar("Result")

log = logging.getLogger(__name__)


async def bring(name: str) -> ModuleType:
    """Import a module in a thread, which gives way to the event loop more often than threads do."""
    if (known := sys.modules.get(name)) is not None:
        return known
    return await aside(lambda: importlib.import_module(name))


async def bring_session() -> None:
    """Import in the same way what opening a session needs, its tools too."""
    for name in SESSION:
        await bring(name)
    from tools.discovery import discover

    await aside(discover)


async def aside(work: Callable[[], Result]) -> Result:
    """Do something in a thread, which gives way more often than threads do."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    try:
        return await asyncio.to_thread(work)
    finally:
        sys.setswitchinterval(before)


async def warm_up(last_key: Callable[[], float], modules: Sequence[str] = MODULES) -> None:
    """Import `modules` as `bring` does; `last_key` is when a key was pressed last, on the monotonic clock."""
    for name in modules:
        if name in sys.modules:
            continue
        while (left := last_key() + QUIET - time.monotonic()) > 0:  # noqa: ASYNC110 - a key is no event here
            await asyncio.sleep(left)
        try:
            await bring(name)
        except ImportError as error:
            log.info("not read ahead: %s", error)
