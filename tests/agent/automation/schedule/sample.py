"""A job as data, a clock that is set by hand, deliveries of a home."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from agent.automation.schedule.book import JobDelivery, Permit
from agent.automation.schedule.job import Job, JobIntent, JobRun
from agent.automation.unattended.commands import UnattendedCommands
from agent.core.home import Home
from tools.results import ToolError
from tools.senses.services import SendMessage

START = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
HOUR = 3600


def job(schedule: str, missed: str = "once", looked: int = START, **more: object) -> Job:
    """A job that looks, in UTC, due from the start on."""
    intent = JobIntent(schedule=schedule, zone="UTC", prompt="look", missed=missed, **more)  # type: ignore[arg-type]
    return Job(id="a", intent=intent, state="active", anchor=START, looked=looked, next=START, runs=0)


class Clock:
    """A wall clock that is set by hand."""

    def __init__(self) -> None:
        self.now = float(START)

    def __call__(self) -> float:
        return self.now


def delivery(folder: Path, sent: list[tuple[str, str, str]] | None = None) -> JobDelivery:
    """Deliveries of a home in `folder`; messages go into `sent`."""

    async def send(_run: JobRun, target: str, text: str, title: str, permit: Permit) -> None:
        if sent is None:
            raise ToolError(f"There is no target {target!r}.")
        await permit(SendMessage(tool="send_message", target=target, text=text))
        sent.append((target, title, text))

    commands = UnattendedCommands(home=Home(folder / "home"), surface="cron", environ=os.environ)
    return JobDelivery(commands=commands, send=send)
