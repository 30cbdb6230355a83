"""Training of weights: rollouts with them as they are, a step towards what scored above the mean, again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from agent.automation.batch.run import BatchOptions
from agent.automation.batch.task_file import NumberedTask
from agent.automation.training.episode import MODEL, PROVIDER, completion_of
from agent.automation.training.policy_endpoint import PolicyAddress, policy_endpoint
from agent.automation.training.rollouts import RolloutGroup, roll_out
from agent.automation.training.tinker import Completion, WeightDatum, data_of
from agent.core.home import PRIVATE_FILE
from agent.errors import HermesError

STEPS = "training.jsonl"
_KEY = "HERMES_POLICY_KEY"
_PATIENCE = 3_600
"""Seconds that an answer of the weights may take."""


class TrainedWeights(Protocol):
    """Weights that are sampled from and trained."""

    async def sample(
        self, messages: Sequence[Mapping[str, Any]], limit: int, temperature: float
    ) -> Completion: ...

    async def learn(self, data: Sequence[WeightDatum], learning_rate: float) -> dict[str, float]: ...

    async def renew(self) -> None: ...

    async def keep(self, name: str) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightPlan:
    """How much is trained. `reply` is the most tokens of an answer."""

    steps: int
    group: int
    tasks: int = 4
    """Tasks of one step."""
    learning_rate: float = 1e-4
    reply: int = 2_048
    temperature: float = 1.0


@dataclass(frozen=True, slots=True)
class WeightStep:
    """One step: its tasks, what they got, what was learned from, where the weights were kept after it."""

    step: int
    tasks: tuple[str, ...]
    scores: tuple[tuple[float, ...], ...]
    data: int
    """Rollouts that something was learned from."""
    tokens: int
    figures: Mapping[str, float]
    saved: str


def steps_before(folder: Path) -> list[WeightStep]:
    """The steps that are over, so that a training goes on after them. Blocks."""
    try:
        lines = (folder / STEPS).read_text("utf-8").splitlines()
        return [WeightStep(**json.loads(line)) for line in lines]
    except (OSError, ValueError, TypeError):
        return []


async def train_weights(
    tasks: Sequence[NumberedTask],
    weights: TrainedWeights,
    folder: Path,
    options: BatchOptions,
    environ: Mapping[str, str],
    plan: WeightPlan,
    *,
    base: Path,
    told: Callable[[WeightStep], None] = lambda step: None,
) -> list[WeightStep]:
    """Train. The same again goes on after the last step that was kept. Raises `HermesError`."""

    async def answer(body: Mapping[str, Any]) -> Mapping[str, Any]:
        limit = min(plan.reply, body.get("max_tokens") or body.get("max_completion_tokens") or plan.reply)
        made = await weights.sample(body["messages"], limit, plan.temperature)
        tokens = {"prompt": list(made.prompt), "output": list(made.output), "logprobs": list(made.logprobs)}
        message = {"role": "assistant", "content": made.text}
        completion = completion_of({"message": message, "tokens": tokens})
        if not made.is_whole:
            completion["choices"][0]["finish_reason"] = "length"
        return completion

    made = await asyncio.to_thread(steps_before, folder)
    left = None if options.total.tokens is None else options.total.tokens - sum(each.tokens for each in made)
    async with policy_endpoint(answer) as address:
        for number in range(len(made) + 1, plan.steps + 1):
            if left is not None and left <= 0:
                raise HermesError(f"The tokens of the training were used up after {len(made)} steps.")
            within = replace(options, model=f"{PROVIDER}/{MODEL}", total=replace(options.total, tokens=left))
            few = min(plan.tasks, len(tasks))
            chosen = [tasks[((number - 1) * few + each) % len(tasks)] for each in range(few)]
            place = folder / f"step-{number:04}"
            groups = await _rolled_out(chosen, place, within, environ, plan.group, address, base)
            step = await _learned(number, groups, weights, plan)
            made.append(step)
            left = None if left is None else left - step.tokens
            await asyncio.to_thread(_write, folder / STEPS, made)
            told(step)
    return made


async def _rolled_out(
    tasks: Sequence[NumberedTask],
    folder: Path,
    options: BatchOptions,
    environ: Mapping[str, str],
    size: int,
    address: PolicyAddress,
    base: Path,
) -> list[RolloutGroup]:
    """The groups of a step, with the weights as their model."""
    groups: list[RolloutGroup] = []

    async def each(group: RolloutGroup) -> None:
        groups.append(group)

    # Chat templates of weights in training know plain texts best, so calls travel as text.
    provider = {"base_url": address.base_url, "api_key_env": _KEY, "tool_mode": "text"}
    settings = {
        "providers": {PROVIDER: provider},
        "model": {"token_ids": True, "stall_timeout": _PATIENCE, "retries": 0},
        "subagents": {"depth": 0},
    }
    numbered = [replace(task, place=place) for place, task in enumerate(tasks, 1)]
    await roll_out(
        *(numbered, size, folder, options, {**environ, _KEY: address.key}, each),
        base=base,
        settings=settings,
    )
    return groups


async def _learned(
    number: int, groups: Sequence[RolloutGroup], weights: TrainedWeights, plan: WeightPlan
) -> WeightStep:
    """Take a step with what came of it. Rollouts that were cut off would count as bad ones."""
    rollouts = [each for group in groups for each in group.rollouts]
    failed = next((each.result for each in rollouts if each.result.outcome in ("budget", "failed")), None)
    if failed is not None:
        raise HermesError(f"Step {number}: a rollout of {failed.id} ended early: {failed.error}")
    if not all(group.has_tokens for group in groups):
        raise HermesError(f"Step {number}: a rollout has no token ids, so nothing can be learned from it.")
    data = data_of(groups)
    figures: dict[str, float] = {}
    if data:
        figures = await weights.learn(data, plan.learning_rate)
        await weights.renew()
    return WeightStep(
        step=number,
        tasks=tuple(group.task for group in groups),
        scores=tuple(tuple(each.score for each in group.rollouts) for group in groups),
        data=len(data),
        tokens=sum(each.result.usage.get(kind, 0) for each in rollouts for kind in ("input", "output")),
        figures=figures,
        saved=await weights.keep(f"hermes-step-{number:04}"),
    )


def _write(path: Path, steps: Sequence[WeightStep]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(asdict(each)) + "\n" for each in steps), "utf-8")
    path.chmod(PRIVATE_FILE)
