"""Reports of an evaluation: an HTML page, a log for Inspect, a run for Weights & Biases."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib import import_module
from pathlib import Path
from statistics import fmean
from typing import Any

from agent.automation.evaluation.figures import RunFigures, SuiteResult
from agent.core.store.nodes import Node
from agent.errors import ConfigError
from agent.session.export.trajectories import openai_messages
from tools.extras import missing
from tools.text.safe_text import clean
from tools.text.words import plural

_STYLE = Path(__file__).with_name("report.css")
_COLUMNS = ("Score", "Calls", "Tokens", "Seconds")


def page(result: SuiteResult) -> str:
    """Return the complete HTML page about a result. Untrusted text is escaped."""
    summary = result.summary()
    judged, grey = result.judged_tasks(), bool(result.doubt())
    low, high = summary["interval"]
    cost = "–" if summary["cost"] is None else f"${summary['cost']:.2f}"
    off = "off" if grey else ""
    figures = [
        ("Passed", f"{summary['passed']:.1%}", off),
        ("95 % interval", f"{low:.0%} to {high:.0%}", off),
        *((f"pass@{k}", f"{value:.1%}", off) for k, value in summary["pass_at"].items() if k != "1"),
        ("Completed", f"{summary['completed']:.1%}", ""),
        ("Tool calls", f"{summary['calls']:,}", ""),
        ("Tokens", f"{summary['tokens']:,}", ""),
        ("Cost", cost, ""),
        ("Time", f"{summary['seconds']:,.0f} s", ""),
    ]
    rows = "".join(_row(name, runs, grey=grey and name in judged) for name, runs in result.by_task().items())
    columns = "".join(f"<th class=n>{name}</th>" for name in _COLUMNS)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(result.suite)}</title><style>{_STYLE.read_text('utf-8')}</style></head><body>"
        f'<h1>{_text(result.suite)}</h1><p class="dim">{_text(_conditions(result))}</p>{_figures(figures)}'
        f"{_judge(result)}{_plot(result)}"
        f'<div class="wide"><table><thead><tr><th>Task</th><th>Outcome</th>{columns}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div></body></html>\n"
    )


def _conditions(result: SuiteResult) -> str:
    """Return the conditions of the result as one line of text."""
    tasks, runs = len(result.by_task()), len(result.runs_of_tasks)
    parts = [
        plural(tasks, "task"),
        plural(runs, "run"),
        f"seed {result.seed}",
        result.model,
        f"{'with' if result.skills else 'without'} skills",
        f"{'with' if result.memory else 'without'} memory",
    ]
    return ", ".join(part for part in parts if part)


def _figures(figures: Sequence[tuple[str, str, str]]) -> str:
    shown = "".join(
        f'<div><dt>{_text(name)}</dt><dd class="{tone}">{_text(value)}</dd></div>'
        for name, value, tone in figures
    )
    return f"<dl>{shown}</dl>"


def _judge(result: SuiteResult) -> str:
    """Return HTML on how well the judging model agrees with labelled pairs, and whether it is reliable."""
    judged = len(result.judged_tasks())
    if not judged:
        return '<h2>Judge</h2><p class="dim">No judge.</p>'
    parts = ["<h2>Judge</h2>"]
    if result.judge is not None:
        said, found = result.judge, result.judge.agreement
        low, high = found.interval
        about = f"{said.model}, {found.pairs:,} labelled pairs ({said.source}), measured {said.measured[:10]}"
        parts.append(f'<p class="dim">{_text(about)}</p>')
        parts.append(
            _figures(
                [
                    ("Agreement", f"{found.agreement:.1%}", ""),
                    ("Kappa", f"{found.kappa:.2f}", "" if found.counts else "bad"),
                    ("95 % interval", f"{low:.2f} to {high:.2f}", ""),
                    ("Changed with the order", f"{found.disagreed:.1%}", ""),
                    ("Abstained", f"{found.abstained:.1%}", ""),
                ]
            )
        )
    if doubt := result.doubt():
        grey = f"the share that passed, and {judged:,} of {len(result.by_task()):,} tasks"
        parts.append(f'<p class="bad">{_text(doubt)} What rests on them is grey: {grey}.</p>')
    return "".join(parts)


def _outcome(run: RunFigures) -> str:
    """Return the outcome of a run in words.

    A run with the outcome `done` may still have failed its checks.
    """
    if run.passed:
        return "passed"
    return "not passed" if run.outcome == "done" else run.outcome


def _row(name: str, runs: list[RunFigures], *, grey: bool) -> str:
    passed = sum(each.passed for each in runs)
    label = _outcome(runs[0]) if len(runs) == 1 else f"{passed} of {len(runs)}"
    failed = next((each for each in runs if not each.passed), None)
    why = f'<br><span class="dim">{_text(failed.why[:300])}</span>' if failed is not None else ""
    figures = [
        f"{fmean(each.calls for each in runs):.1f}",
        f"{fmean(each.tokens for each in runs):,.0f}",
        f"{fmean(each.seconds for each in runs):.1f}",
    ]
    tone = "off" if grey else "good" if passed == len(runs) else "bad"
    score = f'<td class="n{" off" if grey else ""}">{fmean(each.score for each in runs):.2f}</td>'
    cells = "".join(f"<td class=n>{value}</td>" for value in figures)
    return f"<tr><td>{_text(name)}{why}</td><td class={tone}>{label}</td>{score}{cells}</tr>"


def _plot(result: SuiteResult) -> str:
    """Return an SVG bar chart of the share of passed runs of each task."""
    tasks = list(result.by_task().items())
    unsure = result.judged_tasks() if result.doubt() else frozenset[str]()
    width, height, gap = 1000, 90, 2
    room = width / len(tasks)
    bar = max(1.0, room - gap)
    parts = []
    for place, (name, runs) in enumerate(tasks):
        rate = fmean(each.passed for each in runs)
        x, top = place * room, height * (1 - rate)
        title = f"<title>{_text(name)}: {rate:.0%}</title>"
        filled = "off" if name in unsure else "bar"
        for tone, y, tall in (("rest", 0.0, height), (filled, top, height - top)):
            place_of = f'x="{x:.1f}" y="{y:.1f}" width="{bar:.1f}" height="{tall:.1f}"'
            parts.append(f'<rect class="{tone}" {place_of}>{title}</rect>')
    label = (
        "Share of the runs that passed, one bar for each task in the order of the table; a full bar is 100 %"
    )
    label += "; grey where it rests on the judge" if unsure else ""
    drawn = f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{label}">{"".join(parts)}</svg>'
    return f"<figure><figcaption>{label}.</figcaption>{drawn}</figure>"


def _text(text: str) -> str:
    return escape(clean(text))


_STOPS = {"done": "stop", "budget": "max_tokens"}


def inspect_log(
    result: SuiteResult, paths: Mapping[str, Sequence[Node]], created: str, version: str
) -> dict[str, Any]:
    """Return a result as a log in the format of Inspect.

    `paths` are the nodes of each session with secrets masked; `created` is an ISO time with a time zone.
    """
    summary = result.summary()
    model = result.model or "hermes"
    done = sum(each.outcome == "done" for each in result.runs_of_tasks)
    names = list(result.by_task())
    task = {"task": result.suite, "task_id": result.suite, "task_version": 0, "task_args": {}}
    metrics = {
        name: {"name": name, "value": value, "params": {}}
        for name, value in (("accuracy", summary["passed"]), ("mean", summary["score"]))
    }
    score = {"name": "checks", "scorer": "checks", "params": {}, "metrics": metrics}
    return {
        "version": 2,
        "status": "success",
        "eval": {
            "run_id": f"{result.suite}-{result.seed}",
            "created": created,
            **task,
            "dataset": {"name": result.suite, "samples": len(names), "sample_ids": names},
            "model": model,
            "model_args": {},
            "config": {"epochs": result.runs},
            "packages": {"hermes": version},
            "metadata": {
                "seed": result.seed,
                "interval": summary["interval"],
                "cost": summary["cost"],
                "skills": result.skills,
                "memory": result.memory,
                "judge": None if result.judge is None else result.judge.to_json(),
            },
        },
        "plan": {"name": "plan", "steps": [], "config": {}},
        "results": {
            "total_samples": len(result.runs_of_tasks),
            "completed_samples": done,
            "scores": [score],
        },
        "stats": {"started_at": created, "completed_at": created, "model_usage": {}},
        "samples": [_sample(each, paths.get(each.session, ()), model) for each in result.runs_of_tasks],
    }


def _sample(figures: RunFigures, path: Sequence[Node], model: str) -> dict[str, Any]:
    messages = [_message(each) for each in openai_messages(path)["messages"]]
    asked = next((each["content"] for each in messages if each["role"] == "user"), "")
    said = next((each for each in reversed(messages) if each["role"] == "assistant"), None)
    answer = str(said["content"]) if said is not None else ""
    stop = _STOPS.get(figures.outcome, "unknown")
    choices = [{"message": said, "stop_reason": stop}] if said is not None else []
    failed = [str(check["check"]) for check in figures.checks if check.get("passed") is False]
    return {
        "id": figures.task,
        "epoch": figures.run,
        "input": asked,
        "target": "",
        "messages": messages,
        "output": {"model": model, "choices": choices},
        "scores": {
            "checks": {
                "value": figures.score,
                "answer": answer,
                "explanation": f"do not hold: {'; '.join(failed)}" if failed else figures.error or None,
                "metadata": {"passed": figures.passed, "outcome": figures.outcome},
            }
        },
        "metadata": {"session": figures.session, "calls": figures.calls, "tokens": figures.tokens},
        "store": {},
        "events": [],
        "model_usage": {},
        "attachments": {},
        "total_time": figures.seconds,
    }


def _message(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message in the chat-completions form in the form of Inspect."""
    message: dict[str, Any] = {"role": given["role"], "content": given.get("content") or ""}
    if given["role"] == "assistant":
        message["source"] = "generate"
        calls = [
            {
                "id": call["id"],
                "function": call["function"]["name"],
                "arguments": _arguments(call["function"]["arguments"]),
                "type": "function",
            }
            for call in given.get("tool_calls") or ()
        ]
        if calls:
            message["tool_calls"] = calls
    if given["role"] == "tool":
        message["tool_call_id"] = given["tool_call_id"]
    return message


