"""Requests of an editor: sessions, messages, modes and options, over one connection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from acp import PROTOCOL_VERSION, RequestError, schema

from agent.api.opening import open_session
from agent.core.config.known_secrets import secrets_of_home
from agent.core.home import Home
from agent.core.store.connection import NoSession
from agent.errors import ConfigError, HermesError
from agent.events import TurnEnded
from agent.model.model_choices import ModelChoice
from agent.model.providers import NoModelError
from agent.session.options import Options
from app.editor import choices, event_updates
from app.editor.commands import command_of
from app.editor.editor_session import EditorSession
from app.editor.editor_side import EditorOffer
from app.editor.lookups import (
    Onlooker,
    folder_of,
    holder_of,
    kept_images,
    known_models,
    known_skills,
    need_model,
    server_entries,
)
from app.editor.replay import replay_updates
from app.editor.served import service_of
from app.tui.commands.registry import refuse_elsewhere
from app.version import version
from tools.text.safe_text import clean

log = logging.getLogger(__name__)

Servers = tuple[tuple[str, dict[str, Any]], ...]
"""MCP servers of an editor, by name, as settings describe them."""
SET_UP = "hermes-setup"
LISTED = 50
"""Sessions of one page."""
_AUTH_REQUIRED = -32000
_INVALID_PARAMS = -32602
_INTERNAL = -32603
_NOT_FOUND = -32002
_STOPS: Mapping[str, str] = {
    "done": "end_turn",
    "interrupted": "cancelled",
    "denied": "end_turn",
    "budget": "max_turn_requests",
}
"""How a turn that ended is told, by its outcome. After a refusal editors forget what was said;
a no of the person does not justify that."""


class EditorAgent:
    """The agent in terms of the protocol. Each method answers one kind of request, and raises
    `RequestError`.
    """

    def __init__(self, model: str | None) -> None:
        self._model = model
        self.connection: Any = None
        """The way to the editor."""
        self._sessions: dict[str, EditorSession] = {}
        self._fresh: set[str] = set()
        """Sessions whose editor does not yet know them."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._models: Sequence[ModelChoice] | None = None
        self._onlookers: dict[str, Onlooker] = {}
        """Sessions that another program works on."""
        self.offer = EditorOffer()

    @property
    def has_forms(self) -> bool:
        """True if the editor shows forms."""
        return self.offer.forms

    def on_connect(self, conn: Any) -> None:
        """Store the connection to the editor."""
        self.connection = conn

    async def close(self) -> None:
        """Close every session. Never raises."""
        for task in self._tasks:
            task.cancel()
        sessions, self._sessions = list(self._sessions.values()), {}
        for onlooker in self._onlookers.values():
            onlooker.close()
        await asyncio.gather(*(each.close() for each in sessions))

    # Connection

    async def initialize(
        self, protocol_version: int, client_capabilities: Any = None, client_info: Any = None, **_: Any
    ) -> schema.InitializeResponse:
        """Store the editor's capabilities and return those of Hermes."""
        self.offer = EditorOffer(client_capabilities)
        return schema.InitializeResponse(
            protocol_version=min(protocol_version, PROTOCOL_VERSION) or PROTOCOL_VERSION,
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                mcp_capabilities=schema.McpCapabilities(http=True, sse=True),
                prompt_capabilities=schema.PromptCapabilities(image=True, audio=False, embedded_context=True),
                session_capabilities=schema.SessionCapabilities(
                    list=schema.SessionListCapabilities(),
                    delete=schema.SessionDeleteCapabilities(),
                    fork=schema.SessionForkCapabilities(),
                    resume=schema.SessionResumeCapabilities(),
                    close=schema.SessionCloseCapabilities(),
                ),
            ),
            auth_methods=[
                schema.AuthMethodAgent(
                    id=SET_UP,
                    name="Set up a model",
                    description="Run `hermes` in a terminal and choose a model, then try again.",
                )
            ],
            agent_info=schema.Implementation(name="hermes", title="Hermes", version=version()),
        )

    async def authenticate(self, method_id: str, **_: Any) -> schema.AuthenticateResponse:
        """Check that a model is configured now."""
        if method_id != SET_UP:
            raise RequestError(
                _INVALID_PARAMS, f"There is no way {clean(method_id)!r} to sign in; use {SET_UP}."
            )
        await self._with_request_errors(asyncio.to_thread(need_model, self._model))
        return schema.AuthenticateResponse()

    # Sessions

    async def new_session(
        self, cwd: str, mcp_servers: Sequence[Any] | None = None, **_: Any
    ) -> schema.NewSessionResponse:
        """Open a new session in a folder."""
        session = await self._with_request_errors(self._open(cwd, servers=server_entries(mcp_servers)))
        self._fresh.add(session.id)
        return schema.NewSessionResponse(
            session_id=session.id,
            modes=choices.modes(session.client.mode),
            config_options=await self._options(session),
        )

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: Sequence[Any] | None = None, **_: Any
    ) -> schema.LoadSessionResponse:
        """Load a stored session and send its conversation. A session that another program uses is only
        watched.
        """
        if await self._with_request_errors(self._look_on(cwd, session_id, show=True)):
            return schema.LoadSessionResponse()
        session = await self._with_request_errors(self._reopen(cwd, session_id, server_entries(mcp_servers)))
        await self._with_request_errors(self._replay(session))
        self._announce(session)
        return schema.LoadSessionResponse(
            modes=choices.modes(session.client.mode), config_options=await self._options(session)
        )

    async def resume_session(
        self, cwd: str, session_id: str, mcp_servers: Sequence[Any] | None = None, **_: Any
    ) -> schema.ResumeSessionResponse:
        """Open a stored session without sending its history, which the editor already shows."""
        if await self._with_request_errors(self._look_on(cwd, session_id, show=False)):
            return schema.ResumeSessionResponse()
        session = await self._with_request_errors(self._reopen(cwd, session_id, server_entries(mcp_servers)))
        self._announce(session)
        return schema.ResumeSessionResponse(
            modes=choices.modes(session.client.mode), config_options=await self._options(session)
        )

    async def fork_session(
        self, session_id: str, cwd: str, mcp_servers: Sequence[Any] | None = None, **_: Any
    ) -> schema.ForkSessionResponse:
        """Open an independent copy of a session."""
        session = await self._with_request_errors(self._fork(cwd, session_id, server_entries(mcp_servers)))
        self._fresh.add(session.id)
        return schema.ForkSessionResponse(
            session_id=session.id,
            modes=choices.modes(session.client.mode),
            config_options=await self._options(session),
        )

    async def close_session(self, session_id: str, **_: Any) -> schema.CloseSessionResponse:
        """Close a session that the editor names."""
        if (onlooker := self._onlookers.pop(session_id, None)) is not None:
            onlooker.close()
            return schema.CloseSessionResponse()
        session = self._need(session_id)
        del self._sessions[session_id]
        await session.close()
        return schema.CloseSessionResponse()

    async def ext_method(self, method: str, params: Any) -> Any:
        """Handle a method that the protocol's package does not know: the permanent deletion of a session."""
        if method != "session/delete":
            raise RequestError.method_not_found(method)
        session = params.get("sessionId") if isinstance(params, dict) else None
        if not isinstance(session, str):
            raise RequestError(_INVALID_PARAMS, "`sessionId` is missing; name the session to delete.")
        if session in self._sessions or session in self._onlookers:
            await self.close_session(session)
        await self._with_request_errors(self._delete_stored(session))
        return {}

    async def _delete_stored(self, session: str) -> None:
        from agent.core.store.store import Store
        from agent.knowledge.recall.recall import Recall
        from agent.session.conversation.stored_sessions import delete_session

        home = Home.locate()
        if not home.keeps_sessions():
            return
        async with await Store.open(home.database, secrets=secrets_of_home()) as store:
            recall = Recall(store)
            try:
                await delete_session(store, home, session, recall)
            finally:
                await recall.close()

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> schema.ListSessionsResponse:
        """List stored sessions, most recently used first."""
        if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 10):
            raise RequestError(_INVALID_PARAMS, "The cursor is not one of ours; leave it out to begin again.")
        start = int(cursor or 0)
        found = await self._with_request_errors(self._list_stored(cwd, start))
        more = len(found) > LISTED
        return schema.ListSessionsResponse(
            sessions=found[:LISTED], next_cursor=str(start + LISTED) if more else None
        )

    async def _list_stored(self, cwd: str | None, start: int) -> list[schema.SessionInfo]:
        from agent.core.store.store import Store

        home = Home.locate()
        if not home.keeps_sessions():
            return []
        folder = None if cwd is None else str(folder_of(cwd))
        async with await Store.open(home.database, secrets=secrets_of_home()) as store:
            rows = await store.list_sessions(LISTED + 1, start, folder)
        return [
            schema.SessionInfo(
                session_id=each.id,
                cwd=each.workspace,
                title=clean(each.title) or None,
                updated_at=datetime.fromtimestamp(each.updated, UTC).isoformat(timespec="seconds"),
            )
            for each in rows
        ]

    async def _open(
        self, cwd: str, resume: str | None = None, servers: Servers = (), model: str | None = None
    ) -> EditorSession:
        session = EditorSession(self)
        session.servers = servers
        await self._connect(session, cwd, resume, model)
        self._sessions[session.id] = session
        return session

    async def _connect(self, session: EditorSession, cwd: str, resume: str | None, model: str | None) -> None:
        options = Options(
            workspace=await asyncio.to_thread(folder_of, cwd),
            model=model or self._model,
            resume=resume,
            surface="acp",
            attended=True,
            editor=session.side,
            servers=session.servers,
        )
        # A session of the service stays open there and is shared.
        served = await asyncio.to_thread(service_of, resume) if resume else None
        session.attach(await open_session(options, session.hear, service=served))

    async def _reopen(self, cwd: str, session_id: str, servers: Servers) -> EditorSession:
        if (known := self._sessions.get(session_id)) is not None:
            return known
        return await self._open(cwd, await self._require_stored(session_id), servers)

    async def _look_on(self, cwd: str, session_id: str, *, show: bool) -> bool:
        """Watch a session if another program works on it; return whether that is so. Raises `HermesError`."""
        if session_id in self._sessions:
            return False
        workspace = await asyncio.to_thread(folder_of, cwd)
        session = await self._require_stored(session_id)
        if not await asyncio.to_thread(holder_of, session) or await asyncio.to_thread(service_of, session):
            return False
        if (before := self._onlookers.pop(session, None)) is not None:
            before.close()
        onlooker = Onlooker(session, workspace, self.update)
        await onlooker.look(show=show)
        self._onlookers[session] = onlooker
        onlooker.follow()
        return True

    async def _take_over(self, session_id: str) -> None:
        """Continue a watched session once it is free. Raises `HermesError`."""
        onlooker = self._onlookers[session_id]
        if holder := await asyncio.to_thread(holder_of, session_id):
            raise ConfigError(
                f"The {holder} works on this session, so it is only shown here; close it there, or fork it."
            )
        onlooker.close()
        await onlooker.look(show=True)
        del self._onlookers[session_id]
        self._announce(await self._open(str(onlooker.workspace), session_id))

    async def _require_stored(self, session_id: str) -> str:
        """Return the id if a stored session has exactly this id; prefixes and titles do not count.

        Raises `HermesError` otherwise.
        """
        from agent.core.store.store import Store

        async with await Store.open(Home.locate().database) as store:
            return (await store.session(session_id)).id

    async def _fork(self, cwd: str, session_id: str, servers: Servers) -> EditorSession:
        from agent.core.store.export import copy_session
        from agent.core.store.store import Store

        async with await Store.open(Home.locate().database, secrets=secrets_of_home()) as store:
            copied = await copy_session(store, session_id)
        return await self._open(cwd, copied, servers)

    async def _replay(self, session: EditorSession) -> None:
        from tools.discovery import discover
        from tools.registry import registry

        path = await session.client.whole_path()
        await asyncio.to_thread(discover)
        for update in replay_updates(path, registry, session.client.workspace, session.ids):
            session.queue_update(update)
            # A long one must not wait in memory for an editor that reads slowly.
            await asyncio.sleep(0)
        await session.flush()

    # Messages

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> schema.PromptResponse:
        """Run the turn of a message from the editor; return how it ended."""
        if session_id in self._onlookers:
            await self._with_request_errors(self._take_over(session_id))
        session = self._need(session_id)
        return await self._with_request_errors(self._run_prompt(session, prompt))

    async def _run_prompt(self, session: EditorSession, blocks: Sequence[Any]) -> schema.PromptResponse:
        cancels = session.cancels
        message = event_updates.read(blocks)
        if not message.text.strip() and not message.images:
            raise ConfigError("The message is empty.")
        if not message.images and (found := command_of(message.text.strip())) is not None:
            command, words = found
            told = await command.act(session.client, words)
            if not command.asks:
                await session.say(told)
                return schema.PromptResponse(stop_reason="end_turn")
            message = replace(message, text=told)
        elif refused := refuse_elsewhere(message.text.strip(), "in an editor"):
            await session.say(refused)
            return schema.PromptResponse(stop_reason="end_turn")
        images = await asyncio.to_thread(kept_images, message.images) if message.images else ()
        ended = await session.prompt(message.text, images, cancels)
        if ended is None:
            return schema.PromptResponse(stop_reason="cancelled")
        return await self._answer(session, ended)

    async def _answer(self, session: EditorSession, ended: TurnEnded) -> schema.PromptResponse:
        if ended.outcome == "failed":
            # Also shown in the conversation: not every editor displays error messages.
            await session.say(f"\n\n{ended.error}")
            raise RequestError(_INTERNAL, clean(ended.error) or "The turn failed; the log has the details.")
        if ended.error and ended.outcome != "interrupted":
            await session.say(f"\n\n{ended.error}")
        return schema.PromptResponse.model_validate({"stopReason": _STOPS[ended.outcome]})

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Stop the running turn."""
        if (session := self._sessions.get(session_id)) is not None:
            session.cancel()

    # Modes and options

    async def set_session_mode(
        self, session_id: str, mode_id: str, **_: Any
    ) -> schema.SetSessionModeResponse:
        """Set the permission mode of a session."""
        await self._set_mode(self._need(session_id), mode_id)
        return schema.SetSessionModeResponse()

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> schema.SetSessionConfigOptionResponse:
        """Set one option of a session: mode, model or effort."""
        session = self._need(session_id)
        match config_id:
            case choices.MODE:
                await self._set_mode(session, str(value))
            case choices.MODEL:
                await self._with_request_errors(self._set_model(session, str(value)))
            case choices.EFFORT:
                await self._with_request_errors(session.client.set_effort(str(value)))
            case _:
                raise RequestError(_INVALID_PARAMS, f"There is no option {clean(config_id)!r}.")
        return schema.SetSessionConfigOptionResponse(config_options=await self._options(session))

    async def _set_mode(self, session: EditorSession, mode: str) -> None:
        from agent.core.messages import MODES

        if mode not in MODES:
            raise RequestError(
                _INVALID_PARAMS, f"There is no mode {clean(mode)!r}; there are {', '.join(MODES)}."
            )
        await self._with_request_errors(session.client.set_mode(mode))

    async def _set_model(self, session: EditorSession, model: str) -> None:
        """Reopen the session with another model, or with the previous one if that fails."""
        before = session.client
        if before.busy:
            raise ConfigError("A turn is running; stop it before another model continues.")
        where, id, old = str(before.workspace), before.id, before.model
        await before.aclose()
        try:
            await self._connect(session, where, id, model)
        except HermesError:
            await self._connect(session, where, id, old)
            raise

    async def _options(self, session: EditorSession) -> list[Any]:
        if self._models is None:
            self._models = await asyncio.to_thread(known_models, session.client.workspace)
        client = session.client
        return choices.options(client.mode, client.model, client.effort, self._models)

    def tell_mode(self, session: str) -> None:
        """Send the current mode, model and effort to the editor."""
        if (known := self._sessions.get(session)) is not None:
            self._spawn(self._tell_options(known))

    async def _tell_options(self, session: EditorSession) -> None:
        session.queue_update(
            schema.CurrentModeUpdate(
                session_update="current_mode_update", current_mode_id=session.client.mode
            )
        )
        session.queue_update(
            schema.ConfigOptionUpdate(
                session_update="config_option_update", config_options=await self._options(session)
            )
        )

    # Updates sent to the editor without a request

    def note_result(self, result: Any) -> None:
        """Send the first updates of a session that a sent result names, because the editor knows its id only
        now.
        """
        name = result.get("sessionId") if isinstance(result, dict) else None
        if name in self._fresh:
            self._fresh.discard(name)
            if (session := self._sessions.get(name)) is not None:
                self._announce(session)

    def _announce(self, session: EditorSession) -> None:
        self._spawn(self._tell_commands(session))

    async def _tell_commands(self, session: EditorSession) -> None:
        session.queue_update(
            choices.commands(await asyncio.to_thread(known_skills, session.client.workspace))
        )

    async def update(self, session: str, update: Any) -> None:
        """Send an update of a session."""
        await self.connection.session_update(session, update)

    async def permission(
        self, session: str, call: schema.ToolCallUpdate, options: list[schema.PermissionOption]
    ) -> str | None:
        """Ask for a permission; return the chosen option's id, None if cancelled."""
        answer = await self.connection.request_permission(session, call, options)
        return answer.outcome.option_id if answer.outcome.outcome == "selected" else None

    async def form(self, session: str, message: str, fields: schema.ElicitationSchema) -> Any:
        """Show a form in the editor and return the person's answer."""
        mode = schema.ElicitationFormSessionMode(session_id=session, requested_schema=fields)
        return await self.connection.create_elicitation(message, mode)

    # Helpers

    def _need(self, session_id: str) -> EditorSession:
        session = self._sessions.get(session_id)
        if session is None and session_id in self._onlookers:
            raise RequestError(
                _INVALID_PARAMS, "Another program works on this session; it is only shown here. Fork it."
            )
        if session is None:
            raise RequestError(
                _INVALID_PARAMS, f"There is no open session {clean(session_id)!r}; begin or load one first."
            )
        return session

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _with_request_errors(self, work: Any) -> Any:
        """Return the result of `work`; turn `HermesError`s into protocol errors of one sentence."""
        try:
            return await work
        except NoModelError as error:
            raise RequestError(_AUTH_REQUIRED, clean(str(error))) from error
        except ConfigError as error:
            raise RequestError(_INVALID_PARAMS, clean(str(error))) from error
        except HermesError as error:
            code = _NOT_FOUND if isinstance(error, NoSession) else _INTERNAL
            raise RequestError(code, clean(str(error))) from error
