"""`hermes checkpoints`: size, integrity check and cleanup of the stored file states."""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import TYPE_CHECKING

from agent.core.home import Home
from agent.errors import ExitCode
from app.cli.frame import add_action, add_actions, advise, answer, say, say_json

if TYPE_CHECKING:
    from agent.core.config.schema import CheckpointSettings
    from agent.safety.sandbox.caches import SweptCaches
    from agent.workspace.checkpoints.garbage_collection import StoreFinding
    from agent.workspace.checkpoints.store import CheckpointStore

MEGABYTE = 1_000_000
DAY = 86_400.0
_ALL = 1 << 31


DESCRIPTION = (
    "Show how much is kept of what steps did to files, check that it is as it was "
    "written, or remove what is too old or too much. verify exits with 1 when something is "
    "damaged or missing; gc when something was left because the store was in use."
)


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `hermes checkpoints` to its parser."""
    actions = add_actions(parser)
    for name, summary in (
        ("status", "how much is kept, and the limits"),
        ("verify", "read everything and name what is damaged or missing"),
        ("gc", "remove what is above the limits, and what nothing needs any more"),
    ):
        add_action(actions, name, summary, run, json="print JSON")


def run(args: argparse.Namespace) -> int | None:
    """Print the status of the store, verify it or clean it up; return an exit code. Raises `HermesError`."""
    from agent.core.config.loader import load
    from agent.safety.sandbox.caches import sweep_over
    from agent.workspace.checkpoints.store import CheckpointStore

    home = Home.locate()
    loaded = load(home).settings
    settings = loaded.checkpoints
    swept = sweep_over(home, loaded.sandbox) if args.action == "gc" else None
    if not home.checkpoints.exists():
        record = {"kept": False} | ({} if swept is None else {"cache_bytes_freed": swept.freed})
        return answer(args, record, "No checkpoints are kept yet.")
    store = CheckpointStore(home.checkpoints)
    if args.action == "status":
        return _status(store, settings, as_json=args.as_json)
    if args.action == "verify":
        return _verify(store, as_json=args.as_json)
    return _collect(store, settings, home, swept, as_json=args.as_json)


def _status(store: CheckpointStore, settings: CheckpointSettings, *, as_json: bool) -> None:
    from agent.workspace.checkpoints.garbage_collection import status

    found = status(store)
    if as_json:
        record = {
            "kept": True,
            "sessions": found.sessions,
            "steps": found.steps,
            "objects": found.objects,
            "bytes": found.size,
            "oldest": found.oldest,
            "flaws": found.flaws,
            "max_bytes": settings.max_total_mb * MEGABYTE,
            "max_age_days": settings.max_age_days,
            "enabled": settings.enabled,
        }
        say_json(record)
        return
    say(f"{_count(found.steps, 'step')} of {_count(found.sessions, 'session')}, {_since(found.oldest)}")
    say(f"{_megabytes(found.size)} of {settings.max_total_mb:,} MB in {_count(found.objects, 'object')}")
    say(f"Steps are kept for {settings.max_age_days:g} days, files up to {settings.max_file_mb:,} MB.")
    if not settings.enabled:
        say("Nothing is added: `checkpoints.enabled` is off.")
    if found.flaws:
        advise(f"▲ {_count(found.flaws, 'record')} cannot be used; `hermes checkpoints verify` names them.")


def _verify(store: CheckpointStore, *, as_json: bool) -> ExitCode:
    from agent.workspace.checkpoints.garbage_collection import verify

    report = verify(store)
    if as_json:
        record = {
            "sound": report.sound,
            "sessions": report.sessions,
            "steps": report.steps,
            "objects": report.objects,
            "problems": [_record(finding) for finding in report.problems],
            "notes": [_record(finding) for finding in report.notes],
        }
        say_json(record)
    else:
        for finding in (*report.notes, *report.problems):
            say(f"{'▲' if finding in report.problems else '·'} {finding.place}: {finding.sentence}")
        what = f"{_count(report.steps, 'step')} and {_count(report.objects, 'object')}"
        say(f"{what}: {'as they were written.' if report.sound else 'not all as they were written.'}")
    return ExitCode.DONE if report.sound else ExitCode.FAILED


def _collect(
    store: CheckpointStore,
    settings: CheckpointSettings,
    home: Home,
    swept: SweptCaches | None,
    *,
    as_json: bool,
) -> ExitCode:
    from agent.workspace.checkpoints.garbage_collection import collect

    done = collect(
        store,
        max_bytes=settings.max_total_mb * MEGABYTE,
        max_age=settings.max_age_days * DAY,
        living=asyncio.run(_living(home)),
    )
    if as_json:
        record = {
            "sessions": done.sessions,
            "steps": done.steps,
            "objects": done.objects,
            "freed_bytes": done.freed,
            "cache_bytes_freed": 0 if swept is None else swept.freed,
            "left_because_busy": done.busy,
        }
        say_json(record)
    else:
        parts = (
            _count(done.steps, "step"),
            _count(done.sessions, "deleted session"),
            _count(done.objects, "object"),
        )
        say(f"Removed {', '.join(parts)}; {_megabytes(done.freed)} are free again.")
        if swept is not None and swept.removed:
            say(f"Caches of {_count(swept.removed, 'project')} removed: {_megabytes(swept.freed)}.")
        if done.busy:
            say("A session is adding to the checkpoints; run it again later to remove the rest.")
    return ExitCode.FAILED if done.busy else ExitCode.DONE


async def _living(home: Home) -> tuple[str, ...] | None:
    """Return the ids of all sessions in the store; None if there is no store."""
    from agent.core.store.store import Store

    if not home.keeps_sessions():
        return None
    async with await Store.open(home.database) as store:
        everyone = await store.list_sessions(_ALL, children=True, archived=True)
        return tuple(session.id for session in everyone)


def _record(finding: StoreFinding) -> dict[str, str]:
    return {"place": finding.place, "what": finding.sentence}


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'s' * (number != 1)}"


def _megabytes(size: int) -> str:
    return f"{size / MEGABYTE:,.1f} MB"


def _since(moment: float | None) -> str:
    if moment is None:
        return "none of them yet"
    return f"the oldest of {time.strftime('%Y-%m-%d %H:%M', time.localtime(moment))}"
