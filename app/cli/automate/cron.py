"""`hermes cron`: calculating schedules, and managing jobs and their runs."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.home import Home
from agent.errors import ConfigError, ExitCode
from app.cli.frame import (
    add_action,
    add_actions,
    agrees,
    load_settings,
    open_store,
    say,
    say_json,
    whole_number,
)
from tools.text.words import one_line, plural

if TYPE_CHECKING:
    from agent.automation.schedule.book import JobBook
    from agent.automation.schedule.job import Answer, Job, JobRun, Question
    from agent.core.store.store import Store

LONGEST_LINE = 100_000
"""The number of bytes of a line from stdin that are read."""
_LISTS = ("skills", "toolsets", "context_from", "allow")
_JOB = "id, start of an id, or name"

DESCRIPTION = "Jobs that work on time, and when they are due."


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `hermes cron` to its parser."""
    actions = add_actions(parser)
    _declare_next(actions)
    _declare_jobs(actions)
    _declare_runs(actions)


def _declare_next(actions: Any) -> None:
    parser = add_action(actions, "next", "show when a schedule is due next", _next)
    parser.description = "Show when SCHEDULE is due next: 30m, every 2h, five cron fields, or an ISO time."
    parser.add_argument("schedule", nargs="*", metavar="SCHEDULE", help="a schedule, quoted or not")
    parser.add_argument(
        "--tz", metavar="ZONE", help="time zone, like Europe/Berlin (default: this machine's)"
    )
    parser.add_argument(
        "--from",
        dest="after",
        metavar="ISO",
        help="strictly after this time (default: now); wall time of the zone",
    )
    parser.add_argument(
        "-n", dest="count", type=whole_number(0, 999_999), metavar="COUNT", help="how many (default: 5)"
    )
    parser.add_argument(
        "--stdin",
        action="store_true",
        help="read one JSON object a line, {schedule, tz, from, count}, and answer with one each",
    )


def _next(args: argparse.Namespace) -> int:
    """Print the next times of one schedule, or of many on stdin; return an exit code."""
    from agent.automation.schedule.job import ask
    from agent.automation.schedule.zones import machine_zone

    usual = {
        "tz": machine_zone() if args.tz is None else args.tz,
        "from": datetime.now(UTC).replace(microsecond=0).isoformat() if args.after is None else args.after,
        "count": args.count,
    }
    if args.stdin:
        if args.schedule:
            raise ConfigError("--stdin reads the schedules; leave SCHEDULE out.")
        return _answer_lines(usual)
    if not args.schedule:
        raise ConfigError("A schedule is missing; write hermes cron next '0 9 * * 1-5', or use --stdin.")
    answer = ask(_question({"schedule": " ".join(args.schedule)}, usual))
    if args.as_json:
        say_json(_as_json(answer))
        return int(ExitCode.DONE)
    say(f"{answer.text} ({usual['tz']})")
    for each in answer.next:
        say(f"  {each:%a} {each.isoformat(' ', 'auto')}")
    if not answer.next:
        say("  never: the time is over")
    return int(ExitCode.DONE)


def _answer_lines(usual: dict[str, Any]) -> int:
    code = ExitCode.DONE
    while line := sys.stdin.buffer.readline(LONGEST_LINE + 1):
        if not line.strip():
            continue
        if len(line.rstrip(b"\n")) > LONGEST_LINE:
            _skip_line(line)
            answer: dict[str, Any] = {
                "schedule": None,
                "error": f"The line is longer than {LONGEST_LINE:,} bytes; ask for one schedule a line.",
            }
        else:
            answer = _answer_line(line, usual)
        if "error" in answer:
            code = ExitCode.USAGE
        say_json(answer)
    return int(code)


def _skip_line(begun: bytes) -> None:
    """Read and discard the rest of a line from stdin."""
    while begun and not begun.endswith(b"\n"):
        begun = sys.stdin.buffer.readline(LONGEST_LINE)


