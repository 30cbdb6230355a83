"""Merging an agent's copy into the project, after the user has reviewed the changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from agent.errors import HermesError
from agent.workspace.checkpoints.restore.plan import RestorePlan
from agent.workspace.checkpoints.restore.ref_plan import Choice
from app.tui.screens.history.restoring import MERGE, PlanWords, RestoreServices, RestoringScreen
from app.tui.screens.page import HELP
from tools.text.safe_text import clean
from widgets.rows.row_text import one_line

if TYPE_CHECKING:
    from agent.core.store.operations import Operation
    from agent.session.subagents.agents import Agents
    from app.tui.commands.history_actions import HistoryPort


class MergeScreen(RestoringScreen, inherit_bindings=False):
    """The preview of a merge. Its result is the choice for each file, or None to merge nothing.

    `discards` is true if the user wants the copy discarded instead.
    """

    heading = "Before a copy is merged"
    words: ClassVar[PlanWords] = MERGE
    keys = "⏎ hunks · a merge · 1 mine · 2 theirs · d discard · ? keys · esc back"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "carry_out", "Merge what is chosen", id="merging.carry_out"),
        Binding("1,m", "choose('mine')", "Keep mine", id="merging.mine"),
        Binding("2", "choose('checkpoint')", "Take theirs", id="merging.theirs"),
        Binding("3,b", "choose('merge')", "Put both together", id="merging.both"),
        Binding("4,M", "choose_all('mine')", "Keep mine everywhere", id="merging.all_mine"),
        Binding("5", "choose_all('checkpoint')", "Take theirs everywhere", id="merging.all_theirs"),
        Binding("d", "discard", "Discard the copy", id="merging.discard"),
        Binding("escape,q", "back", "Back", id="merging.back"),
        HELP,
    ]
    discards = False
    every = True

    def __init__(
        self,
        plan: RestorePlan,
        services: RestoreServices,
        choices: Mapping[str, Choice] | None = None,
        *,
        agent: str = "",
        place: str = "",
    ) -> None:
        """`agent` is the display name of the copy's agent, `place` its position, such as 2 of 3."""
        super().__init__(plan, services, choices)
        self._agent = one_line(agent)
        self._place = place

    def on_mount(self) -> None:
        if self._agent:
            # The place comes first, because a long name is cut at its end.
            place = f"Merge {self._place}:" if self._place else "Merge"
            self.head.retitle(f"{place} {self._agent}")

    def action_discard(self) -> None:
        self.discards = True
        self.dismiss(None)


USAGE = (
    "Write /agents merge agent-1 to look at what an agent changed in its copy, "
    "/agents merge all for all copies, one after the other."
)
ALL = "all"


@dataclass(slots=True)
class _Round:
    """The state of one merge command: the copies merged so far, which are undone together."""

    place: str = ""
    """The position of the copy under review, such as `2 of 3`."""
    merged: list[str] = field(default_factory=list)
    operation: Operation | None = None
    """The operation that undoes all of them."""
    stopped: bool = False
    """True if the user cancelled, so that no further copies are shown."""


def agent_to_merge(argument: str) -> str:
    """Return the agent's id in `merge agent-1` or `merge 1`, or `ALL`. Raises `HermesError`. Pure."""
    word, *rest = argument.split()
    if word != "merge" or len(rest) != 1:
        raise HermesError(USAGE)
    return rest[0] if not rest[0].isdecimal() else f"agent-{rest[0]}"


async def merge_copy(app: HistoryPort, agent: str) -> str:
    """Show what an agent changed and apply the user's decision; return a notice. Must run as a worker.

    `ALL` shows the copies of all ended agents, one after the other. The notice is empty if the user
    cancelled. Raises `HermesError`.
    """
    from agent.session.history.navigation import BUSY

    client = app.need_client()
    if client.busy:
        # Reported before the user reviews and decides, not afterwards.
        raise HermesError(BUSY)
    agents = client.agents
    if agent == ALL:
        return await _merge_all(app, agents)
    if not await agents.has_ended(agent):
        raise HermesError(f"{agent} still works in its copy; wait for its end, or stop it first.")
    turn = _Round()
    said = await _merge_one(app, agents, agent, turn)
    return " ".join(filter(None, (said, _undo_hint(app, turn))))


