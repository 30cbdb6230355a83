"""The offer to write a way down as a skill, after a long task that succeeded. Only the person sees it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agent.events import Event, Noticed, ToolFinished, TurnEnded, TurnStarted

LONG = 10
"""Calls that were done in one turn from which a task counts as long."""
SKILL_TOOLS = frozenset({"skill_view", "skill_manage"})
"""Tools that show that the way is written down already."""


@dataclass(slots=True)
class SaveOffer:
    """Listens to the events of a session, and offers once."""

    emit: Callable[[Event], None]
    calls: int = 0
    known: bool = False
    """Whether a skill was used in this turn."""
    offered: bool = False

    def __call__(self, event: Event) -> None:
        if event.agent != "main":
            return
        if isinstance(event, TurnStarted):
            self.calls, self.known = 0, False
        elif isinstance(event, ToolFinished) and not event.parent:
            self.calls += event.outcome == "done"
            self.known = self.known or event.tool in SKILL_TOOLS
        elif isinstance(event, TurnEnded) and event.outcome == "done" and self._is_worth_it():
            self.offered = True
            text = f"That took {self.calls} steps. /save-skill drafts a skill of it, for the next time."
            self.emit(Noticed(kind="info", text=text))

    def _is_worth_it(self) -> bool:
        return self.calls >= LONG and not self.known and not self.offered
