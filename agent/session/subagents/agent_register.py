"""All agents there ever were in one session, and who sent whom."""

from __future__ import annotations

from agent.session.subagents.live_agent import LiveAgent
from tools.results import ToolError
from tools.text.safe_text import clean


class AgentRegister:
    """The agents of a session, in the order in which they were sent."""

    def __init__(self) -> None:
        self._runs: dict[str, LiveAgent] = {}

    def __contains__(self, id: str) -> bool:
        return id in self._runs

    def add(self, run: LiveAgent) -> None:
        self._runs[run.id] = run

    def all(self) -> tuple[LiveAgent, ...]:
        return tuple(self._runs.values())

    def get(self, id: str) -> LiveAgent | None:
        return self._runs.get(id)

    def named(self, id: str) -> LiveAgent:
        """Raises `ToolError` for an agent nobody sent."""
        run = self._runs.get(id.strip())
        if run is None:
            known = ", ".join(self._runs) or "none yet"
            raise ToolError(f"There is no agent {clean(id)!r}. Agents of this session: {known}.")
        return run

    def sent_by(self, id: str) -> list[LiveAgent]:
        """The agents that `id` sent itself."""
        return [run for run in self._runs.values() if run.parent == id]

    def below(self, id: str) -> list[LiveAgent]:
        """The agents that `id` sent, and those they sent."""
        return [each for run in self.sent_by(id) for each in (run, *self.below(run.id))]

    def last_number(self) -> int:
        """The highest number that one of them has in its id; 0 when there is none."""
        return max((int(id.rpartition("-")[2]) for id in self._runs), default=0)
