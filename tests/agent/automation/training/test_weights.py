"""Weights in training: what is learned from a group, and the loop of rollouts and steps."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.automation.batch.attempt import TaskResult
from agent.automation.batch.run import BatchOptions
from agent.automation.batch.task import read_tasks
from agent.automation.training.episode import MASKED, NO_LOGPROB, TokenSequence, write_steps
from agent.automation.training.rollouts import (
    Completion,
    Rollout,
    RolloutGroup,
    TinkerWeights,
    WeightDatum,
    WeightPlan,
    WeightStep,
    data_of,
    steps_before,
    train_weights,
)
from agent.errors import ConfigError

SEQUENCE = TokenSequence((1, 2, 7, 8), (MASKED, MASKED, 7, 8), (NO_LOGPROB, NO_LOGPROB, -0.5, -0.25))


def group(*scores: float) -> RolloutGroup:
    result = TaskResult(
        id="a", key="a", outcome="done", text="", usage={}, seconds=0.0, attempts=1, checks=(), session=""
    )
    return RolloutGroup("a", tuple(Rollout(result, score, SEQUENCE, ()) for score in scores))


def test_only_what_the_model_wrote_has_an_advantage_and_equal_groups_teach_nothing() -> None:
    better, worse = data_of([group(1.0, 0.0), group(1.0, 1.0)])
    assert (better.tokens, better.targets) == ((1, 2, 7), (2, 7, 8))
    assert better.advantages == (0.0, 0.5, 0.5) and worse.advantages == (0.0, -0.5, -0.5)
    assert better.logprobs == (0.0, -0.5, -0.25)


class ScriptedWeights:
    """Answers wrongly every other time; notes what it is to learn."""

    def __init__(self) -> None:
        self.sampled = 0
        self.learned: list[Sequence[WeightDatum]] = []
        self.renewed = 0

    async def sample(
        self, messages: Sequence[Mapping[str, Any]], limit: int, temperature: float
    ) -> Completion:
        self.sampled += 1
        assert {each["role"] for each in messages} <= {"system", "user", "assistant"} and limit > 0
        text = "It is Paris." if self.sampled % 2 else "It is Lyon."
        return Completion(text, (1, 2, 3), (7, 8), (-0.5, -0.25), True)

    async def learn(self, data: Sequence[WeightDatum], learning_rate: float) -> dict[str, float]:
        self.learned.append(data)
        return {"loss": learning_rate}

    async def renew(self) -> None:
        self.renewed += 1

    async def keep(self, name: str) -> str:
        return f"tinker://run/{name}"


@pytest.mark.thorough
async def test_a_training_learns_from_its_rollouts_and_goes_on_after_the_last_step(tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_text(
        json.dumps({"id": "france", "prompt": "Capital of France?", "checks": [{"contains": "Paris"}]})
    )
    tasks, weights, folder = read_tasks(tmp_path / "tasks.jsonl"), ScriptedWeights(), tmp_path / "out"
    environ = {"PATH": os.environ["PATH"], "HERMES_HOME": str(tmp_path / "home")}
    options = BatchOptions(jobs=1)
    for steps in (1, 2, 2):
        plan = WeightPlan(steps=steps, group=2)
        await train_weights(tasks, weights, folder, options, environ, plan, base=tmp_path)
    made = steps_before(folder)
    assert [sorted(each.scores[0]) for each in made] == [[0.0, 1.0], [0.0, 1.0]]
    assert weights.sampled == 4 and weights.renewed == len(weights.learned) == 2
    assert sorted(each.advantages[-1] for each in weights.learned[0]) == [-0.5, 0.5]
    assert made[-1].saved == "tinker://run/hermes-step-0002" and made[-1].data == 2


def test_steps_that_cannot_be_written_leave_the_former_ones(tmp_path: Path) -> None:
    first = WeightStep(1, ("france",), ((0.0, 1.0),), 2, 9, {"loss": 0.5}, "tinker://run/hermes-step-0001")
    write_steps(tmp_path / "out" / "training.jsonl", [first])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            write_steps(tmp_path / "out" / "training.jsonl", [first, replace(first, step=2)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [each.step for each in steps_before(tmp_path / "out")] == [1]


async def test_without_the_package_the_extra_is_named() -> None:
    with pytest.raises(ConfigError, match="extras add tinker"):
        await TinkerWeights.open("some/model", 8, 0)
