"""Foresight of what a job's script and delivery would be refused, told when the job is made."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from agent.automation.schedule.delivery import resolved, working_folder, written
from agent.automation.schedule.job import JobIntent
from agent.automation.schedule.zones import ScheduleError
from agent.automation.unattended.commands import UnattendedCommands
from tools.senses.services import SendMessage
from tools.services.actions import Action, RunCommand


async def foreseen(commands: UnattendedCommands, intent: JobIntent) -> tuple[str, ...]:
    """A sentence for each of its effects without a model that the gate would not let pass as things stand."""
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
    """What it does without a model. Looks at the disk. Raises `ScheduleError`."""
    folder = working_folder(intent.cwd)
    if intent.script:
        yield "script", RunCommand(tool="terminal", command=intent.script, cwd=folder)
    kind, _, target = intent.deliver.partition(":")
    if kind == "mail":
        yield "mail command", RunCommand(tool="terminal", command=target, cwd=folder)
    elif kind == "file":
        yield "delivery", written(resolved(folder, target))
    elif kind == "message":
        yield "delivery", SendMessage(tool="send_message", target=target, text="…")
