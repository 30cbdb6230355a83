"""The process that trains for a session or inspects environments. Its order is a line on standard input.

A training run continues after the session has ended. All other orders are answered with one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from agent.automation.batch.run import BatchOptions
from agent.automation.batch.task import NumberedTask
from agent.automation.evaluation.suite import bundled_suites, read_suite
from agent.automation.training.episode import read_environment, train
from agent.automation.training.rollouts import (
    RolloutGroup,
    TinkerWeights,
    WeightPlan,
    roll_out,
    steps_before,
    train_weights,
)
from agent.automation.training_runs.service import (
    TrainingConfiguration,
    TrainingRun,
    edit_configuration,
    run_lock,
)
from agent.errors import HermesError
from agent.session.spending.budget import Budget
from tools.text.words import plural

_SHOWN = 10


def main() -> None:
    """Execute the order from standard input."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    order = json.loads(sys.stdin.readline())
    if order["do"] == "train":
        _train(order, answers)
        return
    work = {"environments": _environments, "look": _look, "test": _test}[order["do"]]
    try:
        answer = work(order)
    except (HermesError, OSError) as error:
        answer = {"error": str(error)}
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def _environments(order: Mapping[str, Any]) -> dict[str, Any]:
    own = Path(order["folder"])
    found = [
        {"name": name, "tasks": len(suite.tasks), "description": suite.description}
        for name in bundled_suites()
        for suite in (read_suite(name),)
    ]
    for path in sorted(own.iterdir()) if own.is_dir() else ():
        try:
            found.append({"name": path.name, "tasks": len(read_environment(str(path)))})
        except HermesError as error:
            found.append({"name": path.name, "tasks": 0, "problem": str(error)})
    return {"environments": found}


def _look(order: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of an environment: one of the user's, a bundled one, or one at a given path."""
    where, own = order.get("path"), Path(order["folder"]) / order["name"]
    if where is None and "/" not in order["name"] and own.exists():
        where = str(own)
    elif where is None and order["name"] in bundled_suites():
        where = order["name"]
    if where is None:
        return {"unknown": True}
    tasks = read_environment(where)
    unchecked = sum(not each.task.checks for each in tasks)
    found: dict[str, Any] = {
        "where": where,
        "tasks": len(tasks),
        "first": [each.label for each in tasks[:_SHOWN]],
    }
    if unchecked:
        found["note"] = f"Nothing is learned from {plural(unchecked, 'task')} without checks."
    return found


def _test(order: Mapping[str, Any]) -> dict[str, Any]:
    configuration = configuration_of(order["configuration"])
    tasks = read_environment(configuration.environment)[: order["tasks"]]
    groups: list[dict[str, Any]] = []

    async def each(group: RolloutGroup) -> None:
        used = [one.result.usage for one in group.rollouts]
        groups.append(
            {
                "task": group.task,
                "scores": [round(one.score, 3) for one in group.rollouts],
                "outcomes": [one.result.outcome for one in group.rollouts],
                "tokens": sum(one.get("input", 0) + one.get("output", 0) for one in used),
                "problems": [one.result.error for one in group.rollouts if one.result.error],
            }
        )

    asyncio.run(
        roll_out(
            *(tasks, configuration.group, Path(order["folder"]), _options(configuration)),
            *(dict(os.environ), each),
            base=_base(configuration),
            token_ids=False,
        )
    )
    differ = sum(len(set(each["scores"])) > 1 for each in groups)
    return {"groups": groups, "groups_whose_scores_differ": differ, "folder": order["folder"]}


def _train(order: Mapping[str, Any], answers: TextIO) -> None:
    if os.fork():
        # The process that asked need not keep a child that outlives it.
        os._exit(0)
    os.setsid()
    run = TrainingRun(Path(order["folder"]))
    lock = run_lock(run.folder)
    if not lock.acquire():
        return
    answers.write("{}\n")
    answers.close()
    try:
        asyncio.run(_train_until_over(run, configuration_of(order["configuration"])))
    finally:
        lock.release()


async def _train_until_over(run: TrainingRun, configuration: TrainingConfiguration) -> None:
    """Train until done or stopped by a signal, and store the outcome."""
    work = asyncio.ensure_future(_result(run, configuration))
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, work.cancel)
    try:
        run.note_ended("done", result=await work)
    except asyncio.CancelledError:
        run.note_ended("stopped")
    except (HermesError, OSError) as error:
        run.note_ended("failed", str(error))
    except Exception as error:
        run.note_ended("failed", f"Internal error ({type(error).__name__}).")
        raise


async def _result(run: TrainingRun, configuration: TrainingConfiguration) -> dict[str, Any]:
    tasks = await asyncio.to_thread(read_environment, configuration.environment)
    base = await asyncio.to_thread(_base, configuration)
    if configuration.trainer == "tinker":
        return await _weights(run, configuration, tasks, base)
    steps = await train(
        *(tasks, configuration.prompts, run.folder, _options(configuration), dict(os.environ)),
        steps=configuration.steps,
        size=configuration.group,
        rate=configuration.rate,
        seed=configuration.seed,
        base=base,
    )
    last = steps[-1]
    best = max(range(len(configuration.prompts)), key=lambda each: last.probabilities[each])
    return {
        "best": configuration.prompts[best],
        "probabilities": dict(zip(configuration.prompts, last.probabilities, strict=True)),
        "score": sum(last.scores) / len(last.scores),
    }


async def _weights(
    run: TrainingRun, configuration: TrainingConfiguration, tasks: list[NumberedTask], base: Path
) -> dict[str, Any]:
    before = await asyncio.to_thread(steps_before, run.folder)
    saved = before[-1].saved if before else ""
    weights = await TinkerWeights.open(
        configuration.base_model, configuration.rank, configuration.seed, saved
    )
    plan = WeightPlan(
        steps=configuration.steps, group=configuration.group, learning_rate=configuration.learning_rate
    )
    try:
        options = _options(configuration)
        steps = await train_weights(tasks, weights, run.folder, options, dict(os.environ), plan, base=base)
    finally:
        await weights.aclose()
    return {"saved": steps[-1].saved, "scores": [list(each) for each in steps[-1].scores]}


def _base(configuration: TrainingConfiguration) -> Path:
    return Path(configuration.environment).absolute().parent


def _options(configuration: TrainingConfiguration) -> BatchOptions:
    return BatchOptions(
        jobs=configuration.jobs,
        model=configuration.model,
        total=Budget(tokens=configuration.max_tokens),
    )


def configuration_of(given: Mapping[str, Any]) -> TrainingConfiguration:
    """Return the configuration with the given values. Raises `ConfigError` if one is invalid."""
    found = TrainingConfiguration()
    for name, value in given.items():
        found = edit_configuration(found, name, value)
    return found
