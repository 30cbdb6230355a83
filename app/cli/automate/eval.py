"""`hermes eval`: run a suite of tasks, compare two results, and calibrate a judge."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.errors import ConfigError, ExitCode
from app.cli.automate.batch import jobs, progress_view
from app.cli.frame import add_action, add_actions, positive, say, say_json
from app.version import version
from themes.states import glyph
from tools.text.safe_text import reveal
from tools.text.words import plural

if TYPE_CHECKING:
    from agent.automation.evaluation.figures import Calibration, ResultComparison, SuiteResult


_MOST_NAMES = 20
_VERDICTS = {"A": "A is better", "B": "B is better", "none": "No difference that chance would not make"}


def print_result(result: SuiteResult, report: Path) -> None:
    """Print the result of a suite; figures that rely on an unreliable judge are dimmed."""
    summary = result.summary()
    low, high = summary["interval"]
    judged, doubt = result.judged_tasks(), result.doubt()
    head = f"{result.suite}: {summary['passed']:.1%} passed (95 %: {low:.0%} to {high:.0%})"
    _say(head, grey=bool(doubt))
    for k, value in summary["pass_at"].items():
        if k != "1":
            _say(f"  pass@{k:<9} {value:.1%}", grey=bool(doubt))
    cost = "unknown" if summary["cost"] is None else f"${summary['cost']:.2f}"
    with_it = [f"{'with' if on else 'without'} {name}" for name, on in _extras(result)]
    for name, value in (
        ("tasks", f"{summary['tasks']:,}, {summary['runs']:,} runs, {summary['completed']:.0%} completed"),
        ("model", ", ".join(part for part in (result.model, *with_it) if part)),
        ("calls", f"{summary['calls']:,}"),
        ("tokens", f"{summary['tokens']:,}"),
        ("cost", cost),
        ("seconds", f"{summary['seconds']:,.1f}"),
    ):
        say(f"  {name:<14} {value}")
    for number, text in enumerate(_judge_lines(result)):
        say(f"  {'' if number else 'judge':<14} {text}")
    if doubt:
        say(f"  {doubt}")
        say(f"  Judged tasks: {len(judged):,} of {summary['tasks']:,}; what rests on them is grey.")
    failed = [each for each in result.runs_of_tasks if not each.passed]
    for each in failed[:_MOST_NAMES]:
        grey = bool(doubt) and each.task in judged
        _say(
            f"  {'?' if grey else glyph('failed')} {each.task}: {' '.join(each.why.split())[:100]}", grey=grey
        )
    if len(failed) > _MOST_NAMES:
        say(f"  and {len(failed) - _MOST_NAMES:,} more that did not pass")
    say(f"Report: {report}")


def calibration_lines(found: Calibration) -> tuple[str, str]:
    """Return two lines: the judge with its calibration set, and how often it agrees."""
    agreement = found.agreement
    low, high = agreement.interval
    parts = [
        f"agreement {agreement.agreement:.1%}",
        f"kappa {agreement.kappa:.2f} (95 %: {low:.2f} to {high:.2f})",
        f"changed with the order {agreement.disagreed:.1%}",
        f"abstained {agreement.abstained:.1%}",
    ]
    return f"{found.model}, {agreement.pairs:,} labelled pairs ({found.source})", ", ".join(parts)


def _judge_lines(result: SuiteResult) -> tuple[str, ...]:
    if not result.judged_tasks():
        return ("no judge",)
    return () if result.judge is None else calibration_lines(result.judge)


def print_comparison(found: ResultComparison) -> None:
    """Print a comparison of two results."""
    low, high = found.interval
    _say(f"{_VERDICTS[found.better]} (p = {found.p:.3g}).", grey=bool(found.doubt))
    difference = f"B passes {found.difference:+.1%} of {plural(found.tasks, 'task')}"
    _say(f"{difference} (95 %: {low:+.1%} to {high:+.1%}).", grey=bool(found.doubt))
    say(f"B uses {found.tokens:.2f} tokens for each of A.")
    if found.doubt:
        say(found.doubt)
    for name, tasks in (
        ("worse in B", found.worse),
        ("better in B", found.improved),
        ("in one of them only, not compared", found.only_in_one),
        ("differ as well", found.conditions),
    ):
        if tasks:
            say(f"{name}: {', '.join(tasks[:_MOST_NAMES])}{' …' if len(tasks) > _MOST_NAMES else ''}")


def _extras(result: SuiteResult) -> tuple[tuple[str, bool], ...]:
    return ("skills", result.skills), ("memory", result.memory)


def _say(text: str, *, grey: bool) -> None:
    """Print a line, dimmed with `grey` on a terminal."""
    if not grey or not sys.stdout.isatty():
        say(text)
        return
    from rich.console import Console
    from rich.text import Text

    Console(highlight=False, soft_wrap=True).print(Text(reveal(text), "dim"))


DESCRIPTION = "Run suites of tasks, compare two results, and see how far a judge agrees with people."


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `hermes eval` to its parser."""
    actions = add_actions(parser)
    run = add_action(actions, "run", "run the tasks of a suite; the same line again continues", _run)
    run.add_argument("suite", metavar="SUITE", help="a folder, or the name of one that ships")
    run.add_argument("--runs", type=positive, metavar="K", help="how often each task runs")
    run.add_argument("--seed", type=int, default=0, metavar="N", help="for the intervals (0)")
    run.add_argument("-o", "--out", type=Path, metavar="DIR", help="folder of the results (SUITE-results)")
    run.add_argument(
        "--jobs", type=jobs, default=4, metavar="N", help="tasks at once (4; 1 with a local model)"
    )
    run.add_argument("--max-tokens", type=positive, metavar="N", help="tokens all tasks may use together")
    run.add_argument("--model", default="", metavar="NAME", help="the model that is tried")
    run.add_argument("--judge", default="", metavar="NAME", help="the model of checks that judge")
    run.add_argument("--no-skills", action="store_false", dest="skills", help="sessions without skills")
    run.add_argument("--no-memory", action="store_false", dest="memory", help="sessions without your notes")
    compare = add_action(actions, "compare", "tell whether B is better than A", _compare)
    compare.add_argument("first", type=Path, metavar="A", help="result.json, or its folder")
    compare.add_argument("second", type=Path, metavar="B")
    compare.add_argument("--seed", type=int, default=0, metavar="N", help="for the interval (0)")
    judge = add_action(actions, "judge", "ask a judge about pairs that people have labelled", _judge)
    judge.add_argument(
        "pairs", type=Path, nargs="?", help="lines of JSON: id, prompt, a, b, label (100 that ship)"
    )
    judge.add_argument("--model", default="", metavar="NAME", help="the judge")
    judge.add_argument("--seed", type=int, default=0, metavar="N", help="for the interval (0)")
    export = add_action(actions, "export", "write a result for another program, offline", _export)
    export.add_argument("result", type=Path, metavar="RUN", help="result.json, or its folder")
    export.add_argument("--format", choices=("inspect", "wandb"), default="inspect", dest="layout")
    export.add_argument("-o", "--out", type=Path, metavar="PATH", help="file of the log, folder of the run")
    add_action(actions, "list", "the suites that ship", _list)


