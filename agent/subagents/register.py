"""All agents there ever were in one session, and who sent whom."""

from __future__ import annotations

from agent.subagents.run import Run
from tools.results import ToolError
from tools.text import clean


class Register:
    """The agents of a session, in the order in which they were sent."""

    def __init__(self) -> None:
        self._runs: dict[str, Run] = {}

    def __contains__(self, id: str) -> bool:
        return id in self._runs

    def add(self, run: Run) -> None:
        self._runs[run.id] = run

    def all(self) -> tuple[Run, ...]:
        return tuple(self._runs.values())

    def get(self, id: str) -> Run | None:
        return self._runs.get(id)

    def named(self, id: str) -> Run:
        """Raises `ToolError` for an agent nobody sent."""
        run = self._runs.get(id.strip())
        if run is None:
            known = ", ".join(self._runs) or "none yet"
            raise ToolError(f"There is no agent {clean(id)!r}. Agents of this session: {known}.")
        return run

    def sent_by(self, id: str) -> list[Run]:
        """The agents that `id` sent itself."""
        return [run for run in self._runs.values() if run.parent == id]

    def below(self, id: str) -> list[Run]:
        """The agents that `id` sent, and those they sent."""
        return [each for run in self.sent_by(id) for each in (run, *self.below(run.id))]

    def last_number(self) -> int:
        """The highest number that one of them has in its id; 0 when there is none."""
        return max((int(id.rpartition("-")[2]) for id in self._runs), default=0)
