"""`hermes sessions`: list, show, search, rename, export, import, delete and recover stored sessions."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.home import Home
from agent.errors import ConfigError, ExitCode, HermesError, StoreError
from app.cli.frame import (
    add_action,
    add_actions,
    agreed_by,
    answer,
    minute_of,
    moment,
    open_store,
    say,
    say_json,
    whole_number,
)
from app.cli.sessions import session_export, session_replay
from tools.text.safe_text import clean, truncate
from tools.text.words import one_line, plural

if TYPE_CHECKING:
    from agent.core.store.nodes import Node
    from agent.core.store.search import SearchHit
    from agent.core.store.store import Store
    from agent.knowledge.recall.recall import Recall

_ROLES = ("user", "assistant", "tool", "notice")
_SHOWN_RESULT = 2_000
"""The number of characters of a tool result that `show` prints."""

_SEARCH_SECONDS = 10.0
"""The time limit in seconds for searching old messages for parts of words."""

_MEANING_SECONDS = 10.0
"""The time limit in seconds for first computing embeddings of new messages."""

_INDEX_SECONDS = 60.0
"""The time limit in seconds for first indexing new messages; the search then uses what is indexed."""

LARGEST = 2 << 30
"""The largest size in bytes of a file to import."""


DESCRIPTION = (
    "List, show, search, rename, export, import and delete sessions. SESSION is an id, "
    "the beginning of an id, or a title."
)


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `hermes sessions` to its parser."""
    actions = add_actions(parser)
    _add_reading(actions)
    _add_changing(actions)


def _add_reading(actions: Any) -> None:
    listing = _action(actions, "list", "sessions, the one used last first")
    listing.add_argument(
        "--limit", type=whole_number(), default=20, metavar="N", help="how many (default: 20)"
    )
    listing.add_argument(
        "--offset", type=whole_number(), default=0, metavar="N", help="leave out the first N"
    )
    listing.add_argument("--workspace", metavar="DIR", help="only those of a folder")
    listing.add_argument(
        "--all",
        action="store_true",
        help="also those of subagents, archived ones and those that were only opened",
    )
    show = _action(actions, "show", "one session as text")
    show.add_argument("session", metavar="SESSION")
    show.add_argument("--branch", metavar="NAME", default="main", help="which branch (default: main)")
    search = _action(actions, "search", "search everything that was said and noted")
    search.add_argument("query", nargs="+", metavar="WORD", help='words, a "phrase", or a whole question')
    search.add_argument(
        "--mode",
        choices=("auto", "words", "meaning"),
        default="auto",
        help="how to search (default: auto); meaning needs the extra `semantic` or `recall.embeddings`",
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
        "--branch", type=_word, metavar="NAME", help="only what is on branches whose name begins so"
    )
    search.add_argument("--since", metavar="TIME", help="not before: 7d, 12h, or an ISO date or time")
    search.add_argument("--until", metavar="TIME", help="not after; a date includes its whole day")
    search.add_argument(
        "--limit", type=whole_number(), default=20, metavar="N", help="how many (default: 20)"
    )
    search.add_argument("--offset", type=whole_number(), default=0, metavar="N", help="leave out the first N")
    search.add_argument("--newest", action="store_true", help="newest first instead of best first")

    session_replay.declare(_action(actions, "replay", "run a session again against its recorded answers"))


def _add_changing(actions: Any) -> None:
    rename = _action(actions, "rename", "give a session another title")
    rename.add_argument("session", metavar="SESSION")
    rename.add_argument("title", nargs="+", metavar="TITLE")
    about = "write sessions as JSON lines or trajectories, or one as a page of HTML or a patch"
    session_export.declare(add_action(actions, "export", about, run, json=""))
    taking = _action(actions, "import", "take in sessions from a file of JSON lines")
    taking.description = (
        "Take in the sessions of a file that `hermes sessions export` wrote, or another program "
        "in its manner: one object a line with id, session, parent, kind, created (seconds since the epoch) "
        "and content; data, heads, title, workspace and model as they are known."
    )
    taking.add_argument("file", metavar="FILE")
    taking.add_argument("--copy", action="store_true", help="import sessions under new ids")
    delete = _action(actions, "delete", "delete a session and those of its subagents")
    delete.add_argument("session", metavar="SESSION")
    delete.add_argument("--yes", action="store_true", help="do not ask")
    recover = _action(actions, "recover", "save what can be read of a damaged store into a new file")
    recover.add_argument("file", nargs="?", metavar="FILE", help="the damaged store (default: state.db)")


def _action(actions: Any, name: str, summary: str) -> argparse.ArgumentParser:
    return add_action(actions, name, summary, run, json="print JSON")