def _run(args: argparse.Namespace) -> int:
    from agent.automation.batch.run import BatchOptions
    from agent.automation.evaluation.figures import calibrate
    from agent.automation.evaluation.run import require_folder, run_suite
    from agent.automation.evaluation.suite import read_suite
    from agent.session.spending.budget import Budget

    suite = read_suite(args.suite)
    folder = (args.out or Path(f"{Path(args.suite).resolve().name}-results")).absolute()
    options = BatchOptions(
        jobs=args.jobs,
        total=Budget(tokens=args.max_tokens),
        model=args.model,
        judge=args.judge,
    )

    async def work() -> SuiteResult:
        environ, judge = dict(os.environ), None
        with_what = {"skills": args.skills, "memory": args.memory}
        if suite.has_judge:
            # Checked before asking the judge, whose answers would be wasted.
            await require_folder(suite, folder, options, environ, **with_what)
            judge = await calibrate(
                args.judge or args.model,
                suite.pairs,
                environ,
                seed=args.seed,
                told=_show_calibration_progress,
            )
        with progress_view(quiet=args.as_json) as view:
            return await run_suite(
                *(suite, folder, options, environ),
                runs=args.runs,
                seed=args.seed,
                version=version(),
                judge=judge,
                **with_what,
                told=view.update,
            )

    try:
        result = asyncio.run(work())
    except KeyboardInterrupt:
        say("Stopped; run the same command again to continue.", sys.stderr)
        return int(ExitCode.INTERRUPTED)
    if args.as_json:
        say_json(result.to_json())
    else:
        print_result(result, folder / "report.html")
    # A partial pass is a result; none at all usually means that a model or a check does not work.
    return int(ExitCode.DONE if any(each.passed for each in result.runs_of_tasks) else ExitCode.FAILED)


