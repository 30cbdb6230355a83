"""Notes that mark the start and end of parallel attempts in a session, and the repair after a killed process.

An attempt is a branch that begins with one note and ends with another. A branch without the second note was
interrupted.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from agent.core.store.nodes import MAIN, Node

if TYPE_CHECKING:
    from agent.core.store.store import Store

PREFIX = "attempt-"
"""The prefix of the names of attempts' branches; a number follows it."""
BEGUN, ENDED = "attempt", "attempt-ended"
_FORMER_PREFIX = "future-"
_FORMER_BEGUN, _FORMER_ENDED = "future", "future-ended"
"""The kinds of these notes in sessions that earlier versions stored."""
CUT_OFF = "[This attempt was cut off when the program ended; what it did to files is lost.]"
_MARKS = (BEGUN, ENDED, _FORMER_BEGUN, _FORMER_ENDED)
_LOOKED_AT = (2, 200, 10_000)
"""Numbers of nodes at the end of a branch in which its last note is searched for, tried in turn."""


def start_note(copy: Path, origin: Path) -> str:
    """Return a note that tells the model that it begins to work in a copy."""
    return (
        f"[From here on you work alone in a copy of the project, in {copy}. Paths in {origin} stand for "
        f"those in the copy: write there only. The user may take your work over when you are done.]"
    )


def return_note(origin: Path) -> str:
    """Return a note that tells the model that the conversation continues from the end of an attempt."""
    return f"[The copy is gone. You work in {origin} again, where files are as you left them in the copy.]"


async def settle(store: Store, session: str) -> tuple[str, ...]:
    """Close the attempts of a session that a killed process left open; return the names of their branches.

    The branch from which the last of them was started becomes the one in use again. The caller must hold the
    session's lock.
    """
    cut: list[str] = []
    home = MAIN
    for head in await store.heads(session):
        if not head.name.startswith((PREFIX, _FORMER_PREFIX)) or head.node is None:
            continue
        mark = await _last_mark(store, session, head.name)
        if mark is None or mark.data["kind"] in (ENDED, _FORMER_ENDED):
            continue
        await store.recover(session, head.name)
        await store.append(session, "notice", CUT_OFF, end_of(mark, "interrupted"), head=head.name)
        home = str(mark.data.get("origin") or MAIN)
        cut.append(head.name)
    if cut and home in {head.name for head in await store.heads(session)}:
        await store.use_head(session, home)
    return tuple(sorted(cut))


async def _last_mark(store: Store, session: str, head: str) -> Node | None:
    for count in _LOOKED_AT:
        path = await store.tail(session, head, count)
        for node in reversed(path):
            if node.data.get("kind") in _MARKS:
                return node
        if len(path) < count:
            break
    return None


def end_of(begun: Node | None, outcome: str, step: int | None = None) -> dict[str, object]:
    """Return the data of the note that ends an attempt.

    Without `step`, the position of the files is taken from the note `begun`; without either, it is 0.
    """
    position = step if step is not None else (begun.data.get("step", 0) if begun is not None else 0)
    return {"kind": ENDED, "to_model": True, "outcome": outcome, "step": position}
