"""`hermes sessions export`: sessions as JSON lines or trajectories, a single one also as HTML or a patch."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from agent.core.home import Home
from agent.errors import ConfigError, StoreError
from app.cli.frame import moment, say
from tools.kit.files import create_file
from tools.text.safe_text import clean
from tools.text.words import plural

if TYPE_CHECKING:
    from agent.core.store.nodes import Node, Session
    from agent.core.store.store import Store
    from agent.session.export.trajectories import ExportFilter

TRAJECTORIES = ("sharegpt", "openai", "atif")
LAYOUTS = ("jsonl", "sharegpt", "openai", "atif", "html", "patch")
_PAGE = 200
"""The number of sessions that are listed at once."""


def declare(export: argparse.ArgumentParser) -> None:
    """Add the description and options of `hermes sessions export` to its parser."""
    export.description = (
        "Write a session, or with --all those that pass the filters. jsonl is the whole tree; "
        "sharegpt, openai (messages for fine-tuning) and atif (ATIF 1.8) are trajectories of a branch, html "
        "a page of one branch to read and share, patch what the branch did to files, for `git apply`."
    )
    export.add_argument("session", nargs="?", metavar="SESSION")
    export.add_argument("--format", choices=LAYOUTS, default="jsonl", dest="layout")
    export.add_argument("--branch", metavar="NAME", default="main", help="which branch (default: main)")
    export.add_argument(
        "-o", "--output", metavar="FILE", help="a new file, readable only by you (default: stdout)"
    )
    export.add_argument(
        "--max-tokens",
        type=int,
        metavar="N",
        help="shorten a trajectory to about N tokens: long results first, then exchanges in its middle",
    )
    export.add_argument("--force", action="store_true", help="replace FILE if it exists")
    export.add_argument(
        "--all", action="store_true", help="every session that passes the filters, oldest first"
    )
    export.add_argument("--project", default="", metavar="NAME", help="folders with this in their name")
    export.add_argument("--model", default="", metavar="M", help="this model answered")
    export.add_argument("--tool", action="append", default=[], metavar="NAME", help="this tool was called")
    export.add_argument("--since", metavar="TIME", help="begun not before: 7d, 12h, or an ISO date or time")
    export.add_argument("--until", metavar="TIME", help="begun not after; a date includes its whole day")
    export.add_argument("--completed", action="store_true", help="it ends with a whole answer")
    export.add_argument("--min-calls", type=int, default=0, metavar="N", help="at least N calls of tools")
    export.add_argument(
        "--passed", metavar="DIR", help="its task passed, as the results of a batch or suite in DIR say"
    )


async def run(store: Store, home: Home, args: argparse.Namespace) -> None:
    """Write the export to the output that the options name. Raises `HermesError`."""
    from agent.session.export.trajectories import ExportFilter

    if args.max_tokens is not None and (args.max_tokens < 1 or args.layout not in TRAJECTORIES):
        raise ConfigError(f"--max-tokens takes a number above 0, with --format {' or '.join(TRAJECTORIES)}.")
    chosen = await asyncio.to_thread(_filter, args)
    if args.all:
        if args.session is not None or args.layout in ("html", "patch"):
            raise ConfigError("--all takes no SESSION and writes jsonl, sharegpt, openai or atif.")
        await _write_all(store, args, chosen)
        return
    if args.session is None:
        raise ConfigError("Name a SESSION, or give --all with filters; `hermes sessions list` shows them.")
    if chosen != ExportFilter():
        raise ConfigError("Filters choose among all sessions; give --all instead of SESSION.")
    session = await store.find_session(args.session)
    to_file = args.output is not None
    match args.layout:
        case "html":
            pieces = [await _page(store, session, args.branch)]
        case "patch":
            pieces = [await _patch(store, home, session, args.branch)]
        case layout:
            path = await store.path(session.id, args.branch)  # raises for a branch that is not there
            ascii_only = not to_file
            pieces = await _lines(store, session, path, layout, args.max_tokens, ascii_only=ascii_only)
    if to_file:
        await asyncio.to_thread(_write_private, Path(args.output), pieces, force=args.force)
        print(f"hermes: wrote {clean(args.output)}", file=sys.stderr)
    else:
        _print_pieces(pieces)


def _print_pieces(pieces: Iterable[bytes]) -> None:
    if sys.stdout.isatty():
        for piece in pieces:
            say(piece.decode("utf-8", "replace").removesuffix("\n"))
        return
    sys.stdout.flush()
    for piece in pieces:
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()


def _filter(args: argparse.Namespace) -> ExportFilter:
    """Return the filter that the options describe. Blocking. Raises `ConfigError`."""
    from agent.session.export.trajectories import ExportFilter

    if args.min_calls < 0:
        raise ConfigError("--min-calls takes 0 or more.")
    return ExportFilter(
        project=args.project.strip(),
        model=args.model.strip(),
        tools=tuple(args.tool),
        since=moment(args.since, end=False),
        until=moment(args.until, end=True),
        completed=args.completed,
        least_calls=args.min_calls,
        sessions=None if args.passed is None else _passed_sessions(Path(args.passed)),
    )


def _passed_sessions(folder: Path) -> frozenset[str]:
    """Return the ids of the sessions of completed tasks whose checks hold. Raises `ConfigError`."""
    from agent.automation.batch.attempt import ResultFolder

    results = ResultFolder(folder)
    if not results.results.is_file():
        raise ConfigError(f"{folder} holds no results of a batch or suite; give the folder of its -o.")
    latest = {each.key: each for each in results.task_results()}
    return frozenset(each.session for each in latest.values() if each.passed and each.session)


async def _write_all(store: Store, args: argparse.Namespace, chosen: ExportFilter) -> None:
    """Write every session that matches the filter, one at a time. Raises `StoreError` if none does."""
    to_file = args.output is not None
    looked, written = 0, 0

    async def through(write: Callable[[list[bytes]], object]) -> None:
        nonlocal looked, written
        for session in await _sessions(store):
            looked += 1
            if not chosen.admits(session) or all(
                each.name != args.branch for each in await store.heads(session.id)
            ):
                continue
            path = await store.path(session.id, args.branch)
            if chosen.admits_path(session, path):
                pieces = await _lines(
                    store, session, path, args.layout, args.max_tokens, ascii_only=not to_file
                )
                await asyncio.to_thread(write, pieces)
                written += 1
        if not written:
            raise StoreError(f"None of {looked:,} sessions passes the filters, so nothing is written.")

    if to_file:
        with _private_file(Path(args.output), force=args.force) as stream:
            await through(stream.writelines)
    else:
        await through(_print_pieces)
    where = f" to {clean(args.output)}" if to_file else ""
    print(f"hermes: wrote {written:,} of {plural(looked, 'session')}{where}", file=sys.stderr)


async def _sessions(store: Store) -> list[Session]:
    """Return all sessions, including subagents' and archived ones, oldest first."""
    found: dict[str, Session] = {}
    place = 0
    while page := await store.list_sessions(_PAGE, place, children=True, archived=True):
        place += len(page)
        found |= {each.id: each for each in page}
    return [found[id] for id in sorted(found)]


