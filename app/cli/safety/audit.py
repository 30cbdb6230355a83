"""`hermes audit`: list allowed and refused actions, and verify the log."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

from agent.core.home import Home
from agent.errors import ExitCode
from app.cli.frame import add_json, answer, moment, positive, say, say_json
from themes.states import glyph
from tools.text.words import one_line, plural

if TYPE_CHECKING:
    from agent.safety.audit.check import AuditReport
    from agent.safety.audit.log import AuditEntry

OUTCOMES = ("allowed", "denied", "expired", "cancelled", "nobody")


DESCRIPTION = (
    "Show what was allowed and refused, or check with --verify that the log is as it was "
    "written. --verify exits with 1 when lines were changed, removed or moved."
)


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the options of `hermes audit` to its parser."""
    add_json(parser, "print JSON, one line each")
    parser.set_defaults(do=run)
    parser.add_argument("--verify", action="store_true", help="check the whole log instead")
    parser.add_argument("--session", metavar="ID", help="only this session: its id or the start of it")
    parser.add_argument("--agent", metavar="NAME", help="only this agent: its name or its id")
    parser.add_argument("--tool", metavar="NAME", help="only this tool")
    parser.add_argument("--outcome", choices=OUTCOMES, help="only what ended so", metavar="|".join(OUTCOMES))
    parser.add_argument("--since", metavar="TIME", help="not before: 7d, 12h, or an ISO date or time")
    parser.add_argument("--limit", type=positive, default=50, metavar="N", help="the last N (default: 50)")


def run(args: argparse.Namespace) -> int:
    """List entries, or verify the log; return an exit code. Raises `HermesError`."""
    if args.verify:
        from agent.safety.audit.check import verify

        return _print_result(verify(Home.locate().audit), as_json=args.as_json)
    _list(Home.locate(), args)
    return ExitCode.DONE


def _list(home: Home, args: argparse.Namespace) -> None:
    from agent.safety.audit.log import files, newest

    since = moment(args.since, end=False)

    def matches(entry: AuditEntry) -> bool:
        return (
            (since is None or entry.time >= since)
            and (not args.session or entry.session.startswith(args.session))
            and (not args.agent or args.agent in (entry.agent, entry.agent_name))
            and (not args.tool or entry.tool == args.tool)
            and (not args.outcome or entry.outcome == args.outcome)
        )

    found = newest(home.audit, args.limit, matches)
    for entry in found:
        # Escaped throughout: some characters beyond ASCII steer terminals.
        answer(args, entry.record, line(entry))
    if not found and not args.as_json:
        if since is not None or args.session or args.agent or args.tool or args.outcome:
            say("Nothing was found.")
        elif files(home.audit):
            say("No line of the log can be read; see hermes audit --verify.")
        else:
            say("No action was checked yet.")


def line(entry: AuditEntry) -> str:
    """Return an entry as `2026-03-01 14:02:11 ✓ allowed by person terminal make test (runs a command)`.
    Pure.
    """
    moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.time))
    mark = glyph(entry.outcome or "skipped")
    from agent.safety.audit.log import asker

    who = f"{entry.outcome} by {entry.judge}" if entry.judge else entry.outcome or "note"
    agent = f"{called}: " if (called := asker(entry)) else ""
    reasons = f"  ({one_line('; '.join(entry.reasons))})" if entry.reasons else ""
    head = f"{moment} {mark} {one_line(who):<19} {one_line(entry.tool):<11}"
    return f"{head} {one_line(agent + entry.headline)}{reasons}"


def _print_result(report: AuditReport, *, as_json: bool) -> ExitCode:
    if as_json:
        found = {
            "sound": report.sound,
            "records": report.records,
            "files": report.files,
            "problems": [_finding(each) for each in report.problems],
            "notes": [_finding(each) for each in report.notes],
        }
        say_json(found)
    else:
        for each in (*report.notes, *report.problems):
            place = f"{each.file}:{each.line}" if each.line else each.file
            say(f"{'▲' if each in report.problems else '·'} {place}: {each.sentence}")
        what = f"{plural(report.records, 'line')} in {plural(report.files, 'file')}"
        say(f"{what}: {'as they were written.' if report.sound else 'not as they were written.'}")
    return ExitCode.DONE if report.sound else ExitCode.FAILED


def _finding(finding: Any) -> dict[str, object]:
    return {"file": finding.file, "line": finding.line, "what": finding.sentence}
