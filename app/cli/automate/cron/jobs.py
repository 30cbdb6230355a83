"""`hermes cron list|add|edit|pause|resume|remove|log`: jobs as they are kept."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.errors import ConfigError, ExitCode
from app.cli.automate.cron.asking import whole_number
from app.cli.sessions.output import say
from tools.text.words import one_line

if TYPE_CHECKING:
    from agent.automation.schedule.book import JobBook
    from agent.automation.schedule.job import Job, JobRun
    from agent.core.home import Home
    from agent.core.store.store import Store

_LISTS = ("skills", "toolsets", "context_from", "allow")


def declare(actions: Any) -> None:
    """Declare the actions."""
    _action(actions, "list", "show all jobs")
    add = _action(actions, "add", "make a job")
    add.add_argument("schedule", metavar="SCHEDULE", help="30m, every 2h, '0 9 * * 1-5', or an ISO time")
    add.add_argument("prompt", nargs="?", metavar="PROMPT", help="what to do; not with --script")
    _intent(add)
    edit = _action(actions, "edit", "change what a job means")
    edit.add_argument("job", metavar="JOB", help="id, start of an id, or name")
    edit.add_argument("--schedule", metavar="SCHEDULE")
    edit.add_argument("--prompt", metavar="TEXT")
    _intent(edit)
    for name, text in (
        ("pause", "let nothing of a job be due"),
        ("resume", "let a job be due again, from now on"),
        ("remove", "forget a job and its runs"),
    ):
        _action(actions, name, text).add_argument("job", metavar="JOB", help="id, start of an id, or name")
    log = _action(actions, "log", "show the newest runs, with their receipts")
    log.add_argument("job", nargs="?", default="", metavar="JOB", help="of this job only")
    log.add_argument(
        "-n", dest="count", type=whole_number, default=20, metavar="COUNT", help="how many (default: 20)"
    )


def _action(actions: Any, name: str, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, help=text, description=f"{text.capitalize()}.")
    parser.add_argument("--json", action="store_true", dest="as_json", help="print JSON")
    return parser


def _intent(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", metavar="NAME", help="what it is called")
    parser.add_argument("--tz", dest="zone", metavar="ZONE", help="time zone (default: this machine's)")
    parser.add_argument("--missed", choices=("skip", "once", "all"), help="what becomes of missed runs")
    parser.add_argument("--overlap", choices=("skip", "queue", "parallel"), help="while one is at work")
    parser.add_argument("--jitter", type=int, metavar="SECONDS", help="late by up to so much (default: 0)")
    parser.add_argument("--repeat", type=int, metavar="N", help="over after so many runs")
    parser.add_argument("--until", metavar="ISO", help="over after this time")
    parser.add_argument(
        "--deliver",
        metavar="WHERE",
        help="notice, none, file:PATH, mail:COMMAND, message:TARGET, or a messenger: telegram[:CHAT]",
    )
    parser.add_argument("--skill", dest="skills", action="append", metavar="NAME", help="a skill to follow")
    parser.add_argument("--model", metavar="M", help="the model to ask")
    parser.add_argument(
        "--toolset", dest="toolsets", action="append", metavar="NAME", help="only these tools"
    )
    parser.add_argument("--cwd", metavar="D", help="folder to work in (default: this one)")
    parser.add_argument("--script", metavar="COMMAND", help="run a command, and ask no model")
    parser.add_argument(
        "--context-from", action="append", metavar="JOB", help="begin with the last output of a job"
    )
    parser.add_argument(
        "--allow", action="append", metavar="RULE", help="allow this in its runs, like 'terminal(make *)'"
    )


def run(args: argparse.Namespace) -> int:
    """Carry it out. Raises `HermesError`."""
    from agent.core.home import Home

    home = Home.locate()
    if args.action in ("list", "log") and not home.keeps_sessions():
        # Looking must not make a store.
        print(json.dumps({"jobs" if args.action == "list" else "runs": []})) if args.as_json else say(
            "No jobs."
        )
        return int(ExitCode.DONE)
    asyncio.run(_with_book(home, args))
    return int(ExitCode.DONE)


async def _with_book(home: Home, args: argparse.Namespace) -> None:
    from agent.automation.schedule.book import JobBook
    from agent.automation.schedule.needs import JobNeeds
    from agent.core.store.store import Store

    async with await Store.open(home.database) as store:
        book = JobBook(store.database, home.schedule, needs=JobNeeds(home))
        match args.action:
            case "list":
                await _list(book, args.as_json)
            case "log":
                await _log(book, args)
            case "add":
                wanted = _wanted(args)
                wanted.setdefault("cwd", _here())
                await _made("Added", home, store, await book.add(wanted), args.as_json)
            case "edit":
                before = (await book.job(args.job)).intent.allow
                if not (wanted := _wanted(args, before)):
                    raise ConfigError(
                        "Nothing is to be changed; give what is, such as --schedule 'every 2h'; "
                        "see `hermes cron edit --help`."
                    )
                await _made("Changed", home, store, await book.edit(args.job, wanted), args.as_json)
            case "pause":
                _show("Paused", await book.pause(args.job), args.as_json)
            case "resume":
                _show("Goes on", await book.resume(args.job), args.as_json)
            case _:
                _show("Removed", await book.remove(args.job), args.as_json)


def _here() -> str:
    return str(Path.cwd())


def _folder(given: str) -> str:
    """The folder of `--cwd` in full. Raises `ConfigError` where there is none."""
    if not given:
        raise ConfigError("--cwd is empty; name a folder, or leave it away.")
    try:
        folder = Path(given).expanduser().absolute()
    except RuntimeError:
        # There is no user of that name.
        folder = Path(given)
    if not folder.is_dir():
        raise ConfigError(f"There is no folder {one_line(str(folder))}; make it, or give another --cwd.")
    return str(folder)


def _wanted(args: argparse.Namespace, before: Sequence[str] = ()) -> dict[str, Any]:
    """What is asked for; `before` are the rules that a job has."""
    from agent.automation.schedule.job import delivery_rule

    names = (
        *("schedule", "prompt", "name", "zone", "missed", "overlap", "jitter", "repeat", "until"),
        *("deliver", "model", "script", *_LISTS),
    )
    found = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    if args.cwd is not None:
        found["cwd"] = _folder(args.cwd)
    if rule := delivery_rule(found.get("deliver", "")):
        # Who names the target here has said yes to it.
        found["allow"] = [*found.get("allow", before), rule]
    return found


async def _list(book: JobBook, as_json: bool) -> None:
    from agent.automation.schedule.book import CLOSED, job_json

    jobs = await book.jobs()
    runs = [next(iter(await book.runs(job.id, 1)), None) for job in jobs]
    if as_json:
        found = [job_json(job, last) for job, last in zip(jobs, runs, strict=True)]
        print(json.dumps({"jobs": found, "watched": book.is_watched()}))
        return
    for job, last in zip(jobs, runs, strict=True):
        ended = f"last {last.state}" if last is not None else "never ran"
        say(_row(job, f"{ended:<16}  "))
        if job.problem:
            say(f"    {one_line(str(job.problem))}")
    if not jobs:
        say("No jobs.")
    elif not book.is_watched():
        say(CLOSED)


async def _log(book: JobBook, args: argparse.Namespace) -> None:
    if not args.count:
        raise ConfigError("-n 0 shows nothing; give 1 or more, or leave it away.")
    runs = await book.runs(args.job, min(args.count, 10_000))
    if args.as_json:
        print(json.dumps({"runs": [{**each.as_json(), "output": each.output} for each in runs]}))
        return
    for each in runs:
        say(run_line(each))
        if text := (each.error or each.output).strip():
            say(f"    {one_line(str(text))[:160]}")
    if not runs:
        say("No runs yet.")


def run_line(run: JobRun) -> str:
    """One run on one line: when it was due, why, how it ended, what it took."""
    seconds = "" if run.started is None or run.ended is None else f"{run.ended - run.started:.1f} s"
    tokens, cost = run.receipt.get("tokens"), run.receipt.get("cost")
    took = [seconds, f"{tokens} tokens" if tokens else "", f"${cost:.4f}" if cost else ""]
    refused = run.receipt.get("refused") or ()
    took.append(f"{len(refused)} refused" if refused else "")
    took.append(f"delivery {run.delivery}" if run.delivery in ("waiting", "failed") else "")
    return f"{run.id:>5}  {run.job}  {when(run.due / 1000)}  {run.why:<6}  {run.state:<11}  " + ", ".join(
        filter(None, took)
    )


def when(seconds: float | None) -> str:
    """A time of this machine's zone."""
    if seconds is None:
        return "never"
    return datetime.fromtimestamp(seconds).astimezone().strftime("%a %Y-%m-%d %H:%M")


def _row(job: Job, more: str = "") -> str:
    """One job on one line; `more` stands before its title."""
    state = f"next {when(job.next)}" if job.standing == "active" else job.standing
    return f"{job.id}  {job.intent.schedule:<16}  {state:<26}  {more}{one_line(str(job.title))}"


async def _made(done: str, home: Home, store: Store, job: Job, as_json: bool) -> None:
    from agent.api.job_runs import refusals

    _show(done, job, as_json, await refusals(home, store.database, job))


def _show(done: str, job: Job, as_json: bool, refused: Sequence[str] = ()) -> None:
    from agent.automation.schedule.book import job_json

    if as_json:
        print(json.dumps({"job": job_json(job), **({"refused": list(refused)} if refused else {})}))
        return
    say(f"{done}: {_row(job)}")
    for rule in job.intent.allow if done in ("Added", "Changed") else ():
        say(f"  its runs are allowed: {one_line(str(rule))}")
    for sentence in refused:
        say(f"  {one_line(str(sentence))}")
