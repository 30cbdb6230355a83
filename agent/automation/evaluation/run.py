"""The run of a suite: its tasks as a batch, the figures in `result.json`, and a report in the same folder."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from agent.automation.batch.attempt import ResultFolder, TaskResult
from agent.automation.batch.run import BatchOptions, BatchProgress, refuse_without_model, run_batch
from agent.automation.batch.task import NumberedTask
from agent.automation.evaluation.figures import RESULT, Calibration, SuiteResult, figures_of, sort_figures
from agent.automation.evaluation.report import page
from agent.automation.evaluation.suite import Suite
from agent.core.config.environment import environment
from agent.core.config.loader import LoadedSettings, load
from agent.core.home import PRIVATE_FILE, Home, private_folder
from agent.errors import ConfigError, HermesError
from agent.model.providers import resolve

REPORT = "report.html"
_CONDITIONS = "run.json"
_NOTES = ("MEMORY.md", "USER.md")


@dataclass(frozen=True, slots=True)
class SuiteConditions:
    """The conditions that all runs in a folder share.

    Runs under different conditions are never combined in one result.
    """

    suite: str
    model: str
    judge: str
    """The model that judges; empty if there is none."""
    skills: bool
    memory: bool


async def run_suite(
    suite: Suite,
    folder: Path,
    options: BatchOptions,
    environ: Mapping[str, str],
    *,
    runs: int | None = None,
    seed: int = 0,
    version: str = "",
    skills: bool = True,
    memory: bool = True,
    judge: Calibration | None = None,
    told: Callable[[BatchProgress], None] = lambda progress: None,
) -> SuiteResult:
    """Run every task `runs` times, and return the result. A call with equal arguments resumes a stopped run.

    With `memory`, sessions can read the notes of the home folder but not write any, so that tasks do not
    influence each other. `judge` is the calibration of the judging model. Raises `HermesError` if the folder
    or every model is unusable.
    """
    times = runs or suite.runs
    home = Home.locate(dict(environ))
    loaded = await asyncio.to_thread(load, home, environ)
    models = {each.task.model or options.model for each in suite.tasks}
    await refuse_without_model(models, loaded, environment(home, environ))
    model = await asyncio.to_thread(_model, home, options.model, environ)
    conditions = SuiteConditions(suite.name, model, judge.model if judge else "", skills, memory)
    results = ResultFolder(folder)
    await asyncio.to_thread(_prepare, results, conditions, home)
    tasks = _tasks(suite, times)
    await run_batch(
        [task for _, _, task in tasks],
        results,
        options,
        environ,
        base=folder,
        told=told,
        more=_settings(loaded, skills=skills, memory=memory),
    )
    ended: dict[str, TaskResult] = {each.key: each for each in results.task_results()}
    found = [figures_of(name, run, ended[task.name]) for name, run, task in tasks]
    result = SuiteResult(suite.name, times, seed, model, version, sort_figures(found), skills, memory, judge)
    await asyncio.to_thread(_write, folder, result)
    return result


async def require_folder(
    suite: Suite,
    folder: Path,
    options: BatchOptions,
    environ: Mapping[str, str],
    *,
    skills: bool,
    memory: bool,
) -> None:
    """Raise `ConfigError` if a folder holds runs made under other conditions.

    Another judge is allowed.
    """

    def look() -> None:
        model = _model(Home.locate(dict(environ)), options.model, environ)
        kept = _conditions_in(folder / _CONDITIONS)
        if kept is not None:
            judge = str(kept.get("judge"))
            _require_same(folder, kept, SuiteConditions(suite.name, model, judge, skills, memory))

    await asyncio.to_thread(look)


def _model(home: Home, chosen: str, environ: Mapping[str, str]) -> str:
    """Return the label of the tested model, or `chosen` if it cannot be determined."""
    try:
        return resolve(load(home, environ).settings, environ, chosen or None)[0].label
    except HermesError:
        return chosen


def _settings(loaded: LoadedSettings, *, skills: bool, memory: bool) -> dict[str, Any]:
    """Return settings for all sessions: skills and notes can be read but not changed."""
    return {
        "skills": {"enabled": skills and loaded.settings.skills.enabled},
        "memory": {"enabled": memory and loaded.settings.memory.enabled},
        "tools": {"disabled": [*loaded.settings.tools.disabled, "memory", "skill_manage"]},
    }


def _prepare(results: ResultFolder, conditions: SuiteConditions, home: Home) -> None:
    """Create the folder with a record of the conditions and a copy of the home's notes.

    Raises `ConfigError`, also if the folder was used under other conditions.
    """
    path = results.root / _CONDITIONS
    try:
        results.make()
        kept = _conditions_in(path)
        if kept is None:
            _replace(path, json.dumps(asdict(conditions)))
            if conditions.memory:
                _copy_notes(home, Home(results.home))
    except OSError as error:
        raise ConfigError(
            f"{results.root} cannot be used: {error.strerror}; choose another with -o."
        ) from error
    if kept is not None:
        _require_same(results.root, kept, conditions)


def _require_same(folder: Path, kept: Mapping[str, Any], conditions: SuiteConditions) -> None:
    for name, value in asdict(conditions).items():
        if kept.get(name) != value:
            raise ConfigError(
                f"{folder} holds runs with {name} {_setting_text(kept.get(name))}, "
                f"not {_setting_text(value)}; "
                "choose another folder with -o."
            )


def _conditions_in(path: Path) -> dict[str, Any] | None:
    try:
        given = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise ConfigError(f"{path} cannot be read; choose another folder with -o.")
    return given


def _setting_text(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value or "none")


def _copy_notes(home: Home, own: Home) -> None:
    private_folder(own.root)
    private_folder(own.memories)
    for name in _NOTES:
        if (home.memories / name).is_file():
            shutil.copyfile(home.memories / name, own.memories / name)
            (own.memories / name).chmod(PRIVATE_FILE)


def _tasks(suite: Suite, runs: int) -> list[tuple[str, int, NumberedTask]]:
    """Return every run of every task: the task's name, the number of the run, and the task for the batch.

    The key includes the name, so that identical tasks stay separate.
    """
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
        try:
            _replace(folder / name, text)
        except OSError as error:
            raise ConfigError(
                f"{folder / name} cannot be written: {error.strerror}; "
                "fix that, and run the same command again to continue."
            ) from error


def _replace(path: Path, text: str) -> None:
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        new.write_text(text, "utf-8", errors="replace")
        new.chmod(PRIVATE_FILE)
        new.replace(path)
    except BaseException:
        with suppress(OSError):
            new.unlink()
        raise
