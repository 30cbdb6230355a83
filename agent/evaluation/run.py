"""Running a suite: its tasks as a batch, their figures in `result.json` and a report beside it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from agent.batch.results import ResultFolder, TaskResult
from agent.batch.run import BatchOptions, BatchProgress, run_batch
from agent.batch.task_file import NumberedTask
from agent.evaluation.figures import RESULT, RunFigures, SuiteResult, figures_of, ordered
from agent.evaluation.report import page
from agent.evaluation.suite import Suite
from agent.home import PRIVATE_FILE

REPORT = "report.html"


async def run_suite(
    suite: Suite,
    folder: Path,
    options: BatchOptions,
    environ: Mapping[str, str],
    *,
    runs: int | None = None,
    seed: int = 0,
    version: str = "",
    told: Callable[[BatchProgress], None] = lambda progress: None,
) -> SuiteResult:
    """Run every task `runs` times. The same again goes on where it was stopped.

    Raises `HermesError` where the folder cannot be used.
    """
    times = runs or suite.runs
    tasks = _tasks(suite, times)
    results = ResultFolder(folder)
    await run_batch([task for _, _, task in tasks], results, options, environ, base=folder, told=told)
    ended: dict[str, TaskResult] = {each.key: each for each in results.ended()}
    found = [figures_of(name, run, ended[task.name]) for name, run, task in tasks]
    result = SuiteResult(suite.name, times, seed, options.model, version, ordered(found))
    await asyncio.to_thread(_write, folder, result)
    return result


def _tasks(suite: Suite, runs: int) -> list[tuple[str, int, NumberedTask]]:
    """Every run of every task. The key holds the name, so that equal tasks of a suite stay apart."""
    made: list[tuple[str, int, NumberedTask]] = []
    for each in suite.tasks:
        task = replace(each.task, key=f"{each.name}-{each.task.key[:12]}")
        source = str(each.workspace) if each.workspace is not None else ""
        for run in range(1, runs + 1):
            shown = replace(task, id=each.name if runs == 1 else f"{each.name} #{run}")
            made.append((each.name, run, NumberedTask(shown, len(made) + 1, run, source)))
    return made


def _write(folder: Path, result: SuiteResult) -> None:
    for name, text in ((RESULT, json.dumps(result.to_json(), indent=1)), (REPORT, page(result))):
        path = folder / name
        new = path.with_name(f".{name}.new")
        new.write_text(text, "utf-8")
        new.chmod(PRIVATE_FILE)
        new.replace(path)


def failed_runs(result: SuiteResult) -> list[RunFigures]:
    """Runs that did not pass, for a list."""
    return [each for each in result.runs_of_tasks if not each.passed]
