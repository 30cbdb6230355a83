"""`hermes running`: the sessions that are open now, their states, and their processes."""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING, Any

from agent.core.home import Home
from agent.core.store.locks import SessionLock, locked_sessions
from agent.errors import StoreError
from app.cli.frame import add_json, minute_of, open_store, say, say_json
from app.running_service import running_service
from themes.states import glyph
from tools.text.words import one_line

if TYPE_CHECKING:
    from agent.core.store.store import Store

DESCRIPTION = "List the sessions that are open now, in any terminal, editor, job or service of this home."


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the options of `hermes running` to its parser."""
    add_json(parser)
    parser.set_defaults(do=run)


def run(args: argparse.Namespace) -> None:
    """Print one line for each open session. Raises `HermesError`."""
    home = Home.locate()
    found = asyncio.run(_open_sessions(home)) if home.keeps_sessions() else []
    if args.as_json:
        say_json(found, 2)
        return
    for each in found:
        where = f"{'service' if each['service'] else 'process'} {each['pid'] or 'unknown'}"
        title, folder = one_line(each["title"]) or "(untitled)", one_line(each["workspace"])
        state = glyph("working" if each["state"] == "working" else "pending")
        say(f"{state} {each['session']}  since {minute_of(each['since'])}  {where}  {title}  {folder}")
    if not found:
        say("No session is open.")


async def _open_sessions(home: Home) -> list[dict[str, Any]]:
    service = (running_service(home.root / "serve") or {}).get("pid")
    found: list[dict[str, Any]] = []
    async with await open_store(home) as store:
        for id, since in locked_sessions(home.run):
            try:
                session = await store.session(id)
            except StoreError:
                continue  # deleted meanwhile
            pid = SessionLock(home.run, id).holder()
            found.append(
                {
                    "session": id,
                    "title": session.title,
                    "workspace": session.workspace,
                    "model": session.model,
                    "state": "working" if await _works(store, id) else "waiting",
                    "pid": pid,
                    "service": pid is not None and pid == service,
                    "since": since,
                }
            )
    return found


async def _works(store: Store, session: str) -> bool:
    """Return whether a turn is unfinished, because the last message has no answer yet."""
    if await store.unfinished_branches(session):
        return True
    head = (await store.heads(session))[0].name
    last = [
        node for node in await store.tail(session, head, 20) if node.kind in ("user", "assistant", "tool")
    ]
    return bool(last) and last[-1].kind != "assistant"
