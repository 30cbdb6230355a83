"""Delivery of what a run said: into a file, or to a command such as a mailer."""

from __future__ import annotations

import asyncio
import os
from datetime import datetime
from pathlib import Path

from agent.schedule.commands import run_command
from agent.schedule.job import Job, JobRun


async def deliver(job: Job, run: JobRun) -> str:
    """Hand the stored output on; a sentence about what went wrong, empty if nothing did."""
    kind, _, target = job.intent.deliver.partition(":")
    text = run.output or run.error
    cwd = await asyncio.to_thread(lambda: Path(job.intent.cwd or Path.home()))
    if kind == "file":
        return await asyncio.to_thread(_append, cwd, target, job, run, text)
    if kind == "mail":
        done = await run_command(target, cwd, 120, text.encode())
        return "" if done.code == 0 else f"Delivery by {target[:60]!r} failed: {done.said}"
    return ""


def _append(cwd: Path, target: str, job: Job, run: JobRun, text: str) -> str:
    path = cwd / Path(target).expanduser()
    due = datetime.fromtimestamp(run.due / 1000).astimezone().isoformat(" ", "minutes")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(file, "a", encoding="utf-8") as out:
            out.write(f"## {job.title}, {due}\n\n{text.rstrip()}\n\n")
    except OSError as error:
        return f"{path} cannot be written: {error.strerror}"
    return ""