def _arguments(text: str) -> Mapping[str, Any]:
    try:
        given = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        given = text
    return given if isinstance(given, dict) else {"arguments": given}


_RUN_COLUMNS = ("task", "run", "passed", "score", "calls", "tokens", "cost", "seconds", "outcome")
_CONFIGURATION = ("suite", "model", "seed", "version", "skills", "memory")


def write_run(result: SuiteResult, folder: Path) -> Path:
    """Write the run into `folder` for `wandb sync`, and return its path. Blocks. Raises `ConfigError`."""
    try:
        wandb = import_module("wandb")
    except ImportError:
        raise ConfigError(missing("--format wandb", "wandb")) from None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written: {error.strerror}; choose another with -o.") from error
    summary = result.summary()
    low, high = summary.pop("interval")
    at = {f"pass@{k}": value for k, value in summary.pop("pass_at").items()}
    settings = wandb.Settings(mode="offline", silent=True, disable_git=True, disable_code=True)
    run = wandb.init(
        project="hermes",
        name=result.suite,
        dir=str(folder),
        settings=settings,
        config={
            **{name: getattr(result, name) for name in _CONFIGURATION},
            "judge": None if result.judge is None else result.judge.to_json(),
        },
    )
    try:
        table = wandb.Table(columns=list(_RUN_COLUMNS))
        for each in result.runs_of_tasks:
            table.add_data(*(getattr(each, name) for name in _RUN_COLUMNS))
        figures = {**summary, **at, "passed_low": low, "passed_high": high}
        run.log({**{name: value for name, value in figures.items() if value is not None}, "runs": table})
        place = Path(str(run.dir)).parent
    finally:
        run.finish()
    return place
