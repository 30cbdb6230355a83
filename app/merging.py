"""Bringing what an agent changed in its copy into the project, as a person does it: a look first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.errors import HermesError
from tools.results import ToolError
from tools.text import clean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agent.subagents.copies import Copies
    from agent.subagents.run import Run
    from agent.workspace.checkpoints.restore.plan import Choice, RestorePlan
    from app.application import HermesApp

USAGE = "Write /agents merge agent-1 to look at what an agent changed in its copy."


def named(argument: str) -> str:
    """The agent that `merge agent-1` names. Raises `HermesError`. Pure."""
    word, *rest = argument.split()
    if word != "merge" or len(rest) != 1:
        raise HermesError(USAGE)
    return rest[0] if not rest[0].isdecimal() else f"agent-{rest[0]}"


async def merge_copy(app: HermesApp, agent: str) -> str:
    """Show what an agent changed and do what the person decides; a notice about it. Run it as a worker.

    Empty if the person thought better of it. Raises `HermesError`.
    """
    agents = app.need_engine().agents
    try:
        run = agents.run(agent)
    except ToolError as error:
        raise HermesError(str(error)) from None
    if not run.is_over:
        raise HermesError(f"{run.id} still works in its copy; wait for its end, or stop it first.")
    plan, choices, discards = await _decided(app, agents.copies, run)
    if discards:
        return await _discarded(app, agents.copies, run)
    if choices is None:
        return ""
    note = f"[The user merged what {run.id} changed in its copy; read those files again.]"
    restored = await app.journeys.travel.bring_in(
        lambda: agents.copies.merge(run, plan, choices), f"merge of {run.id}", note
    )
    undoes = f"{app.keys.shown('session.undo') or '/undo'} undoes it." if restored.step is not None else ""
    rest = "The rest is still in its copy." if agents.copies.holds(run.id) else ""
    return " ".join(filter(None, (f"{run.id}: {restored.sentence('merged')}", rest, undoes)))


async def _decided(
    app: HermesApp, copies: Copies, run: Run
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
        screen = MergeScreen(plan, services, choices, agent=app.bridge.team.called(run.id))
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
