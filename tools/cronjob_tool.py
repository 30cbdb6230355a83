"""The tool `cronjob`: schedules jobs, once or repeatedly."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.context import ToolContext
from tools.registry import Arguments, registry, tool_schema
from tools.results import Display, TextDetail, ToolError, error_text
from tools.senses.services import SendMessage
from tools.services.actions import RunCommand, ScheduleJob, WritePath
from tools.services.job_keeper import JobKeeper
from tools.text.safe_text import clean
from tools.text.words import plural

ACTIONS = ("create", "list", "update", "pause", "resume", "remove", "run")
FIELDS = {
    "schedule": "schedule",
    "prompt": "prompt",
    "name": "name",
    "timezone": "zone",
    "repeat": "repeat",
    "until": "until",
    "missed": "missed",
    "overlap": "overlap",
    "deliver": "deliver",
    "skills": "skills",
    "model": "model",
    "enabled_toolsets": "toolsets",
    "workdir": "cwd",
    "script": "script",
    "context_from": "context_from",
}
"""The field of a job for each argument. Rules that allow something are missing: only users set them."""


async def cronjob(arguments: Arguments, context: ToolContext) -> Mapping[str, Any]:
    """Carry out one action of the `cronjob` tool. Raises `ToolError` and `DeniedError`."""
    action = str(arguments.get("action") or "")
    if action not in ACTIONS:
        raise ToolError(f"There is no action {action[:40]!r}; use one of {', '.join(ACTIONS)}.")
    if action == "list":
        return await context.service(JobKeeper).list()
    more = arguments.get("more")
    arguments = {**(more if isinstance(more, dict) else {}), **arguments}
    job = str(arguments.get("job_id") or "")
    wanted = {name: arguments[given] for given, name in FIELDS.items() if arguments.get(given) is not None}
    if action != "create" and not job:
        raise ToolError(f"The action {action} needs a job_id; list shows them.")
    await _permit(action, job, wanted, context)
    if action == "create":
        if not wanted.get("schedule"):
            raise ToolError("The schedule is missing; give one like every 2h or 0 9 * * 1-5.")
        return await context.service(JobKeeper).create(wanted)
    if action == "update":
        return await context.service(JobKeeper).update(job, wanted)
    return await context.service(JobKeeper).change(job, action)


async def _permit(action: str, job: str, wanted: Mapping[str, Any], context: ToolContext) -> None:
    """Request permission for the job, and for each effect it has without a model. Raises `DeniedError`."""
    what = str(wanted.get("script") or wanted.get("prompt") or wanted.get("name") or job)
    when = str(wanted.get("schedule") or action)
    await context.permit(ScheduleJob(tool="cronjob", when=when, what=f"{action} {what}"))
    cwd = Path(str(wanted.get("cwd") or context.workspace))
    deliver = str(wanted.get("deliver") or "")
    kind, _, target = deliver.partition(":")
    for command in filter(None, (str(wanted.get("script") or ""), target if kind == "mail" else "")):
        await context.permit(RunCommand(tool="terminal", command=command, cwd=cwd))
    if kind not in ("", "notice", "none", "file", "mail"):
        # A messenger may be named alone, as telegram or telegram:CHAT.
        target = target if kind in ("message", "send_message") else deliver
        await context.permit(SendMessage(tool="send_message", target=target, text=f"what {what[:200]} says"))
    if kind == "file":
        await context.permit(
            WritePath(tool="write_file", path=await asyncio.to_thread(_file, cwd, target), creates=True)
        )


def _file(cwd: Path, target: str) -> Path:
    return (cwd / Path(target).expanduser()).resolve()


def _describe(arguments: Arguments, result: Mapping[str, Any] | None) -> Display:
    action = clean(str(arguments.get("action") or ""))[:20]
    given = arguments.get("name") or arguments.get("job_id") or arguments.get("prompt") or ""
    subject = clean(" ".join(f"{action} {given}".split()))[:80]
    if result is None or result.get("error"):
        return Display("schedule", subject, error_text(result))
    if "jobs" in result:
        jobs = [each for each in result["jobs"] if isinstance(each, Mapping)]
        lines = [f"{each.get('id')}  {each.get('state')}  {each.get('schedule')}" for each in jobs]
        return Display("schedule", subject, plural(len(jobs), "job"), TextDetail(clean("\n".join(lines))))
    job = result.get("job")
    said = (
        f"{job.get('state')}, next {job.get('next') or 'never'}" if isinstance(job, Mapping) else "asked for"
    )
    return Display("schedule", subject, clean(said))


registry.register(
    name="cronjob",
    toolset="cronjob",
    schema=tool_schema(
        (
            "Have something done later, in a session of its own, by a prompt that says all it needs: nobody "
            "is there, what would need a yes is refused. An answer of [SILENT] is not shown."
        ),
        "action",
        action={"type": "string", "enum": list(ACTIONS)},
        job_id={"type": "string"},
        schedule={"type": "string", "description": "30m (once), every 2h, 0 9 * * 1-5, ISO time."},
        prompt={"type": "string"},
        script={"type": "string", "description": "A command instead; no model."},
        name={"type": "string"},
        deliver={
            "type": "string",
            "description": "notice, none, telegram, file:PATH, mail:COMMAND, message:TARGET",
        },
        more={
            "type": "object",
            "description": "timezone, repeat, until, missed (skip, once, all), overlap (skip, queue, "
            "parallel), skills, model, enabled_toolsets, workdir, context_from (jobs).",
        },
    ),
    handler=cronjob,
    describe=_describe,
    place=90,
    bundles=("default",),
)
