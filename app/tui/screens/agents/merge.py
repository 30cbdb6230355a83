"""The preview of a merge: the changes of an agent in its copy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from textual.binding import Binding, BindingType

from agent.workspace.checkpoints.restore.plan import RestorePlan
from agent.workspace.checkpoints.restore.ref_plan import Choice
from app.tui.screens.history.restoring import MERGE, PlanWords, RestoreServices, RestoringScreen
from app.tui.screens.page import HELP
from widgets.rows.row_text import one_line


class MergeScreen(RestoringScreen, inherit_bindings=False):
    """The preview of a merge. Its result is the choice for each file, or None to merge nothing.

    `discards` is true if the person wants the copy discarded instead.
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
