"""Records of training runs and their configuration."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, get_args

from agent.core.home import PRIVATE_FILE, private_folder
from agent.core.store.locks import SessionLock
from agent.errors import ConfigError, NotThereError

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
    """The configuration of a training run. What rollouts may do depends on permissions, not on this."""

    environment: str = ""
    """A suite that ships, a task file or the folder of a suite."""
    trainer: Trainer = "prompts"
    prompts: tuple[str, ...] = _PROMPTS
    """Ways to put a task, of which the trainer of prompts finds the best."""
    steps: int = 10
    group: int = 4
    """Rollouts of one task in a step."""
    jobs: int = 2
    """Rollouts at once."""
    rate: float = 2.0
    """Rate of learning of the trainer of prompts."""
    learning_rate: float = 0.0001
    """Rate of learning of weights."""
    rank: int = 32
    """Rank of the adapter that is trained beside the weights."""
    base_model: str = ""
    """The model that Tinker trains."""
    model: str = ""
    """The model that works on the tasks; empty: that of the session."""
    max_tokens: int = 200_000
    """What all rollouts may use together."""
    seed: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the configuration as stored and shown."""
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
    """Return the configuration with one field changed. Raises `ConfigError`."""
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
    """Return the stored configuration; the default if it is missing or unreadable. Blocks."""
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
    """Return the lock that a run's process holds as long as it lives."""
    return SessionLock(folder, "run")


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """A training run, identified by its folder. All methods block."""

    folder: Path

    @property
    def id(self) -> str:
        return self.folder.name

    def record(self) -> dict[str, Any]:
        """Return the stored record. Its state is `interrupted` if the process died."""
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
        """Record how the run ended."""
        self.note(state=state, error=error, result=dict(result or {}), ended=time.time())

    def steps(self) -> list[dict[str, Any]]:
        """Return the results of the run's steps. A partly written line is ignored."""
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
        """Return the end of the process's output."""
        try:
            return (self.folder / LOG).read_text("utf-8", "replace")[-_LOG_TAIL:].strip()
        except OSError:
            return ""


def find_run(folder: Path, id: str) -> TrainingRun:
    """Return the run with an id. Raises `NotThereError`."""
    if not re.fullmatch(r"[0-9a-f]{8}", id) or not (folder / id / RECORD).is_file():
        raise NotThereError(f"There is no training run {id[:40]!r}; rl_list_runs shows them.")
    return TrainingRun(folder / id)


def all_runs(folder: Path) -> list[TrainingRun]:
    """Return all runs, newest first. Blocks."""
    found = [path.parent for path in folder.glob(f"*/{RECORD}")]
    return [TrainingRun(each) for each in sorted(found, key=_start_time, reverse=True)]


def _start_time(folder: Path) -> float:
    try:
        return float(json.loads((folder / RECORD).read_text("utf-8")).get("started") or 0)
    except (OSError, ValueError, AttributeError, TypeError):
        return 0.0
