"""A result as one page that needs nothing else: figures, a plot, a row for every task."""

from __future__ import annotations

from html import escape
from pathlib import Path
from statistics import fmean

from agent.evaluation.figures import RunFigures, SuiteResult
from tools.safe_text import clean

_STYLE = Path(__file__).with_name("report.css")
_COLUMNS = ("Score", "Calls", "Tokens", "Seconds")


def page(result: SuiteResult) -> str:
    """The whole page. Outside text is never markup in it."""
    summary = result.summary()
    low, high = summary["interval"]
    cost = "–" if summary["cost"] is None else f"${summary['cost']:.2f}"
    figures = [
        ("Passed", f"{summary['passed']:.1%}"),
        ("95 % interval", f"{low:.0%} to {high:.0%}"),
        ("Completed", f"{summary['completed']:.1%}"),
        *((f"pass@{k}", f"{value:.1%}") for k, value in summary["pass_at"].items() if k != "1"),
        ("Tool calls", f"{summary['calls']:,}"),
        ("Tokens", f"{summary['tokens']:,}"),
        ("Cost", cost),
        ("Time", f"{summary['seconds']:,.0f} s"),
    ]
    rows = "".join(_row(name, runs) for name, runs in result.by_task().items())
    shown = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in figures)
    head = f"{summary['tasks']:,} tasks, {summary['runs']:,} runs, seed {result.seed}"
    columns = "".join(f"<th class=n>{name}</th>" for name in _COLUMNS)
    with_model = f", {_text(result.model)}" if result.model else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(result.suite)}</title><style>{_STYLE.read_text('utf-8')}</style></head><body>"
        f'<h1>{_text(result.suite)}</h1><p class="dim">{escape(head)}{with_model}</p><dl>{shown}</dl>'
        f"{_plot(result)}<table><thead><tr><th>Task</th><th>Outcome</th>{columns}</tr></thead>"
        f"<tbody>{rows}</tbody></table></body></html>\n"
    )


def _row(name: str, runs: list[RunFigures]) -> str:
    passed = sum(each.passed for each in runs)
    label = ("passed" if passed else "failed") if len(runs) == 1 else f"{passed} of {len(runs)}"
    failed = next((each for each in runs if not each.passed), None)
    why = f'<br><span class="dim">{_text(failed.why[:300])}</span>' if failed is not None else ""
    figures = [
        f"{fmean(each.score for each in runs):.2f}",
        f"{fmean(each.calls for each in runs):.1f}",
        f"{fmean(each.tokens for each in runs):,.0f}",
        f"{fmean(each.seconds for each in runs):.1f}",
    ]
    tone = "good" if passed == len(runs) else "bad"
    cells = "".join(f"<td class=n>{value}</td>" for value in figures)
    return f"<tr><td>{_text(name)}{why}</td><td class={tone}>{label}</td>{cells}</tr>"


def _plot(result: SuiteResult) -> str:
    """A bar for each task: the share of its runs that passed."""
    tasks = list(result.by_task().items())
    width, height, gap = 1000, 90, 2
    room = width / len(tasks)
    bar = max(1.0, room - gap)
    parts = []
    for place, (name, runs) in enumerate(tasks):
        rate = fmean(each.passed for each in runs)
        x, top = place * room, height * (1 - rate)
        title = f"<title>{_text(name)}: {rate:.0%}</title>"
        for tone, y, tall in (("rest", 0.0, height), ("bar", top, height - top)):
            place_of = f'x="{x:.1f}" y="{y:.1f}" width="{bar:.1f}" height="{tall:.1f}"'
            parts.append(f'<rect class="{tone}" {place_of}>{title}</rect>')
    label = (
        "Share of the runs that passed, one bar for each task in the order of the table; a full bar is 100 %"
    )
    drawn = f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{label}">{"".join(parts)}</svg>'
    return f"<figure><figcaption>{label}.</figcaption>{drawn}</figure>"


def _text(text: str) -> str:
    return escape(clean(text))