async def _merge_all(app: HistoryPort, agents: Agents) -> str:
    there = await agents.copies()
    ready = [copy.agent for copy in there if copy.ended]
    if not ready:
        busy = " One that still works is in its copy." if there else ""
        raise HermesError(f"No copy waits to be merged.{busy}")
    turn, said = _Round(), list[str]()
    for number, agent in enumerate(ready, 1):
        turn.place = f"{number} of {len(ready)}" if len(ready) > 1 else ""
        try:
            said.append(await _merge_one(app, agents, agent, turn))
        except HermesError as error:
            # Earlier merges remain, and the user is told about them anyway.
            said.append(f"{agent}: {error}")
        if turn.stopped:
            break
    return " ".join(filter(None, (*said, _undo_hint(app, turn))))


async def _merge_one(app: HistoryPort, agents: Agents, agent: str, turn: _Round) -> str:
    """Show one copy and apply the user's decision; return a notice, empty if the user cancelled."""
    plan, choices, discards = await _decide_merge(app, agents, agent, turn.place)
    if discards:
        return await _discard_copy(app, agents, agent)
    if choices is None:
        turn.stopped = True
        return ""
    note = f"[The user merged what {agent} changed in its copy; read those files again.]"
    label = f"merge of {', '.join((*turn.merged, agent))}"
    restored = await agents.merge(agent, plan, choices, label, note, onto=turn.operation)
    if restored.step is not None:
        turn.merged.append(agent)
        turn.operation = await app.history_actions.history.undoable()
    rest = "The rest is still in its copy." if await agents.holds_copy(agent) else ""
    return " ".join(filter(None, (f"{agent}: {restored.sentence('merged')}", rest)))


def _undo_hint(app: HistoryPort, turn: _Round) -> str:
    key = app.keys.label("session.undo") or "/undo"
    return f"{key} undoes {'all of it' if len(turn.merged) > 1 else 'it'}." if turn.merged else ""


async def _decide_merge(
    app: HistoryPort, agents: Agents, agent: str, place: str
) -> tuple[RestorePlan, Mapping[str, Choice] | None, bool]:
    """Return the plan that the user reviewed, their choices (None if cancelled), and whether to discard the
    copy.

    If files change during the review, the new plan is shown.
    """
    from app.tui.screens.history.compare import restore_services

    choices: Mapping[str, Choice] = {}
    plan = await agents.plan_merge(agent)
    while True:
        services = restore_services(app.need_client())
        screen = MergeScreen(plan, services, choices, agent=app.bridge.team.display_name(agent), place=place)
        chosen = await app.push_screen_wait(screen)
        if chosen is None:
            return plan, None, screen.discards
        shown, plan = plan, await agents.plan_merge(agent)
        if plan.items == shown.items:
            return plan, chosen, False
        known = {item.path: item for item in shown.shown_items}
        kept = {item.path for item in plan.shown_items if known.get(item.path) == item}
        choices = {path: choice for path, choice in chosen.items() if path in kept}
        app.show_notice("Files changed meanwhile; look again.")


async def _discard_copy(app: HistoryPort, agents: Agents, agent: str) -> str:
    from app.tui.screens.dialog import ConfirmDialog

    name = clean(app.bridge.team.display_name(agent))
    question = f"Discard what {name} changed in its copy and is not merged? This cannot be undone."
    if not await app.push_screen_wait(ConfirmDialog(question, "Discard it", "Keep it")):
        return ""
    count = await agents.discard(agent)
    return f"The copy of {agent} is gone, with {count:,} {'change' if count == 1 else 'changes'}."
