"""A preview of the resumed session's end, shown before the modules that open it are imported.

Working on a session needs most of the program, showing its last messages only a small part. The user can read
while the rest is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from agent.errors import HermesError
from app.tui.startup.preload import DRAWING_CODE, DRAWING_TEXT, import_yielding, yielding_thread

if TYPE_CHECKING:
    from agent.core.home import Home
    from agent.core.store.nodes import Node

STORING = ("agent.session.options", "agent.core.store.store")
PARTS = ("app.tui.conversation.replay", *DRAWING_TEXT)
"""The modules of the preview, for reading it and for showing answers without code."""

Show = Callable[[Sequence["Node"]], None]


class ResumedSession(NamedTuple):
    """The session to resume, as named on the command line."""

    id: str | None
    """The id, start of an id, or title; None for the last session of the folder."""
    folder: Path


def skip_repeats(show: Show) -> Show:
    """Return a function that calls `show` only with values that differ from the last one."""
    before: tuple[Node, ...] | None = None

    def show_news(path: Sequence[Node]) -> None:
        nonlocal before
        if tuple(path) != before:
            before = tuple(path)
            show(path)

    return show_news


async def resume_preview(home: Home, wanted: ResumedSession, show: Show) -> None:
    """Show the end of a stored session. Errors are ignored, as opening the session will report them."""
    if not home.database.is_file():
        return
    for name in STORING:
        await import_yielding(name)
    from agent.core.store.store import Store
    from agent.session.options import PREVIEWED

    try:
        async with await Store.open(home.database) as store:
            if wanted.id is None:
                record = await store.latest_session(str(wanted.folder))
            else:
                record = await store.find_session(wanted.id)
            if record is not None:
                head = (await store.heads(record.id))[0].name
                path = await store.tail(record.id, head, PREVIEWED)
                await _import_parts(path)
                show(path)
    except HermesError:
        return


async def _import_parts(path: Sequence[Node]) -> None:
    """Import the modules that show these messages: tools for the displays of calls, lexers for code."""
    has_calls = any(node.kind == "tool" or node.data.get("calls") for node in path)
    has_code = has_calls or any("```" in node.content for node in path)
    for name in (*PARTS, *(DRAWING_CODE if has_code else ())):
        await import_yielding(name)
    from tools.discovery import discover
    from widgets.transcript.markdown import prepare

    if has_calls:
        await yielding_thread(discover)
    await yielding_thread(lambda: prepare(code=has_code))
