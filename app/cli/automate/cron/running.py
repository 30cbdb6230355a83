"""`hermes cron run`: carry out what is due, now and then once, or as long as the program runs."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.errors import ExitCode
from app.cli.sessions.output import say

if TYPE_CHECKING:
    from agent.automation.schedule.job import Job, JobRun


def declare(actions: Any) -> None:
    """Declare the actions."""
    parser = actions.add_parser(
        "run",
        help="do what is due, as long as it runs",
        description="Do what is due, as long as it runs; one line of JSON a run. With JOB, run that one now.",
    )
    parser.add_argument("job", nargs="?", metavar="JOB", help="run this one now, and exit")
    parser.add_argument("--once", action="store_true", help="do what is due now, wait for it, and exit")
    parser.add_argument("--json", action="store_true", help="as without it: one line of JSON a run")
    install = actions.add_parser(
        "install",
        help="have jobs run while Hermes is closed",
        description="Show, then set up what runs jobs while Hermes is closed: a systemd user unit, or a "
        "line of crontab.",
    )
    install.add_argument("--yes", action="store_true", help="set it up without asking")
    way = install.add_mutually_exclusive_group()
    way.add_argument(
        "--systemd", action="store_const", const=True, dest="systemd", help="a systemd user unit"
    )
    way.add_argument("--crontab", action="store_const", const=False, dest="systemd", help="a line of crontab")


def run(args: argparse.Namespace) -> int:
    """Carry it out. Raises `HermesError`."""
    if args.action == "install":
        return _install(args)
    return asyncio.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    from agent.api.job_runs import open_runner
    from agent.automation.schedule.book import JobBook
    from agent.core.config.known_secrets import secrets_of_home
    from agent.core.config.loader import load
    from agent.core.home import Home
    from agent.core.store.store import Store

    home = Home.locate()
    settings = (await asyncio.to_thread(load, home, dict(os.environ), Path.cwd())).settings

    def told(job: Job, run: JobRun) -> None:
        print(json.dumps({**run.as_json(), "name": job.title, "output": run.output}), flush=True)

    async with await Store.open(home.database, secrets=secrets_of_home()) as store:
        runner = open_runner(store.database, home, settings, told)
        if args.job is not None:
            asked = await JobBook(store.database, home.schedule).ask_for(args.job)
            ended = await runner.carry_through(asked.id)
            return int(ExitCode.DONE if ended.state == "done" else ExitCode.FAILED)
        if args.once:
            await runner.once()
            return int(ExitCode.DONE)
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await runner.run(stop)
    return int(ExitCode.DONE)


def _install(args: argparse.Namespace) -> int:
    import sys

    from agent.automation.schedule.unit import installation
    from agent.core.home import Home

    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    wanted = installation(Home.locate().root, config, args.systemd)
    say(f"{wanted.path}:" if wanted.path is not None else "A line of your crontab:")
    say("")
    say(wanted.text.rstrip())
    for command in wanted.commands:
        say(f"then: {' '.join(command)}")
    if wanted.note:
        say(wanted.note)
    if not args.yes:
        if not sys.stdin.isatty():
            say("Nothing was changed; --yes sets it up.")
            return int(ExitCode.DONE)
        print("Set it up? [y/N] ", end="", flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            say("Nothing was changed.")
            return int(ExitCode.DONE)
    wanted.carry_out()
    say("It is set up.")
    return int(ExitCode.DONE)
