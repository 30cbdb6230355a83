"""The user's actions on agents: show, message, pause and stop them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from agent.errors import HermesError
from agent.events import CopyChanged
from widgets.panes.agents import UNDER_WAY
from widgets.rows.row_text import one_line

if TYPE_CHECKING:
    from agent.api.session import SessionClient
    from agent.session.subagents.agents import AgentConversation, Agents
    from app.tui.app_context import AppContext


class AgentActions:
    """The user's actions on agents. Errors are shown as notices of one sentence."""

    def __init__(self, app: AppContext) -> None:
        self._app = app
        self.drafts: dict[str, str] = {}
        """The unsent text to each agent, by its id."""

    # Requests of the user

    async def kill(self, agent: str) -> None:
        """Stop an agent and its subagents permanently, after a confirmation. Must run as a worker."""
        from app.tui.screens.dialog import ConfirmDialog

        row = self._app.bridge.team.row(agent)
        if row is None or row.state == "stopping":
            return
        if row.state not in UNDER_WAY:
            self._app.show_notice(f"{one_line(row.name)} has ended already.")
            return
        below = sum(each.state in UNDER_WAY for each in self._app.bridge.team.below(agent))
        also = f" The {below} agents below it stop too." if below > 1 else ""
        also = " The agent below it stops too." if below == 1 else also
        name = self._app.bridge.team.display_name(agent)
        question = f"Stop {name} for good?{also} What it has done so far is kept."
        if await self._app.push_screen_wait(ConfirmDialog(question, "Stop it", "Let it work")):
            await self._run_guarded(lambda: self._kill(agent))

    async def pause(self, agent: str) -> None:
        """Pause an agent and its subagents, or let them continue; show an error as a notice."""

        await self._run_guarded(lambda: self._port().toggle_pause(agent))

    async def send_message(self, agent: str, text: str) -> bool:
        """Send a message that the agent reads before its next request; return whether that worked.

        An agent that has ended starts again.
        """
        return await self._run_guarded(lambda: self._port().tell(agent, text))

    def clear_ended(self) -> None:
        """Remove the rows of ended agents without unmerged changes. A row returns if its agent continues."""
        count = self._app.bridge.clear_ended_agents()
        stays = any(row.unmerged and row.state not in UNDER_WAY for row in self._app.bridge.team.rows())
        gone = f"{count} cleared away." if count else "No agent is over." if not stays else ""
        kept = "Agents with changes that are not merged stay; m merges or discards them." if stays else ""
        self._app.show_notice(" ".join(filter(None, (gone, kept))))

    async def waiting(self, agent: str) -> tuple[str, ...]:
        """Return the messages that an agent will read when it continues; empty if they cannot be read."""
        try:
            return tuple(await self._port().waiting(agent))
        except HermesError:
            return ()

    async def past(self, agent: str) -> AgentConversation:
        """Return an agent's conversation so far, whether the agent runs or not. Raises `HermesError`."""
        return await self._port().conversation(agent)

    async def recall(self, client: SessionClient) -> None:
        """Show the agents that earlier processes started; no start events arrive for them."""
        self.drafts.clear()
        told = await client.agents.recall()
        known = self._app.bridge.team
        there = {event.agent for event in told if known.row(event.agent) is not None}
        new = [event for event in told if isinstance(event, CopyChanged) or event.agent not in there]
        if new:
            self._app.bridge.recall(new)

    # Helpers

    def _port(self) -> Agents:
        return self._app.need_client().agents

    async def _kill(self, agent: str) -> None:
        agents = self._port()
        if not await agents.has_ended(agent):
            self._app.bridge.show_stopping(agent)
            await agents.kill(agent)

    async def _run_guarded(self, act: Callable[[], Awaitable[object]]) -> bool:
        try:
            await act()
        except HermesError as error:
            self._app.show_warning(str(error))
            return False
        return True
