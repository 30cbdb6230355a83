"""One attempt at a task: an unattended session in its own home and workspace, checked at the end.

Results of tasks: `results.jsonl`, one line per task, and a journal of started tasks. A line is written when
its task ends, and is never changed. At the end, the lines are sorted into the order of the task file. Lines
cut short by a crash are ignored. A resumed run reads both files.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import shutil
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

from agent.automation.batch.task import BatchTask
from agent.automation.checks.check import CheckResult, Evidence, carry_out, open_judge
from agent.automation.unattended.commands import UnattendedCommands
from agent.automation.unattended.session_automation import AUTOMATION
from agent.core.attachments import AttachmentStore
from agent.core.config.environment import environment
from agent.core.config.loader import LoadedSettings, load
from agent.core.home import PRIVATE_FILE, Home, private_folder
from agent.core.messages import Attachment, ModeName
from agent.core.store.connection import Database
from agent.core.store.nodes import Node
from agent.core.store.store import Store
from agent.errors import ConfigError, ExitCode, HermesError, StoreError
from agent.events import TurnEnded
from agent.model.transport.reply import ModelRoute
from agent.session.engine import Engine
from agent.session.options import Options
from agent.session.runtime import open_engine
from agent.session.spending.budget import Budget, BudgetAccount, BudgetReachedError
from agent.session.spending.metering import Metering, day_budget, total_budget
from agent.session.spending.request_table import SIDE
from agent.session.spending.spending import Spending, prices_of
from tools.kit.files import create_file, lock_file

RESULTS, JOURNAL = "results.jsonl", "journal.jsonl"


class ResultsNotWrittenError(HermesError):
    """Raised if a result, or the start of a task, cannot be written."""

    def __init__(self, path: Path, error: OSError) -> None:
        reason = error.strerror or str(error)
        super().__init__(
            f"{path} cannot be written: {reason}; fix that, and run the same command again to continue."
        )


@dataclass(frozen=True, slots=True)
class TaskResult:
    """One line of the results. `usage` counts requests, calls and tokens of all attempts."""

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
    """US dollars; None if a price is unknown."""
    toolsets: tuple[str, ...] = ()
    """The toolsets to which the task or a distribution limited it; empty for the usual ones."""

    @property
    def passed(self) -> bool:
        """True if the task was done and every check passed."""
        return self.outcome == "done" and all(check.passed for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> TaskResult:
        """Return a result from JSON. Raises `KeyError`, `TypeError` or `AttributeError` for other data."""
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
    """The session of a task that was started, and the number of attempts so far."""

    session: str
    attempts: int


class ResultFolder:
    """The folder of a batch, with its results, journal, home and workspaces."""

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
        """The Hermes home of the batch's sessions, separate from the user's home."""
        return self.root / "home"

    def workspace(self, name: str) -> Path:
        """Return the folder in which a task works."""
        return self.root / "work" / name

    def make(self) -> None:
        """Create the folder. Raises `ConfigError`."""
        try:
            private_folder(self.root)
        except ConfigError as error:
            cause = getattr(error.__cause__, "strerror", "") or str(error)
            reason = "it is not a folder" if self.root.exists() and not self.root.is_dir() else cause
            raise ConfigError(f"{self.root} cannot be used: {reason}; choose another with -o.") from error

    def prepare(self) -> None:
        """Create the folder, and end lines that a crash has cut short.

        Raises `ConfigError` or `OSError`.
        """
        self.make()
        for path in (self.results, self.journal):
            _end_line(path)

    def task_results(self) -> Iterator[TaskResult]:
        """Yield the results so far, in file order. If a task has several, the last one is valid."""
        for _, line in _lines(self.results):
            if (result := _result(line)) is not None:
                yield result

    def begun_tasks(self) -> dict[str, Begun]:
        """Return the tasks that have a session, by task name."""
        found: dict[str, Begun] = {}
        for _, line in _lines(self.journal):
            if isinstance(line.get("task"), str) and isinstance(line.get("session"), str):
                attempt = line.get("attempt")
                found[line["task"]] = Begun(line["session"], attempt if isinstance(attempt, int) else 1)
        return found

    def note_begun(self, task: str, session: str, attempt: int) -> None:
        """Record the session of a task before any request is sent to its model.

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
    """Return a line ending if the last line of the file lacks one, otherwise an empty text."""
    size = os.fstat(descriptor).st_size
    return b"\n" if size and os.pread(descriptor, 1, size - 1) != b"\n" else b""


def _end_line(path: Path) -> None:
    """Append a line ending to a file whose last line lacks one."""
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


class WorkspaceNotLaidError(HermesError):
    """Raised if the folder of a task cannot be created."""


