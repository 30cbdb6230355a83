"""The requests of an editor: sessions, messages, modes and options, over one connection."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from acp import PROTOCOL_VERSION, RequestError, schema

from agent.api.opening import open_session
from agent.core.config.known_secrets import secrets_of_home
from agent.core.home import Home, private_folder
from agent.core.messages import MODES, SUMMARIES, Mode
from agent.core.store.connection import NoSession
from agent.core.store.locks import SessionLock
from agent.core.store.store import Store
from agent.errors import ConfigError, HermesError
from agent.events import TurnEnded
from agent.model.model_choices import ModelChoice
from agent.model.providers import NoModelError
from agent.session.options import Options
from app.editor import event_updates
from app.editor.commands import COMMANDS, command_of
from app.editor.editor_session import EditorSession
from app.editor.editor_side import EditorOffer
from app.editor.replay import replay_updates
from app.running_service import running_service
from app.tui.commands.registry import refuse_elsewhere
from app.version import version
from tools.text.safe_text import clean
from tools.text.words import one_line


def service_of(session: str) -> Path | None:
    """Return the path of the service's socket if the service has a session open; else None. Blocking."""
    home = Home.locate()
    running = running_service(home.root / "serve")
    if running is None or SessionLock(home.run, session).holder() != running.get("pid"):
        return None
    return home.service_socket


EFFORTS = ("default", "off", "low", "medium", "high")


def session_modes(current: Mode) -> schema.SessionModeState:
    """Return the permission modes, with `current` marked as the current one."""
    return schema.SessionModeState(
        current_mode_id=current,
        available_modes=[
            schema.SessionMode(id=mode, name=mode.capitalize(), description=_sentence(SUMMARIES[mode]))
            for mode in MODES
        ],
    )


def session_options(
    mode: Mode, model: str, effort: str, models: Sequence[ModelChoice]
) -> list[schema.SessionConfigOptionSelect]:
    """Return the options mode, model and effort, each with its current value."""
    usable = {each.label: each.name for each in reversed(models) if not each.problem}
    chosen = usable.pop(model, model)
    names = [(chosen, model), *((name, label) for label, name in sorted(usable.items()) if name != chosen)]
    return [
        _select("mode", "Mode", "mode", mode, [(each, each.capitalize()) for each in MODES]),
        _select("model", "Model", "model", chosen, names),
        _select(
            "effort",
            "Effort",
            "thought_level",
            effort or EFFORTS[0],
            [(each, each.capitalize()) for each in (*EFFORTS, *_other(effort))],
        ),
    ]


def _other(effort: str) -> tuple[str, ...]:
    """Return the effort as a further choice if it is not among the usual ones, such as a number of tokens."""
    return (effort,) if effort and effort not in EFFORTS else ()


def _select(
    id: str, name: str, category: str, current: str, values: Sequence[tuple[str, str]]
) -> schema.SessionConfigOptionSelect:
    return schema.SessionConfigOptionSelect.model_validate(
        {
            "type": "select",
            "id": id,
            "name": name,
            "category": category,
            "currentValue": current,
            "options": [{"value": value, "name": clean(label)} for value, label in values],
        }
    )


def available_commands(skills: Sequence[tuple[str, str]]) -> schema.AvailableCommandsUpdate:
    """Return the slash commands: those of Hermes, then the skills, given as pairs of name and description."""
    own = [_command(each.name, each.description, each.hint) for each in COMMANDS.values()]
    found = [_command(name, text, "what it is to work on") for name, text in skills if name not in COMMANDS]
    return schema.AvailableCommandsUpdate(
        session_update="available_commands_update", available_commands=[*own, *found]
    )


def _command(name: str, description: str, hint: str) -> schema.AvailableCommand:
    shown = one_line(description)[:300]
    given = schema.AvailableCommandInput(root=schema.UnstructuredCommandInput(hint=hint)) if hint else None
    return schema.AvailableCommand(name=name, description=shown, input=given)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def folder_of(cwd: str) -> Path:
    """Return the folder that an editor names. Raises `ConfigError` if it is not a folder."""
    path = Path(cwd)
    try:
        if path.is_absolute() and path.is_dir():
            return path.resolve()
    except (OSError, ValueError):
        pass
    raise ConfigError(f"The folder {clean(cwd)!r} cannot be worked in; give the absolute path of one.")


