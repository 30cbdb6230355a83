"""Edits of a job: its new intent, state and next due time. Pure."""

from __future__ import annotations

from dataclasses import replace

from agent.automation.schedule.deciding import following, never_due
from agent.automation.schedule.job import Job, JobIntent, consistent


def edited(before: Job, intent: JobIntent, now: int, rescheduled: bool) -> Job:
    """The job with another intent. `rescheduled`: a schedule was given, perhaps the one it has.

    It counts from now on where its schedule changed; else what is due and not decided about stays due. A
    paused job stays paused; one that is over is active again only where it is due again. Raises
    `ScheduleError` where a change of its times leaves it never due.
    """
    intent = consistent(intent)
    old = before.intent
    over = before.state == "done"
    moved = (intent.schedule, intent.zone) != (old.schedule, old.zone) or (over and rescheduled)
    retimed = moved or (intent.until, intent.repeat) != (old.until, old.repeat)
    looked = before.looked if before.state == "active" and not moved else max(now, before.looked)
    changed = replace(before, intent=intent, anchor=now if moved else before.anchor, looked=looked)
    if before.state != "active" and not retimed:
        return changed
    soonest = following(changed, looked)
    if retimed and soonest is None:
        raise never_due(changed)
    if before.state == "paused":
        return changed
    return replace(changed, state="active" if soonest is not None else "done", next=soonest)
