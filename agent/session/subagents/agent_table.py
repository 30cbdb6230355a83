"""Agents in the store: the task, outcomes and usage of each.

An agent's session begins with a node that holds its task and the call that started it; each end of its work
is one more node. A session without an end was interrupted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, cast

from agent.core.event_data import Usage
from agent.core.store.nodes import Node, Session, calls_of, storable
from agent.core.store.store import Store
from agent.model.catalog import UNKNOWN, ModelInfo
from agent.model.usage import COUNTS, request_cost
from agent.session.spending.budget import Charge
from agent.session.spending.metering import PER_MESSAGE, USUAL_OUTPUT, RequestTally
from agent.session.subagents.records import AgentReport, CopiedFile, Outcome, Task

BEGUN, ENDED, RESUMED, COPY = "subagent", "subagent_end", "subagent_resumed", "subagent_copy"
CUT_OFF = "Hermes ended while it worked."


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAgent:
    """An agent as recorded in the store."""

    record: Session
    id: str
    task: Task
    parent: str
    """The id of the agent that started it."""
    call: str
    depth: int
    tally: RequestTally
    report: AgentReport | None
    """The report on its last end; None if its work was cut off."""
    calls: int = 0
    """The number of tool calls that it has made; those of its scripts are not counted."""
    unheard: tuple[str, ...] = ()
    """Messages to it that it has not read."""
    let_go_on: int = 0
    """The id of the node at which the user last resumed it; 0 if that never happened."""
    ended: int = 0
    """The id of the node at its last end; 0 if there is none."""


async def begin(store: Store, record: Session, known: StoredAgent) -> None:
    """Record an agent's task as the first node of its session."""
    data = {
        "kind": BEGUN,
        "to_model": False,
        "agent": known.id,
        "parent": known.parent,
        "call": known.call,
        "depth": known.depth,
        "task": known.task.to_json(),
    }
    await store.append(record.id, "notice", f"Agent {known.id}: {known.task.goal}", data)


async def record_resume(store: Store, session: str, *, by_person: bool) -> None:
    """Record that an ended agent continues, and whether the user resumed it."""
    data = {"kind": RESUMED, "to_model": False, "by_person": by_person}
    await store.append(session, "notice", "The agent continues.", data)


async def record_copy(store: Store, session: str, how: str, place: str, left: int | None = None) -> None:
    """Record that an agent's copy was made, or how it was resolved.

    `left` is the number of unmerged paths in it; None if unknown.
    """
    data = {"kind": COPY, "to_model": False, "how": how, "left": left}
    await store.append(session, "notice", f"The copy in {place}: {how}.", data)


async def copy_of(store: Store, session: str) -> str:
    """Return the last recorded state of an agent's copy; empty if it never had a copy."""
    path = await store.path(session)
    last = next((node for node in reversed(path) if node.data.get("kind") == COPY), None)
    return "" if last is None else str(last.data.get("how", ""))


async def unmerged_count(store: Store, session: str) -> int | None:
    """Return the last recorded number of unmerged paths in an agent's copy; None if unknown."""
    for node in reversed(await store.path(session)):
        data = node.data
        if data.get("kind") == COPY:
            left = data.get("left")
            return left if isinstance(left, int) else None
        if data.get("kind") == ENDED:
            return len(data.get("copied") or ()) or None
    return None


async def end(store: Store, report: AgentReport) -> None:
    """Record the outcome of an agent's work and its total usage."""
    data = {
        "kind": ENDED,
        "to_model": False,
        "outcome": report.outcome,
        "findings": list(report.findings),
        "files": list(report.files),
        "open_points": list(report.open_points),
        "copied": [[each.path, each.added, each.removed] for each in report.copied],
        "usage": asdict(report.usage),
        "seconds": round(report.seconds, 3),
        "error": report.error,
    }
    await store.append(report.session, "notice", report.summary, data)


async def cut_off(store: Store, known: StoredAgent) -> AgentReport:
    """Repair the session of an interrupted agent, and record the interruption as its end; return a report."""
    await store.recover(known.record.id)
    path = await store.path(known.record.id)
    said = (node.content for node in reversed(path) if node.kind == "assistant" and node.content.strip())
    report = AgentReport(
        id=known.id,
        outcome="interrupted",
        summary=next(said, ""),
        usage=known.tally,
        session=known.record.id,
        error=CUT_OFF,
    )
    await end(store, report)
    return report


