"""A restore plan path by path, in words and signs. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from textual.content import Content

from agent.workspace.checkpoints.entries import PathChange
from agent.workspace.checkpoints.restore.merge import Merged
from agent.workspace.checkpoints.restore.plan import RestorePlan
from agent.workspace.checkpoints.restore.ref_plan import PlanItem, Way
from app.tui.screens.history.timeline_services import FileDifferenceRow
from app.tui.screens.history.timeline_words import file_line
from app.tui.screens.wording import line
from tools.text.words import plural
from widgets.timeline.paint import shown_path

FEW = 5
"""Files that are changed without a look at them first, as long as nothing is in conflict."""


@dataclass(frozen=True, slots=True)
class PlanWords:
    """What the screen calls what can be chosen and what then happens."""

    chosen: Mapping[Way, str]
    goes: str
    """Below a file that is changed as planned."""
    stays: str
    """Below one that could be changed, and is left."""
    conflict: Mapping[Way, str]
    """Below a conflict, by what was chosen."""
    left_out: str
    """Below a path whose folder is not made, because that was left."""
    unmergeable: str
    taken: str
    """What happens to the hunks that are chosen."""


RESTORE = PlanWords(
    chosen={"mine": "keep mine", "checkpoint": "take checkpoint", "merge": "merge"},
    goes="goes back to this:",
    stays="stays as it is. Going back would do this:",
    conflict={
        "mine": "Stays as it is. The checkpoint would make this of it:",
        "checkpoint": "Goes back to the checkpoint. Of what stands there now it makes this:",
        "merge": "The session's changes are taken out, all others stay:",
    },
    left_out="Take the checkpoint there (c), and this comes back.",
    unmergeable="This cannot be merged; keep yours or take the checkpoint.",
    taken="taken back",
)
MERGE = PlanWords(
    chosen={"mine": "keep mine", "checkpoint": "take theirs", "merge": "merge"},
    goes="is changed like this:",
    stays="stays as it is. The agent made this of it:",
    conflict={
        "mine": "Stays as it is. The agent's version would make this of it:",
        "checkpoint": "The agent's version is taken. Of what stands there now it makes this:",
        "merge": "The agent's changes are put into what stands there now:",
    },
    left_out="Take theirs there (t), and this comes along.",
    unmergeable="This cannot be merged; keep yours or take theirs.",
    taken="taken",
)


def wants_a_look(plan: RestorePlan) -> bool:
    """Whether a plan is shown before it is carried out."""
    return len(plan.shown) > FEW or len(plan.having("change")) < len(plan.items)


def back(item: PlanItem) -> PathChange:
    """What a restore makes of a path: from what stands there to what stood there."""
    return PathChange(item.path, item.now, item.target)


def tally(plan: RestorePlan) -> str:
    """`4 files · 2 in conflict · 1 stays`."""
    states = [item.state for item in plan.shown]
    conflicts, lost = states.count("conflict"), states.count("lost")
    parts = [plural(len(states), "file")]
    if conflicts:
        parts.append(f"{conflicts:,} in conflict")
    if lost:
        parts.append(f"{lost:,} {'stays' if lost == 1 else 'stay'} as {'it is' if lost == 1 else 'they are'}")
    return " · ".join(parts)


def overlapping(merged: Merged | None) -> str:
    """What came of a merge."""
    if merged is None:
        return "cannot be merged"
    return "merge · " + (plural(merged.overlaps, "overlap") if merged.overlaps else "no overlap")


def some_hunks(taken: int, of: int, words: PlanWords = RESTORE) -> str:
    """How many of the hunks of a file were chosen."""
    return f"{taken:,} of {plural(of, 'hunk')} {words.taken}"


def listing(plan: RestorePlan, changes: Sequence[FileDifferenceRow], most: int) -> Content:
    """The files of a plan, conflicts first, in at most so many lines."""
    if not plan.items:
        return Content.assemble(("Going back changes no file.", "$text-muted"))
    pairs = list(zip(plan.shown, changes, strict=True))
    pairs.sort(key=lambda pair: pair[0].state == "change")
    shown = pairs if len(pairs) < most else pairs[: max(most - 2, 0)]
    rows: list[Content] = [Content.assemble(("Going back: ", "$text-muted"), (tally(plan), "bold"))]
    rows += [_row(item, change) for item, change in shown]
    if len(shown) < len(pairs):
        rows.append(Content.assemble((f"… {plural(len(pairs) - len(shown), 'more file')}", "$text-muted")))
    return Content("\n").join(rows)


def _row(item: PlanItem, change: FileDifferenceRow) -> Content:
    if item.state == "change":
        return file_line(change)
    sign, color = ("◆", "$warning") if item.state == "conflict" else ("✗", "$error")
    return Content.assemble(
        (sign, color), f" {shown_path(item.path)} ", (f" {line(item.reason, 200)}", "$text-muted")
    )
