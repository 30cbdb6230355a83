"""Words for results of suites, their comparison, and judges."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from app.cli.frame import say
from tools.text.safe_text import reveal

if TYPE_CHECKING:
    from pathlib import Path

    from agent.automation.evaluation.agreement import Calibration
    from agent.automation.evaluation.figures import ResultComparison, SuiteResult

_MOST_NAMES = 20
_VERDICTS = {"A": "A is better", "B": "B is better", "none": "No difference that chance would not make"}


def print_result(result: SuiteResult, report: Path) -> None:
    """A result for a terminal; what rests on a judge that does not count is grey."""
    summary = result.summary()
    low, high = summary["interval"]
    judged, doubt = result.judged(), result.doubt()
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
        _say(f"  {'?' if grey else '✗'} {each.task}: {' '.join(each.why.split())[:100]}", grey=grey)
    if len(failed) > _MOST_NAMES:
        say(f"  and {len(failed) - _MOST_NAMES:,} more that did not pass")
    say(f"Report: {report}")


def calibration_lines(found: Calibration) -> tuple[str, str]:
    """Which judge was measured with what, and how far it agrees."""
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
    if not result.judged():
        return ("no judge",)
    return () if result.judge is None else calibration_lines(result.judge)


def print_comparison(found: ResultComparison) -> None:
    """A comparison for a terminal."""
    low, high = found.interval
    _say(f"{_VERDICTS[found.better]} (p = {found.p:.3g}).", grey=bool(found.doubt))
    difference = f"B passes {found.difference:+.1%} of {found.tasks:,} tasks"
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
    """Print a line, dimmed where the terminal can."""
    if not grey or not sys.stdout.isatty():
        say(text)
        return
    from rich.console import Console
    from rich.text import Text

    Console(highlight=False, soft_wrap=True).print(Text(reveal(text), "dim"))
