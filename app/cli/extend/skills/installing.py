"""`hermes skills install`, `update` and `remove`."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from agent.errors import ConfigError, ExitCode, HermesError
from app.cli.extend.skills.command import SkillCommand
from app.cli.extend.skills.finding import IDENTIFIER
from app.cli.extend.skills.report import (
    candidate_record,
    confirmed,
    open_skill_hub,
    require_person,
    row_record,
    show,
)
from app.cli.sessions.output import say
from app.tui.screens.skill_report import candidate_lines, scan_lines
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.knowledge.skills.hub.lock import LockedSkill
    from agent.knowledge.skills.hub.service import SkillHub, UpdatePlan
    from agent.knowledge.skills.hub.updating import Side

_FORCE = "take what the scan calls caution; never what it calls dangerous"


def _declare_install(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("skill", metavar="SKILL", help=IDENTIFIER)
    parser.add_argument("--version", default="", metavar="V", help="a commit, tag, branch or version")
    parser.add_argument("--category", default="", metavar="NAME", help="folder of your skills (installed)")
    parser.add_argument("--force", action="store_true", help=_FORCE)
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _install(args: argparse.Namespace) -> int:
    from agent.knowledge.skills.hub.installing import require_allowed
    from agent.knowledge.skills.hub.problems import HubRefusedError

    hub = open_skill_hub()
    with hub.candidate(args.skill, args.version, force=args.force) as candidate:
        record = candidate_record(candidate, force=args.force)
        if not args.as_json:
            show(candidate_lines(candidate, force=args.force))
        try:
            require_allowed(candidate, force=args.force)
        except HubRefusedError:
            if args.as_json:
                say(json.dumps(record | {"installed": False}, ensure_ascii=False))
            raise
        hub.installed.check_free(candidate, hub.installed.all())
        require_person(args, "Installing a skill")
        if not confirmed(args, f"Install {candidate.name}?"):
            say("Nothing was installed.")
            return int(ExitCode.DENIED)
        row = hub.installed.install(candidate, category=args.category, force=args.force)
    if args.as_json:
        say(json.dumps(record | row_record(row, hub) | {"installed": True}, ensure_ascii=False))
    else:
        say(f"Installed {row.name} into {hub.installed.lock.place(row)}; sessions that begin now know it.")
    return int(ExitCode.DONE)


def _declare_update(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="installed skills; none: all")
    parser.add_argument("--version", default="", metavar="V", help="a commit, tag, branch or version")
    side = parser.add_mutually_exclusive_group()
    side.add_argument(
        "--mine",
        dest="side",
        action="store_const",
        const="mine",
        help="where both changed a file, keep yours",
    )
    side.add_argument(
        "--theirs", dest="side", action="store_const", const="theirs", help="drop your changes of its files"
    )
    parser.add_argument("--force", action="store_true", help=_FORCE)
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _update(args: argparse.Namespace) -> int:
    hub = open_skill_hub()
    rows = hub.installed.all()
    chosen = [hub.installed.get(name) for name in args.names] if args.names else list(rows.values())
    if args.version and len(chosen) != 1:
        raise ConfigError("--version goes with the name of one skill.")
    records: list[dict[str, Any]] = []
    code = ExitCode.DONE
    for row in chosen:
        try:
            records.append(_updated(hub, row, args))
        except HermesError as error:
            if len(chosen) == 1:
                raise
            records.append({"name": row.name, "state": "failed", "problem": str(error)})
            say(f"{row.name}: {error}", sys.stderr)
            code = error.exit_code
    if args.as_json:
        say(json.dumps({"skills": records}, ensure_ascii=False))
    elif not chosen:
        say("Nothing is installed from elsewhere.")
    return int(ExitCode.DENIED if any(each["state"] == "declined" for each in records) else code)


def _updated(
    hub: SkillHub, row: LockedSkill, args: argparse.Namespace, side: Side | None = None
) -> dict[str, Any]:
    from agent.knowledge.skills.hub.installing import require_allowed
    from agent.knowledge.skills.hub.problems import HubRefusedError

    side = side or args.side
    with hub.update(row, args.version, side=side, force=args.force) as plan:
        record = {
            "name": row.name,
            "from": row.version,
            "to": plan.version,
            "changes": [asdict(change) for change in plan.changes],
            "conflicts": list(plan.conflicts),
        }
        if plan.conflicts:
            names = ", ".join(map(clean, plan.conflicts[:8]))
            if args.yes or args.as_json or not sys.stdin.isatty():
                raise HubRefusedError(
                    f"You and the source of {row.name} both changed {names}; give --mine or --theirs."
                )
            chosen = _side(row.name, names)
            return _updated(hub, row, args, chosen) if chosen else record | {"state": "declined"}
        if plan.candidate is None:
            _tell(args, f"{row.name} is up to date.")
            return record | {"state": "current"}
        if not args.as_json:
            _show_plan(row, plan)
        require_allowed(plan.candidate, force=args.force)
        require_person(args, "Updating a skill")
        if not confirmed(args, f"Update {row.name}?"):
            _tell(args, f"{row.name} stays as it is.")
            return record | {"state": "declined"}
        new = hub.installed.replace(row, plan.candidate, force=args.force)
    _tell(args, f"Updated {row.name}.")
    return record | {"state": "updated", "trust": new.trust, "verdict": new.verdict}


def _side(name: str, files: str) -> Side | None:
    say(
        f"You and the source of {name} both changed {files}. Keep mine, take theirs, or nothing? [m/t/N]",
        sys.stderr,
    )
    answer = sys.stdin.readline().strip().lower()
    return "mine" if answer in ("m", "mine") else "theirs" if answer in ("t", "theirs") else None


def _show_plan(row: LockedSkill, plan: UpdatePlan) -> None:
    assert plan.candidate is not None
    old, new = clean(row.version) or "no version", clean(plan.version) or "no version"
    say(f"{row.name} from {clean(row.url)}: {old} → {new}")
    for change in plan.changes:
        say(f"{change.what:8} {change.path}")
    for change in plan.changes:
        if change.diff:
            say(f"\n{change.diff.rstrip()}")
    say("")
    show(scan_lines(plan.candidate.scan))
    for note in plan.candidate.notes:
        say(f"Note: {note}.")


def _declare_remove(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")
    parser.add_argument(
        "--undo", action="store_true", help="bring back what was removed last under that name"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _remove(args: argparse.Namespace) -> int:
    hub = open_skill_hub()
    if args.undo:
        found = hub.installed.restore(args.name)
        state = {"name": args.name, "restored": str(hub.installed.lock.skills / found.target)}
        _tell(args, f"{clean(args.name)} is back.")
    else:
        place = hub.installed.where(args.name)
        require_person(args, "Removing a skill")
        if not confirmed(args, f"Remove {clean(args.name)} ({place})? It can be brought back with --undo."):
            say("Nothing was removed.")
            return int(ExitCode.DENIED)
        removed = hub.installed.remove(args.name)
        state = {"name": removed.name, "removed": str(place), "kept": str(removed.folder)}
        _tell(args, f"Removed {removed.name}; `hermes skills remove {removed.name} --undo` brings it back.")
    if args.as_json:
        say(json.dumps(state, ensure_ascii=False))
    return int(ExitCode.DONE)


def _tell(args: argparse.Namespace, text: str) -> None:
    if not args.as_json:
        say(text)


COMMANDS = (
    SkillCommand("install", "install a skill after showing files and findings", _declare_install, _install),
    SkillCommand("update", "bring installed skills up to date, your edits kept", _declare_update, _update),
    SkillCommand("remove", "remove a skill of yours, or bring it back", _declare_remove, _remove),
)
