"""Facts that an editor needs about this machine: folders, models, skills, MCP servers. Reads files."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from acp import schema

from agent.core.config.known_secrets import secrets_of_home
from agent.core.home import Home, private_folder
from agent.core.store.locks import SessionLock
from agent.core.store.store import Store
from agent.errors import ConfigError, HermesError
from agent.model.model_choices import ModelChoice
from app.editor import event_updates
from app.editor.replay import replay_updates
from tools.text.safe_text import clean


def folder_of(cwd: str) -> Path:
    """Return the folder that an editor names. Raises `ConfigError` if it is not a folder."""
    path = Path(cwd)
    try:
        if path.is_absolute() and path.is_dir():
            return path.resolve()
    except (OSError, ValueError):
        pass
    raise ConfigError(f"The folder {clean(cwd)!r} cannot be worked in; give the absolute path of one.")


def kept_images(images: Sequence[tuple[str, bytes]]) -> Any:
    """Store the images of a message in the home and return their attachments. Raises `AttachmentError`."""
    from agent.core.attachments import AttachmentStore

    home = Home.locate()
    private_folder(home.root)
    return event_updates.store_images(AttachmentStore(home.attachments), images)


def known_models(workspace: Path) -> Sequence[ModelChoice]:
    """Return the models available in a workspace."""
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
    """Check that a model is configured. Raises `NoModelError`."""
    from agent.core.config.loader import load
    from agent.model.providers import resolve

    loaded = load(Home.locate(), dict(os.environ), Path.cwd())
    resolve(loaded.settings, loaded.environ, model)


def server_entries(servers: Sequence[Any] | None) -> tuple[tuple[str, dict[str, Any]], ...]:
    """Return an editor's MCP servers as pairs of name and entry, in the form of the settings. Pure."""
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
"""Seconds between two looks."""


def holder_of(session: str) -> str:
    """Return words on the program that has a session open; empty if none has. Raises `HermesError`."""
    lock = SessionLock(Home.locate().run, session)
    if lock.acquire():
        lock.release()
        return ""
    process = lock.holder()
    return f"process {process}" if process else "another program"


class Onlooker:
    """Shows a stored session and everything that is added to it."""

    def __init__(self, session: str, workspace: Path, send: Callable[[str, Any], Awaitable[None]]) -> None:
        self.id = session
        self.workspace = workspace
        self._send = send
        self._shown: set[int] = set()
        self._ids = event_updates.EditorCallIds()
        self._task: asyncio.Task[None] | None = None

    async def look(self, *, show: bool) -> None:
        """Show the stored messages, unless `show` is False because the editor has them. Raises
        `HermesError`.
        """
        async with await Store.open(Home.locate().database, secrets=secrets_of_home()) as store:
            await self._news(store, show=show)

    def follow(self) -> None:
        """Show new messages from now on."""
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
                    await self._news(store, show=True)
        except (HermesError, ConnectionError):
            log.warning("a session is not followed any more", exc_info=True)

    async def _news(self, store: Store, *, show: bool) -> None:
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
