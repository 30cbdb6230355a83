"""The copies of sent agents as their sender sees and merges them, as JSON-able data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.errors import HermesError
from agent.session.subagents.agent_copies import AgentCopies
from agent.session.subagents.live_agent import LiveAgent
from agent.session.subagents.records import NAMED
from tools.context import Conflicts, PermitMerge
from tools.files.diffs import shorten_diff
from tools.results import ToolError
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.workspace.checkpoints.restore.ref_plan import Choice, PlanItem

NOT_MERGED = (
    "What it changed is in its copy only. Nothing of that is merged: look with `subagents` diff, "
    "then merge or discard."
)
CHOICES: Mapping[Conflicts, Choice] = {"keep": "mine", "take": "checkpoint", "merge": "merge"}


@dataclass(frozen=True, slots=True)
class CopyMerging:
    """The copies of one session for one call of an agent. Methods raise `ToolError`."""

    copies: AgentCopies
    agent: str
    call: str

    async def diff(self, run: LiveAgent, paths: Sequence[str]) -> dict[str, Any]:
        try:
            wanted = await self._named(run, paths)
            difference = await self.copies.changes(run.id, wanted)
            plan = await self.copies.plan_merge(run.id, wanted)
        except HermesError as error:
            raise ToolError(str(error)) from error
        patch = difference.patch
        return {
            "id": run.id,
            "files": len(difference.changes),
            "added": patch.added,
            "removed": patch.removed,
            "paths": [each.told() for each in difference.files[:NAMED]],
            "diff": shorten_diff(clean(patch.body.decode("utf-8", "replace"))),
            **_reasons("conflicts", [(item.path, item.reason) for item in plan.having("conflict")]),
            **_reasons("cannot_be_merged", [(item.path, item.reason) for item in plan.having("lost")]),
            **_reasons("not_shown", [(item.path, item.reason) for item in patch.left_out]),
        }

    async def merge(
        self, run: LiveAgent, paths: Sequence[str], conflicts: Conflicts, permit: PermitMerge
    ) -> dict[str, Any]:
        if not run.is_over:
            raise ToolError(f"{run.id} still works in its copy; wait for its end, or kill it first.")
        try:
            plan = await self.copies.plan_merge(run.id, await self._named(run, paths))
            chosen: dict[str, Choice] = {item.path: CHOICES[conflicts] for item in plan.having("conflict")}
            moving = [item for item in plan.items if _moves(item, chosen)]
            if moving:
                root = Path(plan.root)
                changed = tuple(root / item.path for item in moving if item.target is not None)
                removed = tuple(root / item.path for item in moving if item.target is None)
                await permit(run.id, changed, removed)
            restored = await self.copies.merge(run, plan, chosen)
            left = (await self.copies.changes(run.id)).changes if self.copies.holds(run.id) else ()
        except HermesError as error:
            raise ToolError(str(error)) from error
        done = restored.step.changes if restored.step is not None else ()
        if restored.step is not None:
            self.copies.note_step(self.agent, self.call, restored.step)
        return {
            "id": run.id,
            "merged": [clean(change.path) for change in done[:NAMED]],
            "merged_total": len(done),
            **_reasons("left_as_they_are", [(item.path, item.reason) for item in restored.skipped]),
            "unmerged": len(left),
            "note": _after(run, len(done), len(left)),
        }

    async def discard(self, run: LiveAgent) -> dict[str, Any]:
        try:
            count = await self.copies.discard(run)
        except HermesError as error:
            raise ToolError(str(error)) from error
        return {"id": run.id, "discarded": count}

    async def _named(self, run: LiveAgent, paths: Sequence[str]) -> list[str]:
        """Paths as the copy names them; those of the copy and of the workspace may be given in full."""
        root, origin = await self.copies.places(run.id)
        return [_within(path, root, origin) for path in paths]


def _moves(item: PlanItem, chosen: Mapping[str, Choice]) -> bool:
    return item.state == "change" or (item.state == "conflict" and chosen[item.path] != "mine")


def _within(path: str, root: Path, origin: Path) -> str:
    given = Path(path)
    if not given.is_absolute():
        return path
    for above in (root, origin):
        if given.is_relative_to(above):
            relative = given.relative_to(above).as_posix()
            return "" if relative == "." else relative
    raise ToolError(f"{clean(path)} lies neither in the workspace nor in the copy.")


def _after(run: LiveAgent, done: int, left: int) -> str:
    files = "Files changed on disk; read them again. " if done else ""
    if not left:
        return f"{files}All of it is merged."
    return f"{files}{left:,} {'path' if left == 1 else 'paths'} in the copy of {run.id} are not merged."


def _reasons(key: str, items: Sequence[tuple[str, str]]) -> dict[str, Any]:
    if not items:
        return {}
    shown = [{"path": clean(path), "reason": clean(reason)} for path, reason in items[:NAMED]]
    return {key: shown, **({f"{key}_total": len(items)} if len(items) > NAMED else {})}
