"""The session store: each short transaction runs on this process's one connection to the file."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any

from agent.core.attachments import AttachmentStore
from agent.core.home import Home
from agent.core.messages import ToolCall
from agent.core.store import (
    branches,
    images,
    importing,
    marks,
    node_tree,
    recovery,
    removal,
    schema,
    session_list,
)
from agent.core.store import branches as outlines
from agent.core.store import marks as marking
from agent.core.store import operations as acts
from agent.core.store import search as finding
from agent.core.store.branches import Lineages, OutlineRow
from agent.core.store.connection import WAIT, Database, address, explain
from agent.core.store.importing import ImportedSession, SessionRecord
from agent.core.store.marks import NodeMark
from agent.core.store.nodes import ANY, MAIN, BranchHead, Expected, Kind, NewNode, Node, Session
from agent.core.store.operations import Operation, SessionPlace
from agent.core.store.recovery import Recovery, Unfinished
from agent.core.store.search import PATIENCE, Filters, Order, SearchHits
from agent.core.store.stored_path import KEPT, NEWEST, StoredPath
from agent.errors import StoreError

_BATCH = 500
"""The number of nodes read at once in a few milliseconds, after which a writer gets its turn."""


class Store:
    """Sessions in one SQLite file. Open it with `Store.open`, and close it at the end.

    Every method raises `StoreError` with a sentence for the user. A write that has begun is carried out even
    if the waiting task is cancelled; a write that raises was not carried out. Nodes are never changed.
    """

    def __init__(
        self, database: Database, secrets: Mapping[str, str] | None = None, *, shared: bool = False
    ) -> None:
        """`shared` means that other code opened the connection and will close it."""
        self._database = database
        self._shared = shared
        self.secrets = secrets or {}
        """The values that are masked in titles and search results, by name."""
        self._lineages = Lineages()

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        wait: float = WAIT,
        secrets: Mapping[str, str] | None = None,
        shared: Database | None = None,
    ) -> Store:
        """Open the session store at `path`, or create it. `wait` is the time limit for database locks, in
        seconds.

        `secrets` are values, by name, that are masked in generated titles and in search results. `shared` is
        this process's existing connection to the file, used instead of a new one; it stays open.

        Raises `StoreError` for a file that is not a Hermes store, has another version, or is damaged,
        read-only or locked; such a file is not changed.
        """
        if shared is not None:
            return cls(shared, secrets, shared=True)
        await asyncio.to_thread(schema.prepare_file, path)
        database = await Database.connect(path, wait=wait)
        try:
            await database.bare(schema.configure)
            await database.bare(schema.choose_journal)
            if not await database.read(schema.is_current):
                await database.write(schema.create)
        except BaseException:
            await database.close()
            raise
        return cls(database, secrets)

    @property
    def file(self) -> Path:
        """The path of the database file."""
        return self._database.path

    @property
    def database(self) -> Database:
        """The database connection, for modules with their own tables."""
        return self._database

    async def close(self) -> None:
        """Finish queued writes and close the connection. A shared connection stays open. May be called again.

        Without this call, the thread of the connection keeps the process running.
        """
        if not self._shared:
            await self._database.close()

    async def __aenter__(self) -> Store:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # Sessions

    async def create_session(
        self, *, workspace: str, model: str, title: str = "", parent: str | None = None, events: int = 0
    ) -> Session:
        """Create a session with an empty branch `main`. Without a title, its first user message provides one.

        The first `events` numbers of its events are reserved for the caller. Raises `StoreError` if `parent`
        does not exist.
        """
        return await self._database.write(
            lambda c: session_list.create(c, workspace, model, title, parent, events)
        )

    async def session(self, session: str) -> Session:
        """Return the session with exactly this id. Raises `NoSession`."""
        return await self._database.read(lambda c: session_list.get(c, session))

    async def find_session(self, text: str) -> Session:
        """Find a session by id, beginning of an id, or title. Raises `StoreError` with similar ones."""
        return await self._database.read(lambda c: session_list.find(c, text))

    async def latest_session(self, workspace: str | None = None) -> Session | None:
        """Return the most recently used session of a workspace, or of all; None if there is none.

        A session that was opened but never written in is returned only if there is no other.
        """
        found = await self._database.read(
            lambda c: (
                session_list.newest(c, 1, 0, workspace, said=True) or session_list.newest(c, 1, 0, workspace)
            )
        )
        return found[0] if found else None

    async def list_sessions(
        self,
        limit: int = 50,
        offset: int = 0,
        workspace: str | None = None,
        *,
        children: bool = False,
        archived: bool = False,
        said: bool = False,
    ) -> list[Session]:
        """Return sessions, the most recently used first.

        `children` includes those of subagents, `archived` the archived ones; `said` leaves out those that
        were only opened.
        """
        return await self._database.read(
            lambda c: session_list.newest(
                c, limit, offset, workspace, children=children, archived=archived, said=said
            )
        )

    async def children(self, session: str) -> list[Session]:
        """Return the sessions of a session's subagents, oldest first."""
        return await self._database.read(lambda c: session_list.children(c, session))

    async def totals(self) -> tuple[int, int]:
        """Return the number of sessions and the number of nodes. This is slow in a large store."""
        return await self._database.read(session_list.totals)

    async def rename(self, session: str, title: str) -> Session:
        """Set the title of a session. Raises `StoreError` if it is empty or too long."""
        line = session_list.tidy_title(title)
        if not line:
            raise StoreError("A title cannot be empty; write a word or two.")
        return await self._database.write(lambda c: session_list.change(c, session, "title", line))

    async def set_model(self, session: str, model: str) -> Session:
        """Record the model that the session uses from now on."""
        return await self._database.write(lambda c: session_list.change(c, session, "model", model))

    async def set_workspace(self, session: str, folder: str) -> Session:
        """Record the folder that the session works in from now on."""
        return await self._database.write(lambda c: session_list.change(c, session, "workspace", folder))

    async def archive(self, session: str, archived: bool = True) -> Session:
        """Hide the session from lists, or show it again."""
        return await self._database.write(
            lambda c: session_list.change(c, session, "archived", int(archived))
        )

    async def reserve_events(self, session: str, count: int) -> int:
        """Reserve `count` event numbers of a session; return the first of them, or 1 if the
        session is gone.
        """
        return await self._database.write(lambda c: marks.reserve(c, session, count))

    def give_back_events(self, session: str, last: int, reserved: int) -> None:
        """Free the event numbers after `last`, out of a block that ends with `reserved`. This is written
        together with the next write.
        """
        self._database.write_along(lambda c: marks.give_back(c, session, last, reserved))

    async def delete(
        self, session: str, *, clearing: Callable[[Sequence[str]], Awaitable[None]] | None = None
    ) -> list[str]:
        """Delete a session and those of its subagents: text, index, large outputs, and images to which no
        other session refers.

        Returns the deleted ids. `clearing` is called with them while their messages can still be read. The
        sessions disappear at once; removing their text from the file takes a while in a large store.
        """
        deleted = await self._database.write(lambda c: removal.discard(c, session))
        gone = await self._database.read(images.discarded_images)
        if clearing is not None:
            await clearing(deleted)
        while await self._database.write(removal.purge):
            pass
        first = True
        while await self._database.write(lambda c, first=first: removal.merge(c, first=first)):
            first = False
        home = Home(self.file.parent)
        await images.sweep(self._database, AttachmentStore(home.attachments), gone)
        for each in deleted:
            await asyncio.to_thread(shutil.rmtree, home.scratch / each, ignore_errors=True)
        return deleted

    # The tree

    async def append(
        self,
        session: str,
        kind: Kind,
        content: str,
        data: Mapping[str, Any] | None = None,
        *,
        head: str = MAIN,
        expected: Expected = ANY,
        starts: Sequence[ToolCall] = (),
    ) -> Node:
        """Add one node at the end of the branch `head`. The node is on disk when this returns.

        With `expected` (a node id, or None for an empty branch) it raises `HeadMoved` if the branch ends
        elsewhere. An assistant node deletes the draft. `starts` are those of its calls that begin to run at
        once; they are recorded as by `start_call`.
        """

        def work(connection: sqlite3.Connection) -> Node:
            new = [NewNode(kind, content, data or {})]
            (node,) = node_tree.append(connection, session, head, new, expected, self.secrets)
            for call in starts:
                recovery.start(connection, session, node.id, call.id, call.name)
            return node

        return await self._database.write(work)

    async def append_many(
        self, session: str, nodes: Sequence[NewNode], *, head: str = MAIN, expected: Expected = ANY
    ) -> list[Node]:
        """Add several nodes to a branch, one below the other, in one transaction."""
        return await self._database.write(
            lambda c: node_tree.append(c, session, head, nodes, expected, self.secrets)
        )

    async def fork(self, session: str, node: int | None, name: str) -> BranchHead:
        """Create a branch that ends at a node of the session, or is empty. Nothing is copied."""
        return await self._database.write(lambda c: node_tree.fork(c, session, node, name))

    async def has_children(self, node: int) -> bool:
        """Return whether any branch continues after a node."""
        return await self._database.read(lambda c: bool(node_tree.offspring(c, node, 1)))

    async def use_head(self, session: str, name: str) -> BranchHead:
        """Make a branch the most recently used one, so that the session opens with it."""
        return await self._database.write(lambda c: node_tree.use_head(c, session, name))

    async def rename_head(self, session: str, name: str, new: str) -> BranchHead:
        """Rename a branch. Raises `StoreError` for `main` and for an invalid or used new name."""
        return await self._database.write(lambda c: node_tree.rename_head(c, session, name, new))

    async def drop_head(self, session: str, name: str) -> None:
        """Remove a branch; its messages remain in the tree. Raises `StoreError` for `main`."""
        await self._database.write(lambda c: node_tree.drop_head(c, session, name))

    async def heads(self, session: str) -> list[BranchHead]:
        """Return the branches of a session, the most recently used first."""
        return await self._database.read(lambda c: node_tree.heads(c, session))

    async def node(self, session: str, node: int) -> Node:
        """Return one node of a session. Raises `StoreError` if it has no such node."""
        return await self._database.read(lambda c: node_tree.node_of(c, session, node))

    async def length(self, session: str, head: str = MAIN) -> int:
        """Return the number of nodes on the path from the root to the end of a branch."""
        return await self._database.read(lambda c: node_tree.length(c, session, head))

    async def path(self, session: str, head: str = MAIN) -> list[Node]:
        """Return the conversation of a branch, from the root to its last node."""
        return await self.tail(session, head, None)

    async def stored_path(self, session: str, head: str = MAIN) -> StoredPath:
        """Return a branch's conversation, of which only the end and some older nodes are in memory."""
        nodes = await self.tail(session, head, NEWEST)
        path = StoredPath(nodes, self.nodes_now)
        tip = nodes[0].parent if nodes else None
        while tip is not None:
            line = await self._database.read(lambda c, tip=tip: node_tree.labels_of_line(c, tip, 10 * _BATCH))
            if not line:
                break
            path.put_before([(id, kind, tool) for id, _, kind, tool in line])
            tip = line[0][1]
        await asyncio.to_thread(path.labelled, *KEPT)
        return path

    def nodes_now(self, ids: Sequence[int]) -> list[Node]:
        """Return the nodes with these ids, sorted, in the calling thread and on a separate connection.

        It also works after the store was closed. Read only a few at a time. Raises `StoreError`.
        """
        try:
            with closing(sqlite3.connect(address(self.file, "mode=ro"), uri=True)) as connection:
                return node_tree.by_ids(connection, ids)
        except sqlite3.Error as error:
            raise explain(error, self.file) from error

    async def tail(self, session: str, head: str = MAIN, count: int | None = None) -> list[Node]:
        """Return the last `count` nodes of a branch, or all with None, oldest first."""
        tip = await self._database.read(lambda c: node_tree.tip(c, session, head))
        return await self._line(tip, count)

    async def before(self, session: str, node: int, count: int) -> list[Node]:
        """Return up to `count` nodes before a node, oldest first, without the node itself."""
        start = await self.node(session, node)
        return await self._line(start.parent, count)

    async def _line(self, tip: int | None, count: int | None) -> list[Node]:
        # Nodes never change, so reading a path in pieces gives a consistent result.
        pieces: list[list[Node]] = []
        left = count
        while tip is not None and (left is None or left > 0):
            step = _BATCH if left is None else min(left, _BATCH)
            piece = await self._database.read(lambda c, tip=tip, step=step: node_tree.lineage(c, tip, step))
            if not piece:
                break
            pieces.append(piece)
            left = None if left is None else left - len(piece)
            tip = piece[0].parent
        return [node for piece in reversed(pieces) for node in piece]

    async def all_nodes(self, session: str) -> AsyncIterator[Node]:
        """Yield all nodes of a session, from all branches, in the order of writing."""
        after = 0
        while nodes := await self._database.read(
            lambda c, after=after: node_tree.batch(c, session, after, _BATCH)
        ):
            for node in nodes:
                yield node
            after = nodes[-1].id

    async def outline(self, session: str) -> list[OutlineRow]:
        """Return all nodes as rows with only their first line, in the order of writing; calls made by scripts
        are left out.
        """
        found: list[OutlineRow] = []
        after = 0
        while rows := await self._database.read(lambda c, after=after: outlines.outline(c, session, after)):
            found += rows
            after = rows[-1].id
        return outlines.without_inner(found)

    async def marks(self, session: str) -> list[NodeMark]:
        """Return labels and bookmarks of a session, sorted by node."""
        return await self._database.read(lambda c: marking.marks(c, session))

    async def mark(
        self, session: str, node: int, *, label: str | None = None, bookmarked: bool | None = None
    ) -> NodeMark:
        """Set a label (empty removes it) or a bookmark on a node; None leaves that part unchanged."""
        return await self._database.write(
            lambda c: marking.mark(c, session, node, label=label, bookmarked=bookmarked)
        )

    # Undo

    async def operations(self, session: str, limit: int = 200) -> list[Operation]:
        """Return the last `limit` operations of a session, oldest first, including undone ones."""
        return await self._database.read(lambda c: acts.operations(c, session, limit))

    async def record_operation(
        self, session: str, kind: str, label: str, before: SessionPlace, after: SessionPlace
    ) -> Operation:
        """Store an operation; earlier operations that are undone can no longer be redone."""
        return await self._database.write(lambda c: acts.record(c, session, kind, label, before, after))

    async def extend_operation(
        self, session: str, number: int, label: str, after: SessionPlace
    ) -> Operation | None:
        """Extend operation `number` to `after` under a new label, and return it; None if it is not the newest
        one still in effect. Undone operations can no longer be redone.
        """
        return await self._database.write(lambda c: acts.extend(c, session, number, label, after))

    async def undoable(self, session: str) -> Operation | None:
        """Return the newest operation that is not undone, which an undo reverts; None without one."""
        return await self._database.read(lambda c: acts.undoable(c, session))

    async def redoable(self, session: str) -> Operation | None:
        """Return the last undone operation, which a redo would repeat; None if there is none."""
        return await self._database.read(lambda c: acts.redoable(c, session))

    async def set_undone(self, session: str, number: int, undone: bool) -> None:
        """Record whether an operation is undone."""
        await self._database.write(lambda c: acts.set_undone(c, session, number, undone))

    # Calls, drafts, recovery

    async def start_call(self, session: str, node: int, call: str, name: str) -> None:
        """Record that a call of an assistant node begins to run. Raises `StoreError` for another call."""
        await self._database.write(lambda c: recovery.start(c, session, node, call, name))

    async def finish_call(
        self,
        session: str,
        call: str,
        content: str,
        data: Mapping[str, Any],
        *,
        head: str = MAIN,
        expected: Expected = ANY,
    ) -> Node:
        """Append the result and close the call, in one transaction.

        `data["outcome"]` is the way it ended, by default `done`; the keys `call` and `tool` are filled in.
        The call must belong to the last assistant message and have no result yet.
        """
        return await self._database.write(
            lambda c: recovery.finish(c, session, call, content, data, head, expected)
        )

    async def save_draft(self, session: str, head: str, text: str, reasoning: str = "") -> None:
        """Save the part of a message streamed so far. Each save syncs the disk: once a second is enough."""
        await self._database.write(lambda c: recovery.save_draft(c, session, head, text, reasoning))

    async def unfinished_branches(self, session: str) -> tuple[Unfinished, ...]:
        """Return the branches of a session that have open calls or a draft, which a killed process left."""
        return await self._database.read(lambda c: recovery.unfinished_branches(c, session))

    async def recover(
        self, session: str, head: str = MAIN, known: Mapping[str, str] | None = None
    ) -> Recovery:
        """Store a result for each open call of a branch and turn its draft into a message. The caller must
        hold the session's lock.

        `known` maps ids of calls to further details, which become a note in the result.
        """
        return await self._database.write(lambda c: recovery.recover(c, session, head, known))

    async def import_sessions(
        self, sessions: Sequence[SessionRecord], *, copied: bool = False
    ) -> list[ImportedSession]:
        """Import complete sessions from a file. With `copied` they get new ids.

        Raises `StoreError` if the id of one of them exists already; nothing is imported then.
        """
        if not copied and (known := await self._database.read(lambda c: importing.known_names(c, sessions))):
            more = f" and {len(known) - 1} others are" if len(known) > 1 else " is"
            raise StoreError(
                f"Session {known[0]}{more} here already; delete them first, or give --copy to import them "
                "under new ids."
            )
        return [
            await self._database.write(
                lambda c, each=each: importing.insert(c, each, copied=copied, secrets=self.secrets)
            )
            for each in sessions
        ]

    # Search

    @property
    def lineages(self) -> Lineages:
        """The cache of branch paths from earlier searches."""
        return self._lineages

    async def search(
        self,
        text: str,
        *,
        filters: Filters | None = None,
        limit: int = 20,
        offset: int = 0,
        order: Order = "rank",
        patience: float = PATIENCE,
    ) -> SearchHits:
        """Search the messages of user, model and tools.

        Any text is a valid query; the last word may be unfinished. `patience` limits, in seconds, the time
        spent on older messages.
        """
        return await finding.search(
            self._database,
            text,
            filters or Filters(),
            limit=limit,
            offset=offset,
            order=order,
            patience=patience,
            secrets=self.secrets,
            lineages=self._lineages,
        )

    async def around(self, node: int, window: int) -> list[Node]:
        """Return a node with up to `window` messages before and after it; empty if it does not exist."""
        return await self._database.read(lambda c: finding.around(c, node, window))

    async def branch_with(self, session: str, node: int) -> str:
        """Return the branch that contains a message; if there are several, the most recently used one.

        If no branch contains it, because its branch was dropped, the new branch `found-<node>` is created.
        """
        name = await self._database.read(lambda c: branches.head_with(c, session, node))
        if name is not None:
            return name
        await self.node(session, node)
        leaf = await self._database.read(lambda c: branches.leaf_below(c, node))
        return (await self.fork(session, leaf, f"found-{node}")).name