def store_images(images: Sequence[tuple[str, bytes]]) -> Any:
    """Store a message's images in the home and return them as attachments. Raises `AttachmentError`."""
    from agent.core.attachments import AttachmentStore

    home = Home.locate()
    private_folder(home.root)
    return event_updates.store_images(AttachmentStore(home.attachments), images)


def known_models(workspace: Path) -> Sequence[ModelChoice]:
    """Return the models available in a workspace, also unusable ones. Blocking."""
    from agent.core.config.loader import load
    from agent.model.model_choices import choices as model_choices

    home = Home.locate()
    loaded = load(home, dict(os.environ), workspace)
    return model_choices(loaded.settings, loaded.environ, home)


def known_skills(workspace: Path) -> list[tuple[str, str]]:
    """Return name and description of each skill in a workspace."""
    from agent.core.config.loader import load
    from agent.integrations.plugins.shelf import catalog_for

    home = Home.locate()
    catalog = catalog_for(home, workspace, load(home, dict(os.environ), workspace).settings)
    found = catalog.load().skills if catalog is not None else ()
    return sorted((each.name, each.description) for each in found)


def need_model(model: str | None) -> None:
    """Raise `NoModelError` if no model is configured. Blocking."""
    from agent.core.config.loader import load
    from agent.model.providers import resolve

    loaded = load(Home.locate(), dict(os.environ), Path.cwd())
    resolve(loaded.settings, loaded.environ, model)


def server_entries(servers: Sequence[Any] | None) -> tuple[tuple[str, dict[str, Any]], ...]:
    """Return an editor's MCP servers as pairs of name and settings; unknown kinds are skipped. Pure."""
    found: list[tuple[str, dict[str, Any]]] = []
    for each in servers or ():
        match each:
            case schema.McpServerStdio():
                env = {one.name: one.value for one in each.env}
                found.append((each.name, {"command": each.command, "args": list(each.args), "env": env}))
            case schema.HttpMcpServer() | schema.SseMcpServer():
                headers = {one.name: one.value for one in each.headers}
                found.append((each.name, {"url": each.url, "transport": each.type, "headers": headers}))
            case _:
                pass
    return tuple(found)


log = logging.getLogger(__name__)

EVERY = 0.5
"""Seconds between two reads of a watched session."""


def holder_of(session: str) -> str:
    """Return a description of the process that has a session open; "" if none has. Raises `HermesError`."""
    lock = SessionLock(Home.locate().run, session)
    if lock.acquire():
        lock.release()
        return ""
    process = lock.holder()
    return f"process {process}" if process else "another program"


class SessionWatcher:
    """Sends a stored session that another program works on to the editor, with everything added to it."""

    def __init__(self, session: str, workspace: Path, send: Callable[[str, Any], Awaitable[None]]) -> None:
        self.id = session
        self.workspace = workspace
        self._send = send
        self._shown: set[int] = set()
        self._ids = event_updates.EditorCallIds()
        self._task: asyncio.Task[None] | None = None

    async def send_news(self, *, show: bool) -> None:
        """Read the stored messages and send them, unless `show` is False, as the editor has them. Raises
        `HermesError`.
        """
        async with await Store.open(Home.locate().database, secrets=secrets_of_home()) as store:
            await self._send_news(store, show=show)

    def follow(self) -> None:
        """Start a task that sends new messages."""
        self._task = asyncio.create_task(self._follow())

    def close(self) -> None:
        """Stop watching."""
        if self._task is not None:
            self._task.cancel()

    async def _follow(self) -> None:
        try:
            async with await Store.open(Home.locate().database, secrets=secrets_of_home()) as store:
                while True:
                    await asyncio.sleep(EVERY)
                    await self._send_news(store, show=True)
        except (HermesError, ConnectionError):
            log.warning("a session is not followed any more", exc_info=True)

    async def _send_news(self, store: Store, *, show: bool) -> None:
        from tools.discovery import discover
        from tools.registry import registry

        head = (await store.heads(self.id))[0].name
        path = await store.path(self.id, head)
        new = [node for node in path if node.id not in self._shown]
        if not new:
            return
        self._shown.update(node.id for node in new)
        if show:
            await asyncio.to_thread(discover)
            # The calls of a message that was shown before are needed for their results.
            first = next(at for at, node in enumerate(path) if node.id == new[0].id)
            asked = [node for node in path[:first] if node.kind == "assistant"][-1:]
            known = len(list(replay_updates(asked, registry, self.workspace)))
            news = [*asked, *path[first:]]
            for update in list(replay_updates(news, registry, self.workspace, self._ids))[known:]:
                await self._send(self.id, update)


