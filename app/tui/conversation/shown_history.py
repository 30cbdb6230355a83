"""Showing stored messages: those of a session that opens, of a branch, or one old call."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.api.session import SessionClient
    from agent.core.store.nodes import Node
    from app.tui.app_context import AppContext
    from widgets.transcript.parts import Item


class ShownHistory:
    """Loads stored messages into the conversation of the main agent."""

    def __init__(self, app: AppContext) -> None:
        self._app = app

    def preview(self, path: Sequence[Node]) -> None:
        """Show the stored conversation of a session that is being opened, from its end."""
        self._app.session.transcript.load(earlier=_history_items(path))

    def show_branch(self, client: SessionClient) -> None:
        """Replace the visible conversation with the branch in use."""
        self.preview(client.path[:])

    async def show_past(self, client: SessionClient) -> None:
        """Show the conversation of a newly opened session, and its subagents."""
        from agent.core.home import Home

        transcript = self._app.session.transcript
        transcript.document.archive.file.folder = Home.locate().root
        self._app.bridge.show_head(client.branch)
        path = client.path[:]
        transcript.welcome(True)
        transcript.prepend_stored(_history_items(path) if len(path) > 1 else ())
        await self._app.agents.recall(client)

    async def call_in_full(self, call: str) -> str:
        """Return a call with its full result, read from the store; empty if it is unknown."""
        from app.tui.conversation.replay import call_in_full
        from tools.registry import registry

        if (client := self._app.host.client) is None:
            return ""
        return await asyncio.to_thread(call_in_full, client.path[:], call, registry)


def _history_items(path: Sequence[Node]) -> Iterable[Item]:
    from app.tui.conversation.replay import newest_first
    from tools.registry import registry

    return newest_first(path, registry)