def _word(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("an empty name narrows nothing; leave the option out or give a name")
    return text.strip()


def run(args: argparse.Namespace) -> int:
    """Run the chosen action; return an exit code. Raises `HermesError`."""
    home = Home.locate()
    if args.action == "recover":
        _recover(home, args)
        return ExitCode.DONE
    if args.action in ("list", "search") and not home.keeps_sessions():
        # Reading must not create a store.
        answer(args, [], "No sessions yet.")
        return ExitCode.DONE
    if not home.keeps_sessions() and args.action != "import":
        which = (
            "There are no sessions" if args.session is None else f"There is no session {clean(args.session)}"
        )
        raise StoreError(f"{which}; none was saved yet.")
    return asyncio.run(_with_store(home, args))


async def _with_store(home: Home, args: argparse.Namespace) -> ExitCode:
    async with await open_store(home) as store:
        match args.action:
            case "list":
                await _list(store, args)
            case "show":
                await _show(store, args)
            case "search":
                await _search(store, home, args)
            case "rename":
                await _rename(store, args)
            case "export":
                await session_export.run(store, home, args)
            case "import":
                await _import(store, home, args)
            case "replay":
                return await session_replay.run(store, home, args)
            case _:
                return await _delete(store, home, args)
    return ExitCode.DONE


async def _list(store: Store, args: argparse.Namespace) -> None:
    workspace = _resolve_folder(args.workspace)
    sessions = await store.list_sessions(
        args.limit, args.offset, workspace, children=args.all, archived=args.all, said=not args.all
    )
    if args.as_json:
        say_json([dataclasses.asdict(session) for session in sessions], 2)
    elif not sessions:
        say("No sessions yet." if args.workspace is None else "No sessions in that folder.")
    for session in sessions if not args.as_json else ():
        title, workspace = one_line(session.title) or "(untitled)", one_line(session.workspace)
        say(f"{session.id}  {minute_of(session.updated)}  {session.length:>5}  {title}  {workspace}")


def _resolve_folder(folder: str | None) -> str | None:
    """Return a folder in the form in which sessions store it; it need not exist. Raises `ConfigError`."""
    try:
        return None if folder is None else str(Path(folder).expanduser().resolve())
    except (OSError, RuntimeError, ValueError):
        raise ConfigError(f"{folder} is not a path of a folder; check --workspace.") from None


async def _show(store: Store, args: argparse.Namespace) -> None:
    from agent.core.store.export import node_record

    session = await store.find_session(args.session)
    nodes = await session_export.masked_nodes(store, await store.path(session.id, args.branch))
    branches = [head.name for head in await store.heads(session.id)]
    if args.as_json:
        record = {
            "branch": args.branch,
            "branches": branches,
            "nodes": [node_record(node) for node in nodes],
        }
        say_json(dataclasses.asdict(session) | record, 2)
        return
    say(f"{one_line(session.title) or '(untitled)'}\n{session.id}  {minute_of(session.created)}")
    say(f"{one_line(session.workspace)}  {one_line(session.model)}")
    if len(branches) > 1:
        say(f"Branch {one_line(args.branch)} of {', '.join(map(one_line, branches))}")
    for node in nodes:
        say(f"\n── {_speaker(node)} · {minute_of(node.created)} · {node.id}\n{_text(node)}")


async def _rename(store: Store, args: argparse.Namespace) -> None:
    session = await store.find_session(args.session)
    renamed = await store.rename(session.id, " ".join(args.title))
    if args.as_json:
        say_json(dataclasses.asdict(renamed), 2)
    else:
        say(f"{renamed.id} is now called {one_line(renamed.title)}.")


async def _delete(store: Store, home: Home, args: argparse.Namespace) -> ExitCode:
    from agent.knowledge.recall.recall import Recall
    from agent.session.conversation.stored_sessions import delete_session

    session = await store.find_session(args.session)
    about = f"{session.id}, {plural(session.length, 'entry')}"
    question = f"Delete {one_line(session.title) or '(untitled)'} ({about})?"
    nobody = "Deleting asks first, and there is no terminal to answer on; give --yes."
    if not await asyncio.to_thread(agreed_by, args, question, nobody):
        say("Nothing was deleted.")
        return ExitCode.DENIED
    recall = Recall(store)
    try:
        deleted = await delete_session(store, home, session.id, recall)
    finally:
        await recall.close()
    if args.as_json:
        say_json({"deleted": deleted}, 2)
    else:
        rest = f" and {len(deleted) - 1} of its subagents" if len(deleted) > 1 else ""
        say(f"Deleted {session.id}{rest}.")
    return ExitCode.DONE


def _recover(home: Home, args: argparse.Namespace) -> None:
    from agent.core.store.salvage import recover_copy

    damaged = Path(args.file) if args.file else home.database
    copy = recover_copy(damaged)
    sessions, nodes = asyncio.run(_totals(copy))
    if args.as_json:
        say_json({"file": str(copy), "sessions": sessions, "nodes": nodes}, 2)
    else:
        say(f"Saved {plural(sessions, 'session')} with {plural(nodes, 'entry')} in {one_line(str(copy))}.")
        say(f"To use it, close Hermes and move it to {one_line(str(damaged))}; keep the damaged file.")


async def _totals(path: Path) -> tuple[int, int]:
    from agent.core.store.store import Store

    async with await Store.open(path) as store:
        return await store.totals()


def _speaker(node: Node) -> str:
    tool = node.data.get("tool")
    return f"{node.kind} {one_line(str(tool))}" if node.kind == "tool" and tool else node.kind


def _text(node: Node) -> str:
    from agent.core.store.nodes import readable

    text = clean(readable(node.kind, node.content, node.data)).strip("\n")
    return truncate(text, _SHOWN_RESULT) if node.kind == "tool" else text


async def _search(store: Store, home: Home, args: argparse.Namespace) -> None:
    """Search and print the hits. Raises `HermesError`."""
    from agent.core.store.search import Filters
    from agent.session.wiring.recall import open_recall

    query = " ".join(args.query)
    if not query.strip():
        raise ConfigError("The query is empty; give a word or two that were said.")
    session = None if args.session is None else (await store.find_session(args.session)).id
    recall = await open_recall(store, home, await asyncio.to_thread(Path.cwd))
    try:
        sources = _sources(recall, args.source)
        await _index(recall, by_meaning=args.mode != "words")
        hits = await recall.search(
            query,
            filters=Filters(
                roles=tuple(args.role or ()),
                session=session,
                since=moment(args.since, end=False),
                until=moment(args.until, end=True),
                tool=args.tool,
                project=args.project or "",
                branch=args.branch or "",
            ),
            limit=args.limit,
            offset=args.offset,
            order="newest" if args.newest else "rank",
            mode=args.mode,
            patience=_SEARCH_SECONDS,
            sources=sources,
            by_session=args.by_session,
        )
    finally:
        await recall.close()
    if hits.note:
        say(f"hermes: {hits.note}", sys.stderr)
    if args.as_json:
        # Escaped throughout: some characters beyond ASCII steer terminals.
        say_json([dataclasses.asdict(hit) for hit in hits.hits], 2)
        return
    width = max((len(_place(hit)) for hit in hits.hits), default=0)
    for hit in hits.hits:
        say(_hit_row(hit, width))
    if not hits.hits:
        say("Nothing found.")
    elif args.offset + len(hits.hits) < hits.total:
        total = plural(hits.total, "match")
        say(f"{len(hits.hits)} of {total}; --offset {args.offset + len(hits.hits)} shows more.")


def _sources(recall: Recall, named: list[str] | None) -> list[str] | None:
    for name in named or ():
        if name not in recall.source_names:
            raise ConfigError(
                f"There is no source {clean(name)}; there are {', '.join(recall.source_names)}."
            )
    return named


async def _index(recall: Recall, *, by_meaning: bool) -> None:
    """Index new messages for the search; print a notice if this is not finished in time, or fails."""
    try:
        if (
            by_meaning
            and recall.meaning is not None
            and not await recall.meaning.catch_up(seconds=_MEANING_SECONDS)
        ):
            say(
                "hermes: the meaning of some messages is not known yet; the next search continues.",
                sys.stderr,
            )
    except HermesError as error:
        say(f"hermes: {error} Only words are searched.", sys.stderr)
    try:
        if await recall.index.catch_up(seconds=1.0):
            return
        say("hermes: indexing earlier messages, once …", sys.stderr)
        if not await recall.index.catch_up(seconds=_INDEX_SECONDS):
            say("hermes: not all messages are indexed yet; the next search continues with it.", sys.stderr)
    except StoreError as error:
        say(f"hermes: {error} Only exact matches are found.", sys.stderr)


def _place(hit: SearchHit) -> str:
    """Return the source of a hit: its session, or the kind of note."""
    return hit.session if hit.source == "messages" else hit.source


def _hit_row(hit: SearchHit, width: int) -> str:
    when = minute_of(hit.created) if hit.created else " " * 16
    title = "" if hit.source == "messages" else f"{one_line(hit.title)}: "
    ways = ", ".join(hit.ways)
    return f"{_place(hit):<{width}}  {when}  {hit.kind:<9}  {title}{one_line(hit.snippet)}  ({ways})"


async def _import(store: Store, home: Home, args: argparse.Namespace) -> None:
    """Import sessions from a file. Raises `HermesError`, and then nothing was imported."""
    from agent.core.store.importing import parse_sessions
    from agent.session.wiring.recall import open_recall

    path = Path(args.file)
    sessions = await asyncio.to_thread(lambda: parse_sessions(_text_of(path).split("\n")))
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
        say_json(records, 2)
        return
    count = sum(len(each.nodes) for each in imported)
    for each in imported[:20]:
        renamed = "" if each.name == each.session else f" as {clean(each.session)}"
        say(f"{clean(each.name)}{renamed}: {plural(len(each.nodes), 'entry')}")
    if len(imported) > 20:
        say(f"… and {len(imported) - 20} more")
    say(f"Imported {plural(len(imported), 'session')} with {plural(count, 'entry')}.")


def _text_of(path: Path) -> str:
    try:
        if path.stat().st_size > LARGEST:
            raise ConfigError(f"{path} is larger than 2 GiB; split it, one session a file.")
        return path.read_text("utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"Cannot read {path}: {reason}; name a file of JSON lines.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text ({error.reason}); name a file of JSON lines.") from error
