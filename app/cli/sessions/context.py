"""`hermes context`: what a new session would send to the model before its first message, layer by layer."""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from agent.core.home import Home
from agent.errors import ConfigError
from app.cli.frame import ONE_OBJECT, add_action, add_json, load_settings, open_store, say, say_json
from app.cli.safety.folder import workspace
from tools.text.safe_text import clean

LEAST = 6
"""The smallest number of digits of a hash that must be given."""

if TYPE_CHECKING:
    from agent.knowledge.context.context_table import ContextLayer, ContextTable


DESCRIPTION = (
    "Show what a new session in this folder sends before its first message: layers, files, "
    "tokens (estimated), budgets, and what is left out. The chosen model is only looked up, never asked; "
    "`--model demo` works without one."
)


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the options and actions of `hermes context` to its parser."""
    parser.add_argument("--model", metavar="MODEL", help="the model, as in `hermes --model`")
    add_json(parser, ONE_OBJECT)
    parser.set_defaults(do=_show)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    for name, text, do in (
        ("allow", "let in a passage that is kept back, from the next session on", _allow),
        ("forbid", "keep back again what was let in", _forbid),
    ):
        action = add_action(actions, name, text, do, json="")
        action.add_argument("hash", metavar="HASH", help="its hash, or how that begins")


def _allow(args: argparse.Namespace) -> None:
    from agent.knowledge.context.folder_files import passages_here
    from agent.knowledge.context.quarantine import approve_passage

    home, here = Home.locate(), workspace(None)
    limit = load_settings(home, here).settings.context.file_chars
    found = {each.digest: each for each in passages_here(home, here, limit)}
    passage = found[_find_hash(args.hash, found, "passage that is kept back here")]
    approve_passage(home, passage)
    say(f"{clean(passage.place)} is let in, from the next session on:")
    say(_indent(passage.text))


def _forbid(args: argparse.Namespace) -> None:
    from agent.knowledge.context.quarantine import allowed_places, withdraw_approval

    home = Home.locate()
    places = allowed_places(home)
    digest = _find_hash(args.hash, places, "passage that was let in")
    withdraw_approval(home, digest)
    say(f"{clean(places[digest]) or digest} is kept back, from the next session on.")


def _find_hash(wanted: str, digests: Iterable[str], what: str) -> str:
    """Return the only hash in `digests` that begins with `wanted`. Raises `ConfigError`."""
    found = [each for each in digests if len(wanted) >= LEAST and each.startswith(wanted.lower())]
    if len(found) == 1:
        return found[0]
    if len(wanted) < LEAST:
        raise ConfigError(f"Give at least {LEAST} digits of the hash; `hermes context` lists them.")
    name = clean(wanted)
    many = f"{len(found)} hashes begin with {name}; give more of it."
    raise ConfigError(many if found else f"No {what} has the hash {name}; `hermes context` lists them.")


def _indent(text: str) -> str:
    return "\n".join(f"      {line}" for line in clean(text).split("\n"))


def _show(args: argparse.Namespace) -> None:
    from agent.knowledge.context.quarantine import SHORT

    table = asyncio.run(_table(Home.locate(), args.model))
    if args.as_json:
        say_json(as_json(table))
    else:
        for layer in table.layers:
            say(_line(layer))
            for passage in layer.passages:
                short, rules = passage.digest[:SHORT], ", ".join(passage.rules)
                say(f"    {clean(passage.place)} kept back, {short}: {rules}")
                say(_indent(passage.text))
        if (left := table.searched) is not None:
            say(f"{clean(left.name):<20}{'not sent':>8}{'':<10}  {left.count:,} would take {left.tokens:,}")
        told = " (reported by the server)" if table.window_told else ""
        window = f" of {table.window:,}{told}" if table.window else ""
        say(f"{'all':<20}{table.used_tokens:>8,}{window} tokens, {clean(table.model)}")


async def _table(home: Home, model: str | None) -> ContextTable:
    """Return the context table of a temporary session, which is deleted afterwards."""
    from agent.api.opening import open_session
    from agent.knowledge.canvas.documents import CanvasDocuments
    from agent.session.conversation.script_journal import discard
    from agent.session.options import Options
    from agent.workspace.checkpoints.garbage_collection import drop_sessions

    options = Options(workspace=workspace(None), model=model, surface="json")
    client = await open_session(options, environ=os.environ)
    try:
        return await client.context()
    finally:
        await client.aclose()
        async with await open_store(home) as store:
            deleted = await store.delete(client.id)
        await asyncio.to_thread(discard, home.scripts, deleted)
        await asyncio.to_thread(CanvasDocuments(home.canvas).discard, deleted)
        await asyncio.to_thread(drop_sessions, home.checkpoints, deleted)


def as_json(table: ContextTable) -> Mapping[str, Any]:
    """Return the table as JSON data: tokens are estimates; `cut` means that part of a layer was left out.

    Deferred tools are found by search; their tokens are what they would take.
    """
    from agent.knowledge.context.context_table import TOOLS

    shown = next((each for each in table.layers if each.name == TOOLS), None)
    return {
        "model": table.model,
        "window": table.window,
        "window_told": table.window_told,
        "tokens": table.used_tokens,
        "tools": {
            name: {"count": each.count if each else 0, "tokens": each.tokens if each else 0}
            for name, each in (("shown", shown), ("deferred", table.searched))
        },
        "layers": [
            {
                "layer": each.name,
                "file": each.source,
                "tokens": each.tokens,
                "budget": each.budget,
                "cut": bool(each.notes),
                "notes": list(each.notes),
                "hash": each.digest,
                "kept_back": [
                    {
                        "hash": passage.digest,
                        "file": passage.file,
                        "lines": [passage.first, passage.last],
                        "rules": list(passage.rules),
                        "text": passage.text,
                    }
                    for passage in each.passages
                ],
            }
            for each in table.layers
        ],
    }


def _line(layer: ContextLayer) -> str:
    budget = f" of {layer.budget:,}" if layer.budget is not None else ""
    rest = clean("  ".join(filter(None, (layer.source, " · ".join(layer.notes)))))
    return f"{clean(layer.name):<20}{layer.tokens:>8,}{budget:<10}  {rest}".rstrip()
