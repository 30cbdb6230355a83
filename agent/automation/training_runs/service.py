"""The training service of a home folder, with which a session's agent starts, follows and stops runs.

A separate process does the work and outlives the session. That process opens sessions itself, so this module
must not import it.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args

from agent.core.home import PRIVATE_FILE, private_folder
from agent.core.store.locks import SessionLock
from agent.errors import ConfigError, HermesError
from tools.extras import missing
from tools.kit.children import kill_child, kill_group, start_child
from tools.results import ToolError
from tools.services.actions import Permit, ReadPath, TrainModel
from tools.services.training_keeper import TrainingKeeper
from tools.text.words import plural

Trainer = Literal["prompts", "tinker"]
TRAINERS: tuple[Trainer, ...] = get_args(Trainer)
_MOST_PROMPTS, _LONGEST_PROMPT = 20, 2_000
_PROMPTS = (
    "Work on the task.",
    "Look at everything that the task mentions before you change anything.",
    "Say first what has to hold in the end, then do it, then check that it holds.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingConfiguration:
    """The configuration of a training run. The permissions of rollouts are not part of it."""

    environment: str = ""
    """A bundled suite, a task file, or the folder of a suite."""
    trainer: Trainer = "prompts"
    prompts: tuple[str, ...] = _PROMPTS
    """Prefixes of the prompt, of which the trainer `prompts` finds the best."""
    steps: int = 10
    group: int = 4
    """The number of rollouts of each task in a step."""
    jobs: int = 2
    """The maximum number of rollouts at once."""
    rate: float = 2.0
    """The learning rate of the trainer `prompts`."""
    learning_rate: float = 0.0001
    """The learning rate of the trainer `tinker`."""
    rank: int = 32
    """The rank of the LoRA adapter that is trained."""
    base_model: str = ""
    """The model that Tinker trains."""
    model: str = ""
    """The model that works on the tasks; empty for the model of the session."""
    max_tokens: int = 200_000
    """The maximum number of tokens that all rollouts may use together."""
    seed: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the configuration as a JSON object."""
        return {**asdict(self), "prompts": list(self.prompts)}


_WITHIN: Mapping[str, tuple[float, float]] = {
    "steps": (1, 1_000),
    "group": (1, 64),
    "jobs": (1, 16),
    "rate": (0.001, 100),
    "learning_rate": (1e-8, 1),
    "rank": (1, 256),
    "max_tokens": (1_000, 1_000_000_000),
    "seed": (0, 2**32),
}
FIELDS = tuple(each.name for each in fields(TrainingConfiguration))


def edit_configuration(configuration: TrainingConfiguration, name: str, value: Any) -> TrainingConfiguration:
    """Return the configuration with one field changed. Raises `ConfigError` if it is invalid."""
    if name not in FIELDS:
        raise ConfigError(f"There is no field {name[:40]!r}; there are {', '.join(FIELDS)}.")
    check = _CHECKS.get(type(getattr(configuration, name)), _text)
    return replace(configuration, **{name: check(name, value)})


def _number(kind: type[int] | type[float]) -> Callable[[str, Any], float]:
    def check(name: str, value: Any) -> float:
        low, high = _WITHIN[name]
        is_number = isinstance(value, int | kind) and not isinstance(value, bool)
        if not is_number or not low <= value <= high:
            raise ConfigError(f"{name} is a number from {low:g} to {high:g}.")
        return kind(value)

    return check


def _prompts(name: str, value: Any) -> tuple[str, ...]:
    given = value if isinstance(value, list | tuple) else ()
    found = [each.strip() for each in given if isinstance(each, str) and each.strip()]
    if not 2 <= len(found) <= _MOST_PROMPTS or len(found) != len(given):
        raise ConfigError(f"{name} is a list of 2 to {_MOST_PROMPTS} texts.")
    if any(len(each) > _LONGEST_PROMPT for each in found):
        raise ConfigError(f"One of {name} is longer than {_LONGEST_PROMPT:,} characters.")
    return tuple(found)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST_PROMPT:
        raise ConfigError(f"{name} is a text.")
    if name == "trainer" and value not in TRAINERS:
        raise ConfigError(f"{name} is one of {', '.join(TRAINERS)}.")
    return value.strip()


_CHECKS: Mapping[type, Callable[[str, Any], Any]] = {
    int: _number(int),
    float: _number(float),
    tuple: _prompts,
}