_COPIED = ("config.yaml", "permissions.yaml", "SOUL.md")
_LINKED = ("skills", "models", "plugins")
_ERRNO = re.compile(r"^\[Errno \d+\] |: '.*'$", re.DOTALL)
"""Matches the parts of an `OSError`'s text around its cause."""


def lay_home(folder: Path, home: Home) -> None:
    """Turn `folder` into a home folder with the user's settings, rules and skills, but its own sessions."""
    private_folder(folder)
    for name in _COPIED:
        source, target = home.root / name, folder / name
        if source.is_file():
            shutil.copyfile(source, target)
            target.chmod(PRIVATE_FILE)
        else:
            target.unlink(missing_ok=True)
    for name in _LINKED:
        source, target = home.root / name, folder / name
        if source.is_dir() and not os.path.lexists(target):
            target.symlink_to(source)


def variables(home: Home, folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for the batch's sessions: the user's variables, those of `.env`, and the batch's
    home.
    """
    return {**environment(home, environ), "HERMES_HOME": str(folder)}


def batch_settings(loaded: LoadedSettings, home: Home, total: Budget, runner: str) -> dict[str, Any]:
    """Return the settings that override the user's in every session of a batch.

    Features that outlive a session or need a user who watches are off. File changes are recorded, because
    only reversible changes are allowed without approval. `total` is the budget of all sessions together;
    `runner` tells where commands run.
    """
    settings: dict[str, Any] = {
        "memory": {"enabled": False},
        "learnings": {"enabled": False},
        "watcher": {"enabled": False},
        "sandbox": {"hidden": [*loaded.settings.sandbox.hidden, str(home.root)]},
    }
    ceilings = {name: value for name, value in (("tokens", total.tokens), ("money", total.money)) if value}
    if ceilings:
        settings["budget"] = {"total": ceilings}
    if runner in ("docker", "ssh"):
        # Not in the folder named in the user's settings: each task has its own folder.
        settings["terminal"] = {"backend": runner, "workdir": ""}
    return settings


def lay_workspace(folder: Path, files: Mapping[str, str], source: str = "") -> None:
    """Create the folder of a task: a copy of `source` with the task's files written over it.

    An existing folder is left unchanged, because the task continues in it. Raises `WorkspaceNotLaidError`.
    """
    try:
        if not folder.exists():
            _write_files(folder, files, source)
    except shutil.Error as error:
        # All that could not be copied, each with its cause as text; its message is a list in Python.
        path, _, cause = error.args[0][0]
        told = _ERRNO.sub("", str(cause))
        raise WorkspaceNotLaidError(f"{path} cannot be copied for the task: {told}.") from error
    except OSError as error:
        place, cause = error.filename or folder, error.strerror or error
        raise WorkspaceNotLaidError(f"The folder of the task cannot be made: {place}: {cause}.") from error


def _write_files(folder: Path, files: Mapping[str, str], source: str) -> None:
    private_folder(folder.parent)
    made = folder.with_name(f".{folder.name}")
    shutil.rmtree(made, ignore_errors=True)
    if source:
        shutil.copytree(source, made, symlinks=True)
        made.chmod(0o700)
    else:
        made.mkdir(mode=0o700)
    for path, text in files.items():
        target = made / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8", errors="surrogateescape", newline="")
    made.rename(folder)


_PATIENCE, _PAUSE = 30.0, 0.05


class FolderBusyError(HermesError):
    """Raised if another run uses the same folder."""

    exit_code = ExitCode.USAGE


class FolderLock:
    """Two locks of a batch folder: that of the run, held until `close`, and that of the workers, held until
    all ended.
    """

    def __init__(self, root: Path) -> None:
        """Lock the folder `root`.

        Blocks for up to 30 seconds while earlier workers end. Raises `FolderBusyError` and `OSError`.
        """
        self._run = _open(root / "lock")
        self.of_workers = -1
        """The file descriptor of the second lock, which workers inherit."""
        try:
            if not _try_lock(self._run):
                raise FolderBusyError(f"Another run works on {root}; wait for it, or choose another with -o.")
            self.of_workers = _open(root / "workers.lock")
            give_up = time.monotonic() + _PATIENCE
            while not _try_lock(self.of_workers):
                if time.monotonic() > give_up:
                    raise FolderBusyError(
                        f"Workers of a run that was killed still end in {root}; try again in a minute."
                    )
                time.sleep(_PAUSE)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release the locks, so that another run can begin once the workers have ended."""
        for descriptor in (self._run, self.of_workers):
            if descriptor >= 0:
                os.close(descriptor)
        self._run = self.of_workers = -1

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)


