"""The report of an agent, made from what it did and said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from agent.events import Event, ReasoningAdded, RequestStarted, StepTaken, TextAdded, ToolStarted, TurnEnded
from agent.session.subagents.live_agent import LiveAgent
from agent.session.subagents.records import AgentReport, CopiedFile, Outcome, ReportAnswer, read_answer

STOPPED = {
    "killed": "It was stopped before it was done.",
    "budget": "Its time was over before it was done.",
    "interrupted": "It was interrupted before it was done.",
}


def watched(run: LiveAgent, event: Event) -> bool:
    """Take in what an agent does; whether that is worth telling."""
    match event:
        case ToolStarted():
            run.calls += not event.parent
            run.action = f"{event.display.verb} {event.display.subject}".strip()
            return True
        case RequestStarted():
            run.action = "asks the model"
            return True
        case TextAdded() | ReasoningAdded():
            doing = "writes" if isinstance(event, TextAdded) else "thinks"
            changed = run.action != doing
            run.action = doing
            return changed
        case StepTaken():
            run.files.update(dict.fromkeys(event.paths))
            return False
        case _:
            return False


def make_report(
    run: LiveAgent,
    ended: TurnEnded | None,
    error: str,
    leaves: Sequence[AgentReport],
    workspace: Path,
    copied: tuple[CopiedFile, ...] = (),
) -> AgentReport:
    """The report of an agent whose work is over. `leaves` are the reports of those it sent.

    `workspace` is the folder it worked in, `copied` what is changed there if that is a copy of its own.
    """
    text = ended.text if ended is not None else ""
    if not text.strip() and run.child is not None:
        text = run.child.last_words()
    answer = ReportAnswer(text.strip()) if run.task.only_answers else read_answer(text)
    outcome, why = _outcome(run, ended, error, answer.failed, leaves)
    changed = [_relative(path, workspace) for path in run.changed]
    return AgentReport(
        id=run.id,
        outcome=outcome,
        summary=answer.summary or text.strip(),
        findings=answer.findings,
        files=tuple(dict.fromkeys((*changed, *run.files, *answer.files))),
        open_points=answer.open_points,
        copied=copied,
        usage=replace(run.tally),
        seconds=run.account.seconds,
        session=run.record.id,
        error=why,
    )


def _outcome(
    run: LiveAgent, ended: TurnEnded | None, error: str, says_failed: bool, leaves: Sequence[AgentReport]
) -> tuple[Outcome, str]:
    """How it ended, and why it is not completed."""
    if run.stop:
        return run.stop, STOPPED[run.stop]
    if ended is None:
        return "failed", error or STOPPED["interrupted"]
    if ended.outcome == "budget":
        return "budget", ended.error or "The requests of its budget were used up before it was done."
    if ended.outcome == "interrupted":
        return "interrupted", ended.error or STOPPED["interrupted"]
    if ended.outcome == "denied":
        return "failed", "What it needed was not allowed."
    if ended.outcome == "failed":
        return "failed", ended.error
    if not ended.text.strip():
        return "failed", "It ended without an answer."
    if says_failed:
        return "failed", "It says that it did not reach its goal."
    if missing := [f"{leaf.id} ({leaf.outcome})" for leaf in leaves if leaf.outcome != "completed"]:
        return "failed", f"Agents it had sent did not complete: {', '.join(missing)}."
    return "completed", ""


def _relative(path: Path, workspace: Path) -> str:
    return path.relative_to(workspace).as_posix() if path.is_relative_to(workspace) else str(path)
