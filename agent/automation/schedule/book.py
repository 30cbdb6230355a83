"""The jobs of a Hermes home folder and of a session, with a check that their skills and toolsets exist."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.automation.schedule import job_table as table
from agent.automation.schedule.job import Job, JobIntent, JobRun, check_new_intent, edit_job, iso
from agent.automation.schedule.job_table import lease
from agent.automation.schedule.zones import ScheduleError, machine_zone
from agent.automation.unattended.commands import UnattendedCommands
from agent.core.home import Home
from agent.core.store.connection import Database
from agent.errors import HermesError
from themes.skin import nearest
from tools.results import DeniedError, ToolError
from tools.senses.services import SendMessage
from tools.services.actions import Action, RunCommand, WritePath
from tools.services.job_keeper import JobKeeper
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.core.config.schema import Settings

MAIL_SECONDS = 120
LONGEST_MESSAGE = 3_900
"""The maximum number of characters of an output in a message; the rest is left out."""

_NO_FILE = "no regular file"

Permit = Callable[[Action], Awaitable[None]]
Send = Callable[[JobRun, str, str, str, Permit], Awaitable[object]]
"""Sends the text of a run to a target under a title, if the gate permits it. Raises `ToolError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDelivery:
    """Delivers stored outputs. Every delivery passes the permission gate; the user is not asked."""

    commands: UnattendedCommands
    send: Send

    async def __call__(self, job: Job, run: JobRun) -> str:
        """Deliver the output of a run. Return a sentence about a failure; empty if there was none."""
        kind, _, target = job.intent.deliver.partition(":")
        text = run.output or run.error
        cwd = await asyncio.to_thread(working_folder, job.intent.cwd)
        allow, why = job.intent.allow, f"job {job.id}"
        try:
            if kind == "file":
                path = await asyncio.to_thread(resolve_target, cwd, target)
                await self.commands.permit(write_action(path), cwd, allow=allow, why=why)
                await asyncio.to_thread(append, path, _section(job, run, text))
            elif kind == "mail":
                ended = await self.commands.run(
                    target, cwd, MAIL_SECONDS, data=text.encode(), allow=allow, why=why
                )
                if ended.refused or ended.code:
                    return f"Delivery by {target[:60]!r} failed: {ended.summary}"
            elif kind == "message":
                permit = partial(self.commands.permit, folder=cwd, allow=allow, why=why)
                await self.send(run, target, _shorten(text, run), job.title, permit)
        except DeniedError as error:
            return f"Delivery to {target[:60]!r}: {self.commands.refusal_text(error)}"
        except ToolError as error:
            return f"Delivery to {target[:60]!r} failed: {error}"
        except HermesError as error:
            # Settings or rules that cannot be read, for example.
            return f"Delivery to {target[:60]!r} failed: {error}"
        except OSError as error:
            return f"{target[:200]} cannot be written: {error.strerror}"
        return ""


def working_folder(cwd: str) -> Path:
    """Return the resolved working folder of a job, by default the user's home. Reads the disk."""
    return Path(cwd or Path.home()).resolve()


def resolve_target(cwd: Path, target: str) -> Path:
    """Return the file named by a delivery, with links resolved.

    Reads the disk. Raises `ScheduleError`.
    """
    try:
        path = (cwd / Path(target).expanduser()).resolve()
        # An unreadable path cannot be written either; writing to a pipe would wait for a reader.
        if path.exists() and not path.is_file():
            raise ValueError(_NO_FILE)
    except (OSError, RuntimeError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else error
        raise ScheduleError(
            f"The file {target[:60]!r} cannot be used ({said}); give another path to deliver to."
        ) from None
    return path


def write_action(path: Path) -> WritePath:
    """Return the action for which the gate decides about a delivery to a file. Reads the disk."""
    return WritePath(tool="write_file", path=path, creates=not path.exists())


def append(path: Path, text: str) -> None:
    """Append a text to a regular file, which is created if missing. Raises `OSError`, also for a link."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # The path was resolved before it was judged: a link that came since is not followed,
    # and a pipe not waited for.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    with os.fdopen(os.open(path, flags, 0o600), "a", encoding="utf-8") as out:
        if not stat.S_ISREG(os.fstat(out.fileno()).st_mode):
            raise OSError(errno.EINVAL, _NO_FILE)
        out.write(text)


def _section(job: Job, run: JobRun, text: str) -> str:
    """Return an output under a heading, as it is written to a file."""
    due = datetime.fromtimestamp(run.due / 1000).astimezone().isoformat(" ", "minutes")
    return f"## {job.title}, {due}\n\n{text.rstrip()}\n\n"


def _shorten(text: str, run: JobRun) -> str:
    if len(text) <= LONGEST_MESSAGE:
        return text
    return f"{text[:LONGEST_MESSAGE]}…\n(the rest: hermes cron log {run.job})"


async def foresee_refusals(commands: UnattendedCommands, intent: JobIntent) -> tuple[str, ...]:
    """Return a sentence for each action of a job that the gate would refuse now.

    Only actions that need no model are checked. If the delivery cannot work, a sentence says so.
    """
    try:
        actions = await asyncio.to_thread(lambda: list(_effects(intent)))
    except ScheduleError as error:
        return (f"Its delivery will fail: {error}",)
    folder = await asyncio.to_thread(working_folder, intent.cwd)
    found = [(what, await commands.foresee(action, folder, allow=intent.allow)) for what, action in actions]
    return tuple(
        f"Its {what} will be refused when nobody is there: {why}. A rule can allow it, see --allow."
        for what, why in found
        if why
    )


def _effects(intent: JobIntent) -> Iterator[tuple[str, Action]]:
    """Yield name and gate action of each action of a job that needs no model.

    Reads the disk. Raises `ScheduleError`.
    """
    folder = working_folder(intent.cwd)
    if intent.script:
        yield "script", RunCommand(tool="terminal", command=intent.script, cwd=folder)
    kind, _, target = intent.deliver.partition(":")
    if kind == "mail":
        yield "mail command", RunCommand(tool="terminal", command=target, cwd=folder)
    elif kind == "file":
        yield "delivery", write_action(resolve_target(folder, target))
    elif kind == "message":
        yield "delivery", SendMessage(tool="send_message", target=target, text="…")


_MOST_NAMED = 40


@dataclass(frozen=True, slots=True)
class JobNeeds:
    """Checks that the skills and toolsets named by jobs exist with the current settings."""

    home: Home

    async def require(self, intent: JobIntent) -> None:
        """Raise `ScheduleError`, naming the first skill or toolset that does not exist."""
        if problem := await asyncio.to_thread(self.missing, intent):
            raise ScheduleError(problem)

    def missing(self, intent: JobIntent) -> str:
        """Return a sentence on the first missing skill or toolset; empty if all exist. Reads files."""
        if not intent.skills and not intent.toolsets:
            return ""
        from agent.core.config.loader import load

        settings = load(self.home, os.environ).settings
        folder = Path(intent.cwd or self.home.root)
        return _missing_skill(self.home, settings, folder, intent) or missing_toolset(
            self.home, settings, folder, intent.toolsets
        )


def _missing_skill(home: Home, settings: Settings, folder: Path, intent: JobIntent) -> str:
    from agent.integrations.plugins.shelf import catalog_for

    if not intent.skills:
        return ""
    catalog = catalog_for(home, folder, settings)
    if catalog is None:
        return "Skills are switched off (skills.enabled), so a job cannot follow any."
    found = catalog.load()
    for name in intent.skills:
        if found.get(name) is None:
            off = next((each.reason for each in found.off if each.skill.name == name), "")
            said = (
                f"The skill {_quote_name(name)} is not used: {off}"
                if off
                else f"There is no skill {_quote_name(name)}"
            )
            return f"{said}; there are {_list_text(each.name for each in found.skills)}."
    return ""


def missing_toolset(home: Home, settings: Settings, folder: Path, names: Sequence[str]) -> str:
    """Return a sentence about the first name that is neither toolset nor tool; empty if there is none. Reads
    files.
    """
    from tools.discovery import discover
    from tools.registry import registry
    from tools.toolsets import BUNDLES, unknown_names

    if not names:
        return ""
    discover()
    unknown = unknown_names(names, registry)
    brought = _external_toolsets(home, settings, folder) if unknown else ()
    for name in unknown:
        if name not in brought and not any(name.startswith(f"{each}__") for each in brought if each != "mcp"):
            known = sorted({*BUNDLES, *(entry.toolset for entry in registry.entries()), *brought})
            near = nearest(name, [*known, *(entry.name for entry in registry.entries())])
            if near != ".":
                return f"There is no toolset {_quote_name(name)}{near}"
            known_text = _list_text(known)
            return f"There is no toolset {_quote_name(name)}; there are {known_text}, or the name of a tool."
    return ""


def _external_toolsets(home: Home, settings: Settings, folder: Path) -> tuple[str, ...]:
    """Return names of toolsets and tools of MCP servers and plugins, which only open sessions register."""
    from agent.integrations.mcp.catalog import PREFIX, plain_name
    from agent.integrations.mcp.server_config import declared_servers
    from agent.integrations.plugins.shelf import find_approved_plugins

    declared = declared_servers(settings, home.servers, folder)
    servers = [each.config.name for each in declared.servers if each.usable]
    on = [each for each in find_approved_plugins(home, folder) if each.is_on]
    plugins = [f"plugin-{each.name}" for each in on]
    tools = [tool.name for each in on if each.consent is not None for tool in each.consent.registered.tools]
    # A server is named as it calls itself or as its tools are called.
    called = [plain_name(name, "").removesuffix("__") for name in servers]
    return ("mcp", "plugins", *(f"{PREFIX}{name}" for name in servers), *called, *plugins, *tools)


def _quote_name(name: str) -> str:
    return repr(clean(name)[:40])


def _list_text(names: Iterable[str]) -> str:
    found = list(names)
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    return f"{', '.join(found[:_MOST_NAMED])}{more}" if found else "none"


CLOSED = "Nothing runs while Hermes is closed; `hermes cron install` sets up what does."
_NAMES = frozenset(field.name for field in fields(JobIntent))
_NAMED = frozenset({"skills", "toolsets", "context_from", "cwd"})
"""Fields of a job that name things that must exist."""


class JobBook:
    """The jobs of a Hermes home folder. All methods raise `HermesError`."""

    def __init__(
        self,
        database: Database,
        folder: Path,
        clock: Callable[[], float] = time.time,
        *,
        needs: JobNeeds | None = None,
    ) -> None:
        """Create the access to the jobs in a database.

        `folder` holds the locks of runners. `needs` checks that the skills and toolsets of a new job exist.
        """
        self._database = database
        self._folder = folder
        self._clock = clock
        self._needs = needs

    def _now(self) -> int:
        return int(self._clock())

    def is_watched(self) -> bool:
        """Return whether a process is running that carries out due jobs."""
        return lease(self._folder).is_held()

    async def jobs(self) -> list[Job]:
        """Return all jobs, the next due one first."""
        return await self._database.read(table.jobs)

    async def job(self, id: str) -> Job:
        """Return the job with this id, beginning of an id, or name."""
        return await self._database.read(lambda c: table.job(c, id))

    async def add(self, wanted: Mapping[str, Any]) -> Job:
        """Store a new job, given by the fields of `JobIntent`, and return it."""
        intent = apply_changes(JobIntent(schedule="", zone=machine_zone()), wanted)
        now = self._now()
        await self._require(intent)
        intent = check_new_intent(intent, now)
        return await self._database.write(lambda c: table.add(c, intent, now))

    async def edit(self, id: str, changes: Mapping[str, Any]) -> Job:
        """Change a job as `edit_job` describes, and return it."""
        now = self._now()
        await self._require_own(id)
        if _NAMED & changes.keys():
            await self._require(apply_changes((await self.job(id)).intent, changes))

        def work(connection: table.Connection) -> Job:
            found = table.job(connection, id)
            changed = edit_job(found, apply_changes(found.intent, changes), now, "schedule" in changes)
            table.require_free(connection, changed.intent.name, found.id)
            return table.store_job(connection, changed)

        return await self._database.write(work)

    async def _require_own(self, id: str) -> None:
        if (await self.job(id)).beats:
            raise ScheduleError(
                "The heartbeat is not a job of its own; HEARTBEAT.md and the settings under `heartbeat` say "
                "what it looks after and how often."
            )

    async def _require(self, intent: JobIntent) -> None:
        for other in intent.context_from:
            await self.job(other)
        if self._needs is not None:
            await self._needs.require(intent)

    async def pause(self, id: str) -> Job:
        """Pause a job until it is resumed; return it."""
        await self._require_own(id)
        return await self._database.write(lambda c: table.set_state(c, id, "paused", self._now()))

    async def resume(self, id: str) -> Job:
        """Resume a paused job and return it. Its schedule starts again from now."""
        await self._require_own(id)
        return await self._database.write(lambda c: table.set_state(c, id, "active", self._now()))

    async def remove(self, id: str) -> Job:
        """Remove a job and its runs; return it."""
        return await self._database.write(lambda c: table.remove(c, id))

    async def put_back(self, job: Job, runs: Sequence[JobRun]) -> Job:
        """Restore a removed job together with its runs; return it."""
        return await self._database.write(lambda c: table.put_back(c, job, runs, self._now()))

    async def ask_for(self, id: str, why: str = "asked") -> JobRun:
        """Request a run of a job now, for a runner to carry out; return the run."""
        now = int(self._clock() * 1000)
        return await self._database.write(lambda c: table.ask_for(c, id, now, why))

    async def runs(self, id: str = "", count: int = 20) -> list[JobRun]:
        """Return the newest runs of a job, or of all jobs, at most `count`."""
        found = (await self.job(id)).id if id else ""
        return await self._database.read(lambda c: table.runs_of(c, found, count))

    async def run(self, id: int) -> JobRun:
        """Return the run with this id."""
        return await self._database.read(lambda c: table.run(c, id))

    async def notices(self) -> list[tuple[Job, JobRun]]:
        """Return the runs whose notices were not shown yet, and mark them as shown."""
        now = self._clock()

        def work(connection: table.Connection) -> list[tuple[Job, JobRun]]:
            found = table.to_deliver(connection, now, "notice")
            for _, run in found:
                table.note_delivery(connection, run.id, now, "")
            return found

        if not await self._database.read(lambda c: table.to_deliver(c, now, "notice")):
            return []
        return await self._database.write(work)

    async def waits(self) -> tuple[bool, float | None]:
        """Return whether any job or run is pending, and when the next one is due (seconds since the epoch),
        or None.
        """
        return await self._database.read(partial(table.waits, now=self._clock()))


def apply_changes(before: JobIntent, wanted: Mapping[str, Any]) -> JobIntent:
    """Return a job's definition with changes. Raises `ScheduleError` for an invalid change. Pure."""
    values: dict[str, Any] = {}
    for name, value in wanted.items():
        if name not in _NAMES:
            raise ScheduleError(f"A job has no {name[:40]!r}; there are {', '.join(sorted(_NAMES))}.")
        if value is None:
            continue
        old = getattr(before, name)
        if isinstance(old, tuple):
            items = [value] if isinstance(value, str) else value
            if not isinstance(items, list | tuple) or not all(isinstance(each, str) for each in items):
                raise ScheduleError(f"The value of {name!r} is wrong; give a list of names.")
            value = tuple(items)
        kind = int if name in ("jitter", "repeat") else tuple if isinstance(old, tuple) else str
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ScheduleError(
                f"The value of {name!r} is wrong; give {'a number' if kind is int else 'text'}."
            )
        values[name] = value
    if values.get("prompt"):
        values.setdefault("script", "")
    elif values.get("script"):
        values.setdefault("prompt", "")
    return replace(before, **values)


def job_json(job: Job, last: JobRun | None = None) -> dict[str, Any]:
    """Return a job as a JSON object, with its last run if known."""
    intent = {field.name: getattr(job.intent, field.name) for field in fields(JobIntent)}
    shown = {n: list(v) if isinstance(v, tuple) else v for n, v in intent.items()}
    found = {
        "id": job.id,
        "state": "heartbeat" if job.beats else job.state,
        "next": None if job.problem else iso(job.next),
        "runs": job.runs,
        **shown,
    }
    found["text"] = job.explanation
    if job.problem:
        found["problem"] = job.problem
    if last is not None:
        found["last"] = last.as_json()
    return found


class SessionJobs(JobKeeper):
    """Scheduled jobs as the tools of one session access them (`JobKeeper`).

    New jobs work in the session's workspace unless they name another folder.
    """

    def __init__(self, book: JobBook, workspace: Path, commands: UnattendedCommands) -> None:
        """Create the access. `commands` is used later to run scripts and mail commands."""
        self._book = book
        self._workspace = workspace
        self._commands = commands

    async def create(self, wanted: Mapping[str, Any]) -> Mapping[str, Any]:
        return await self._job_result(await self._book.add({"cwd": str(self._workspace), **wanted}))

    async def update(self, job: str, changes: Mapping[str, Any]) -> Mapping[str, Any]:
        return await self._job_result(await self._book.edit(job, changes))

    async def list(self) -> Mapping[str, Any]:
        found = [await self._with_last(each) for each in await self._book.jobs()]
        return {"jobs": found, **self._closed_note()}

    async def change(self, job: str, action: str) -> Mapping[str, Any]:
        if action == "run":
            run = await self._book.ask_for(job)
            return {"success": True, "run": run.as_json(), **self._closed_note()}
        changes = {"pause": self._book.pause, "resume": self._book.resume, "remove": self._book.remove}
        return {"success": True, "job": job_json(await changes[action](job))}

    async def _job_result(self, job: Job) -> Mapping[str, Any]:
        refused = await foresee_refusals(self._commands, job.intent)
        told = {"refused": list(refused)} if refused else {}
        return {"success": True, "job": job_json(job), **told, **self._closed_note()}

    async def _with_last(self, job: Job) -> dict[str, Any]:
        runs = await self._book.runs(job.id, 1)
        return job_json(job, runs[0] if runs else None)

    def _closed_note(self) -> dict[str, str]:
        return {} if self._book.is_watched() else {"note": CLOSED}
