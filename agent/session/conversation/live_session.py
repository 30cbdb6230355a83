"""An open session: its path of nodes, and its store.

Every change is committed before it is shown, so what the user has seen is never lost. The messages for the
model are derived from the stored nodes alone.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from agent.core.attachments import records
from agent.core.messages import Attachment, ToolCall
from agent.core.store.connection import HeadMoved
from agent.core.store.nodes import Kind, Node, Session
from agent.core.store.received import RECEIVED
from agent.core.store.store import Store
from agent.core.store.stored_path import CANVAS, NEWEST, TASKS, StoredPath, with_ids
from agent.events import AssistantMessageAdded, Event, Noticed, UserMessageAdded
from agent.knowledge.context.compaction import CompactionPlan
from agent.knowledge.context.message_history import (
    MessageHistory,
    conversation,
    elided_up_to,
    masked_nodes,
    newest_fold,
    sent_from,
)
from tools.context import Folded, FoundMessage, Todo
from tools.results import ToolError
from tools.services.canvases import Canvas, canvases_of
from tools.text.safe_text import clean

Emit = Callable[[Event], None]


class LiveSession:
    """The conversation from the root to one head. At most one turn works on it at a time."""

    def __init__(
        self, store: Store, record: Session, path: Sequence[Node], emit: Emit, head: str = "main"
    ) -> None:
        self.store = store
        self.record = record
        self.head = head
        self._path = self._own(path)
        self._emit = emit
        self._messages: list[MessageHistory] | None = None
        """None until they are first needed or prepared."""
        self._fresh: list[Node] = []
        self._writing = asyncio.Lock()
        self.position: Callable[[], int | None] = lambda: None
        """The position of the files: the number of the last step. None if steps are not recorded."""

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def path(self) -> StoredPath:
        """All nodes from the root to the head. Old ones are read from the store on access."""
        return self._path

    async def whole_path(self) -> Sequence[Node]:
        """Return all nodes from the root to the head, in memory. Raises `StoreError`."""
        if self._path.is_in_memory:
            return tuple(self._path)
        return await asyncio.to_thread(tuple, self._path[:])

    def system(self) -> Node | None:
        """Return the node of the system prompt in force; None before there is one."""
        return next(reversed(self._path.labelled("system")), None)

    def messages(self) -> Sequence[MessageHistory]:
        """Return the conversation as messages for the model. Every tool call in it must have a result."""
        if self._messages is None:
            self.rebuild()
        elif self._fresh:
            self._messages.extend(conversation(self._fresh))
            self._fresh = []
        assert self._messages is not None
        return self._messages

    async def prepare(self, *, ahead: bool = False) -> None:
        """Derive the messages in a thread, before they are needed.

        With `ahead`, nothing is done if nodes would have to be read from the store for this: the messages may
        never be needed.
        """
        path = self._path
        if self._messages is not None or (ahead and len(path) - sent_from(path) > NEWEST):
            return
        opened = path[:]
        messages = await asyncio.to_thread(conversation, opened)
        fresh = path[len(opened) :] if opened else list(path)
        if self._messages is None and self._path is path and not any(map(_changes_earlier, fresh)):
            self._messages, self._fresh = messages, list(fresh)

    def move(self, head: str, path: Sequence[Node]) -> None:
        """Continue with another branch of the session.

        The caller must announce that the next request no longer begins with the prompt that the provider has
        cached.
        """
        self.head = head
        self._path = self._own(path)
        self._messages, self._fresh = None, []

    def _own(self, path: Sequence[Node]) -> StoredPath:
        own = path[:] if isinstance(path, StoredPath) else None
        return own if isinstance(own, StoredPath) else StoredPath(path, self.store.nodes_now)

    async def catch_up(self) -> None:
        """Read the nodes that other code appended to the branch. Call it only while no turn runs."""
        path = await self.store.path(self.id, self.head)
        tip = self._path[-1].id if self._path else None
        known = next((at for at in range(len(path), 0, -1) if path[at - 1].id == tip), 0)
        if self._path and not known:
            self.move(self.head, path)
            return
        for node in path[known:]:
            self._take(node)

    def rebuild(self) -> None:
        """Derive the messages from the path again, after a compaction."""
        self._fresh = []
        self._messages = conversation(self._path)

    async def add(self, kind: Kind, content: str, data: Mapping[str, Any]) -> Node:
        """Commit a node at the head, and return it. If another process has moved the head, branch off."""
        return await self._write(lambda: self._append(kind, content, data))

    async def add_user(
        self,
        text: str,
        origin: str = "prompt",
        attachments: Sequence[Attachment] = (),
        received: int = 0,
    ) -> Node:
        """Commit a user message, and return its node. A message of origin `engine` is for the model only and
        not shown.

        `received` is the database row of a message that a messenger delivered, or 0. The row is marked as
        processed in the same transaction.
        """

        data: dict[str, Any] = {"origin": origin}
        if (step := self.position()) is not None:
            data["step"] = step
        if attachments:
            data["attachments"] = records(attachments)
        if received:
            data[RECEIVED] = received

        async def write() -> Node:
            node = await self._append("user", text, data)
            if origin in ("prompt", "queue", "steer"):
                added = UserMessageAdded(
                    node=node.id,
                    text=clean(text),
                    origin=origin,  # type: ignore[arg-type]
                    attachments=tuple(attachments),
                )
                self._emit(added)
            return node

        return await self._write(write)

    async def add_assistant(
        self,
        text: str,
        reasoning: str,
        calls: Sequence[ToolCall],
        data: Mapping[str, Any] | None = None,
        *,
        starts: Sequence[ToolCall] = (),
    ) -> Node:
        """Commit a message from the model with its calls, before any call runs; return its node.

        `starts` are the calls that begin to run as soon as it is stored: the same commit records that, as
        `start_call` does for the others.
        """
        content = {
            "calls": [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in calls],
            "reasoning": reasoning,
            "state": "complete",
            **(data or {}),
        }

        async def write() -> Node:
            node = await self._append("assistant", text, content, starts)
            ids = tuple(call.id for call in calls)
            shown = AssistantMessageAdded(
                node=node.id, text=clean(text), reasoning=clean(reasoning), calls=ids
            )
            self._emit(shown)
            return node

        return await self._write(write)

    async def add_compaction(self, plan: CompactionPlan) -> None:
        """Commit a compaction, after which the messages are derived again."""
        node = await self.add("compaction", plan.sentence(), plan.data)
        await self.prepare()
        self._emit(Noticed(kind="compaction", text=plan.sentence(), detail=clean(plan.detail), node=node.id))

    async def start_call(self, node: Node, call: ToolCall) -> None:
        """Record that a call begins to act, so that after a crash it is distinguished from a call that never
        ran.
        """
        await self.store.start_call(self.id, node.id, call.id, call.name)

    async def finish_call(self, call: ToolCall, result: str, data: Mapping[str, Any]) -> Node:
        """Commit a call's result, and return its node. If another process has moved the head, branch off."""
        content = {"call": call.id, "tool": call.name, **data}

        async def write() -> Node:
            tip = self._path[-1].id
            try:
                node = await self.store.finish_call(
                    self.id, call.id, result, content, head=self.head, expected=tip
                )
            except HeadMoved:
                await self.branch_off()
                node = await self.store.finish_call(
                    self.id, call.id, result, content, head=self.head, expected=tip
                )
            self._take(node)
            return node

        return await self._write(write)

    async def save_draft(self, text: str, reasoning: str) -> None:
        """Save what the model has written so far of a message that is still incomplete."""
        await self.store.save_draft(self.id, self.head, text, reasoning)

    def todos(self) -> tuple[Todo, ...]:
        """Return the task list in the newest readable result of a todo tool; empty if there is none."""
        for node in reversed(self._path.labelled(TASKS)):
            try:
                items = json.loads(node.content)["todos"]
                return tuple(Todo(item["id"], item["content"], item["status"]) for item in items)
            except (ValueError, KeyError, TypeError, RecursionError):
                continue
        return ()

    def canvases(self) -> tuple[Canvas, ...]:
        """Return the canvases as of the end of the path."""
        return canvases_of(node.content for node in self._path.labelled(CANVAS))

    def last_user_text(self) -> str:
        """Return the text of the user's last message; empty if there is none."""
        asked = (
            node
            for node in reversed(self._path)
            if node.kind == "user" and node.data.get("origin") != "engine"
        )
        return next((node.content for node in asked), "")

    async def _write(self, write: Callable[[], Coroutine[Any, Any, Node]]) -> Node:
        """Run one write at a time; return its node. It completes even if the caller is cancelled."""

        async def write_locked() -> Node:
            async with self._writing:
                return await write()

        return await asyncio.shield(asyncio.create_task(write_locked()))

    async def wait_for_write(self) -> None:
        """Wait for a write that a cancelled caller left running."""
        async with self._writing:
            return

    async def _append(
        self, kind: Kind, content: str, data: Mapping[str, Any], starts: Sequence[ToolCall] = ()
    ) -> Node:
        tip = self._path[-1].id if self._path else None

        async def append() -> Node:
            return await self.store.append(
                self.id, kind, content, data, head=self.head, expected=tip, starts=starts
            )

        try:
            node = await append()
        except HeadMoved:
            await self.branch_off()
            node = await append()
        self._take(node)
        return node

    async def branch_off(self) -> None:
        """Continue on a new branch, because another process works on the current one; a notice reports it."""
        tip = self._path[-1].id
        names = {head.name for head in await self.store.heads(self.id)}
        candidates = (f"{self.head}-{number}" for number in range(2, len(names) + 3))
        name = next(candidate for candidate in candidates if candidate not in names)
        await self.store.fork(self.id, tip, name)
        self.head = name
        words = f"This session was continued in another window; here it continues as branch {name}."
        self._emit(Noticed(kind="warning", text=words))

    def _take(self, node: Node) -> None:
        self._path.append(node)
        self._fresh.append(node)
        if _changes_earlier(node):
            self._messages, self._fresh = None, []