async def read(store: Store, record: Session, infos: Mapping[str, ModelInfo]) -> StoredAgent | None:
    """Return the stored agent of a session; None if the session does not belong to an agent."""
    path = await store.path(record.id)
    begun = next((node for node in path if node.data.get("kind") == BEGUN), None)
    if begun is None:
        return None
    id, task = str(begun.data["agent"]), Task.from_json(begun.data["task"])
    last = next((node for node in reversed(path) if node.data.get("kind") in (BEGUN, ENDED, RESUMED)), begun)
    ended = next((node for node in reversed(path) if node.data.get("kind") == ENDED), None)
    tally = RequestTally() if ended is None else _tally(ended.data.get("usage"))
    if task.foreign:
        tally.leave_unknown()
    report = None
    if last is ended and ended is not None:
        report = _report(id, record.id, ended, tally)
    elif not task.foreign:
        _add_cut_off(tally, path[path.index(last) + 1 :], path, infos)
    return StoredAgent(
        record=record,
        id=id,
        task=task,
        parent=str(begun.data.get("parent", "main")),
        call=str(begun.data.get("call", "")),
        depth=int(begun.data.get("depth", 1)),
        tally=tally,
        report=report,
        calls=sum(1 for node in path if node.kind == "assistant" for _ in calls_of(node.data)),
        unheard=tuple(unheard(path)),
        let_go_on=max((node.id for node in path if node.data.get("by_person")), default=0),
        ended=0 if ended is None else ended.id,
    )


def charge_of_tally(tally: RequestTally) -> Charge:
    """Return the usage of an agent as a charge for its account; nothing for another program's agent."""
    if not tally.is_own:  # no budget reaches into another program
        return Charge(0, 0, 0.0)
    return Charge(tally.requests, tally.tokens, tally.cost)


def _tally(data: object) -> RequestTally:
    known = {each.name for each in fields(RequestTally)}
    values = cast("Mapping[str, Any]", data) if isinstance(data, Mapping) else {}
    return RequestTally(**{name: value for name, value in values.items() if name in known})


def _report(id: str, session: str, node: Node, tally: RequestTally) -> AgentReport:
    data = node.data
    return AgentReport(
        id=id,
        outcome=cast("Outcome", data.get("outcome", "failed")),
        summary=node.content,
        findings=tuple(data.get("findings", ())),
        files=tuple(data.get("files", ())),
        open_points=tuple(data.get("open_points", ())),
        copied=tuple(CopiedFile(*each) for each in data.get("copied", ())),
        usage=tally,
        seconds=float(data.get("seconds", 0.0)),
        session=session,
        error=str(data.get("error", "")),
    )


def _add_cut_off(
    tally: RequestTally, since: Sequence[Node], path: Sequence[Node], infos: Mapping[str, ModelInfo]
) -> None:
    """Add the usage of an interrupted agent since its last start: counted requests, and the running one."""
    for node in since:
        if node.kind == "assistant" and isinstance(counts := node.data.get("usage"), Mapping):
            usage = Usage(**{name: counts.get(name) for name in COUNTS})
            cost = request_cost(usage, infos.get(str(node.data.get("model", "")), UNKNOWN))
            tally.count(usage, Charge(1, 0, cost))
    last = next((node for node in reversed(since) if node.kind in ("user", "assistant", "tool")), None)
    if last is not None and (last.kind != "assistant" or last.data.get("state") == "interrupted"):
        # An answer without a count may have been running: its maximum counts.
        size = sum(len(node.content.encode("utf-8", "replace")) + PER_MESSAGE for node in path)
        tally.assume(Charge(1, size + USUAL_OUTPUT, None if tally.cost is None else 0.0))


TOLD = "subagent_told"


def note_data(text: str) -> dict[str, Any]:
    """Return the data of a node that stores a message to an agent. Pure."""
    return {"kind": TOLD, "to_model": False, "text": text}


def unheard(path: Sequence[Node]) -> list[str]:
    """Return the messages to an agent that it has not read, in order. Pure."""
    waiting: list[str] = []
    for node in path:
        if node.data.get("kind") == TOLD:
            waiting.append(storable(str(node.data.get("text", ""))))
        elif node.kind == "user" and node.content in waiting:
            waiting.remove(node.content)
    return waiting
