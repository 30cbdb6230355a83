"""`hermes sessions import`: sessions from a file that `hermes sessions export` wrote."""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.home import Home
from agent.errors import ConfigError
from app.cli.sessions.output import say
from tools.text.safe_text import clean
from tools.text.words import plural

if TYPE_CHECKING:
    from agent.core.store.store import Store

LARGEST = 2 << 30
"""Bytes of a file that is read."""


def add_parser(actions: Any) -> None:
    """Declare the action."""
    parser = actions.add_parser(
        "import",
        help="take in sessions from a file of JSON lines",
        description="Take in the sessions of a file that `hermes sessions export` wrote, or another program "
        "in its manner: one object a line with id, session, parent, kind, created (seconds since the epoch) "
        "and content; data, heads, title, workspace and model as they are known.",
    )
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--copy", action="store_true", help="import sessions under new ids")
    parser.add_argument("--json", action="store_true", dest="as_json", help="print JSON")


async def run(store: Store, home: Home, args: argparse.Namespace) -> None:
    """Import it. Raises `HermesError`, and then nothing was imported."""
    from agent.core.store.importing import parse_sessions
    from agent.session.wiring.recall import open_recall

    path = Path(args.file)
    sessions = await asyncio.to_thread(lambda: parse_sessions(_text(path).split("\n")))
    imported = await store.import_sessions(sessions, copied=args.copy)
    recall = await open_recall(store, home, await asyncio.to_thread(Path.cwd))
    try:
        await recall.index.catch_up(seconds=float("inf"))
    finally:
        await recall.close()
    if args.as_json:
        records = [
            {"from": each.name, "session": each.session, "nodes": {str(k): v for k, v in each.nodes.items()}}
            for each in imported
        ]
        print(json.dumps(records, indent=2))
        return
    count = sum(len(each.nodes) for each in imported)
    for each in imported[:20]:
        renamed = "" if each.name == each.session else f" as {clean(each.session)}"
        say(f"{clean(each.name)}{renamed}: {len(each.nodes)} entries")
    if len(imported) > 20:
        say(f"… and {len(imported) - 20} more")
    say(f"Imported {plural(len(imported), 'session')} with {count:,} entries.")


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > LARGEST:
            raise ConfigError(f"{path} is larger than 2 GiB; split it, one session a file.")
        return path.read_text("utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"Cannot read {path}: {reason}; name a file of JSON lines.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is no UTF-8 text ({error.reason}); name a file of JSON lines.") from error
