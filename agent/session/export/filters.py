"""Filters of an export: which sessions are worth learning from. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from agent.core.store.export import is_complete
from agent.core.store.nodes import Node, Session, calls_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportFilter:
    """What a session has to be; what is left empty admits all. Times are seconds since the epoch."""

    project: str = ""
    """A part of the name of its folder, in capitals or not."""
    model: str = ""
    """A model that answered, by the name it was asked under."""
    tools: tuple[str, ...] = ()
    """Tools of which at least one was called."""
    since: float | None = None
    until: float | None = None
    """When it began."""
    completed: bool = False
    """Only those that end with a whole answer."""
    least_calls: int = 0
    sessions: frozenset[str] | None = None
    """Only these, by id."""

    def admits(self, session: Session) -> bool:
        """Whether a session may pass, by what is known without its nodes."""
        return (
            (self.sessions is None or session.id in self.sessions)
            and self.project.casefold() in PurePath(session.workspace).name.casefold()
            and (self.since is None or session.created >= self.since)
            and (self.until is None or session.created <= self.until)
        )

    def admits_path(self, session: Session, nodes: Sequence[Node]) -> bool:
        """Whether a branch of a session passes: somebody was answered, and the rest holds."""
        answers = [node for node in nodes if node.kind == "assistant"]
        called = [name for node in answers for name, _ in calls_of(node.data)]
        return (
            bool(answers)
            and (
                not self.model
                or any((node.data.get("model") or session.model) == self.model for node in answers)
            )
            and (not self.tools or not set(self.tools).isdisjoint(called))
            and len(called) >= self.least_calls
            and (not self.completed or is_complete(nodes))
        )