def _answer_line(line: bytes, usual: dict[str, Any]) -> dict[str, Any]:
    from agent.automation.schedule.job import ask
    from agent.automation.schedule.zones import ScheduleError

    try:
        asked = json.loads(line)
    except (ValueError, RecursionError):
        asked = None
    if not isinstance(asked, dict):
        return {
            "schedule": None,
            "error": 'The line is not a JSON object; write one like {"schedule": "30m"}.',
        }
    schedule = asked.get("schedule")
    try:
        return _as_json(ask(_question(asked, usual)))
    except ScheduleError as error:
        return {"schedule": schedule if isinstance(schedule, str) else None, "error": str(error)}


def _question(asked: dict[str, Any], usual: dict[str, Any]) -> Question:
    from agent.automation.schedule.job import DEFAULT_COUNT, Question
    from agent.automation.schedule.zones import ScheduleError

    given: dict[str, Any] = {
        name: asked[name] if asked.get(name) is not None else usual.get(name) for name in _KINDS
    }
    given["count"] = DEFAULT_COUNT if given["count"] is None else given["count"]
    for name, kind in _KINDS.items():
        if not isinstance(given[name], kind) or isinstance(given[name], bool):
            what = "a whole number" if kind is int else "text"
            raise ScheduleError(f"The value of {name!r} is missing or wrong; give {what}.")
    return Question(given["schedule"], given["tz"], given["from"], given["count"])


_KINDS: dict[str, type] = {"schedule": str, "tz": str, "from": str, "count": int}


def _as_json(answer: Answer) -> dict[str, Any]:
    return {
        "schedule": answer.schedule,
        "kind": answer.kind,
        "next": [each.isoformat() for each in answer.next],
        "text": answer.text,
    }


def _declare_jobs(actions: Any) -> None:
    add_action(actions, "list", "show all jobs", _work_on, json="print JSON")
    add = add_action(actions, "add", "make a job", _work_on, json="print JSON")
    add.add_argument("schedule", metavar="SCHEDULE", help="30m, every 2h, '0 9 * * 1-5', or an ISO time")
    add.add_argument("prompt", nargs="?", metavar="PROMPT", help="what to do; not with --script")
    _intent(add)
    edit = add_action(actions, "edit", "change what a job means", _work_on, json="print JSON")
    edit.add_argument("job", metavar="JOB", help=_JOB)
    edit.add_argument("--schedule", metavar="SCHEDULE")
    edit.add_argument("--prompt", metavar="TEXT")
    _intent(edit)
    for name, text in (
        ("pause", "pause a job: nothing of it is due"),
        ("resume", "resume a job, from now on"),
        ("remove", "delete a job and its runs"),
    ):
        add_action(actions, name, text, _work_on, json="print JSON").add_argument(
            "job", metavar="JOB", help=_JOB
        )
    log = add_action(actions, "log", "show the newest runs, with their receipts", _work_on, json="print JSON")
    log.add_argument("job", nargs="?", default="", metavar="JOB", help="of this job only")
    log.add_argument(
        "-n",
        dest="count",
        type=whole_number(0, 999_999),
        default=20,
        metavar="COUNT",
        help="how many (default: 20)",
    )


