"""`hermes skills audit`."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from agent.errors import ConfigError, ExitCode
from app.cli.extend.skills.command import SkillCommand
from app.cli.extend.skills.report import confirmed, open_skill_hub, require_person, row_record, show
from app.cli.sessions.output import say
from app.tui.screens.skill_report import scan_lines
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.knowledge.skills.hub.service import AuditedSkill, SkillHub


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="installed skills; none: all")
    parser.add_argument("--approve", action="store_true", help="let the named skill be used as it is now")
    parser.add_argument("--force", action="store_true", help="approve also what the scan calls caution")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _audit(args: argparse.Namespace) -> int:
    hub = open_skill_hub()
    if args.approve and len(args.names) != 1:
        raise ConfigError("--approve takes the name of one skill.")
    found = hub.audit(tuple(args.names))
    if args.approve:
        return _approve(hub, found[0], args)
    if args.as_json:
        say(json.dumps({"skills": [_record(each, hub) for each in found]}, ensure_ascii=False))
    else:
        for each in found:
            _show(each)
        if not found:
            say("Nothing is installed from elsewhere.")
    return int(ExitCode.DONE if all(each.state == "ok" for each in found) else ExitCode.FAILED)


def _record(each: AuditedSkill, hub: SkillHub) -> dict[str, Any]:
    return row_record(each.row, hub) | {
        "state": each.state,
        "changes": each.changes,
        "verdict": each.scan.verdict,
        "findings": [asdict(finding) for finding in each.scan.findings],
        "problem": each.problem,
    }


_WORDS = {
    "ok": "is as it was approved",
    "changed": "changed since it was approved, so it is not used",
    "missing": "is gone from its folder",
    "unreadable": "cannot be read, so it is not used",
}


def _show(each: AuditedSkill) -> None:
    mark = "✓" if each.state == "ok" else "✗"
    row = each.row
    say(f"{mark} {row.name} ({row.trust}, {each.scan.verdict}) from {clean(row.url)} {_WORDS[each.state]}.")
    for path, how in each.changes.items():
        say(f"    {how:8} {path}")
    if each.problem:
        say(f"    {each.problem}")
    if each.state == "changed":
        say(f"    `hermes skills audit {row.name} --approve` lets it be used; see also `update --theirs`.")


def _approve(hub: SkillHub, each: AuditedSkill, args: argparse.Namespace) -> int:
    if each.state not in ("ok", "changed"):
        raise ConfigError(f"{each.row.name} {_WORDS[each.state]}; install it anew.")
    if not args.as_json:
        _show(each)
        show(scan_lines(each.scan))
    require_person(args, "Approving a skill")
    if not confirmed(args, f"Let {each.row.name} be used as it is now?"):
        say("Nothing was approved.")
        return int(ExitCode.DENIED)
    row = hub.installed.approve(each.row, each.digest, force=args.force)
    if args.as_json:
        say(json.dumps(row_record(row, hub) | {"approved": True}, ensure_ascii=False))
    else:
        say(f"{row.name} is used again.")
    return int(ExitCode.DONE)


COMMANDS = (SkillCommand("audit", "say which installed skills are not what was approved", _declare, _audit),)
