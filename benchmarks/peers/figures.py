"""Figures of one measurement and of many: percentiles, pairs, the JSON file and the table."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

OURS = "hermes"
Value = float | str


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table; `low` says whether less is better (None: words)."""

    key: str
    title: str
    digits: int = 2
    low: bool | None = True


ROWS = (
    Row("paint", "exec to the first paint, s", 3),
    Row("key", "exec to the first typed key on the screen, s"),
    Row("kept", "keys typed from exec on that reached the model, %", 0, False),
    Row("early", "Enter to the first request, sent as soon as keys are taken, s"),
    Row("memory", "memory at the prompt (PSS of the tree), MB", 0),
    Row("memory_turns", "memory after 40 turns of 600 tokens, MB", 0),
    Row("idle_cpu", "idle CPU, % of a core"),
    Row("idle_bytes", "bytes painted a second while idle", 1),
    Row("echo_p50", "key echo, idle: p50, ms", 1),
    Row("echo_p95", "p95", 1),
    Row("echo_worst", "worst", 1),
    Row("stream_p50", "key echo at 2,000 tokens/s: p50, ms", 1),
    Row("stream_p95", "p95", 1),
    Row("stream_worst", "worst", 1),
    *(
        row
        for rate in (50, 200, 2000)
        for row in (
            Row(f"cpu_{rate}", f"CPU of 1,000 tokens at {rate:,} tokens/s, s", 3),
            Row(f"bytes_{rate}", f"bytes painted a token at {rate:,} tokens/s", 1),
            Row(f"end_{rate}", f"last token sent to its paint at {rate:,} tokens/s, ms", 0),
        )
    ),
    Row("hi_tokens", 'tokens of the first request for "hi" (o200k)', 0),
    Row("hi_tools", "of these the tools", 0),
    Row("hi_number", "number of tools", 0),
    Row("hi_requests", 'requests for "hi"', 0),
    Row("hi_all", "tokens of all of them", 0),
    Row("once", 'one answer to "hi" without a screen, exec to exit, s'),
    Row("resume_key", "resume after 40 turns: first key, s"),
    Row("resume_last", "resume after 40 turns: last answer, s"),
    Row("long_messages", "messages of a long session (1,000, or what 90 s made)", 0, False),
    Row("long_key", "resume of it: first key, s"),
    Row("long_last", "resume of it: last answer, s"),
    Row("long_memory", "memory then, MB", 0),
    Row("resize_missing", "100 resizes in a stream: lines missing of 150", 0),
    Row("resize_doubled", "lines more than once", 0),
    Row("kill_message", "kill −9 in an answer: message there", 0, None),
    Row("kill_part", "the part of the answer there", 0, None),
    Row("task", "task of six shell calls: s beyond the model"),
    Row("task_first", "Enter to its first request, s", 3),
    Row("task_next", "from a call to the next request, median, ms", 0),
    Row("task_bytes", "bytes sent in its requests, KB", 0),
    Row("undo", "undo of a command on three files: taken back", 0, False),
)


def percentile(values: Sequence[float], part: float) -> float:
    """The smallest value that a part (0 to 1) of all does not exceed. Raises `ValueError` if none."""
    if not values:
        raise ValueError("no values")
    ranked = sorted(values)
    rank = -(-part * len(ranked) // 1)
    return ranked[max(int(rank), 1) - 1]


def ratio(pairs: Sequence[tuple[float, float]]) -> float | None:
    """The median of ours over theirs in pairs of neighbours; None where nothing can be divided."""
    shares = [ours / theirs for ours, theirs in pairs if theirs > 0]
    return statistics.median(shares) if shares else None


@dataclass(slots=True)
class Results:
    """Values of every row and program, and why others are missing."""

    values: dict[str, dict[str, list[Value]]] = field(default_factory=dict[str, dict[str, list[Value]]])
    """By row and program; those of ours from all rounds."""
    pairs: dict[str, dict[str, list[tuple[float, float]]]] = field(
        default_factory=dict[str, dict[str, list[tuple[float, float]]]]
    )
    """By row and program: ours and theirs, measured one after the other."""
    missing: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    """By program and measurement: why there is no figure."""

    def add(self, name: str, figures: Mapping[str, Value]) -> None:
        for key, value in figures.items():
            self.values.setdefault(key, {}).setdefault(name, []).append(value)

    def pair(self, name: str, ours: Mapping[str, Value], theirs: Mapping[str, Value]) -> None:
        for key in ours.keys() & theirs.keys():
            one, other = ours[key], theirs[key]
            if not isinstance(one, str) and not isinstance(other, str):
                self.pairs.setdefault(key, {}).setdefault(name, []).append((one, other))

    def fail(self, name: str, measure: str, reason: str) -> None:
        self.missing.setdefault(name, {}).setdefault(measure, reason)

    def middle(self, key: str, name: str) -> Value | None:
        """The median of a row's numbers, or the words of its last round."""
        values = self.values.get(key, {}).get(name, [])
        numbers = [value for value in values if not isinstance(value, str)]
        if not numbers:
            return values[-1] if values else None
        return max(numbers) if key.endswith("worst") else statistics.median(numbers)

    def as_json(self, machine: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
        rows: dict[str, Any] = {}
        for row in ROWS:
            if row.key in self.values:
                middles = {name: self.middle(row.key, name) for name in names}
                ratios = {name: ratio(pairs) for name, pairs in self.pairs.get(row.key, {}).items()}
                rows[row.key] = {
                    "title": row.title,
                    "median": middles,
                    "ours_to_theirs": ratios,
                    "values": self.values[row.key],
                }
        return {"machine": dict(machine), "rows": rows, "missing": self.missing}


def table(results: Results, names: Sequence[str]) -> list[str]:
    """The rows that have figures, as Markdown; the best of each is bold, and ours is ranked among all."""
    lines = [f"| | {' | '.join(names)} | ours is |", f"|---{'|---' * len(names)}|---|"]
    for row in ROWS:
        if row.key not in results.values:
            continue
        middles = [results.middle(row.key, name) for name in names]
        numbers = [round(value, row.digits) for value in middles if isinstance(value, (int, float))]
        best = None if row.low is None or not numbers else (min if row.low else max)(numbers)
        cells = [cell(value, row.digits, best) for value in middles]
        lines.append(
            f"| {row.title} | {' | '.join(cells)} | {rank(results.middle(row.key, OURS), numbers, row)} |"
        )
    return lines


def cell(value: Value | None, digits: int, best: float | None) -> str:
    if value is None:
        return "–"
    if isinstance(value, str):
        return value
    text = f"{value:,.{digits}f}"
    return f"**{text}**" if best is not None and round(value, digits) == best else text


def rank(ours: Value | None, numbers: Sequence[float], row: Row) -> str:
    """Ours among all that have a number, such as `2 of 5`."""
    if row.low is None or ours is None or isinstance(ours, str):
        return ""
    mine = round(ours, row.digits)
    ahead = sum(number < mine if row.low else number > mine for number in numbers)
    return f"{ahead + 1} of {len(numbers)}"


def reasons(results: Results) -> list[str]:
    """What could not be measured, and why, as Markdown."""
    lines: list[str] = []
    for name, told in results.missing.items():
        by_reason: dict[str, list[str]] = {}
        for measure, reason in told.items():
            by_reason.setdefault(reason, []).append(measure)
        parts = [f"{', '.join(measures)}: {reason}" for reason, measures in by_reason.items()]
        lines.append(f"- **{name}**, {'; '.join(parts)}.")
    return lines