def _intent(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", metavar="NAME", help="what it is called")
    parser.add_argument("--tz", dest="zone", metavar="ZONE", help="time zone (default: this machine's)")
    parser.add_argument("--missed", choices=("skip", "once", "all"), help="what becomes of missed runs")
    parser.add_argument("--overlap", choices=("skip", "queue", "parallel"), help="while one is running")
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


def _work_on(args: argparse.Namespace) -> None:
    home = Home.locate()
    if args.action in ("list", "log") and not home.keeps_sessions():
        # Reading must not create a store.
        if job := vars(args).get("job"):
            raise ConfigError(f"{job[:40]!r} is not a job; `hermes cron list` shows them.")
        print(json.dumps({"jobs" if args.action == "list" else "runs": []})) if args.as_json else say(
            "No jobs."
        )
        return
    asyncio.run(_with_book(home, args))


async def _with_book(home: Home, args: argparse.Namespace) -> None:
    from agent.automation.schedule.book import JobBook, JobNeeds

    async with await open_store(home) as store:
        book = JobBook(store.database, home.schedule, needs=JobNeeds(home))
        match args.action:
            case "list":
                await _list(book, args.as_json)
            case "log":
                await _log(book, args)
            case "add":
                wanted = _job_fields(args)
                wanted.setdefault("cwd", str(Path.cwd()))
                await _show_saved("Added", home, store, await book.add(wanted), args.as_json)
            case "edit":
                before = (await book.job(args.job)).intent.allow
                if not (wanted := _job_fields(args, before)):
                    raise ConfigError(
                        "Nothing would change; name what should, such as --schedule 'every 2h'; "
                        "see `hermes cron edit --help`."
                    )
                await _show_saved("Changed", home, store, await book.edit(args.job, wanted), args.as_json)
            case "pause":
                _show("Paused", await book.pause(args.job), args.as_json)
            case "resume":
                _show("Goes on", await book.resume(args.job), args.as_json)
            case _:
                _show("Removed", await book.remove(args.job), args.as_json)


def _folder(given: str) -> str:
    """Return the absolute path of the folder given by `--cwd`. Raises `ConfigError` if it does not exist."""
    if not given:
        raise ConfigError("--cwd is empty; name a folder, or leave it out.")
    try:
        folder = Path(given).expanduser().absolute()
    except RuntimeError:
        # No user has that name.
        folder = Path(given)
    if not folder.is_dir():
        raise ConfigError(f"There is no folder {one_line(str(folder))}; make it, or give another --cwd.")
    return str(folder)


def _job_fields(args: argparse.Namespace, before: Sequence[str] = ()) -> dict[str, Any]:
    """Return the fields of a job that the arguments set; `before` are the job's existing permission rules."""
    from agent.automation.schedule.job import delivery_rule

    names = (
        *("schedule", "prompt", "name", "zone", "missed", "overlap", "jitter", "repeat", "until"),
        *("deliver", "model", "script", *_LISTS),
    )
    found = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    if args.cwd is not None:
        found["cwd"] = _folder(args.cwd)
    if rule := delivery_rule(found.get("deliver", "")):
        # Naming the target here counts as consent to it.
        found["allow"] = [*found.get("allow", before), rule]
    return found


async def _list(book: JobBook, as_json: bool) -> None:
    from agent.automation.schedule.book import CLOSED, job_json

    jobs = await book.jobs()
    runs = [next(iter(await book.runs(job.id, 1)), None) for job in jobs]
    if as_json:
        found = [job_json(job, last) for job, last in zip(jobs, runs, strict=True)]
        say_json({"jobs": found, "watched": book.is_watched()})
        return
    for job, last in zip(jobs, runs, strict=True):
        ended = f"last {last.state}" if last is not None else "never ran"
        say(_row(job, f"{ended:<16}  "))
        if job.problem:
            say(f"    {one_line(job.problem)}")
    if not jobs:
        say("No jobs.")
    elif not book.is_watched():
        say(CLOSED)


async def _log(book: JobBook, args: argparse.Namespace) -> None:
    if not args.count:
        raise ConfigError("-n 0 shows nothing; give 1 or more, or leave it out.")
    runs = await book.runs(args.job, min(args.count, 10_000))
    if args.as_json:
        say_json({"runs": [{**each.as_json(), "output": each.output} for each in runs]})
        return
    for each in runs:
        say(run_line(each))
        if text := (each.error or each.output).strip():
            say(f"    {one_line(text)[:160]}")
    if not runs:
        say("No runs yet.")


def run_line(run: JobRun) -> str:
    """Return a run as one line: when it was due, its cause, outcome, duration, costs and delivery."""
    seconds = "" if run.started is None or run.ended is None else f"{run.ended - run.started:.1f} s"
    tokens, cost = run.receipt.get("tokens"), run.receipt.get("cost")
    took = [seconds, plural(tokens, "token") if tokens else "", f"${cost:.4f}" if cost else ""]
    refused = run.receipt.get("refused") or ()
    took.append(f"{len(refused)} refused" if refused else "")
    took.append(f"delivery {run.delivery}" if run.delivery in ("waiting", "failed") else "")
    return f"{run.id:>5}  {run.job}  {when(run.due / 1000)}  {run.why:<6}  {run.state:<11}  " + ", ".join(
        filter(None, took)
    )


def when(seconds: float | None) -> str:
    """Return a time as text in this machine's time zone; `never` for None."""
    if seconds is None:
        return "never"
    return datetime.fromtimestamp(seconds).astimezone().strftime("%a %Y-%m-%d %H:%M")


def _row(job: Job, more: str = "") -> str:
    """Return a job as one line; `more` comes before its title."""
    state = f"next {when(job.next)}" if job.standing == "active" else job.standing
    return f"{job.id}  {job.intent.schedule:<16}  {state:<26}  {more}{one_line(job.title)}"


async def _show_saved(done: str, home: Home, store: Store, job: Job, as_json: bool) -> None:
    from agent.api.job_runs import refusals

    _show(done, job, as_json, await refusals(home, store.database, job))


def _show(done: str, job: Job, as_json: bool, refused: Sequence[str] = ()) -> None:
    from agent.automation.schedule.book import job_json

    if as_json:
        say_json({"job": job_json(job), **({"refused": list(refused)} if refused else {})})
        return
    say(f"{done}: {_row(job)}")
    for rule in job.intent.allow if done in ("Added", "Changed") else ():
        say(f"  its runs are allowed: {one_line(rule)}")
    for sentence in refused:
        say(f"  {one_line(sentence)}")


def _declare_runs(actions: Any) -> None:
    parser = add_action(actions, "run", "do what is due, as long as it runs", _run_now, json="")
    parser.description = (
        "Do what is due, as long as it runs; one line of JSON a run. With JOB, run that one now."
    )
    parser.add_argument("job", nargs="?", metavar="JOB", help="run this one now, and exit")
    parser.add_argument("--once", action="store_true", help="do what is due now, wait for it, and exit")
    parser.add_argument("--json", action="store_true", help="as without it: one line of JSON a run")
    install = add_action(actions, "install", "have jobs run while Hermes is closed", _install, json="")
    install.description = (
        "Show, then set up what runs jobs while Hermes is closed: a systemd user unit, or a line of crontab."
    )
    install.add_argument("--yes", action="store_true", help="set it up without asking")
    way = install.add_mutually_exclusive_group()
    way.add_argument(
        "--systemd", action="store_const", const=True, dest="systemd", help="a systemd user unit"
    )
    way.add_argument("--crontab", action="store_const", const=False, dest="systemd", help="a line of crontab")


def _run_now(args: argparse.Namespace) -> int:
    return asyncio.run(_run(args))


async def _run(args: argparse.Namespace) -> int:
    from agent.api.job_runs import open_runner
    from agent.automation.schedule.book import JobBook

    home = Home.locate()
    settings = (await asyncio.to_thread(load_settings, home)).settings

    def print_run(job: Job, run: JobRun) -> None:
        say_json({**run.as_json(), "name": job.title, "output": run.output})

    async with await open_store(home) as store:
        runner = open_runner(store.database, home, settings, print_run)
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


def _install(args: argparse.Namespace) -> None:
    from agent.automation.schedule.unit import installation

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
            return
        if not agrees("Set it up?"):
            say("Nothing was changed.")
            return
    wanted.carry_out()
    say("It is set up.")
