"""Steps that changed files, and plans that take them back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.safety.sandbox.caches import SweptCaches as SweptCaches
    from agent.safety.sandbox.caches import sweep_over as sweep_over
    from agent.session.history.session_checkpoints import limits as limits
    from agent.session.history.session_checkpoints import steps_of_all as steps_of_all
    from agent.workspace.checkpoints import states as states
    from agent.workspace.checkpoints.entries import PathChange as PathChange
    from agent.workspace.checkpoints.entries import PathEntry as PathEntry
    from agent.workspace.checkpoints.entries import PathKind as PathKind
    from agent.workspace.checkpoints.entries import Step as Step
    from agent.workspace.checkpoints.garbage_collection import StoreFinding as StoreFinding
    from agent.workspace.checkpoints.garbage_collection import collect as collect
    from agent.workspace.checkpoints.garbage_collection import drop_sessions as drop_sessions
    from agent.workspace.checkpoints.garbage_collection import status as status
    from agent.workspace.checkpoints.garbage_collection import verify as verify
    from agent.workspace.checkpoints.git_words import git_apart as git_apart
    from agent.workspace.checkpoints.git_words import step_apart as step_apart
    from agent.workspace.checkpoints.git_words import step_names as step_names
    from agent.workspace.checkpoints.restore.apply import Restored as Restored
    from agent.workspace.checkpoints.restore.apply import apply_restore as apply_restore
    from agent.workspace.checkpoints.restore.apply import finish_abandoned as finish_abandoned
    from agent.workspace.checkpoints.restore.hunk_restore import Parted as Parted
    from agent.workspace.checkpoints.restore.hunk_restore import WholeError as WholeError
    from agent.workspace.checkpoints.restore.hunk_restore import numbered as numbered
    from agent.workspace.checkpoints.restore.hunk_restore import part_entry as part_entry
    from agent.workspace.checkpoints.restore.hunk_restore import parted as parted
    from agent.workspace.checkpoints.restore.hunks import numbers as numbers
    from agent.workspace.checkpoints.restore.merge import Merged as Merged
    from agent.workspace.checkpoints.restore.plan import RestorePlan as RestorePlan
    from agent.workspace.checkpoints.restore.plan_items import Choice as Choice
    from agent.workspace.checkpoints.restore.plan_items import PartialRestore as PartialRestore
    from agent.workspace.checkpoints.restore.plan_items import PlanItem as PlanItem
    from agent.workspace.checkpoints.restore.plan_items import PlanState as PlanState
    from agent.workspace.checkpoints.restore.plan_items import Way as Way
    from agent.workspace.checkpoints.restore.step_range import check_position as check_position
    from agent.workspace.checkpoints.restore.step_range import inside as inside
    from agent.workspace.checkpoints.restore.step_range import plan_back as plan_back
    from agent.workspace.checkpoints.states import alike as alike
    from agent.workspace.checkpoints.step_log import StepLog as StepLog
    from agent.workspace.checkpoints.store import CheckpointStore as CheckpointStore
    from agent.workspace.checkpoints.unit_marks import units_of as units_of

__getattr__ = exports(
    __name__,
    {
        "agent.session.history.session_checkpoints": "limits steps_of_all",
        "agent.safety.sandbox.caches": "SweptCaches sweep_over",
        "agent.workspace.checkpoints": "states",
        "agent.workspace.checkpoints.entries": "PathChange PathEntry PathKind Step",
        "agent.workspace.checkpoints.git_words": "git_apart step_apart step_names",
        "agent.workspace.checkpoints.restore.apply": "Restored apply_restore finish_abandoned",
        "agent.workspace.checkpoints.restore.hunks": "numbers",
        "agent.workspace.checkpoints.restore.step_range": "check_position inside plan_back",
        "agent.workspace.checkpoints.restore.merge": "Merged",
        "agent.workspace.checkpoints.restore.hunk_restore": "Parted WholeError numbered part_entry parted",
        "agent.workspace.checkpoints.restore.plan": "RestorePlan",
        "agent.workspace.checkpoints.restore.plan_items": "Choice PartialRestore PlanItem PlanState Way",
        "agent.workspace.checkpoints.states": "alike",
        "agent.workspace.checkpoints.step_log": "StepLog",
        "agent.workspace.checkpoints.store": "CheckpointStore",
        "agent.workspace.checkpoints.unit_marks": "units_of",
        "agent.workspace.checkpoints.garbage_collection": "StoreFinding collect drop_sessions status verify",
    },
)
