"""Training environments: the arena, groups of rollouts, the trajectory API, the trainer of prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.automation.batch.run import BatchOptions as BatchOptions
    from agent.automation.training.arena import Arena as Arena
    from agent.automation.training.arena import open_arena as open_arena
    from agent.automation.training.arena import read_environment as read_environment
    from agent.automation.training.atropos import AtroposClient as AtroposClient
    from agent.automation.training.bandit import BanditStep as BanditStep
    from agent.automation.training.bandit import train as train
    from agent.automation.training.episode import ActionError as ActionError
    from agent.automation.training.episode import Episode as Episode
    from agent.automation.training.episode import completion_of as completion_of
    from agent.automation.training.rollouts import RolloutGroup as RolloutGroup
    from agent.automation.training.rollouts import roll_out as roll_out
    from agent.automation.training.tinker import TinkerWeights as TinkerWeights
    from agent.automation.training.weight_training import WeightPlan as WeightPlan
    from agent.automation.training.weight_training import WeightStep as WeightStep
    from agent.automation.training.weight_training import steps_before as steps_before
    from agent.automation.training.weight_training import train_weights as train_weights
    from agent.session.spending.budget import Budget as Budget

__getattr__ = exports(
    __name__,
    {
        "agent.automation.batch.run": "BatchOptions",
        "agent.session.spending.budget": "Budget",
        "agent.automation.training.arena": "Arena open_arena read_environment",
        "agent.automation.training.atropos": "AtroposClient",
        "agent.automation.training.bandit": "BanditStep train",
        "agent.automation.training.episode": "ActionError Episode completion_of",
        "agent.automation.training.rollouts": "RolloutGroup roll_out",
        "agent.automation.training.tinker": "TinkerWeights",
        "agent.automation.training.weight_training": "WeightPlan WeightStep steps_before train_weights",
    },
)
