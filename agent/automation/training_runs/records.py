"""Runs of training as files: what each was to do, how it stands, what its steps brought."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from agent.automation.training_runs.configuration import write_json
from agent.core.store.locks import SessionLock
from agent.errors import ConfigError

RunState = Literal["running", "done", "failed", "stopped", "interrupted"]
RECORD, STEPS, LOG = "run.json", "training.jsonl", "training.log"
_LOG_TAIL = 2_000


def run_lock(folder: Path) -> SessionLock:
    """What the process of a run holds as long as it lives."""
    return SessionLock(folder, "run")


@dataclass(frozen=True, slots=True)
class TrainingRun:
    """A run by its folder. All methods block."""

    folder: Path

    @property
    def id(self) -> str:
        return self.folder.name

    def record(self) -> dict[str, Any]:
        """What is noted of it; the state `interrupted` where its process died."""
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
        """Keep something of it. Raises `OSError`."""
        try:
            before = json.loads((self.folder / RECORD).read_text("utf-8"))
        except (OSError, ValueError):
            before = {}
        write_json(self.folder / RECORD, {**before, **changes})

    def note_ended(self, state: RunState, error: str = "", result: Mapping[str, Any] | None = None) -> None:
        """Note how it ended."""
        self.note(state=state, error=error, result=dict(result or {}), ended=time.time())

    def steps(self) -> list[dict[str, Any]]:
        """What its steps brought; a line that is half written is left out."""
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

    def said(self) -> str:
        """The end of what its process printed."""
        try:
            return (self.folder / LOG).read_text("utf-8", "replace")[-_LOG_TAIL:].strip()
        except OSError:
            return ""


def find_run(folder: Path, id: str) -> TrainingRun:
    """The run of an id. Raises `ConfigError`."""
    if not re.fullmatch(r"[0-9a-f]{8}", id) or not (folder / id / RECORD).is_file():
        raise ConfigError(f"There is no training run {id[:40]!r}; rl_list_runs shows them.")
    return TrainingRun(folder / id)


def all_runs(folder: Path) -> list[TrainingRun]:
    """The runs there are, newest first. Blocks."""
    found = [path.parent for path in folder.glob(f"*/{RECORD}")]
    return [TrainingRun(each) for each in sorted(found, key=_started, reverse=True)]


def _started(folder: Path) -> float:
    try:
        return float(json.loads((folder / RECORD).read_text("utf-8")).get("started") or 0)
    except (OSError, ValueError, AttributeError, TypeError):
        return 0.0