async def _lines(
    store: Store, session: Session, path: Sequence[Node], layout: str, most: int | None, *, ascii_only: bool
) -> list[bytes]:
    from agent.core.store.export import line, node_record, portable_line
    from agent.session.export.trajectories import shorten, tokens_of, tool_statistics
    from tools.text.redact import redact_data

    if layout in TRAJECTORIES:
        nodes = await masked_nodes(store, path)
        if most is not None:
            nodes = shorten(nodes, most)
            if (left := tokens_of(nodes)) > most:
                say(f"hermes: what has to stay takes about {left:,} tokens, more than {most:,}.", sys.stderr)
        return [f"{portable_line(_trajectory(session, nodes, layout), ascii_only=ascii_only)}\n".encode()]
    heads = await store.heads(session.id)
    nodes = await masked_nodes(store, [node async for node in store.all_nodes(session.id)])
    known = {node.id: node for node in nodes}
    records = [node_record(node, heads) for node in nodes]
    if records:
        about = {name: getattr(session, name) for name in ("title", "workspace", "model")}
        records[0] |= redact_data(about, store.secrets)
    for record in records:
        if names := record.get("heads"):
            statistics = tool_statistics(_branch(known, record["id"]))
            record["tool_stats"] = dict.fromkeys(names, statistics)
    return [f"{line(record, ascii_only=ascii_only)}\n".encode() for record in records]


