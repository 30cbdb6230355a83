"""`hermes learnings`: list, search, add, confirm, remove and export what failed and what worked."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.home import Home
from agent.errors import ExitCode
from app.cli.sessions.output import say
from tools.text.words import one_line

if TYPE_CHECKING:
    from agent.knowledge.learnings.learning import Learning
    from agent.knowledge.learnings.store import LearningBook

_STATUSES = ("candidate", "learning", "stale", "retired")
_LOOKS = ("list", "search", "export")
_MOST_DIGITS = 15


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Declare the subcommand."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "learnings",
        help="list, search, add and export what failed and what worked",
        description="List, search, add, confirm, remove and export what failed and what worked, in the "
        "project of this folder and everywhere. NUMBER is that of the list.",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    _look(actions, "list", "all of them, the surest first")
    _look(actions, "search", "those in which most of the words occur").add_argument(
        "query", nargs="+", metavar="WORD"
    )
    _look(actions, "export", "one line of JSON each")
    add = _action(actions, "add", "write one down")
    add.add_argument("pattern", metavar="PATTERN", help="the command that fails; it is held back once")
    add.add_argument("fix", metavar="FIX", help="what works: a command, or a sentence")
    add.add_argument("--error", default="", metavar="TEXT", help="what the error is called")
    add.add_argument("--context", default="", metavar="TEXT", help="when it matters, if not always")
    add.add_argument("--tag", action="append", default=[], metavar="NAME", help="may be given several times")
    add.add_argument("--everywhere", action="store_true", help="it holds in every project")
    for name, text in (("confirm", "vouch for one: calls are held back for it"), ("remove", "forget one")):
        _action(actions, name, text).add_argument("number", type=_number, metavar="NUMBER")
    return parser


def _action(actions: Any, name: str, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, help=text, description=f"{text.capitalize()}.")
    parser.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")
    return parser


def _look(actions: Any, name: str, text: str) -> argparse.ArgumentParser:
    parser = _action(actions, name, text)
    parser.add_argument(
        "--status", action="append", choices=_STATUSES, help="only those that count as this (default: all)"
    )
    parser.add_argument("--all-projects", action="store_true", help="those of other projects too")
    return parser


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > _MOST_DIGITS:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no number of a learning")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Carry it out. Raises `HermesError`."""
    home = Home.locate()
    if args.action in _LOOKS and not home.keeps_sessions():
        # Looking must not make a store.
        _show(args, [])
    else:
        asyncio.run(_with_book(home, args))
    sys.stdout.flush()
    return int(ExitCode.DONE)


async def _with_book(home: Home, args: argparse.Namespace) -> None:
    from agent.core.config.known_secrets import secrets_of_home
    from agent.core.config.loader import load
    from agent.core.store.store import Store
    from agent.knowledge.learnings.store import learning_book

    here = Path.cwd()
    settings = (await asyncio.to_thread(load, home, dict(os.environ), here)).settings
    secrets = secrets_of_home()
    async with await Store.open(home.database, secrets=secrets) as store:
        book = await asyncio.to_thread(learning_book, store.database, here, settings.learnings, secrets)
        if args.action in _LOOKS:
            query = " ".join(args.query) if args.action == "search" else ""
            _show(args, await book.look(query, args.status or (), all_projects=args.all_projects))
        else:
            await _change(book, args)


def _show(args: argparse.Namespace, found: Sequence[Learning]) -> None:
    from agent.knowledge.learnings.learning import record

    if args.action == "export":
        # Escaped throughout: some characters beyond ASCII steer terminals.
        records = [record(each) for each in found]
        if args.as_json:
            print(json.dumps({"learnings": records}))
            return
        for each in records:
            print(json.dumps(each))
        return
    if args.as_json:
        print(json.dumps({"learnings": [as_json(each) for each in found]}))
        return
    for each in found:
        say(_row(each))
    if not found:
        say("Nothing found." if args.action == "search" or args.status else "Nothing was learned yet.")


async def _change(book: LearningBook, args: argparse.Namespace) -> None:
    from tools.services.learning_notes import LearningNote

    match args.action:
        case "add":
            note = LearningNote(
                pattern=args.pattern,
                error_type=args.error,
                fix=args.fix,
                context=args.context,
                tags=tuple(args.tag),
                everywhere=args.everywhere,
            )
            change = await book.add(note)
            done = "Learned"
        case "confirm":
            change = await book.confirm(args.number)
            done = "Confirmed"
        case _:
            change = await book.remove(args.number)
            done = "Forgotten"
    changed = change.after or change.before
    assert changed is not None
    if args.as_json:
        print(json.dumps({args.action: as_json(changed)}))
    else:
        say(f"{done}: {_row(changed).strip()}")


def as_json(learning: Learning) -> dict[str, Any]:
    """One as an object: what is handed on of it, its number, how it stands and where it came from. Pure."""
    from agent.knowledge.learnings.learning import record, standing

    return {
        "id": learning.id,
        "status": learning.status,
        "standing": standing(learning),
        **record(learning),
        "everywhere": not learning.project,
        "project": learning.project,
        "origin": learning.origin,
        "session": learning.session,
        "node": learning.node,
    }


def _row(learning: Learning) -> str:
    from agent.knowledge.learnings.learning import standing

    counts = f"told {learning.times_used}, confirmed {learning.confirmed}, refuted {learning.refuted}"
    context = f" ({learning.context})" if learning.context else ""
    text = f"{learning.pattern}: {learning.error_type} -> {learning.fix}{context}"
    where = "" if learning.project else "  everywhere"
    return f"{learning.id:>4}  {standing(learning):<9}  {one_line(text)}  [{counts}]{where}"
