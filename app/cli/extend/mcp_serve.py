"""`hermes mcp serve`: the sessions of this home as an MCP server on stdin and stdout.

Other agents list, search and read sessions, and send messages to one. Approvals are shown as forms to the
user of the client; a client without forms counts as a refusal.
"""

from __future__ import annotations

import asyncio
import dataclasses
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel, Field

from agent.api.opening import open_session
from agent.core.config.known_secrets import secrets_of_home
from agent.core.home import Home
from agent.core.store.export import mask_node
from agent.core.store.search import Filters
from agent.core.store.store import Store
from agent.errors import HermesError
from agent.events import ApprovalAsked, Asked, Decision, Event, QuestionAsked, Reply, ToolFinished
from agent.session.options import Options
from agent.session.wiring.recall import open_recall
from tools.context import PersonAnswer
from tools.text.safe_text import clean, reveal

if TYPE_CHECKING:
    from agent.api.session import SessionClient

MOST = 100
"""The largest number of rows in one answer."""
LONGEST = 20_000
"""The number of characters of a message that are returned."""
SEARCHES_FOR = 5.0
"""The time limit in seconds for a search."""


class ApprovalForm(BaseModel):
    """The form for an approval."""

    allow: bool = Field(default=False, title="Allow it once")


class AnswerForm(BaseModel):
    """The form for a question of the model."""

    answer: str = Field(default="", title="Answer")


class ServedSessions:
    """The server's tools, which work on the session store of one home. Their errors are sentences."""

    def __init__(self, home: Home, workspace: Path) -> None:
        self._home = home
        self._workspace = workspace

    def server(self) -> MCPServer:
        """Return the MCP server with all tools."""
        about = "Sessions of the agent Hermes on this machine: list, search, read them, and send messages."
        server = MCPServer("hermes", instructions=about)
        for tool in (self.list_sessions, self.search_sessions, self.read_session, self.prompt):
            server.tool()(tool)
        return server

    async def list_sessions(self, limit: int = 20, workspace: str = "") -> dict[str, Any]:
        """List sessions, the one used last first; of one folder if `workspace` is given."""
        async with await self._store() as store:
            found = await store.list_sessions(min(max(limit, 1), MOST), 0, workspace or None)
        rows = [
            {
                "session": each.id,
                "title": clean(each.title),
                "workspace": clean(each.workspace),
                "messages": each.length,
                "updated": each.updated,
            }
            for each in found
        ]
        return {"sessions": rows}

    async def search_sessions(self, query: str, limit: int = 10) -> dict[str, Any]:
        """Search all that was said in sessions, by words or a question; the best hits first."""
        if not query.strip():
            raise ToolError("The query is empty; give a word or two that were said.")
        async with await self._store() as store:
            recall = await open_recall(store, self._home, self._workspace)
            try:
                hits = await recall.search(
                    query, filters=Filters(), limit=min(max(limit, 1), MOST), patience=SEARCHES_FOR
                )
            finally:
                await recall.close()
        return {"total": hits.total, "hits": [dataclasses.asdict(each) for each in hits.hits]}

    async def read_session(self, session: str, last: int = 20) -> dict[str, Any]:
        """Read the last messages of a session, by its id or title, the oldest of them first."""
        async with await self._store() as store:
            try:
                found = await store.find_session(session)
            except HermesError as error:
                raise ToolError(str(error)) from None
            nodes = await store.tail(found.id, count=min(max(last, 1), MOST))
            shown = await asyncio.to_thread(lambda: [mask_node(node, store.secrets) for node in nodes])
        messages = [
            {"node": node.id, "kind": node.kind, "text": clean(node.content[:LONGEST])} for node in shown
        ]
        return {"session": found.id, "title": clean(found.title), "messages": messages}

    async def prompt(self, text: str, ctx: Context, session: str = "") -> dict[str, Any]:
        """Send a message to a session, or to a new one, and wait for the answer of its agent.

        It works in the folder in which this server was started. What it may not do by itself is asked.
        """
        if not text.strip():
            raise ToolError("The message is empty; give a text.")
        answering = _Answering(ctx)
        options = Options(workspace=self._workspace, resume=session or None, surface="mcp", attended=True)
        try:
            client = await open_session(options, answering.handle)
            answering.client = client
            try:
                ended = await client.run(text)
                return {
                    "session": client.id,
                    "outcome": ended.outcome,
                    "text": clean(ended.text),
                    "error": clean(ended.error),
                }
            finally:
                await answering.aclose()
                await client.aclose()
        except HermesError as error:
            raise ToolError(str(error)) from None

    async def _store(self) -> Store:
        secrets = await asyncio.to_thread(secrets_of_home)
        return await Store.open(self._home.database, secrets=secrets)


class _Answering:
    """Forwards the requests of a session to the user of the client."""

    def __init__(self, ctx: Context) -> None:
        self.client: SessionClient | None = None
        self._ctx = ctx
        self._tasks: set[asyncio.Task[None]] = set()
        self._count = 0

    def handle(self, event: Event) -> None:
        if isinstance(event, Asked):
            self._spawn(self._answer(event))
        elif isinstance(event, ToolFinished) and event.agent == "main":
            self._count += 1
            self._spawn(self._tell(self._count, f"{event.tool} {event.outcome}"))

    async def aclose(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _tell(self, count: int, text: str) -> None:
        with suppress(Exception):  # a client that does not listen does not disturb the turn
            await self._ctx.report_progress(count, None, text)

    async def _answer(self, request: Asked) -> None:
        try:
            reply = await self._ask_client(request)
        except Exception:  # whatever kept the question from the user, the answer is a no
            reply = request.unattended
        if self.client is not None:
            with suppress(HermesError):
                self.client.answer(request.id, reply)

    async def _ask_client(self, request: Asked) -> Reply:
        match request:
            case ApprovalAsked():
                reasons = "\n".join(filter(None, (request.sentence, *request.reasons, request.undo)))
                said = f"{request.tool} wants to:\n{reveal(request.headline)}\n{reveal(reasons)}"
                given = await self._ctx.elicit(said, ApprovalForm)
                allowed = given.action == "accept" and given.data.allow
                return Decision("once" if allowed else "deny")
            case QuestionAsked():
                choices = "".join(f"\n- {choice}" for choice in request.choices)
                told = await self._ctx.elicit(clean(request.question + choices), AnswerForm)
                words = told.data.answer.strip() if told.action == "accept" else ""
                is_free = request.allow_freetext or not request.choices or words in request.choices
                return PersonAnswer("answered", words) if words and is_free else PersonAnswer("declined")
        return request.unattended

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def run_serve(home: Home) -> int:
    """Serve until stdin is closed; return the exit code."""
    asyncio.run(ServedSessions(home, Path.cwd()).server().run_stdio_async())
    return 0
