"""`hermes cron next`: when schedules are due, one of the command line or many from stdin."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from agent.errors import ConfigError, ExitCode
from app.cli.sessions.output import say

if TYPE_CHECKING:
    from agent.automation.schedule.asking import Answer, Question

LONGEST_LINE = 100_000
"""Bytes of a line from stdin that are read."""


def declare(actions: Any) -> None:
    """Declare the action."""
    parser: argparse.ArgumentParser = actions.add_parser(
        "next",
        help="show when a schedule is due next",
        description="Show when SCHEDULE is due next: 30m, every 2h, five cron fields, or an ISO time.",
    )
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
    parser.add_argument("-n", dest="count", type=whole_number, metavar="COUNT", help="how many (default: 5)")
    parser.add_argument(
        "--stdin",
        action="store_true",
        help="read one JSON object a line, {schedule, tz, from, count}, and answer with one each",
    )
    parser.add_argument("--json", action="store_true", dest="as_json", help="print one JSON object")


def whole_number(text: str) -> int:
    """The number of an option such as `-n`. Raises `ArgumentTypeError`."""
    if not text.isascii() or not text.isdigit() or len(text) > 6:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no whole number of at most six digits")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Carry it out. Raises `HermesError`."""
    from agent.automation.schedule.asking import ask
    from agent.automation.schedule.zones import machine_zone

    usual = {
        "tz": machine_zone() if args.tz is None else args.tz,
        "from": datetime.now(UTC).replace(microsecond=0).isoformat() if args.after is None else args.after,
        "count": args.count,
    }
    if args.stdin:
        if args.schedule:
            raise ConfigError("--stdin reads the schedules; leave SCHEDULE away.")
        return _answer_lines(usual)
    if not args.schedule:
        raise ConfigError("A schedule is missing; write hermes cron next '0 9 * * 1-5', or use --stdin.")
    answer = ask(_question({"schedule": " ".join(args.schedule)}, usual))
    if args.as_json:
        print(json.dumps(_as_json(answer)))
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
        print(json.dumps(answer))
    return int(code)


def _skip_line(begun: bytes) -> None:
    """Read the rest of a line from stdin and forget it."""
    while begun and not begun.endswith(b"\n"):
        begun = sys.stdin.buffer.readline(LONGEST_LINE)


def _answer_line(line: bytes, usual: dict[str, Any]) -> dict[str, Any]:
    from agent.automation.schedule.asking import ask
    from agent.automation.schedule.zones import ScheduleError

    try:
        asked = json.loads(line)
    except (ValueError, RecursionError):
        asked = None
    if not isinstance(asked, dict):
        return {"schedule": None, "error": 'The line is no JSON object; write one like {"schedule": "30m"}.'}
    schedule = asked.get("schedule")
    try:
        return _as_json(ask(_question(asked, usual)))
    except ScheduleError as error:
        return {"schedule": schedule if isinstance(schedule, str) else None, "error": str(error)}


def _question(asked: dict[str, Any], usual: dict[str, Any]) -> Question:
    from agent.automation.schedule.asking import DEFAULT_COUNT, Question
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
