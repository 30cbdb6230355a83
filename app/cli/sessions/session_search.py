"""`hermes sessions search`: messages and notes that answer words or a question."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from agent.core.home import Home
from agent.errors import ConfigError
from app.cli.sessions.output import say
from tools.text.safe_text import clean
from tools.text.words import one_line

if TYPE_CHECKING:
    from agent.core.store.search import SearchHit
    from agent.core.store.store import Store
    from agent.knowledge.recall.recall import Recall

_SEARCH_SECONDS = 10.0
"""How long a search may go on into old messages for parts of words."""

_MEANING_SECONDS = 10.0
"""How long a search may first find out what new messages mean."""

_INDEX_SECONDS = 60.0
"""How long a search may first index what is new; it goes on with what is indexed then."""


async def run(store: Store, home: Home, args: argparse.Namespace) -> None:
    """Print what was found. Raises `HermesError`."""
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
        import json

        # Escaped throughout: some characters beyond ASCII steer terminals.
        print(json.dumps([dataclasses.asdict(hit) for hit in hits.hits], indent=2))
        return
    width = max((len(_place(hit)) for hit in hits.hits), default=0)
    for hit in hits.hits:
        say(_row(hit, width))
    if not hits.hits:
        say("Nothing found.")
    elif args.offset + len(hits.hits) < hits.total:
        say(f"{len(hits.hits)} of {hits.total} matches; --offset {args.offset + len(hits.hits)} shows more.")


def _sources(recall: Recall, named: list[str] | None) -> list[str] | None:
    for name in named or ():
        if name not in recall.source_names:
            raise ConfigError(
                f"There is no source {clean(name)}; there are {', '.join(recall.source_names)}."
            )
    return named


async def _index(recall: Recall, *, by_meaning: bool) -> None:
    """Index what is new, and say so where it takes a while."""
    from agent.errors import HermesError, StoreError

    try:
        if (
            by_meaning
            and recall.meaning is not None
            and not await recall.meaning.catch_up(seconds=_MEANING_SECONDS)
        ):
            say("hermes: the meaning of some messages is not known yet; the next search goes on.", sys.stderr)
    except HermesError as error:
        say(f"hermes: {error} Only words are searched.", sys.stderr)
    try:
        if await recall.index.catch_up(seconds=1.0):
            return
        say("hermes: indexing earlier messages, once …", sys.stderr)
        if not await recall.index.catch_up(seconds=_INDEX_SECONDS):
            say("hermes: not all messages are indexed yet; the next search goes on with it.", sys.stderr)
    except StoreError as error:
        say(f"hermes: {error} Only exact matches are found.", sys.stderr)


def _place(hit: SearchHit) -> str:
    """Where a hit stands: a session, or the source of notes."""
    return hit.session if hit.source == "messages" else hit.source


def _row(hit: SearchHit, width: int) -> str:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(hit.created)) if hit.created else " " * 16
    title = "" if hit.source == "messages" else f"{one_line(hit.title)}: "
    ways = ", ".join(hit.ways)
    return f"{_place(hit):<{width}}  {when}  {hit.kind:<9}  {title}{one_line(hit.snippet)}  ({ways})"


def moment(text: str | None, *, end: bool) -> float | None:
    """A time of an option, in seconds since the epoch. Raises `ConfigError`."""
    from tools.results import ToolError
    from tools.session_search_tool import parse_time

    try:
        return None if text is None else parse_time(text, end=end, now=time.time())
    except ToolError as error:
        raise ConfigError(str(error)) from None
