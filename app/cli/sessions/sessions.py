"""`hermes sessions`: list, show, search, rename, export, import, delete and recover stored sessions."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.home import Home
from agent.errors import ConfigError, ExitCode, StoreError
from app.cli.sessions import session_export, session_import, session_replay, session_search
from app.cli.sessions.output import say
from tools.text.safe_text import clean, truncate
from tools.text.words import one_line

if TYPE_CHECKING:
    from agent.core.store.nodes import Node, Session
    from agent.core.store.store import Store

_ROLES = ("user", "assistant", "tool", "notice")
_SHOWN_RESULT = 2_000
"""Characters of a tool result that `show` prints."""


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Declare the subcommand."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "sessions",
        help="list, show, search, rename, export, import and delete sessions",
        description="List, show, search, rename, export, import and delete sessions. SESSION is an id, "
        "the beginning of an id, or a title.",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    _add_reading(actions)
    _add_changing(actions)
    return parser


def _add_reading(actions: Any) -> None:
    listing = _action(actions, "list", "sessions, the one used last first")
    listing.add_argument("--limit", type=_count, default=20, metavar="N", help="how many (default: 20)")
    listing.add_argument("--offset", type=_count, default=0, metavar="N", help="leave out the first N")
    listing.add_argument("--workspace", metavar="DIR", help="only those of a folder")
    listing.add_argument("--all", action="store_true", help="those of subagents and archived ones too")
    show = _action(actions, "show", "one session as text")
    show.add_argument("session", metavar="SESSION")
    show.add_argument("--branch", metavar="NAME", default="main", help="which branch (default: main)")
    search = _action(actions, "search", "search everything that was said and noted")
    search.add_argument("query", nargs="+", metavar="WORD", help='words, a "phrase", or a whole question')
    search.add_argument(
        "--mode",
        choices=("auto", "words", "meaning"),
        default="auto",
        help="how to search (default: auto); meaning is not set up yet",
    )
    search.add_argument(
        "--source", action="append", metavar="NAME", help="only messages, or only memory (default: all)"
    )
    search.add_argument("--by-session", action="store_true", help="only the best message of each session")
    search.add_argument("--role", action="append", choices=_ROLES, help="only messages of this role")
    search.add_argument("--session", metavar="SESSION", help="only this session")
    search.add_argument("--tool", metavar="NAME", help="only results of this tool")
    search.add_argument(
        "--project", type=_word, metavar="NAME", help="only sessions in folders with this in their name"
    )
    search.add_argument(
        "--branch", type=_word, metavar="NAME", help="only what lies on branches whose name begins so"
    )
    search.add_argument("--since", metavar="TIME", help="not before: 7d, 12h, or an ISO date or time")
    search.add_argument("--until", metavar="TIME", help="not after; a date includes its whole day")
    search.add_argument("--limit", type=_count, default=20, metavar="N", help="how many (default: 20)")
    search.add_argument("--offset", type=_count, default=0, metavar="N", help="leave out the first N")
    search.add_argument("--newest", action="store_true", help="newest first instead of best first")

    session_replay.add_parser(actions)


def _add_changing(actions: Any) -> None:
    rename = _action(actions, "rename", "give a session another title")
    rename.add_argument("session", metavar="SESSION")
    rename.add_argument("title", nargs="+", metavar="TITLE")
    session_export.add_parser(actions)
    session_import.add_parser(actions)
    delete = _action(actions, "delete", "delete a session and those of its subagents")
    delete.add_argument("session", metavar="SESSION")
    delete.add_argument("--yes", action="store_true", help="do not ask")
    recover = _action(actions, "recover", "save what can be read of a damaged store into a new file")
    recover.add_argument("file", nargs="?", metavar="FILE", help="the damaged store (default: state.db)")


def _action(actions: Any, name: str, summary: str) -> argparse.ArgumentParser:
    action: argparse.ArgumentParser = actions.add_parser(name, help=summary)
    action.add_argument("--json", action="store_true", dest="as_json", help="print JSON")
    return action


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number")
    return int(text)


def _word(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("an empty name narrows nothing; leave the option out or give a name")
    return text.strip()


def run(args: argparse.Namespace) -> int:
    """Carry out the action. Raises `HermesError`."""
    home = Home.locate()
    if args.action == "recover":
        code = _recover(home, args)
    elif args.action in ("list", "search") and not home.keeps_sessions():
        # Looking must not make a store.
        _print_json([]) if args.as_json else say("No sessions yet.")
        code = ExitCode.DONE
    elif not home.keeps_sessions() and args.action != "import":
        which = (
            "There are no sessions" if args.session is None else f"There is no session {clean(args.session)}"
        )
        raise StoreError(f"{which}; none was saved yet.")
    else:
        code = asyncio.run(_with_store(home, args))
    sys.stdout.flush()
    return int(code)


async def _with_store(home: Home, args: argparse.Namespace) -> ExitCode:
    from agent.core.config.known_secrets import secrets_of_home
    from agent.core.store.store import Store

    async with await Store.open(home.database, secrets=secrets_of_home()) as store:
        match args.action:
            case "list":
                await _list(store, args)
            case "show":
                await _show(store, args)
            case "search":
                await session_search.run(store, home, args)
            case "rename":
                await _rename(store, args)
            case "export":
                await session_export.run(store, home, args)
            case "import":
                await session_import.run(store, home, args)
            case "replay":
                return await session_replay.run(store, home, args)
            case _:
                return await _delete(store, home, args)
    return ExitCode.DONE


async def _list(store: Store, args: argparse.Namespace) -> None:
    workspace = _resolved(args.workspace)
    sessions = await store.list_sessions(
        args.limit, args.offset, workspace, children=args.all, archived=args.all
    )
    if args.as_json:
        _print_json([_session_record(session) for session in sessions])
    elif not sessions:
        say("No sessions yet." if args.workspace is None else "No sessions in that folder.")
    for session in sessions if not args.as_json else ():
        title, workspace = one_line(session.title) or "(untitled)", one_line(session.workspace)
        say(f"{session.id}  {_time(session.updated)}  {session.length:>5}  {title}  {workspace}")


def _resolved(folder: str | None) -> str | None:
    """A folder as sessions remember it; one that is gone can still be asked for."""
    try:
        return None if folder is None else str(Path(folder).expanduser().resolve())
    except (OSError, RuntimeError, ValueError):
        raise ConfigError(f"{folder} is no path of a folder; check --workspace.") from None


async def _show(store: Store, args: argparse.Namespace) -> None:
    session = await store.find_session(args.session)
    nodes = await _masked(store, await store.path(session.id, args.branch))
    branches = [head.name for head in await store.heads(session.id)]
    if args.as_json:
        record = {
            "branch": args.branch,
            "branches": branches,
            "nodes": [_node_record(node) for node in nodes],
        }
        _print_json(_session_record(session) | record)
        return
    say(f"{one_line(session.title) or '(untitled)'}\n{session.id}  {_time(session.created)}")
    say(f"{one_line(session.workspace)}  {one_line(session.model)}")
    if len(branches) > 1:
        say(f"Branch {one_line(args.branch)} of {', '.join(map(one_line, branches))}")
    for node in nodes:
        say(f"\n── {_speaker(node)} · {_time(node.created)} · {node.id}\n{_text(node)}")


async def _rename(store: Store, args: argparse.Namespace) -> None:
    session = await store.find_session(args.session)
    renamed = await store.rename(session.id, " ".join(args.title))
    if args.as_json:
        _print_json(_session_record(renamed))
    else:
        say(f"{renamed.id} is now called {one_line(renamed.title)}.")


async def _masked(store: Store, nodes: Sequence[Node]) -> list[Node]:
    """The nodes as they may leave the store."""
    from agent.core.store.export import masked

    return await asyncio.to_thread(lambda: [masked(node, store.secrets) for node in nodes])


async def _delete(store: Store, home: Home, args: argparse.Namespace) -> ExitCode:
    from agent.knowledge.recall.recall import Recall
    from agent.session.conversation.deleting import delete_session

    session = await store.find_session(args.session)
    question = f"Delete {one_line(session.title) or '(untitled)'} ({session.id}, {session.length} entries)?"
    if not args.yes:
        if not sys.stdin.isatty():
            raise ConfigError("Deleting asks first, and there is no terminal to answer on; give --yes.")
        if not await asyncio.to_thread(_confirmed, question):
            say("Nothing was deleted.")
            return ExitCode.DENIED
    recall = Recall(store)
    try:
        deleted = await delete_session(store, home, session.id, recall)
    finally:
        await recall.close()
    if args.as_json:
        _print_json({"deleted": deleted})
    else:
        rest = f" and {len(deleted) - 1} of its subagents" if len(deleted) > 1 else ""
        say(f"Deleted {session.id}{rest}.")
    return ExitCode.DONE


def _confirmed(question: str) -> bool:
    say(f"{question} [y/N]", sys.stderr)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _recover(home: Home, args: argparse.Namespace) -> ExitCode:
    from agent.core.store.salvage import recover_copy

    damaged = Path(args.file) if args.file else home.database
    copy = recover_copy(damaged)
    sessions, nodes = asyncio.run(_totals(copy))
    if args.as_json:
        _print_json({"file": str(copy), "sessions": sessions, "nodes": nodes})
    else:
        say(f"Saved {sessions} sessions with {nodes} entries in {one_line(str(copy))}.")
        say(f"To use it, close Hermes and move it to {one_line(str(damaged))}; keep the damaged file.")
    return ExitCode.DONE


async def _totals(path: Path) -> tuple[int, int]:
    from agent.core.store.store import Store

    async with await Store.open(path) as store:
        return await store.totals()


def _session_record(session: Session) -> dict[str, Any]:
    return dataclasses.asdict(session)


def _node_record(node: Node) -> dict[str, Any]:
    from agent.core.store.export import node_record

    return node_record(node)


def _print_json(value: Any) -> None:
    import json

    # Escaped throughout: some characters beyond ASCII steer terminals.
    print(json.dumps(value, indent=2))


def _speaker(node: Node) -> str:
    tool = node.data.get("tool")
    return f"{node.kind} {one_line(str(tool))}" if node.kind == "tool" and tool else node.kind


def _text(node: Node) -> str:
    from agent.core.store.node_text import readable

    text = clean(readable(node.kind, node.content, node.data)).strip("\n")
    return truncate(text, _SHOWN_RESULT) if node.kind == "tool" else text


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
