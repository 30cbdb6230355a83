"""Training of prompts: a gradient bandit that chooses among prompt prefixes. It needs no GPU.

The policy is a softmax over preferences. After each group of rollouts, the preference of each tried prefix
changes by its score minus the mean score so far (REINFORCE with a baseline).
"""

from __future__ import annotations

import asyncio
import json
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from agent.automation.batch.results import ResultFolder, TaskResult
from agent.automation.batch.run import BatchOptions, run_batch
from agent.automation.batch.task import BatchTask, NumberedTask
from agent.automation.training.episode import reward_of
from agent.core.home import PRIVATE_FILE
from agent.errors import HermesError


@dataclass(frozen=True, slots=True)
class BanditStep:
    """One training step: the tried prefixes, their scores, and the new policy."""

    step: int
    task: str
    arms: tuple[int, ...]
    scores: tuple[float, ...]
    probabilities: tuple[float, ...]


def softmax(preferences: Sequence[float]) -> list[float]:
    """Convert preferences to probabilities. Pure."""
    most = max(preferences)
    weights = [math.exp(each - most) for each in preferences]
    return [each / sum(weights) for each in weights]


def update_preferences(
    preferences: Sequence[float], arms: Sequence[int], scores: Sequence[float], baseline: float, rate: float
) -> list[float]:
    """Return the preferences after a group of rollouts, moved along the gradient of the expected score.

    Pure.
    """
    probabilities = softmax(preferences)
    gradient = [0.0] * len(preferences)
    for arm, score in zip(arms, scores, strict=True):
        for each, probability in enumerate(probabilities):
            gradient[each] += (score - baseline) * ((each == arm) - probability)
    return [old + rate * new / len(arms) for old, new in zip(preferences, gradient, strict=True)]


async def train(
    tasks: Sequence[NumberedTask],
    ways: Sequence[str],
    folder: Path,
    options: BatchOptions,
    environ: Mapping[str, str],
    *,
    steps: int,
    size: int,
    rate: float = 2.0,
    seed: int = 0,
    base: Path,
    told: Callable[[BanditStep], None] = lambda step: None,
) -> list[BanditStep]:
    """Train for `steps` steps of `size` rollouts. `ways` are the prefixes put before the prompt of a task.

    Calling it again with equal arguments resumes, because random choices depend on the seed and stored
    answers are reused. Raises `HermesError`.
    """
    chance = random.Random(seed)
    preferences, total, count = [0.0] * len(ways), 0.0, 0
    made: list[BanditStep] = []
    left = options.total.tokens
    for step in range(1, steps + 1):
        task = tasks[(step - 1) % len(tasks)]
        arms = chance.choices(range(len(ways)), softmax(preferences), k=size)
        tried = [ways[arm] for arm in arms]
        if left is not None and left <= 0:
            raise _budget_error(options, made)
        within = replace(options, total=replace(options.total, tokens=left))
        results = await _roll_out(task, tried, arms, folder / f"step-{step:04}", within, environ, base)
        if left is not None:
            left -= sum(each.usage.get("input", 0) + each.usage.get("output", 0) for each in results)
        if any(each.outcome == "budget" for each in results):
            raise _budget_error(options, made)
        _refuse_unanswered(step, results)
        scores = [reward_of(each) or 0.0 for each in results]
        baseline = total / count if count else sum(scores) / len(scores)
        preferences = update_preferences(preferences, arms, scores, baseline, rate)
        total, count = total + sum(scores), count + len(scores)
        done = BanditStep(step, task.label, tuple(arms), tuple(scores), tuple(softmax(preferences)))
        made.append(done)
        await asyncio.to_thread(_write, folder / "training.jsonl", made)
        told(done)
    return made


def _budget_error(options: BatchOptions, made: Sequence[BanditStep]) -> HermesError:
    """Return the error for an exhausted budget.

    The step is discarded, because interrupted rollouts would count as bad ones.
    """
    return HermesError(
        f"The {options.total.tokens or 0:,} tokens of the training were used up after {len(made)} steps; "
        "give more to continue the same training."
    )


def _refuse_unanswered(step: int, results: Sequence[TaskResult]) -> None:
    """Raise `HermesError` if the model answered in no rollout of a step: all scores would be zero."""
    if all(each.outcome == "failed" and not each.usage.get("requests") for each in results):
        raise HermesError(
            f"The model answered in no rollout of step {step}, and the training continues with the same line "
            f"once it does: {results[0].error}"
        )


async def _roll_out(
    task: NumberedTask,
    ways: Sequence[str],
    arms: Sequence[int],
    folder: Path,
    options: BatchOptions,
    environ: Mapping[str, str],
    base: Path,
) -> list[TaskResult]:
    numbered = [
        NumberedTask(_with_prefix(task, way, f"{task.task.key[:16]}-{arm}"), place, place, task.source)
        for place, (way, arm) in enumerate(zip(ways, arms, strict=True), 1)
    ]
    results = ResultFolder(folder)
    await run_batch(numbered, results, options, environ, base=base)
    ended = {each.key: each for each in results.task_results()}
    return [ended[each.name] for each in numbered]


def _with_prefix(task: NumberedTask, way: str, key: str) -> BatchTask:
    prompt = f"{way}\n\n{task.task.prompt}" if way else task.task.prompt
    given = {**task.task.given, "prompt": prompt}
    return replace(task.task, prompt=prompt, key=key, given=given)


def _write(path: Path, steps: Sequence[BanditStep]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(asdict(each)) + "\n" for each in steps), "utf-8")
    path.chmod(PRIVATE_FILE)
