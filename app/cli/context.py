"""`hermes context`: what a new session here would send before its first message, layer by layer."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agent.api.home import Home
from app.cli.folder import workspace
from app.cli.output import say
from tools.safe_text import clean

if TYPE_CHECKING:
    from agent.api.usage import ContextLayer, ContextTable


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Declare the subcommand."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "context",
        help="show what a session begins with, layer by layer",
        description="Show what a new session in this folder sends before its first message: layers, files, "
        "tokens (estimated), budgets, and what is left out. No model is asked.",
    )
    parser.add_argument("--model", metavar="MODEL", help="the model, as in `hermes --model`")
    parser.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")
    return parser


def run(args: argparse.Namespace) -> int:
    """Carry it out. Raises `HermesError`."""
    table = asyncio.run(_table(Home.locate(), args.model))
    if args.as_json:
        say(json.dumps(as_json(table)))
    else:
        for layer in table.layers:
            say(_line(layer))
        window = f" of {table.window:,}" if table.window else ""
        say(f"{'all':<20}{table.used:>8,}{window} tokens, {clean(table.model)}")
    sys.stdout.flush()
    return 0


async def _table(home: Home, model: str | None) -> ContextTable:
    """The table of a session that is opened for it and leaves nothing behind."""
    from agent.api.checkpoints import drop_sessions
    from agent.api.home import secrets_of_home
    from agent.api.opening import open_session
    from agent.api.options import Options
    from agent.api.sessions import Store, discard

    options = Options(workspace=workspace(None), model=model, surface="json")
    client = await open_session(options, environ=os.environ)
    try:
        return await client.context()
    finally:
        await client.aclose()
        async with await Store.open(home.database, secrets=secrets_of_home()) as store:
            deleted = await store.delete(client.id)
        await asyncio.to_thread(discard, home.scripts, deleted)
        await asyncio.to_thread(drop_sessions, home.checkpoints, deleted)


def as_json(table: ContextTable) -> Mapping[str, Any]:
    """The table as data: tokens are estimates, `cut` says that something of a layer was left out."""
    return {
        "model": table.model,
        "window": table.window,
        "tokens": table.used,
        "layers": [
            {
                "layer": each.name,
                "file": each.source,
                "tokens": each.tokens,
                "budget": each.budget,
                "cut": bool(each.notes),
                "notes": list(each.notes),
                "hash": each.digest,
            }
            for each in table.layers
        ],
    }


def _line(layer: ContextLayer) -> str:
    budget = f" of {layer.budget:,}" if layer.budget is not None else ""
    rest = clean("  ".join(filter(None, (layer.source, " · ".join(layer.notes)))))
    return f"{clean(layer.name):<20}{layer.tokens:>8,}{budget:<10}  {rest}".rstrip()