def _branch(known: Mapping[int, Node], end: int) -> list[Node]:
    """Return the nodes from the root to the node `end`, oldest first."""
    found: list[Node] = []
    at: int | None = end
    while at is not None and at in known:
        found.append(known[at])
        at = known[at].parent
    return found[::-1]


def _trajectory(session: Session, nodes: Sequence[Node], layout: str) -> dict[str, Any]:
    from agent.core.store.export import trajectory
    from agent.session.export.trajectories import (
        atif_trajectory,
        called_tools,
        openai_messages,
        tool_statistics,
    )
    from app.version import version

    match layout:
        case "openai":
            from tools.discovery import discover
            from tools.registry import registry

            discover()
            tools = called_tools(nodes, registry)
            return openai_messages(nodes) | ({"tools": tools} if tools else {})
        case "atif":
            return atif_trajectory(session, nodes, version())
        case _:
            return trajectory(session, nodes) | {"tool_stats": tool_statistics(nodes)}


async def masked_nodes(store: Store, nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes with secrets masked, ready to leave the store."""
    from agent.core.store.export import mask_node

    return await asyncio.to_thread(lambda: [mask_node(node, store.secrets) for node in nodes])


async def _page(store: Store, session: Session, branch: str) -> bytes:
    from agent.session.export.html_page import page_of
    from tools.discovery import discover
    from tools.registry import registry

    nodes = await store.path(session.id, branch)
    await asyncio.to_thread(discover)
    page = await asyncio.to_thread(page_of, session, nodes, registry, secrets=store.secrets, branch=branch)
    return page.encode()


async def _patch(store: Store, home: Home, session: Session, branch: str) -> bytes:
    """Return the file changes of the branch since its first message as a patch. Raises `StoreError`."""
    nodes = await store.path(session.id, branch)
    positions = [step for node in nodes if isinstance(step := node.data.get("step"), int)]
    if not positions or not home.checkpoints.exists():
        raise StoreError(
            f"What branch {clean(branch)} did to files was not kept, so there is no patch of it."
        )
    root = session
    while root.parent is not None:
        root = await store.session(root.parent)
    return await asyncio.to_thread(_patch_between, home, root.id, positions[0], positions[-1])


def _patch_between(home: Home, line_name: str, first: int, last: int) -> bytes:
    from agent.session.export.patch import patch_between
    from agent.workspace.checkpoints import state_listings
    from agent.workspace.checkpoints.restore.plan import check_position
    from agent.workspace.checkpoints.store import CheckpointStore

    store = CheckpointStore(home.checkpoints)
    line = store.line(line_name)
    if first < line.floor < last:
        say(f"hermes: steps up to {line.floor} are no longer kept; the patch begins after them.", sys.stderr)
        first = line.floor
    for position in (first, last):
        check_position(line, position)
    patch = patch_between(state_listings.difference(line.steps(), first, last), store.objects)
    if not patch.files:
        say("hermes: no file differs, so the patch is empty.", sys.stderr)
    if patch.left_out:
        count = len(patch.left_out)
        which = "1 change is" if count == 1 else f"{count:,} changes are"
        say(f"hermes: {which} not part of the patch; its first lines name them.", sys.stderr)
    return patch.data


def _write_private(path: Path, pieces: Iterable[bytes], *, force: bool) -> None:
    """Write a new file atomically. Raises `ConfigError`."""
    with _private_file(path, force=force) as stream:
        stream.writelines(pieces)


@contextmanager
def _private_file(path: Path, *, force: bool) -> Iterator[BinaryIO]:
    """Open a new owner-only file; it appears once it is complete. Raises `ConfigError`."""
    if path.exists() and not force:
        raise ConfigError(f"{path} exists; choose another name or give --force.")
    if path.exists() and not path.is_file():  # such as a device, which a file would replace
        raise ConfigError(f"Cannot write {path}: it is not a file; name another file.")
    try:
        unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            file = create_file(unfinished)
            with os.fdopen(file, "wb") as stream:
                yield stream
                stream.flush()
                os.fsync(file)
            unfinished.replace(path)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"Cannot write {path}: {reason}; name another file.") from error
