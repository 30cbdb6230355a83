"""Bringing what an agent changed in its copy into the project, as a person does it: a look first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent.errors import HermesError
from agent.travel import BUSY
from tools.results import ToolError
from tools.text import clean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent.store.operations import Operation
    from agent.subagents.copies import Copies
    from agent.subagents.run import Run
    from agent.subagents.scheduler import Scheduler
    from agent.workspace.checkpoints.restore.plan import Choice, RestorePlan
    from app.application import HermesApp

USAGE = (
    "Write /agents merge agent-1 to look at what an agent changed in its copy, "
    "/agents merge all for all copies, one after the other."
)
ALL = "all"


@dataclass(slots=True)
class _Round:
    """Copies that are merged one after the other, to be undone together."""

    place: str = ""
    """Which of how many is looked at, for the person."""
    merged: list[str] = field(default_factory=list)
    operation: Operation | None = None
    """What undoes them."""
    stopped: bool = False
    """Whether the person wants no more of it."""


def named(argument: str) -> str:
    """The agent that `merge agent-1` names, or `ALL`. Raises `HermesError`. Pure."""
    word, *rest = argument.split()
    if word != "merge" or len(rest) != 1:
        raise HermesError(USAGE)
    return rest[0] if not rest[0].isdecimal() else f"agent-{rest[0]}"


async def merge_copy(app: HermesApp, agent: str) -> str:
    """Show what an agent changed and do what the person decides; a notice about it. Run it as a worker.

    `ALL` shows the copies of all agents that have ended, one after the other. Empty if the person
    thought better of it. Raises `HermesError`.
    """
    engine = app.need_engine()
    if engine.busy:
        # Said before somebody looks and decides, not afterwards.
        raise HermesError(BUSY)
    agents = engine.agents
    if agent == ALL:
        return await _merge_all(app, agents)
    try:
        run = agents.run(agent)
    except ToolError as error:
        raise HermesError(str(error)) from None
    if not run.is_over:
        raise HermesError(f"{run.id} still works in its copy; wait for its end, or stop it first.")
    turn = _Round()
    said = await _merge_one(app, agents.copies, run, turn)
    return " ".join(filter(None, (said, _undoes(app, turn))))


async def _merge_all(app: HermesApp, agents: Scheduler) -> str:
    there = [run for run in agents.runs() if agents.copies.holds(run.id)]
    ready = [run for run in there if run.is_over]
    if not ready:
        busy = " One that still works is in its copy." if there else ""
        raise HermesError(f"No copy waits to be merged.{busy}")
    turn, said = _Round(), list[str]()
    for number, run in enumerate(ready, 1):
        turn.place = f"{number} of {len(ready)}" if len(ready) > 1 else ""
        try:
            said.append(await _merge_one(app, agents.copies, run, turn))
        except HermesError as error:
            # What was merged before stands, and the person hears of it all the same.
            said.append(f"{run.id}: {error}")
        if turn.stopped:
            break
    return " ".join(filter(None, (*said, _undoes(app, turn))))


async def _merge_one(app: HermesApp, copies: Copies, run: Run, turn: _Round) -> str:
    """Look at one copy and do what the person decides; a notice about it."""
    plan, choices, discards = await _decided(app, copies, run, turn.place)
    if discards:
        return await _discarded(app, copies, run)
    if choices is None:
        turn.stopped = True
        return ""
    note = f"[The user merged what {run.id} changed in its copy; read those files again.]"
    travel = app.journeys.travel
    restored = await travel.bring_in(
        lambda: copies.merge(run, plan, choices),
        f"merge of {', '.join((*turn.merged, run.id))}",
        note,
        onto=turn.operation,
    )
    if restored.step is not None:
        turn.merged.append(run.id)
        turn.operation = await travel.undoable()
    rest = "The rest is still in its copy." if copies.holds(run.id) else ""
    return " ".join(filter(None, (f"{run.id}: {restored.sentence('merged')}", rest)))


def _undoes(app: HermesApp, turn: _Round) -> str:
    key = app.keys.shown("session.undo") or "/undo"
    return f"{key} undoes {'all of it' if len(turn.merged) > 1 else 'it'}." if turn.merged else ""


async def _decided(
    app: HermesApp, copies: Copies, run: Run, place: str
) -> tuple[RestorePlan, Mapping[str, Choice] | None, bool]:
    """The plan as it was agreed to, what was chosen, and whether the copy is to go instead.

    Files that change while somebody looks at it are looked at again.
    """
    from app.journey_services import restore_services
    from app.screens.merge import MergeScreen

    choices: Mapping[str, Choice] = {}
    plan = await copies.plan_merge(run.id)
    while True:
        services = restore_services(app.journeys.travel)
        screen = MergeScreen(plan, services, choices, agent=app.bridge.team.called(run.id), place=place)
        chosen = await app.push_screen_wait(screen)
        if chosen is None:
            return plan, None, screen.discards
        shown, plan = plan, await copies.plan_merge(run.id)
        if plan.items == shown.items:
            return plan, chosen, False
        known = {item.path: item for item in shown.items}
        kept = {item.path for item in plan.items if known.get(item.path) == item}
        choices = {path: choice for path, choice in chosen.items() if path in kept}
        app.say("Files changed meanwhile; look again.")


async def _discarded(app: HermesApp, copies: Copies, run: Run) -> str:
    from app.screens.confirm import ConfirmDialog

    name = clean(app.bridge.team.called(run.id))
    question = f"Discard what {name} changed in its copy and is not merged? This cannot be undone."
    if not await app.push_screen_wait(ConfirmDialog(question, "Discard it", "Keep it")):
        return ""
    count = await copies.discard(run)
    return f"The copy of {run.id} is gone, with {count:,} {'change' if count == 1 else 'changes'}."