Servers = tuple[tuple[str, dict[str, Any]], ...]
"""MCP servers passed on by an editor: pairs of name and entry, as in the settings."""
SET_UP = "hermes-setup"
LISTED = 50
"""The number of sessions on one page of the list."""
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
"""The stop reason that reports the end of a turn, by its outcome. After the reason `refusal` editors discard
the turn, which a denied permission does not justify.
"""


class EditorAgent:
    """The agent in terms of the protocol. Each method answers one kind of request, and raises
    `RequestError`.
    """

    def __init__(self, model: str | None) -> None:
        self._model = model
        self.connection: Any = None
        """The connection to the editor; None before `on_connect`."""
        self._sessions: dict[str, EditorSession] = {}
        self._fresh: set[str] = set()
        """Ids of new sessions that were not yet sent to the editor."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._models: Sequence[ModelChoice] | None = None
        self._watchers: dict[str, SessionWatcher] = {}
        """Watchers of sessions that other programs work on, by session id."""
        self.offer = EditorOffer()

    @property
    def has_forms(self) -> bool:
        """True if the editor shows forms."""
        return self.offer.forms

    def on_connect(self, conn: Any) -> None:
        """Store the connection to the editor. Called by the protocol's package."""
        self.connection = conn

    async def close(self) -> None:
        """Close every session and stop watching others. Never raises."""
        for task in self._tasks:
            task.cancel()
        sessions, self._sessions = list(self._sessions.values()), {}
        for watcher in self._watchers.values():
            watcher.close()
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
        """Raise `RequestError` unless a model is configured by now."""
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
            modes=session_modes(session.client.mode),
            config_options=await self._options(session),
        )

    async def load_session(
        self, cwd: str, session_id: str, mcp_servers: Sequence[Any] | None = None, **_: Any
    ) -> schema.LoadSessionResponse:
        """Load a stored session and send its conversation. One in use by another program is only watched."""
        if await self._with_request_errors(self._watch_if_in_use(cwd, session_id, show=True)):
            return schema.LoadSessionResponse()
        session = await self._with_request_errors(self._reopen(cwd, session_id, server_entries(mcp_servers)))
        await self._with_request_errors(self._replay(session))
        self._announce(session)
        return schema.LoadSessionResponse(
            modes=session_modes(session.client.mode), config_options=await self._options(session)
        )

    async def resume_session(
        self, cwd: str, session_id: str, mcp_servers: Sequence[Any] | None = None, **_: Any
    ) -> schema.ResumeSessionResponse:
        """Open a stored session without sending its history, which the editor already shows."""
        if await self._with_request_errors(self._watch_if_in_use(cwd, session_id, show=False)):
            return schema.ResumeSessionResponse()
        session = await self._with_request_errors(self._reopen(cwd, session_id, server_entries(mcp_servers)))
        self._announce(session)
        return schema.ResumeSessionResponse(
            modes=session_modes(session.client.mode), config_options=await self._options(session)
        )

    async def fork_session(
        self, session_id: str, cwd: str, mcp_servers: Sequence[Any] | None = None, **_: Any
    ) -> schema.ForkSessionResponse:
        """Open an independent copy of a session."""
        session = await self._with_request_errors(self._fork(cwd, session_id, server_entries(mcp_servers)))
        self._fresh.add(session.id)
        return schema.ForkSessionResponse(
            session_id=session.id,
            modes=session_modes(session.client.mode),
            config_options=await self._options(session),
        )

    async def close_session(self, session_id: str, **_: Any) -> schema.CloseSessionResponse:
        """Close a session that the editor names."""
        if (watcher := self._watchers.pop(session_id, None)) is not None:
            watcher.close()
            return schema.CloseSessionResponse()
        session = self._need(session_id)
        del self._sessions[session_id]
        await session.close()
        return schema.CloseSessionResponse()

    async def ext_method(self, method: str, params: Any) -> Any:
        """Delete a session permanently: `session/delete`, which the protocol's package does not route yet."""
        if method != "session/delete":
            raise RequestError.method_not_found(method)
        session = params.get("sessionId") if isinstance(params, dict) else None
        if not isinstance(session, str):
            raise RequestError(_INVALID_PARAMS, "`sessionId` is missing; name the session to delete.")
        if session in self._sessions or session in self._watchers:
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
        """List stored sessions, most recently used first, in pages of `LISTED`."""
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
        session.attach(await open_session(options, session.handle, service=served))

    async def _reopen(self, cwd: str, session_id: str, servers: Servers) -> EditorSession:
        if (known := self._sessions.get(session_id)) is not None:
            return known
        return await self._open(cwd, await self._require_stored(session_id), servers)

    async def _watch_if_in_use(self, cwd: str, session_id: str, *, show: bool) -> bool:
        """Watch a session if another program works on it; return whether that is so. Raises `HermesError`."""
        if session_id in self._sessions:
            return False
        workspace = await asyncio.to_thread(folder_of, cwd)
        session = await self._require_stored(session_id)
        if not await asyncio.to_thread(holder_of, session) or await asyncio.to_thread(service_of, session):
            return False
        if (before := self._watchers.pop(session, None)) is not None:
            before.close()
        watcher = SessionWatcher(session, workspace, self.update)
        await watcher.send_news(show=show)
        self._watchers[session] = watcher
        watcher.follow()
        return True

    async def _take_over(self, session_id: str) -> None:
        """Open a watched session for work, once no other program works on it. Raises `HermesError`."""
        watcher = self._watchers[session_id]
        if holder := await asyncio.to_thread(holder_of, session_id):
            raise ConfigError(
                f"The {holder} works on this session, so it is only shown here; close it there, or fork it."
            )
        watcher.close()
        await watcher.send_news(show=True)
        del self._watchers[session_id]
        self._announce(await self._open(str(watcher.workspace), session_id))

    async def _require_stored(self, session_id: str) -> str:
        """Return the id if a session with exactly this id is stored; prefixes and titles do not count.

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
        """Run a turn with the editor's message; return how it ended."""
        if session_id in self._watchers:
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
        images = await asyncio.to_thread(store_images, message.images) if message.images else ()
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
            case "mode":
                await self._set_mode(session, str(value))
            case "model":
                await self._with_request_errors(self._set_model(session, str(value)))
            case "effort":
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
        """Reopen the session with another model, or if that fails with the old one. Raises `HermesError`."""
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
        return session_options(client.mode, client.model, client.effort, self._models)

    def send_mode(self, session: str) -> None:
        """Send the current mode, model and effort of a session to the editor."""
        if (known := self._sessions.get(session)) is not None:
            self._spawn(self._send_options(known))

    async def _send_options(self, session: EditorSession) -> None:
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
        """Send the first updates of a new session once its id was sent to the editor, which knows it only
        now.
        """
        name = result.get("sessionId") if isinstance(result, dict) else None
        if name in self._fresh:
            self._fresh.discard(name)
            if (session := self._sessions.get(name)) is not None:
                self._announce(session)

    def _announce(self, session: EditorSession) -> None:
        self._spawn(self._send_commands(session))

    async def _send_commands(self, session: EditorSession) -> None:
        session.queue_update(
            available_commands(await asyncio.to_thread(known_skills, session.client.workspace))
        )

    async def update(self, session: str, update: Any) -> None:
        """Send an update of a session to the editor."""
        await self.connection.session_update(session, update)

    async def permission(
        self, session: str, call: schema.ToolCallUpdate, options: list[schema.PermissionOption]
    ) -> str | None:
        """Ask the user for a permission in the editor; return the chosen option's id, None if cancelled."""
        answer = await self.connection.request_permission(session, call, options)
        return answer.outcome.option_id if answer.outcome.outcome == "selected" else None

    async def form(self, session: str, message: str, fields: schema.ElicitationSchema) -> Any:
        """Show a form in the editor and return the user's answer as the protocol has it."""
        mode = schema.ElicitationFormSessionMode(session_id=session, requested_schema=fields)
        return await self.connection.create_elicitation(message, mode)

    # Helpers

    def _need(self, session_id: str) -> EditorSession:
        session = self._sessions.get(session_id)
        if session is None and session_id in self._watchers:
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
        """Return the result of `work`; turn a `HermesError` into a `RequestError` with one sentence."""
        try:
            return await work
        except NoModelError as error:
            raise RequestError(_AUTH_REQUIRED, clean(str(error))) from error
        except ConfigError as error:
            raise RequestError(_INVALID_PARAMS, clean(str(error))) from error
        except HermesError as error:
            code = _NOT_FOUND if isinstance(error, NoSession) else _INTERNAL
            raise RequestError(code, clean(str(error))) from error