def _show_calibration_progress(model: str, done: int, pairs: int) -> None:
    """Print the number of requests first, then on a terminal a progress line that ends with the last pair."""
    if done == 0:
        asked = f"{plural(pairs, 'labelled pair')}: {plural(2 * pairs, 'request')}"
        say(f"Calibrating the judge {model} with {asked}.", sys.stderr)
    elif sys.stderr.isatty():
        print(
            f"\r{done:,} of {pairs:,} pairs", end="\n" if done == pairs else "", file=sys.stderr, flush=True
        )


def _compare(args: argparse.Namespace) -> None:
    from agent.automation.evaluation.figures import compare, read_result

    found = compare(read_result(args.first), read_result(args.second), args.seed)
    if args.as_json:
        say_json(found.to_json())
    else:
        print_comparison(found)


def _judge(args: argparse.Namespace) -> None:
    from agent.automation.evaluation.figures import calibrate, pairs_in

    pairs = None if args.pairs is None else pairs_in(args.pairs)
    found = asyncio.run(
        calibrate(
            args.model, pairs, dict(os.environ), seed=args.seed, again=True, told=_show_calibration_progress
        )
    )
    if args.as_json:
        say_json(found.to_json())
        return
    for text in calibration_lines(found):
        say(text)
    if doubt := found.agreement.doubt():
        say(doubt)


def _list(args: argparse.Namespace) -> None:
    from agent.automation.evaluation.suite import bundled_suites, read_suite

    suites = [read_suite(name) for name in bundled_suites()]
    if args.as_json:
        say_json([{"name": each.name, "tasks": len(each.tasks)} for each in suites])
    else:
        for each in suites:
            say(f"{each.name:<14} {plural(len(each.tasks), 'task'):<9} {each.description}")


def _export(args: argparse.Namespace) -> None:
    from agent.automation.evaluation.figures import read_result
    from agent.automation.evaluation.report import write_run

    result = read_result(args.result)
    folder = args.result if args.result.is_dir() else args.result.parent
    if args.layout == "wandb":
        place = write_run(result, args.out or folder)
    else:
        place = args.out or folder / "inspect.json"
        _write_log(place, asyncio.run(_inspect_log(result, folder)))
    print(json.dumps({"path": str(place)})) if args.as_json else say(f"Written to {place}.")


async def _inspect_log(result: SuiteResult, folder: Path) -> dict[str, Any]:
    """Return the result as an Inspect log, with the conversations that still exist; secrets are masked."""
    from datetime import UTC, datetime

    from agent.automation.evaluation.report import inspect_log
    from agent.core.config.known_secrets import secrets_of_home
    from agent.core.home import Home
    from agent.core.store.export import mask_node
    from agent.core.store.store import Store

    database, paths = Home(folder / "home").database, {}
    if await asyncio.to_thread(database.exists):
        secrets = await asyncio.to_thread(secrets_of_home)
        async with await Store.open(database, secrets=secrets) as store:
            for session in {each.session for each in result.runs_of_tasks if each.session}:
                if heads := await store.heads(session):
                    nodes = await store.path(session, heads[0].name)
                    paths[session] = [mask_node(node, store.secrets) for node in nodes]
    created = datetime.now(UTC).isoformat(timespec="seconds")
    return inspect_log(result, paths, created, version())


def _write_log(path: Path, log: dict[str, Any]) -> None:
    from agent.core.home import PRIVATE_FILE

    try:
        path.write_text(json.dumps(log), "utf-8")
        path.chmod(PRIVATE_FILE)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}; choose another with -o.") from error
