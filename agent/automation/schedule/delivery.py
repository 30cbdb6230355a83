"""Delivery of a job's output, and a permission check for it before the job runs."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from agent.automation.schedule.job import Job, JobIntent, JobRun
from agent.automation.schedule.zones import ScheduleError
from agent.automation.unattended.commands import UnattendedCommands
from agent.errors import HermesError
from tools.results import DeniedError, ToolError
from tools.senses.services import SendMessage
from tools.services.actions import Action, RunCommand, WritePath

MAIL_SECONDS = 120
LONGEST_MESSAGE = 3_900
"""Characters of an output that go into a message: its beginning."""

_NO_FILE = "no regular file"

Permit = Callable[[Action], Awaitable[None]]
Send = Callable[[JobRun, str, str, str, Permit], Awaitable[object]]
"""Sends a text of a run to a target under a title, if the gate lets it. Raises `ToolError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDelivery:
    """Delivers stored outputs. Every delivery passes the permission gate; no person is asked."""

    commands: UnattendedCommands
    send: Send

    async def __call__(self, job: Job, run: JobRun) -> str:
        """Deliver an output. Returns a sentence about a failure; empty if there was none."""
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
    """Return the resolved working folder of a job. Reads the disk."""
    return Path(cwd or Path.home()).resolve()


def resolve_target(cwd: Path, target: str) -> Path:
    """Return the file that a delivery names, with links resolved.

    Reads the disk. Raises `ScheduleError`.
    """
    try:
        path = (cwd / Path(target).expanduser()).resolve()
        # One that cannot be looked at cannot be written either; a pipe would wait for who reads it.
        if path.exists() and not path.is_file():
            raise ValueError(_NO_FILE)
    except (OSError, RuntimeError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else error
        raise ScheduleError(
            f"The file {target[:60]!r} cannot be used ({said}); give another path to deliver to."
        ) from None
    return path


def write_action(path: Path) -> WritePath:
    """Return the gate action for a delivery into a file."""
    return WritePath(tool="write_file", path=path, creates=not path.exists())


def append(path: Path, text: str) -> None:
    """Append a text to a regular file, which is created if missing. Raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # The path was resolved before it was judged: a link that came since is not followed,
    # and a pipe not waited for.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    with os.fdopen(os.open(path, flags, 0o600), "a", encoding="utf-8") as out:
        if not stat.S_ISREG(os.fstat(out.fileno()).st_mode):
            raise OSError(errno.EINVAL, _NO_FILE)
        out.write(text)


def _section(job: Job, run: JobRun, text: str) -> str:
    """Return an output under a heading, as written to a file."""
    due = datetime.fromtimestamp(run.due / 1000).astimezone().isoformat(" ", "minutes")
    return f"## {job.title}, {due}\n\n{text.rstrip()}\n\n"


def _shorten(text: str, run: JobRun) -> str:
    if len(text) <= LONGEST_MESSAGE:
        return text
    return f"{text[:LONGEST_MESSAGE]}…\n(the rest: hermes cron log {run.job})"


async def foresee_refusals(commands: UnattendedCommands, intent: JobIntent) -> tuple[str, ...]:
    """Return a sentence for each action of a job that the gate would refuse now.

    Only actions that need no model are checked. If the delivery cannot work, the sentence says so.
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
    """Yield title and gate action of each action of a job that needs no model.

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
