"""Training environments: the arena, groups of rollouts, the trajectory API, the trainer of prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.batch.run import BatchOptions as BatchOptions
    from agent.spending.budget import Budget as Budget
    from agent.training.arena import Arena as Arena
    from agent.training.arena import open_arena as open_arena
    from agent.training.arena import read_environment as read_environment
    from agent.training.atropos import AtroposClient as AtroposClient
    from agent.training.bandit import BanditStep as BanditStep
    from agent.training.bandit import train as train
    from agent.training.episode import ActionError as ActionError
    from agent.training.episode import Episode as Episode
    from agent.training.episode import completion_of as completion_of
    from agent.training.rollouts import RolloutGroup as RolloutGroup
    from agent.training.rollouts import roll_out as roll_out
    from agent.training.tinker import TinkerWeights as TinkerWeights
    from agent.training.weight_training import WeightPlan as WeightPlan
    from agent.training.weight_training import WeightStep as WeightStep
    from agent.training.weight_training import steps_before as steps_before
    from agent.training.weight_training import train_weights as train_weights

__getattr__ = exports(
    __name__,
    {
        "agent.batch.run": "BatchOptions",
        "agent.spending.budget": "Budget",
        "agent.training.arena": "Arena open_arena read_environment",
        "agent.training.atropos": "AtroposClient",
        "agent.training.bandit": "BanditStep train",
        "agent.training.episode": "ActionError Episode completion_of",
        "agent.training.rollouts": "RolloutGroup roll_out",
        "agent.training.tinker": "TinkerWeights",
        "agent.training.weight_training": "WeightPlan WeightStep steps_before train_weights",
    },
)