def read_configuration(path: Path) -> TrainingConfiguration:
    """Return the stored configuration; the default if it is missing or invalid. Blocks."""
    try:
        given = json.loads(path.read_text("utf-8"))
        configuration = TrainingConfiguration()
        for name, value in given.items():
            configuration = edit_configuration(configuration, name, value)
    except (OSError, ValueError, AttributeError, ConfigError):
        return TrainingConfiguration()
    return configuration


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write an object to a private file. Blocks. Raises `OSError`."""
    private_folder(path.parent)
    new = path.with_name(f".{path.name}.new")
    new.write_text(json.dumps(value, indent=1), "utf-8")
    new.chmod(PRIVATE_FILE)
    new.replace(path)


RunState = Literal["running", "done", "failed", "stopped", "interrupted"]
RECORD, STEPS, LOG = "run.json", "training.jsonl", "training.log"
_LOG_TAIL = 2_000


def run_lock(folder: Path) -> SessionLock:
    """Return the lock that the process of a run holds while it lives."""
    return SessionLock(folder, "run")


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """A training run, identified by its folder. All methods block."""

    folder: Path

    @property
    def id(self) -> str:
        return self.folder.name

    def record(self) -> dict[str, Any]:
        """Return the record (state `interrupted` if the process died). Raises `ConfigError` if unreadable."""
        try:
            found = json.loads((self.folder / RECORD).read_text("utf-8"))
        except (OSError, ValueError):
            found = None
        if not isinstance(found, dict):
            raise ConfigError(f"The record of the run {self.id} cannot be read.")
        if found.get("state") == "running" and not run_lock(self.folder).is_held():
            found["state"] = "interrupted"
        return found

    def note(self, **changes: Any) -> None:
        """Change fields of the stored record. Raises `OSError`."""
        try:
            before = json.loads((self.folder / RECORD).read_text("utf-8"))
        except (OSError, ValueError):
            before = {}
        write_json(self.folder / RECORD, {**before, **changes})

    def note_ended(self, state: RunState, error: str = "", result: Mapping[str, Any] | None = None) -> None:
        """Store the outcome of the run. Raises `OSError`."""
        self.note(state=state, error=error, result=dict(result or {}), ended=time.time())

    def steps(self) -> list[dict[str, Any]]:
        """Return the results of the finished steps. Invalid lines are ignored."""
        try:
            lines = (self.folder / STEPS).read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            return []
        found: list[dict[str, Any]] = []
        for line in lines:
            try:
                found.append(json.loads(line))
            except ValueError:
                continue
        return found

    def log_tail(self) -> str:
        """Return the end of the process's output; empty if there is none."""
        try:
            return (self.folder / LOG).read_text("utf-8", "replace")[-_LOG_TAIL:].strip()
        except OSError:
            return ""


def find_run(folder: Path, id: str) -> TrainingRun:
    """Return the run with an id. Raises `ConfigError` if there is none."""
    if not re.fullmatch(r"[0-9a-f]{8}", id) or not (folder / id / RECORD).is_file():
        raise ConfigError(f"There is no training run {id[:40]!r}; rl_list_runs shows them.")
    return TrainingRun(folder / id)


def all_runs(folder: Path) -> list[TrainingRun]:
    """Return all runs in a folder, newest first. Blocks."""
    found = [path.parent for path in folder.glob(f"*/{RECORD}")]
    return [TrainingRun(each) for each in sorted(found, key=_start_time, reverse=True)]


def _start_time(folder: Path) -> float:
    try:
        return float(json.loads((folder / RECORD).read_text("utf-8")).get("started") or 0)
    except (OSError, ValueError, AttributeError, TypeError):
        return 0.0


_CHILD = "import sys; sys.path[:] = {path!r}; from agent.automation.training.run_child import main; main()"
_PATIENCE = 15.0
"""Seconds after which a run that was asked to stop is killed."""
_MOST_TESTED, _MOST_GROUP = 10, 16
_TEST_TOKENS = 20_000
"""The number of tokens per rollout in the budget of a test."""


