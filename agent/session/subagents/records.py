"""Records about an agent: its task and its report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, Protocol

from agent.core.store.nodes import Session
from agent.events import TurnOutcome
from agent.model.protocol import Thinking
from agent.session.spending.budget import Budget
from agent.session.spending.metering import RequestTally
from tools.kit.lazy_pattern import lazy_pattern
from tools.text.safe_text import clean
from tools.text.words import without_marks

Isolation = Literal["shared", "readonly", "copy"]
Outcome = Literal["completed", "failed", "killed", "budget", "interrupted"]
"""`completed` only if everything was done that it was asked to do, by itself and the agents it started."""

SPILL = 24_000
"""The maximum number of characters of a result; a longer one is saved in a file, and a preview is shown."""

PREVIEW = 4_000
"""The number of characters of the preview."""

NAMED = 50
"""The maximum number of paths of a copy that a report lists; the others are counted."""

TURN_OUTCOMES: Mapping[Outcome, TurnOutcome] = {
    "completed": "done",
    "failed": "failed",
    "killed": "interrupted",
    "budget": "budget",
    "interrupted": "interrupted",
}

REPORTING = """\
End with a report, which is all that the agent that sent you gets to see:
Outcome: completed, or failed if any part of the goal is not reached
then a summary in a few sentences, then, as far as there is something to say, lists under the headings
Findings:
Files:
Open points:"""


class AgentWorker(Protocol):
    """An agent, as far as its workspace uses it."""

    @property
    def id(self) -> str: ...

    @property
    def record(self) -> Session: ...

    @property
    def ground_of(self) -> str: ...

    @property
    def is_over(self) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task for one agent."""

    goal: str
    context: str = ""
    """The information it needs; it sees nothing else of the conversation."""
    toolsets: tuple[str, ...] = ()
    """Toolsets or tools that it may use, among those of the agent that starts it; empty for all of them."""
    name: str = ""
    """A word or two to distinguish it from its siblings."""
    prompt: str = ""
    """The instructions of its definition."""
    isolation: Isolation = "shared"
    budget: Budget = field(default_factory=Budget)
    background: bool = False
    model: str = ""
    """The model that it uses, as settings name it; empty for the session's model."""
    effort: Thinking | None = None
    """The agent's thinking effort; None means the session's."""
    foreign: str = ""
    """The name of the program that runs it, as in the settings; empty for Hermes itself."""
    only_answers: bool = False
    """True if it answers a question without tools; its text is the result, unchanged."""

    def message(self) -> str:
        """Return the text of the first message in the agent's conversation."""
        if self.only_answers:
            return "\n\n".join(part for part in (self.prompt.strip(), self.goal.strip()) if part)
        parts = [self.prompt.strip(), f"Your task: {self.goal.strip()}"]
        if self.context.strip():
            parts.append(f"What you have to know:\n{self.context.strip()}")
        parts.append("You work for another agent, on your own. " + REPORTING)
        return "\n\n".join(part for part in parts if part)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Task:
        """Return the task from the output of `to_json`. Unknown fields are ignored."""
        known = {each.name for each in fields(cls)}
        values = {name: value for name, value in data.items() if name in known}
        limits = {each.name for each in fields(Budget)}
        budget = {name: value for name, value in dict(values.get("budget") or {}).items() if name in limits}
        return cls(**{**values, "toolsets": tuple(values.get("toolsets") or ()), "budget": Budget(**budget)})


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """A path that an agent changed in its copy, with the numbers of its added and removed lines."""

    path: str
    added: int = 0
    removed: int = 0

    def label(self) -> str:
        """Return the path with its line counts: `src/app.py +3 -1`."""
        return f"{self.path} +{self.added} -{self.removed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReport:
    """The result of a task."""

    id: str
    outcome: Outcome
    summary: str
    """A summary in the agent's own words; its text so far, if it was stopped."""
    findings: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    """Files that it changed or named, relative to the workspace if inside."""
    open_points: tuple[str, ...] = ()
    copied: tuple[CopiedFile, ...] = ()
    """The agent's unmerged changes in its copy."""
    usage: RequestTally = field(default_factory=RequestTally)
    seconds: float = 0.0
    session: str = ""
    error: str = ""
    """The reason why the task is not completed, for the user."""

    @property
    def headline(self) -> str:
        """The beginning of the summary as plain text; without a summary, the reason of the failure."""
        return without_marks(clean(self.summary or self.error))[:300]

    def to_json(self) -> dict[str, Any]:
        """Return the report as data for the model of the agent that started this one."""
        told = {
            "id": self.id,
            "outcome": self.outcome,
            "reason": self.error,
            "summary": self.summary,
            "findings": list(self.findings),
            "files": list(self.files),
            "open_points": list(self.open_points),
            "changed_in_copy": [each.label() for each in self.copied[:NAMED]],
            "paths_in_copy": len(self.copied),
        }
        shown = {name: value for name, value in told.items() if value}
        return {
            **shown,
            "usage": self.usage.figures(),
            "seconds": round(self.seconds, 1),
            "session": self.session,
        }


@dataclass(frozen=True, slots=True)
class ReportAnswer:
    """The parts of a report, as an agent wrote it."""

    summary: str
    failed: bool = False
    findings: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    open_points: tuple[str, ...] = ()


_OUTCOME = lazy_pattern(r"[\s*_#>-]*outcome[\s*_]*:[\s*_]*(\w+)", re.IGNORECASE)
_HEADING = lazy_pattern(r"[\s*_#]*(findings|files|open[ _-]points)[\s*_]*:?[\s*_]*$", re.IGNORECASE)
_OTHER_HEADING = lazy_pattern(r"\s*#{1,6}\s")
_ITEM = lazy_pattern(r"\s*(?:[-*+•]|\d+[.)])\s+(.*)")
_NOTHING = frozenset({"none", "none.", "-", "n/a", "nothing", "nothing."})


def read_answer(text: str) -> ReportAnswer:
    """Return the parts of a report. A report in any other form becomes the summary."""
    found: dict[str, list[str]] = {"findings": [], "files": [], "open": []}
    summary: list[str] = []
    failed, begun = False, False
    items: list[str] | None = None
    for line in text.splitlines():
        if not begun and (said := _OUTCOME.match(line)) is not None:
            begun = True
            failed = said[1].lower() not in ("completed", "complete", "done", "success", "succeeded")
        elif (heading := _HEADING.match(line)) is not None:
            items = found[heading[1].lower().replace("_", " ").replace("-", " ").split()[0]]
        elif items is None or _OTHER_HEADING.match(line):
            items = None
            summary.append(line)
        elif (item := _ITEM.match(line)) is not None:
            items.append(item[1].strip())
        elif line.strip():
            items.append(line.strip())
    findings, files, open_points = (
        tuple(each for each in made if each.lower() not in _NOTHING) for made in found.values()
    )
    return ReportAnswer("\n".join(summary).strip(), failed, findings, files, open_points)


def names_outcome(text: str) -> bool:
    """Return whether a report contains a line with the outcome of the task."""
    return any(_OUTCOME.match(line) for line in text.splitlines())


def overall(outcomes: Iterable[Outcome]) -> Literal["completed", "failed", "partial"]:
    """Return the combined outcome of several tasks: `completed` if all are, `partial` if some are."""
    each = set(outcomes)
    if each <= {"completed"}:
        return "completed"
    return "partial" if "completed" in each else "failed"
