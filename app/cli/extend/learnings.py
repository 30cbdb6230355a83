"""`hermes learnings`: list, search, add, confirm, remove and export learnings."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.home import Home
from app.cli.frame import add_action, add_actions, answer, load_settings, open_store, say, say_json
from tools.text.words import one_line

if TYPE_CHECKING:
    from agent.knowledge.learnings.learning import Learning
    from agent.knowledge.learnings.store import LearningBook, LearningChange

_STATUSES = ("candidate", "learning", "stale", "retired")
_MOST_DIGITS = 15


DESCRIPTION = (
    "List, search, add, confirm, remove and export what failed and what worked, in the "
    "project of this folder and everywhere. NUMBER is that of the list."
)


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `hermes learnings` to its parser."""
    actions = add_actions(parser)
    _add_listing(actions, "list", "all of them, the surest first")
    _add_listing(actions, "search", "those in which most of the words occur").add_argument(
        "query", nargs="+", metavar="WORD"
    )
    _add_listing(actions, "export", "one line of JSON each")
    add = add_action(actions, "add", "write one down", _change)
    add.add_argument("pattern", metavar="PATTERN", help="the command that fails; it is held back once")
    add.add_argument("fix", metavar="FIX", help="what works: a command, or a sentence")
    add.add_argument("--error", default="", metavar="TEXT", help="what the error is called")
    add.add_argument("--context", default="", metavar="TEXT", help="when it matters, if not always")
    add.add_argument("--tag", action="append", default=[], metavar="NAME", help="may be given several times")
    add.add_argument("--everywhere", action="store_true", help="it holds in every project")
    for name, text in (("confirm", "vouch for one: calls are held back for it"), ("remove", "forget one")):
        add_action(actions, name, text, _change).add_argument("number", type=_number, metavar="NUMBER")


def _add_listing(actions: Any, name: str, text: str) -> argparse.ArgumentParser:
    parser = add_action(actions, name, text, _show)
    parser.add_argument(
        "--status", action="append", choices=_STATUSES, help="only those that count as this (default: all)"
    )
    parser.add_argument("--all-projects", action="store_true", help="those of other projects too")
    return parser


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > _MOST_DIGITS:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a number of a learning")
    return int(text)


@asynccontextmanager
async def _open_book() -> AsyncIterator[LearningBook]:
    from agent.knowledge.learnings.store import learning_book

    home, here = Home.locate(), Path.cwd()
    settings = (await asyncio.to_thread(load_settings, home, here)).settings
    async with await open_store(home) as store:
        yield await asyncio.to_thread(learning_book, store.database, here, settings.learnings, store.secrets)


async def _find_learnings(args: argparse.Namespace) -> Sequence[Learning]:
    if not Home.locate().keeps_sessions():
        # Reading must not create a store.
        return ()
    async with _open_book() as book:
        query = " ".join(args.query) if args.action == "search" else ""
        return await book.look(query, args.status or (), all_projects=args.all_projects)


def _show(args: argparse.Namespace) -> None:
    from agent.knowledge.learnings.learning import record

    found = asyncio.run(_find_learnings(args))

    if args.action == "export":
        # Escaped throughout: some characters beyond ASCII steer terminals.
        records = [record(each) for each in found]
        if args.as_json:
            say_json({"learnings": records})
            return
        for each in records:
            say_json(each)
        return
    if args.as_json:
        say_json({"learnings": [as_json(each) for each in found]})
        return
    for each in found:
        say(_row(each))
    if not found:
        say("Nothing found." if args.action == "search" or args.status else "Nothing was learned yet.")


def _change(args: argparse.Namespace) -> None:
    from tools.services.learning_notes import LearningNote

    async def change_of(action: str) -> tuple[LearningChange, str]:
        async with _open_book() as book:
            match action:
                case "add":
                    note = LearningNote(
                        pattern=args.pattern,
                        error_type=args.error,
                        fix=args.fix,
                        context=args.context,
                        tags=tuple(args.tag),
                        everywhere=args.everywhere,
                    )
                    return await book.add(note), "Learned"
                case "confirm":
                    return await book.confirm(args.number), "Confirmed"
                case _:
                    return await book.remove(args.number), "Forgotten"

    change, done = asyncio.run(change_of(args.action))
    changed = change.after or change.before
    assert changed is not None
    answer(args, {args.action: as_json(changed)}, f"{done}: {_row(changed).strip()}")


def as_json(learning: Learning) -> dict[str, Any]:
    """Return a learning as JSON data: its exported fields, number, state and origin. Pure."""
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