class SessionTraining(TrainingKeeper):
    """Implements `TrainingKeeper` for one session. Paths of environments are relative to its workspace."""

    def __init__(
        self, folder: Path, workspace: Path, model: str, environ: Mapping[str, str], tinker_key: str = ""
    ) -> None:
        """Create the training service.

        `folder` holds the runs and the configuration. `model` is the session's model.
        """
        self._folder = folder
        self._workspace = workspace
        self._model = model
        self._environ = dict(environ)
        self._tinker_key = tinker_key

    async def environments(self) -> Mapping[str, Any]:
        return await self._ask({"do": "environments", "folder": str(self._own)})

    async def select(self, name: str, permit: Permit) -> Mapping[str, Any]:
        order = {"do": "look", "name": name, "folder": str(self._own)}
        found = await self._ask(order)
        if found.pop("unknown", False):
            path = await asyncio.to_thread(_resolve, self._workspace, name)
            await permit(ReadPath(tool="rl_select_environment", path=path))
            found = await self._ask({**order, "path": str(path)})
        configuration = replace(await self._configuration(), environment=found.pop("where"))
        await self._keep(configuration)
        return {"success": True, **found, "configuration": configuration.to_json()}

    async def configuration(self) -> Mapping[str, Any]:
        configuration = await self._configuration()
        return {
            "configuration": configuration.to_json(),
            "model": configuration.model or self._model,
            "trainers": {"prompts": "", "tinker": self._without_tinker()},
        }

    async def edit(self, field: str, value: Any) -> Mapping[str, Any]:
        if field == "environment":
            raise ToolError("The environment is changed with rl_select_environment.")
        changed = edit_configuration(await self._configuration(), field, value)
        await self._keep(changed)
        return {"success": True, "configuration": changed.to_json()}

    async def start(self, run: str, permit: Permit) -> Mapping[str, Any]:
        if run:
            found = await self._find_run(run)
            record = await asyncio.to_thread(found.record)
            if record["state"] == "running":
                raise ToolError(f"The run {run} is running; rl_check_status tells how far it is.")
            given = record["configuration"]
        else:
            configuration = await self._configuration()
            if not configuration.environment:
                raise ToolError("No environment is selected; choose one with rl_select_environment.")
            given = replace(configuration, model=configuration.model or self._model).to_json()
            found = TrainingRun(self._folder / secrets.token_hex(4))
        if given["trainer"] == "tinker" and (missing := self._without_tinker()):
            raise ToolError(missing)
        if given["trainer"] == "tinker" and not given["base_model"]:
            raise ToolError("Name the model to train with rl_edit_config, field base_model.")
        of = f"{given['steps']} steps of {given['group']} rollouts, trainer {given['trainer']}"
        what = f"train on {Path(given['environment']).name}: {of}"
        await permit(TrainModel(tool="rl_start_training", what=what, tokens=given["max_tokens"]))
        await self._begin(found, given)
        return {"success": True, **await asyncio.to_thread(partial(_status_json, found))}

    async def status(self, run: str) -> Mapping[str, Any]:
        return await asyncio.to_thread(partial(_status_json, await self._find_run(run)))

    async def stop(self, run: str) -> Mapping[str, Any]:
        found = await self._find_run(run)
        lock = run_lock(found.folder)
        if not await asyncio.to_thread(lock.is_held):
            raise ToolError(f"The run {run} is not running.")
        pid = lock.holder()
        waited = 0.0
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        while await asyncio.to_thread(lock.is_held):
            if waited >= _PATIENCE and pid is not None:
                kill_group(pid)
                await asyncio.to_thread(found.note_ended, "stopped")
                break
            await asyncio.sleep(0.1)
            waited += 0.1
        return {"success": True, **await asyncio.to_thread(partial(_status_json, found))}

    async def results(self, run: str) -> Mapping[str, Any]:
        found = await self._find_run(run)
        record, steps = await asyncio.to_thread(lambda: (found.record(), found.steps()))
        return {
            "run": found.id,
            "state": record["state"],
            "error": record.get("error") or None,
            "result": record.get("result") or None,
            "steps": steps,
            "folder": str(found.folder),
        }

    async def runs(self) -> Mapping[str, Any]:
        return {"runs": await asyncio.to_thread(_list_runs, self._folder)}

    async def test(self, tasks: int, group: int, model: str, permit: Permit) -> Mapping[str, Any]:
        configuration = await self._configuration()
        if not configuration.environment:
            raise ToolError("No environment is selected; choose one with rl_select_environment.")
        if not 1 <= tasks <= _MOST_TESTED or not 1 <= group <= _MOST_GROUP:
            raise ToolError(f"A test takes 1 to {_MOST_TESTED} tasks, each 1 to {_MOST_GROUP} times.")
        tokens = tasks * group * _TEST_TOKENS
        of = f"{plural(tasks, 'task')} of {Path(configuration.environment).name}"
        what = f"test {of}, each {plural(group, 'time')}"
        await permit(TrainModel(tool="rl_test_inference", what=what, tokens=tokens))
        given = {
            **configuration.to_json(),
            "model": model or configuration.model or self._model,
            "group": group,
            "max_tokens": tokens,
        }
        folder = self._folder / "tests" / secrets.token_hex(4)
        return await self._ask({"do": "test", "configuration": given, "tasks": tasks, "folder": str(folder)})

    @property
    def _own(self) -> Path:
        """The folder of the user's environments."""
        return self._folder / "environments"

    def _without_tinker(self) -> str:
        """Return a sentence on why weights cannot be trained; empty if they can."""
        if find_spec("tinker") is None:
            return missing("Training weights", "tinker")
        if not self._tinker_key:
            return "Training weights needs the variable TINKER_API_KEY."
        return ""

    async def _configuration(self) -> TrainingConfiguration:
        return await asyncio.to_thread(read_configuration, self._folder / "configuration.json")

    async def _keep(self, configuration: TrainingConfiguration) -> None:
        try:
            await asyncio.to_thread(write_json, self._folder / "configuration.json", configuration.to_json())
        except OSError as error:
            raise ToolError(f"{self._folder} cannot be written: {error.strerror}.") from error

    async def _find_run(self, run: str) -> TrainingRun:
        return await asyncio.to_thread(find_run, self._folder, run)

    async def _begin(self, run: TrainingRun, configuration: Mapping[str, Any]) -> None:
        """Start a run's process, and wait until it reports that it works or has ended. Raises `ToolError`."""

        def prepare() -> int:
            private_folder(run.folder)
            run.note(configuration=dict(configuration), state="running", error="", started=time.time())
            return os.open(run.folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE_FILE)

        try:
            log = await asyncio.to_thread(prepare)
        except OSError as error:
            raise ToolError(f"{run.folder} cannot be written: {error.strerror}.") from error
        try:
            process = await self._process(asyncio.subprocess.PIPE, log)
        finally:
            os.close(log)
        order = {"do": "train", "folder": str(run.folder), "configuration": dict(configuration)}
        await _order(process, order)
        assert process.stdout is not None
        # The output comes from the process that continues, which soon has another parent.
        begun = await process.stdout.read()
        await process.wait()
        if not begun:
            await asyncio.to_thread(run.note_ended, "failed", "The process that trains ended at once.")

    async def _ask(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Run a process that answers one order, and return its answer. Raises `ToolError`."""
        process = await self._process(asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL)
        try:
            said, _ = await process.communicate(json.dumps(order).encode() + b"\n")
        finally:
            await kill_child(process)
        try:
            answer = json.loads(said.splitlines()[-1])
        except (ValueError, IndexError):
            raise ToolError(f"The process that trains ended with code {process.returncode}.") from None
        if answer.get("error"):
            raise ToolError(str(answer["error"]))
        return answer

    async def _process(self, output: int, errors: int) -> asyncio.subprocess.Process:
        try:
            return await start_child(
                [sys.executable, "-I", "-c", _CHILD.format(path=sys.path)],
                stdin=asyncio.subprocess.PIPE,
                stdout=output,
                stderr=errors,
                cwd=self._workspace,
                env=self._environ,
            )
        except OSError as error:
            raise ToolError(f"The process that trains cannot be started: {error.strerror}.") from error


def _resolve(workspace: Path, name: str) -> Path:
    return (workspace / Path(name).expanduser()).resolve()


async def _order(process: asyncio.subprocess.Process, order: Mapping[str, Any]) -> None:
    assert process.stdin is not None
    with suppress(ConnectionError):
        process.stdin.write(json.dumps(order).encode() + b"\n")
        await process.stdin.drain()
    process.stdin.close()


def _status_json(run: TrainingRun) -> dict[str, Any]:
    """Return the status of a run as a JSON object. Blocks."""
    record, steps = run.record(), run.steps()
    configuration = record.get("configuration") or {}
    told: dict[str, Any] = {
        "run": run.id,
        "state": record["state"],
        "steps": len(steps),
        "of": configuration.get("steps"),
        "seconds": round((record.get("ended") or time.time()) - record["started"]),
        "last": steps[-1] if steps else None,
    }
    if record.get("error"):
        told["problem"] = record["error"]
    if record["state"] in ("failed", "interrupted") and (said := run.log_tail()):
        told["log"] = said
    return told


def _list_runs(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for run in all_runs(folder):
        with suppress(HermesError):
            record = run.record()
            configuration = record.get("configuration") or {}
            found.append(
                {
                    "run": run.id,
                    "state": record["state"],
                    "environment": configuration.get("environment"),
                    "trainer": configuration.get("trainer"),
                    "steps": f"{len(run.steps())} of {configuration.get('steps')}",
                    "started": time.strftime("%Y-%m-%d %H:%M", time.localtime(record["started"])),
                }
            )
    return found
