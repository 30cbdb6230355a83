"""`hermes batch run FILE`: many tasks from a file, each in a folder and a session of its own."""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.errors import ExitCode
from app.cli.automate.batch_lines import line_of
from app.cli.frame import add_action, add_actions, positive, say, say_json, whole_number
from tools.text.words import plural

if TYPE_CHECKING:
    from agent.automation.batch.run import BatchProgress

_RUNNERS = ("local", "docker", "ssh", "ray")
_APPROVE = ("careful", "normal", "plan", "yolo", "deny")


DESCRIPTION = "Work on many tasks from a file, each in a session and a folder of its own."


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `hermes batch` to its parser."""
    actions = add_actions(parser)
    run_parser = add_action(
        actions,
        "run",
        "work on the tasks of a file; the same line again continues where it stopped",
        run,
        json="print each result as a line of JSON",
    )
    run_parser.description = (
        "Work on the tasks of FILE (.jsonl, .csv or .yaml). The same line again continues where it "
        "was stopped: what has an answer is not asked again."
    )
    run_parser.add_argument("file", metavar="FILE", type=Path)
    run_parser.add_argument(
        "-o", "--out", metavar="DIR", type=Path, help="folder of the results (FILE-results)"
    )
    run_parser.add_argument(
        "--jobs", type=jobs, default=4, metavar="N", help="tasks at once (4; at most 256)"
    )
    run_parser.add_argument(
        "--retries", type=whole_number(), default=2, metavar="N", help="further tries of one that failed (2)"
    )
    run_parser.add_argument(
        "--max-tokens", type=positive, metavar="N", help="tokens all tasks may use together"
    )
    run_parser.add_argument(
        "--max-cost", type=_money, metavar="USD", help="US dollars all tasks may use together"
    )
    run_parser.add_argument(
        "--runner", choices=_RUNNERS, default="local", help="where commands or tasks run (local)"
    )
    run_parser.add_argument(
        "--address", default="", metavar="ADDRESS", help="of a Ray cluster, with --runner ray"
    )
    run_parser.add_argument("--model", default="", metavar="NAME", help="the model of tasks that name none")
    run_parser.add_argument(
        "--distribution",
        default="",
        metavar="CHANCES",
        help="chance in percent of each toolset, such as file=100,web=60, for tasks that name none",
    )
    run_parser.add_argument("--approve", choices=_APPROVE, help="what happens to actions; nobody is asked")


def run(args: argparse.Namespace) -> int:
    """Run the batch; return an exit code, 0 if all tasks are done and their checks hold."""
    from agent.automation.batch.attempt import ResultFolder
    from agent.automation.batch.run import BatchOptions, run_batch
    from agent.automation.batch.task import read_tasks
    from agent.session.spending.budget import Budget

    tasks = read_tasks(args.file)
    folder = ResultFolder((args.out or args.file.with_name(f"{args.file.stem}-results")).absolute())
    options = BatchOptions(
        jobs=args.jobs,
        retries=args.retries,
        total=Budget(tokens=args.max_tokens, money=args.max_cost),
        runner=args.runner,
        approve=args.approve,
        model=args.model,
        address=args.address,
        distribution=_chances(args.distribution),
    )

    async def work() -> BatchProgress:
        view = progress_view(as_json=args.as_json)
        with view:
            task = asyncio.ensure_future(
                run_batch(
                    tasks,
                    folder,
                    options,
                    dict(os.environ),
                    base=args.file.absolute().parent,
                    told=view.update,
                )
            )
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                asyncio.get_running_loop().add_signal_handler(number, task.cancel)
            return await task

    try:
        ended = asyncio.run(work())
    except asyncio.CancelledError:
        say("Stopped; run the same command again to continue.", sys.stderr)
        return int(ExitCode.INTERRUPTED)
    if not args.as_json:
        _print_summary(ended, folder.results)
    return int(ExitCode.FAILED if ended.failed else ExitCode.DONE)


def _chances(text: str) -> dict[str, float]:
    from agent.automation.batch.task import distribution_of
    from agent.errors import ConfigError

    try:
        return distribution_of(text)
    except ConfigError as error:
        raise ConfigError(f"{str(error).replace('`distribution`', '--distribution')}.") from None


def _print_summary(ended: BatchProgress, results: Path) -> None:
    parts = [
        f"{ended.ended:,} of {plural(ended.total, 'task')}",
        f"{ended.failed:,} failed",
        plural(ended.tokens, "token"),
    ]
    if ended.resumed:
        parts.append(f"{ended.resumed:,} from an earlier run")
    say(f"{', '.join(parts)}. Results: {results}")


class _Silent:
    """The view of a batch that shows no progress."""

    def __enter__(self) -> _Silent:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, progress: BatchProgress) -> None:
        pass


class _Lines:
    """The view of a batch that prints a line for each task that ends; with `as_json` its result."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._noted = False

    def __enter__(self) -> _Lines:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, progress: BatchProgress) -> None:
        if progress.note and not self._noted:
            self._noted = True
            say(progress.note, sys.stderr)
        result = progress.last
        if result is None:
            return
        if self._as_json:
            say_json(result.to_json())
        else:
            width = len(str(progress.total))
            say(f"{progress.ended:>{width}}/{progress.total}  {line_of(result)}")


def progress_view(*, as_json: bool = False, quiet: bool = False) -> Any:
    """Return a view of the batch's progress: a live table, lines, lines of JSON, or nothing with `quiet`."""
    if quiet:
        return _Silent()
    if as_json or not sys.stdout.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        return _Lines(as_json)
    from app.cli.automate.batch_table import LiveTable

    return LiveTable()


jobs = whole_number(1, 256)
"""The argparse type of `--jobs`: the number of tasks that run at once."""


def _money(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError("has to be an amount above 0")
    return value
