"""`hermes usage`: tokens, time and cost of model requests, by day, model, project or agent."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from typing import TYPE_CHECKING, Any

from agent.core.home import Home
from app.cli.frame import ONE_OBJECT, add_json, load_settings, say, say_json
from tools.text.words import one_line, plural

if TYPE_CHECKING:
    from agent.session.spending.report import UsageLine, UsageReport

GROUPINGS = ("day", "model", "project", "agent")
DEFAULT_DAYS = 30
MOST_DAYS = 36_500
NAME_CELLS = 40
"""The largest width of the first column, in cells."""

PATIENCE = 1.0
"""Seconds without a message while old sessions are counted."""


DESCRIPTION = "Show requests, tokens and cost over all sessions of this home."


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the options of `hermes usage` to its parser."""
    parser.add_argument("--by", choices=GROUPINGS, default="day", help="what a line is (default: day)")
    parser.add_argument(
        "--days",
        type=_days,
        default=DEFAULT_DAYS,
        metavar="N",
        help=f"the last N days, today included; 0 = all there ever were (default: {DEFAULT_DAYS})",
    )
    add_json(parser, ONE_OBJECT)
    parser.set_defaults(do=run)


def _days(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > MOST_DAYS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to {MOST_DAYS:,}")
    return int(text)


def run(args: argparse.Namespace) -> None:
    """Print the report. Raises `HermesError`."""
    home = Home.locate()
    kept = home.keeps_sessions()
    found = asyncio.run(_report(home, args.by, args.days or None)) if kept else None
    if args.as_json:
        say_json(as_json(found, args.by))
    elif found is None or not found.lines:
        when = f" in the last {plural(args.days, 'day')}" if args.days else ""
        say(f"No request was made{when}.")
    else:
        for line in table_of(found):
            say(line)
    sys.stdout.flush()


async def _report(home: Home, by: Any, days: int | None) -> UsageReport:
    from agent.core.store.store import Store
    from agent.session.spending.report import report
    from agent.session.spending.spending import prices_of

    loaded = await asyncio.to_thread(load_settings, home)
    async with await Store.open(home.database) as store:
        patience = asyncio.get_running_loop().call_later(PATIENCE, _explain)
        try:
            prices = prices_of(loaded.settings, loaded.environ)
            return await report(store.database, prices, by, days=days, now=time.time())
        finally:
            patience.cancel()


def _explain() -> None:
    say("Counting requests of older sessions, once …", sys.stderr)


def as_json(found: UsageReport | None, by: str) -> dict[str, Any]:
    """Return the report as JSON data. Pure."""
    if found is None:
        return {"by": by, "since": "", "lines": [], "total": None}
    lines = [line.to_json() for line in found.lines]
    return {"by": by, "since": found.since, "lines": lines, "total": found.total.to_json()}


def table_of(found: UsageReport) -> list[str]:
    """Return the report as lines of text. Pure."""
    from agent.session.spending.report import title

    names = [_line(title(found.by, line.key)) for line in found.lines]
    width = max(map(len, [*names, found.by, "total"]))
    head = f"{found.by:<{width}}  {'requests':>9} {'in':>15} {'cached':>15} {'out':>13}  {'cost':>12}"
    rows = [_row(name, line, width) for name, line in zip(names, found.lines, strict=True)]
    return [head, *rows, _row("total", found.total, width), *_notes(found.total)]


def _row(name: str, line: UsageLine, width: int) -> str:
    counts = f"{line.input:>15,} {line.cached:>15,} {line.output:>13,}"
    return f"{name:<{width}}  {line.requests:>9,} {counts}  {cost(line):>12}"


def cost(line: UsageLine) -> str:
    """Return a cost such as `$0.42`; `$0.42+` if some prices are missing, `unknown` if all are. Pure."""
    if line.unpriced and line.unpriced == line.requests:
        return "unknown"
    shown = f"${line.cost:,.4f}" if 0 < line.cost < 1 else f"${line.cost:,.2f}"
    return shown + ("+" if line.unpriced else "")


def _notes(total: UsageLine) -> list[str]:
    notes: list[str] = []
    if total.unpriced:
        what = plural(total.unpriced, "request")
        notes.append(
            f"The price of {what} is not known and not in the cost; prices go under providers.*.models."
        )
    if total.uncounted:
        more = f", ${total.assumed_cost:,.4f}" if total.assumed_cost else ""
        notes.append(
            f"{plural(total.uncounted, 'request')} broke off before anybody counted: "
            f"at most {total.assumed:,} tokens{more} more."
        )
    return notes


def _line(text: str) -> str:
    """Return outside text on one line of limited length."""
    words = one_line(text)
    return words if len(words) <= NAME_CELLS else f"{words[:10]}…{words[11 - NAME_CELLS :]}"
