"""Results of tasks: `results.jsonl`, one line per task, and a journal of started tasks.

A line is written when its task ends, and is never changed. At the end, the lines are sorted into the order of
the task file. Lines cut short by a crash are ignored. A resumed run reads both files.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agent.automation.checks.check import CheckResult
from agent.core.home import PRIVATE_FILE, private_folder
from agent.errors import ConfigError, HermesError
from tools.kit.files import create_file

RESULTS, JOURNAL = "results.jsonl", "journal.jsonl"


class ResultsNotWrittenError(HermesError):
    """Error: a result, or the start of a task, cannot be written."""

    def __init__(self, path: Path, error: OSError) -> None:
        reason = error.strerror or str(error)
        super().__init__(
            f"{path} cannot be written: {reason}; fix that, and run the same command again to continue."
        )


@dataclass(frozen=True, slots=True)
class TaskResult:
    """A line of the results. `usage` counts requests and tokens of all attempts."""

    id: str
    key: str
    outcome: str
    text: str
    usage: Mapping[str, int]
    seconds: float
    attempts: int
    checks: tuple[CheckResult, ...]
    session: str
    error: str = ""
    cost: float | None = None
    """US dollars; None where a price is unknown."""
    toolsets: tuple[str, ...] = ()
    """What it was limited to, by the task or by a distribution; empty: the usual ones."""

    @property
    def passed(self) -> bool:
        """Return whether the task was done and every check that could be decided passed."""
        return self.outcome == "done" and all(check.passed for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> TaskResult:
        """Read a result from JSON. Raises `KeyError`, `TypeError` or `AttributeError` for invalid data."""
        checks = tuple(CheckResult(**each) for each in given["checks"])
        result = cls(**{**given, "checks": checks, "toolsets": tuple(given.get("toolsets") or ())})
        if not result._has_right_types():
            raise TypeError("a field of a result is of another type")
        return result

    def _has_right_types(self) -> bool:
        texts = [self.id, self.key, self.outcome, self.text, self.session, self.error, *self.toolsets]
        texts += [text for check in self.checks for text in (check.check, check.detail)]
        counts = (self.attempts, *self.usage.values())
        numbers = (self.seconds, 0 if self.cost is None else self.cost)
        return (
            all(isinstance(text, str) for text in texts)
            and all(type(count) is int for count in counts)
            and all(type(number) in (int, float) for number in numbers)
            and all(check.passed in (None, True, False) for check in self.checks)
        )


@dataclass(frozen=True, slots=True)
class Begun:
    """The session of a task that was started, and the number of its attempts."""

    session: str
    attempts: int


class ResultFolder:
    """The folder of a batch."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def results(self) -> Path:
        return self.root / RESULTS

    @property
    def journal(self) -> Path:
        return self.root / JOURNAL

    @property
    def home(self) -> Path:
        """The home of the batch's sessions, separate from the person's home."""
        return self.root / "home"

    def workspace(self, name: str) -> Path:
        """Return the folder in which a task works."""
        return self.root / "work" / name

    def make(self) -> None:
        """Make the folder. Raises `ConfigError`."""
        try:
            private_folder(self.root)
        except ConfigError as error:
            cause = getattr(error.__cause__, "strerror", "") or str(error)
            reason = "it is not a folder" if self.root.exists() and not self.root.is_dir() else cause
            raise ConfigError(f"{self.root} cannot be used: {reason}; choose another with -o.") from error

    def prepare(self) -> None:
        """Create the folder, and add the missing line ending if a crash cut a line short.

        Raises `ConfigError` or `OSError`.
        """
        self.make()
        for path in (self.results, self.journal):
            _end_line(path)

    def task_results(self) -> Iterator[TaskResult]:
        """Yield the results so far, in file order; if a task has several, the last one counts."""
        for _, line in _lines(self.results):
            if (result := _result(line)) is not None:
                yield result

    def begun_tasks(self) -> dict[str, Begun]:
        """Return the tasks that have a session, by name."""
        found: dict[str, Begun] = {}
        for _, line in _lines(self.journal):
            if isinstance(line.get("task"), str) and isinstance(line.get("session"), str):
                attempt = line.get("attempt")
                found[line["task"]] = Begun(line["session"], attempt if isinstance(attempt, int) else 1)
        return found

    def note_begun(self, task: str, session: str, attempt: int) -> None:
        """Record the session of a task before its model is asked anything.

        Raises `ResultsNotWrittenError`.
        """
        _append(self.journal, {"task": task, "session": session, "attempt": attempt})

    def note_ended(self, result: TaskResult) -> None:
        """Write a result. Raises `ResultsNotWrittenError`."""
        _append(self.results, result.to_json())

    def put_in_order(self, names: Sequence[str]) -> None:
        """Rewrite the results in the order of `names`, followed by those of other tasks.

        Raises `ResultsNotWrittenError`; the file is then unchanged.
        """
        new = self.results.with_name(f".{RESULTS}.{secrets.token_hex(4)}")
        try:
            self._write_ordered(names, new)
            new.replace(self.results)
        except OSError as error:
            with suppress(OSError):
                new.unlink(missing_ok=True)
            raise ResultsNotWrittenError(self.results, error) from error

    def _write_ordered(self, names: Sequence[str], new: Path) -> None:
        places = {each.key: at for at, line in _lines(self.results) if (each := _result(line)) is not None}
        ordered = [places.pop(name) for name in names if name in places]
        with os.fdopen(create_file(new), "wb") as file, self.results.open("rb") as old:
            for place in (*ordered, *places.values()):
                old.seek(place)
                file.write(old.readline())
            file.flush()
            os.fsync(file.fileno())


def _result(line: Mapping[str, Any]) -> TaskResult | None:
    try:
        return TaskResult.from_json(line)
    except (KeyError, TypeError, AttributeError):
        return None


def _append(path: Path, given: Mapping[str, Any]) -> None:
    try:
        # One write: lines of several processes never mix.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, PRIVATE_FILE)
        try:
            rest = memoryview(_after_cut(descriptor) + (json.dumps(given, ensure_ascii=True) + "\n").encode())
            while rest:
                rest = rest[os.write(descriptor, rest) :]
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ResultsNotWrittenError(path, error) from error


def _after_cut(descriptor: int) -> bytes:
    """Return a line ending if the last line of the file lacks one, else nothing."""
    size = os.fstat(descriptor).st_size
    return b"\n" if size and os.pread(descriptor, 1, size - 1) != b"\n" else b""


def _end_line(path: Path) -> None:
    """Add a line ending to a file whose last line was cut short."""
    try:
        with path.open("rb+") as file:
            if file.seek(0, os.SEEK_END) and file.seek(-1, os.SEEK_END) >= 0 and file.read(1) != b"\n":
                file.write(b"\n")
    except FileNotFoundError:
        pass


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each line that is a JSON object, with its byte offset."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        place = 0
        for line in file:
            begins, place = place, place + len(line)
            try:
                given = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(given, dict):
                yield begins, given
