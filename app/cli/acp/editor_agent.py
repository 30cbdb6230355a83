"""Requests of an editor: sessions, messages, modes and options, over one connection."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from acp import PROTOCOL_VERSION, RequestError, schema

from agent.api.home import Home, private_folder, secrets_of_home
from agent.api.models import ModelChoice, NoModelError
from agent.api.opening import open_session
from agent.api.options import Options
from agent.errors import ConfigError, HermesError
from agent.events import TurnEnded
from app.cli.acp import choices, contents
from app.cli.acp.commands import command_of
from app.cli.acp.editor_session import EditorSession
from app.cli.acp.replay import replayed
from app.version import version
from tools.safe_text import clean

log = logging.getLogger(__name__)

SET_UP = "hermes-setup"
LISTED = 50
"""Sessions of one page."""
_AUTH_REQUIRED = -32000
_INVALID_PARAMS = -32602
_INTERNAL = -32603
_STOPS: Mapping[str, str] = {
    "done": "end_turn",
    "interrupted": "cancelled",
    "denied": "end_turn",
    "budget": "max_turn_requests",
}
"""How a turn that ended is told, by its outcome. After a refusal editors forget what was said, which
a no of the person is no reason for."""


class EditorAgent:
    """The agent of the protocol. Each method answers one request, and raises `RequestError`."""

    def __init__(self, model: str | None) -> None:
        self._model = model
        self._connection: Any = None
        self._sessions: dict[str, EditorSession] = {}
        self._fresh: set[str] = set()
        """Sessions whose editor does not yet know them."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._models: Sequence[ModelChoice] | None = None
        self.has_forms = False

    def on_connect(self, conn: Any) -> None:
        """The connection to the editor."""
        self._connection = conn

    async def close(self) -> None:
        """Close every session. Never raises."""
        for task in self._tasks:
            task.cancel()
        sessions, self._sessions = list(self._sessions.values()), {}
        await asyncio.gather(*(each.close() for each in sessions))

    # Who is there

    async def initialize(
        self, protocol_version: int, client_capabilities: Any = None, client_info: Any = None, **_: Any
    ) -> schema.InitializeResponse:
        """What both sides can do."""
        elicits = getattr(client_capabilities, "elicitation", None)
        self.has_forms = getattr(elicits, "form", None) is not None
        return schema.InitializeResponse(
            protocol_version=min(protocol_version, PROTOCOL_VERSION) or PROTOCOL_VERSION,
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                prompt_capabilities=schema.PromptCapabilities(image=True, audio=False, embedded_context=True),
                session_capabilities=schema.SessionCapabilities(
                    list=schema.SessionListCapabilities(),
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
        """Look whether there is a model by now."""
        if method_id != SET_UP:
            raise RequestError(
                _INVALID_PARAMS, f"There is no way {clean(method_id)!r} to sign in; use {SET_UP}."
            )
        await self._guarded(self._look_for_model())
        return schema.AuthenticateResponse()

    async def _look_for_model(self) -> None:
        from agent.api.config import load
        from agent.api.models import resolve

        def look() -> None:
            loaded = load(Home.locate(), dict(os.environ), Path.cwd())
            resolve(loaded.settings, loaded.environ, self._model)

        await asyncio.to_thread(look)

    # Sessions

    async def new_session(self, cwd: str, **_: Any) -> schema.NewSessionResponse:
        """A new session in a folder."""
        session = await self._guarded(self._open(cwd))
        self._fresh.add(session.id)
        return schema.NewSessionResponse(
            session_id=session.id,
            modes=choices.modes(session.client.mode),
            config_options=await self._options(session),
        )

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> schema.LoadSessionResponse:
        """A stored session, shown from its beginning."""
        session = await self._guarded(self._reopened(cwd, session_id))
        await self._guarded(self._replay(session))
        self._announce(session)
        return schema.LoadSessionResponse(
            modes=choices.modes(session.client.mode), config_options=await self._options(session)
        )

    async def resume_session(self, cwd: str, session_id: str, **_: Any) -> schema.ResumeSessionResponse:
        """A stored session that the editor shows by itself."""
        session = await self._guarded(self._reopened(cwd, session_id))
        self._announce(session)
        return schema.ResumeSessionResponse(
            modes=choices.modes(session.client.mode), config_options=await self._options(session)
        )

    async def fork_session(self, session_id: str, cwd: str, **_: Any) -> schema.ForkSessionResponse:
        """A copy of a session, which goes on by itself."""
        session = await self._guarded(self._forked(cwd, session_id))
        self._fresh.add(session.id)
        return schema.ForkSessionResponse(
            session_id=session.id,
            modes=choices.modes(session.client.mode),
            config_options=await self._options(session),
        )

    async def close_session(self, session_id: str, **_: Any) -> schema.CloseSessionResponse:
        """A session that the editor is done with."""
        session = self._need(session_id)
        del self._sessions[session_id]
        await session.close()
        return schema.CloseSessionResponse()

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> schema.ListSessionsResponse:
        """Stored sessions, those used last first."""
        if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 10):
            raise RequestError(_INVALID_PARAMS, "The cursor is none of ours; leave it out to begin anew.")
        start = int(cursor or 0)
        found = await self._guarded(self._listed(cwd, start))
        more = len(found) > LISTED
        return schema.ListSessionsResponse(
            sessions=found[:LISTED], next_cursor=str(start + LISTED) if more else None
        )

    async def _listed(self, cwd: str | None, start: int) -> list[schema.SessionInfo]:
        from agent.api.sessions import Store

        home = Home.locate()
        if not home.keeps_sessions():
            return []
        folder = None if cwd is None else str(_folder(cwd))
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

    async def _open(self, cwd: str, resume: str | None = None, model: str | None = None) -> EditorSession:
        session = EditorSession(self)
        await self._connect(session, cwd, resume, model)
        self._sessions[session.id] = session
        return session

    async def _connect(self, session: EditorSession, cwd: str, resume: str | None, model: str | None) -> None:
        options = Options(
            workspace=await asyncio.to_thread(_folder, cwd),
            model=model or self._model,
            resume=resume,
            surface="acp",
            attended=True,
        )
        session.opened(await open_session(options, session.hear))

    async def _reopened(self, cwd: str, session_id: str) -> EditorSession:
        if (known := self._sessions.get(session_id)) is not None:
            return known
        return await self._open(cwd, await self._stored(session_id))

    async def _stored(self, session_id: str) -> str:
        """The id, if there is such a session: its beginning or title is not enough. Raises `HermesError`."""
        from agent.api.sessions import Store

        async with await Store.open(Home.locate().database) as store:
            return (await store.session(session_id)).id

    async def _forked(self, cwd: str, session_id: str) -> EditorSession:
        from agent.api.sessions import Store, copy_session

        async with await Store.open(Home.locate().database, secrets=secrets_of_home()) as store:
            copied = await copy_session(store, session_id)
        return await self._open(cwd, copied)

    async def _replay(self, session: EditorSession) -> None:
        from tools.discovery import discover
        from tools.registry import registry

        path = await session.client.whole_path()
        await asyncio.to_thread(discover)
        for update in replayed(path, registry, session.client.workspace):
            session.put(update)
            # A long one must not wait in memory for an editor that reads slowly.
            await asyncio.sleep(0)
        await session.flush()

    # Messages

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> schema.PromptResponse:
        """Work on a message to its end."""
        session = self._need(session_id)
        return await self._guarded(self._prompted(session, prompt))

    async def _prompted(self, session: EditorSession, blocks: Sequence[Any]) -> schema.PromptResponse:
        message = contents.read(blocks)
        if not message.text.strip() and not message.images:
            raise ConfigError("The message is empty.")
        if not message.images and (found := command_of(message.text.strip())) is not None:
            command, words = found
            await session.say(await command.act(session.client, words))
            return schema.PromptResponse(stop_reason="end_turn")
        images = await asyncio.to_thread(_kept, message.images) if message.images else ()
        return await self._answer(session, await session.prompt(message.text, images))

    async def _answer(self, session: EditorSession, ended: TurnEnded) -> schema.PromptResponse:
        if ended.outcome == "failed":
            # Said in the conversation as well: not every editor shows what an error says.
            await session.say(f"\n\n{ended.error}")
            raise RequestError(_INTERNAL, clean(ended.error) or "The turn failed; the log has the details.")
        if ended.error and ended.outcome != "interrupted":
            await session.say(f"\n\n{ended.error}")
        return schema.PromptResponse.model_validate({"stopReason": _STOPS[ended.outcome]})

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Stop the turn that runs."""
        if (session := self._sessions.get(session_id)) is not None:
            session.client.interrupt()

    # Modes and options

    async def set_session_mode(
        self, session_id: str, mode_id: str, **_: Any
    ) -> schema.SetSessionModeResponse:
        """Choose the mode of the gate."""
        await self._set_mode(self._need(session_id), mode_id)
        return schema.SetSessionModeResponse()

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> schema.SetSessionConfigOptionResponse:
        """Choose mode, model or effort."""
        session = self._need(session_id)
        match config_id:
            case choices.MODE:
                await self._set_mode(session, str(value))
            case choices.MODEL:
                await self._guarded(self._set_model(session, str(value)))
            case choices.EFFORT:
                await self._guarded(session.client.set_effort(str(value)))
            case _:
                raise RequestError(_INVALID_PARAMS, f"There is no option {clean(config_id)!r}.")
        return schema.SetSessionConfigOptionResponse(config_options=await self._options(session))

    async def _set_mode(self, session: EditorSession, mode: str) -> None:
        from agent.api.permissions import MODES

        if mode not in MODES:
            raise RequestError(
                _INVALID_PARAMS, f"There is no mode {clean(mode)!r}; there are {', '.join(MODES)}."
            )
        await self._guarded(session.client.set_mode(mode))

    async def _set_model(self, session: EditorSession, model: str) -> None:
        """Go on with another model: the session is opened again with it, or as it was if that fails."""
        before = session.client
        if before.busy:
            raise ConfigError("A turn is running; stop it before another model goes on.")
        where, id, old = str(before.workspace), before.id, before.model
        await before.aclose()
        try:
            await self._connect(session, where, id, model)
        except HermesError:
            await self._connect(session, where, id, old)
            raise

    async def _options(self, session: EditorSession) -> list[Any]:
        if self._models is None:
            self._models = await asyncio.to_thread(_models, session.client.workspace)
        client = session.client
        return choices.options(client.mode, client.model, client.effort, self._models)

    def moded(self, session: str) -> None:
        """Tell the editor which mode, model and effort are in force."""
        if (known := self._sessions.get(session)) is not None:
            self._spawn(self._tell_options(known))

    async def _tell_options(self, session: EditorSession) -> None:
        session.put(
            schema.CurrentModeUpdate(
                session_update="current_mode_update", current_mode_id=session.client.mode
            )
        )
        session.put(
            schema.ConfigOptionUpdate(
                session_update="config_option_update", config_options=await self._options(session)
            )
        )

    # What the editor is told by itself

    def answered(self, result: Any) -> None:
        """A result was sent: a session that it names is known to the editor from now on."""
        name = result.get("sessionId") if isinstance(result, dict) else None
        if name in self._fresh:
            self._fresh.discard(name)
            if (session := self._sessions.get(name)) is not None:
                self._announce(session)

    def _announce(self, session: EditorSession) -> None:
        self._spawn(self._tell_commands(session))

    async def _tell_commands(self, session: EditorSession) -> None:
        session.put(choices.commands(await asyncio.to_thread(_skills, session.client.workspace)))

    async def update(self, session: str, update: Any) -> None:
        """Send an update of a session."""
        await self._connection.session_update(session, update)

    async def permission(
        self, session: str, call: schema.ToolCallUpdate, options: list[schema.PermissionOption]
    ) -> str | None:
        """Ask for a permission; the id that was chosen, None if it was cancelled."""
        answer = await self._connection.request_permission(session, call, options)
        return answer.outcome.option_id if answer.outcome.outcome == "selected" else None

    async def form(self, session: str, message: str, fields: schema.ElicitationSchema) -> Any:
        """Ask with a form."""
        mode = schema.ElicitationFormSessionMode(session_id=session, requested_schema=fields)
        return await self._connection.create_elicitation(message, mode)

    # Helpers

    def _need(self, session_id: str) -> EditorSession:
        session = self._sessions.get(session_id)
        if session is None:
            raise RequestError(
                _INVALID_PARAMS, f"There is no open session {clean(session_id)!r}; begin or load one first."
            )
        return session

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, work: Any) -> Any:
        """What `work` gives. What a person can mend is an error in one sentence."""
        try:
            return await work
        except NoModelError as error:
            raise RequestError(_AUTH_REQUIRED, clean(str(error))) from error
        except ConfigError as error:
            raise RequestError(_INVALID_PARAMS, clean(str(error))) from error
        except HermesError as error:
            raise RequestError(_INTERNAL, clean(str(error))) from error


def _folder(cwd: str) -> Path:
    """The folder an editor names. Raises `ConfigError` for what is none."""
    path = Path(cwd)
    try:
        if path.is_absolute() and path.is_dir():
            return path.resolve()
    except (OSError, ValueError):
        pass
    raise ConfigError(f"The folder {clean(cwd)!r} cannot be worked in; give the absolute path of one.")


def _kept(images: Sequence[tuple[str, bytes]]) -> Any:
    from agent.api.attachments import AttachmentStore

    home = Home.locate()
    private_folder(home.root)
    return contents.kept(AttachmentStore(home.attachments), images)


def _models(workspace: Path) -> Sequence[ModelChoice]:
    from agent.api.config import load
    from agent.api.models import choices as model_choices

    home = Home.locate()
    loaded = load(home, dict(os.environ), workspace)
    return model_choices(loaded.settings, loaded.environ, home)


def _skills(workspace: Path) -> list[tuple[str, str]]:
    from agent.api.config import load
    from agent.api.skills import catalog_for

    home = Home.locate()
    catalog = catalog_for(home, workspace, load(home, dict(os.environ), workspace).settings)
    found = catalog.load().skills if catalog is not None else ()
    return sorted((each.name, each.description) for each in found)