def _try_lock(descriptor: int) -> bool:
    return lock_file(descriptor, seconds=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJudge:
    """A judge that uses `model`, or the default model if it is empty.

    `settings` are those of the batch's sessions.
    """

    home: Home
    environ: Mapping[str, str]
    settings: Mapping[str, Any]
    model: str

    async def meets(self, prompt: str, rubric: Any, answer: str, database: Database) -> CheckResult:
        """Return whether an answer meets a rubric. If the model cannot be used, the result says why.

        `database` is the store of the batch. Raises `BudgetReachedError` if the batch has used up its budget.
        """
        loaded = await asyncio.to_thread(load, self.home, self.environ, chosen=self.settings)
        ceilings = loaded.settings.budget
        spending = Spending(
            database,
            prices_of(loaded.settings, self.environ),
            day_budget(ceilings),
            total=total_budget(ceilings),
        )
        # Without a session: what a task may use is for its own agent.
        metering = Metering(spending, BudgetAccount("the judge", Budget()), "", "", {})

        def with_meter(route: ModelRoute) -> ModelRoute:
            return replace(route, client=metering.client(route.client, route.name, SIDE))

        try:
            async with open_judge(loaded, self.home, self.model, with_meter) as judge:
                return await judge.meets(prompt, rubric, answer)
        except BudgetReachedError:
            raise
        except HermesError as error:
            return CheckResult("judge", None, str(error))
        finally:
            await spending.wait_for_writes()


_CACHE = 2048
"""The size in KiB of a worker's database cache: each task reads only what it has just written."""


class SharedStore:
    """A database connection that several callers share; the first caller opens it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._opening = asyncio.Lock()
        self._store: Store | None = None

    async def database(self) -> Database:
        """Return the connection, opened if necessary. Raises `StoreError`; the next call then tries again."""
        async with self._opening:
            if self._store is None:
                self._store = await Store.open(self._path)
                await self._store.database.read(_keep_little)
            return self._store.database

    async def aclose(self) -> None:
        """Finish queued work and close the connection, if it is open."""
        if self._store is not None:
            await self._store.close()


def _keep_little(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA cache_size = -{_CACHE}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedTask:
    """A task assigned to a worker. `name` is the key of its stored data, `shown` its name for the user."""

    task: BatchTask
    name: str
    shown: str
    attempt: int = 1
    session: str = ""
    """The session to continue; empty for a new one."""
    source: str = ""
    """A folder to copy into the task's folder at its beginning; empty for none."""
    toolsets: tuple[str, ...] = ()
    """The toolsets drawn from a distribution; empty for those that the task names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Folders, settings and models that all tasks of a run share."""

    folder: ResultFolder
    settings: Mapping[str, Any]
    environ: Mapping[str, str]
    approve: ModeName | None = None
    model: str = ""
    judge: str = ""
    """The model that judges answers; empty for the model of the task."""
    base: Path = Path()
    """The folder of the task file, to which paths of images are relative."""


async def attempt(
    assignment: AssignedTask, conditions: Conditions, shared: SharedStore | None = None
) -> TaskResult:
    """Work on a task until its turn has ended, and return the result. Errors of the task or the model are
    part of it.

    Stored answers are reused, not requested again. `shared` is the store of this process; None opens a
    separate connection.
    """
    began = time.monotonic()
    ended, path, session = (
        TurnEnded(outcome="failed", text="", session="", usage={}, error="", exit_code=1),
        (),
        "",
    )
    cost: float | None = None
    task, folder = assignment.task, conditions.folder.workspace(assignment.name)
    try:
        await asyncio.to_thread(lay_workspace, folder, task.files, assignment.source)
        engine = await open_engine(
            _options(assignment, conditions, folder),
            environ=conditions.environ,
            database=None if shared is None else await shared.database(),
            automation=AUTOMATION,
        )
        try:
            session = engine.session.id
            conditions.folder.note_begun(assignment.name, session, assignment.attempt)
            ended = await _turn(engine, assignment, conditions)
            path = tuple(engine.session.path)
            cost = (await engine.metering.spending.of_session(session)).money
        finally:
            await engine.aclose()
    except (HermesError, OSError) as error:
        ended = TurnEnded(outcome="failed", text="", session=session, usage={}, error=str(error), exit_code=1)
    checks: tuple[CheckResult, ...] = ()
    if ended.outcome == "done":
        evidence = Evidence(
            answer=ended.text,
            folder=folder,
            calls=_called_tools(path),
            prompt=task.prompt,
            judge=partial(_judge_answer, conditions, shared, task.prompt),
            run=partial(_run_command_check, conditions, folder),
        )
        try:
            checks = await carry_out(task.checks, evidence)
        except (BudgetReachedError, StoreError) as error:
            outcome = "budget" if isinstance(error, BudgetReachedError) else "failed"
            ended = replace(ended, outcome=outcome, error=str(error))
    return TaskResult(
        id=assignment.shown,
        key=assignment.name,
        outcome=ended.outcome,
        text=ended.text,
        usage=_usage(path),
        seconds=round(time.monotonic() - began, 3),
        attempts=assignment.attempt,
        checks=checks,
        session=session,
        error=ended.error,
        cost=cost,
        toolsets=assignment.toolsets or task.toolsets,
    )


async def _run_command_check(
    conditions: Conditions, folder: Path, command: str, seconds: float
) -> tuple[int, str]:
    """Return the exit code of a command check and its output, or the reason why it was refused."""
    commands = UnattendedCommands(
        home=Home(conditions.folder.home),
        surface="batch",
        environ=conditions.environ,
        approve=conditions.approve,
        offline=True,
    )
    ended = await commands.run(command, folder, seconds, why="check")
    return ended.code, ended.refused or ended.output


async def _judge_answer(
    conditions: Conditions, shared: SharedStore | None, prompt: str, rubric: Any, answer: str
) -> CheckResult:
    """Return a model's verdict on an answer, by a rubric."""
    home = Home(conditions.folder.home)
    judge = BatchJudge(
        home=home,
        environ=conditions.environ,
        settings=conditions.settings,
        model=conditions.judge or conditions.model,
    )
    if shared is not None:
        return await judge.meets(prompt, rubric, answer, await shared.database())
    async with await Store.open(home.database) as store:
        return await judge.meets(prompt, rubric, answer, store.database)


def _options(assignment: AssignedTask, conditions: Conditions, folder: Path) -> Options:
    task = assignment.task
    settings = {name: dict(section) for name, section in conditions.settings.items()}
    if toolsets := assignment.toolsets or task.toolsets:
        settings.setdefault("tools", {})["enabled"] = list(toolsets)
    own = {name: getattr(task.budget, name) for name in ("turns", "tokens", "money")}
    if own := {name: value for name, value in own.items() if value is not None}:
        settings.setdefault("budget", {})["session"] = own
    return Options(
        workspace=folder.resolve(),
        model=task.model or conditions.model or None,
        resume=assignment.session or None,
        approve=conditions.approve,
        surface="batch",
        settings=settings,
    )


async def _turn(engine: Engine, assignment: AssignedTask, conditions: Conditions) -> TurnEnded:
    turn = asyncio.ensure_future(_start_or_resume(engine, assignment, conditions))
    seconds = assignment.task.budget.seconds
    try:
        async with asyncio.timeout(seconds):
            return await asyncio.shield(turn)
    except TimeoutError:
        engine.interrupt()
        ended = await turn
        if ended.outcome != "interrupted":
            return ended
        error = f"The {seconds:g} seconds of the task are over."
        return TurnEnded(
            outcome="budget", text=ended.text, session=ended.session, usage={}, error=error, exit_code=1
        )
    except asyncio.CancelledError:
        engine.interrupt()
        with suppress(asyncio.CancelledError):
            await turn
        raise


async def _start_or_resume(engine: Engine, assignment: AssignedTask, conditions: Conditions) -> TurnEnded:
    path = engine.session.path
    if not any(node.kind == "user" for node in path):
        shown = await asyncio.to_thread(_images, assignment.task, conditions)
        return await engine.run(assignment.task.prompt, shown)
    ended = await engine.go_on()
    if ended is not None:
        return ended
    answer = next((node for node in reversed(path) if node.kind == "assistant"), None)
    text = answer.content if answer is not None else ""
    return TurnEnded(outcome="done", text=text, session=engine.session.id, usage={}, error="", exit_code=0)


def _images(task: BatchTask, conditions: Conditions) -> Sequence[Attachment]:
    if not task.image:
        return ()
    return (AttachmentStore(Home(conditions.folder.home).attachments).take(conditions.base / task.image),)


def _called_tools(path: Sequence[Node]) -> list[str]:
    return [
        call["name"] for node in path if node.kind == "assistant" for call in node.data.get("calls") or ()
    ]


def _usage(path: Sequence[Node]) -> dict[str, int]:
    counted = [node.data.get("usage") or {} for node in path if node.kind == "assistant"]
    usage = {"requests": len(counted), "calls": len(_called_tools(path))}
    for name in ("input", "output", "cached"):
        usage[name] = sum(each.get(name) or 0 for each in counted)
    return usage