def _changes_earlier(node: Node) -> bool:
    """Return whether a node changes how earlier nodes are sent to the model."""
    return node.kind == "compaction" or bool(node.data.get("refused"))


_KINDS = ("user", "assistant", "tool", "notice")


class FoldedMessages(Folded):
    """Access to earlier messages for tools: `tools.context.Folded` for the branch in use."""

    def __init__(self, session: LiveSession) -> None:
        self._session = session

    async def message(self, id: int) -> FoundMessage:
        for node in with_ids(self._session.path, [id]):
            if node.kind in _KINDS:
                return _found_message(node)
        raise ToolError(
            f"No message of this conversation has the id {id}; recall_folded without one lists them."
        )

    async def search_messages(self, query: str, limit: int) -> tuple[int, Sequence[FoundMessage]]:
        path = await self._session.whole_path()
        start, masked = elided_up_to(path), masked_nodes(path)
        folded = newest_fold(path)
        shortened = folded[1].shortened if folded is not None else {}
        words = query.lower().split()
        found = [
            node
            for node in path
            if node.kind in _KINDS
            and (node.id < start or node.id in masked or node.id in shortened)
            and (node.content or node.data.get("calls"))
            and all(word in _text(node).lower() for word in words)
        ]
        return len(found), [_found_message(node) for node in found[-limit:]]


def _found_message(node: Node) -> FoundMessage:
    return FoundMessage(node.id, node.kind, node.created, _text(node))


def _text(node: Node) -> str:
    """Return the text of a message together with its calls."""
    calls = [f"[called {call['name']} with {call['arguments']}]" for call in node.data.get("calls", ())]
    return "\n".join([*([node.content] if node.content else []), *calls])
