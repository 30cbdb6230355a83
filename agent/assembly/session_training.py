"""Training from within a session: on offer where a model can work on tasks, and nobody trains already."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from agent.absent import NO_TRAINING
from agent.training_runs.service import SessionTraining
from tools.training_keeper import TrainingKeeper

if TYPE_CHECKING:
    from agent.assembly.shared_services import SharedServices

TOOLSET = "rl"
_UNATTENDED = ("batch", "cron")
"""Surfaces whose sessions may be rollouts themselves, or run while nobody looks."""


def offer_training(base: SharedServices) -> TrainingKeeper:
    """What starts and follows training runs; its tools are on offer from now on where it can work."""
    target = base.plan.targets[0]
    if target.kind == "demo" or base.options.surface in _UNATTENDED:
        return NO_TRAINING
    for entry in base.tools.entries():
        if entry.toolset == TOOLSET:
            base.tools.put(replace(entry, check_fn=None))
    environ = {**base.environ, "HERMES_HOME": str(base.home.root)}
    return SessionTraining(
        base.home.training,
        base.options.workspace,
        target.label,
        environ,
        base.variables.get("TINKER_API_KEY", ""),
    )
