"""Commands of `hermes skills` for installing, updating and publishing skills."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.home import Home
from agent.errors import ConfigError, ExitCode, HermesError
from app.cli.frame import advise, agrees, answer, load_settings, say, say_json, whole_number
from app.tui.screens.skill_report import candidate_lines, file_lines, scan_lines
from themes.states import glyph
from tools.text.safe_text import clean
from tools.text.words import plural

if TYPE_CHECKING:
    from agent.knowledge.skills.catalog import SkillCatalog
    from agent.knowledge.skills.hub.bundle import SkillOffer
    from agent.knowledge.skills.hub.lock import LockedSkill, SnapshotRow
    from agent.knowledge.skills.hub.opening import Candidate
    from agent.knowledge.skills.hub.service import AuditedSkill, Side, SkillHub, UpdatePlan
    from agent.knowledge.skills.skill import Skill

IDENTIFIER = (
    "a skill: owner/repository/folder on GitHub, SOURCE:NAME, an address, a git URL (URL.git#folder), "
    "a folder (./folder), or a bare name that one source has"
)
_FORCE = "take what the scan calls caution; never what it calls dangerous"


def open_catalog(args: argparse.Namespace) -> SkillCatalog:
    """Open the skill catalog of the working folder."""
    from agent.integrations.plugins.shelf import skill_catalog
    from app.cli.safety.folder import workspace

    home, here = Home.locate(), workspace(getattr(args, "cwd", None))
    return skill_catalog(home, here, load_settings(home, here).settings)


def open_skill_hub() -> SkillHub:
    """Open the skill sources and installed skills with the current settings."""
    from agent.knowledge.skills.hub.service import open_hub

    home, here = Home.locate(), Path.cwd()
    loaded = load_settings(home, here)
    return open_hub(home, loaded.settings, loaded.environ, here)


def show(lines: Iterable[str]) -> None:
    """Print lines."""
    for each in lines:
        say(each)


def candidate_record(candidate: Candidate, *, force: bool = False) -> dict[str, Any]:
    """Return a skill under review as JSON data."""
    offer = candidate.fetched.offer
    return {
        "name": candidate.name,
        "description": candidate.skill.description,
        "source": offer.source,
        "kind": offer.kind,
        "address": clean(offer.address),
        "item": clean(offer.item),
        "version": offer.version,
        "trust": candidate.trust,
        "verdict": candidate.scan.verdict,
        "allowed": candidate.decision(force=force),
        "files": [
            {"path": file.path, "bytes": len(file.content), "executable": file.executable}
            | {"sha256": candidate.hashes[file.path]}
            for file in candidate.fetched.files
        ],
        "findings": [asdict(each) for each in candidate.scan.findings],
        "allowed_tools": None
        if candidate.skill.allowed_tools is None
        else list(candidate.skill.allowed_tools),
        "required_variables": list(candidate.skill.required_variables),
        "notes": list(candidate.notes),
    }


def row_record(row: LockedSkill, hub: SkillHub) -> dict[str, Any]:
    """Return an installed skill as JSON data."""
    return {
        "name": row.name,
        "path": str(hub.installed.lock.place(row)),
        "source": row.source,
        "kind": row.kind,
        "url": clean(row.url),
        "item": clean(row.item),
        "version": row.version,
        "trust": row.trust,
        "verdict": row.verdict,
    }


def require_person(args: argparse.Namespace, doing: str) -> None:
    """Raise `ConfigError` if no user can answer a question and `--yes` is missing."""
    if not args.yes and (args.as_json or not sys.stdin.isatty()):
        raise ConfigError(f"{doing} asks first, and there is nobody to answer; give --yes.")


def confirm(args: argparse.Namespace, question: str) -> bool:
    """Ask a yes/no question, where empty means no; `--yes` agrees without asking."""
    return args.yes or agrees(question)


def _declare_search(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("query", nargs="*", metavar="WORD", help="words of name or description; none: all")
    parser.add_argument("--source", default="", metavar="NAME", help="ask this source only")
    parser.add_argument(
        "--limit", type=whole_number(1, 500), default=20, metavar="N", help="most skills shown (20)"
    )


def _search(args: argparse.Namespace) -> None:
    found = open_skill_hub().search(" ".join(args.query), args.limit, args.source)
    if args.as_json:
        skills = [_offer_record(offer) for offer in found.offers]
        say_json({"skills": skills, "problems": list(found.problems)})
        return
    width = max((len(_identifier(offer)) for offer in found.offers), default=0)
    for offer in found.offers:
        text = clean(offer.description)
        say(f"{_identifier(offer):{width}}  {text if len(text) <= 100 else text[:99].rstrip() + '…'}")
    if not found.offers:
        say("Nothing was found.")
    for problem in found.problems:
        say(problem, sys.stderr)


def _identifier(offer: SkillOffer) -> str:
    """Return the identifier of an offered skill that `install` accepts."""
    return clean(f"{offer.source}:{offer.item or offer.name}")


def _offer_record(offer: SkillOffer) -> dict[str, Any]:
    from agent.knowledge.skills.skill import trust_of

    return {
        "identifier": _identifier(offer),
        "name": clean(offer.name),
        "description": clean(offer.description),
        "source": offer.source,
        "kind": offer.kind,
        "item": clean(offer.item),
        "version": clean(offer.version),
        "address": clean(offer.address),
        "trust": trust_of(offer.origin) if offer.origin else "community",
        "notes": [clean(note) for note in offer.notes],
    }


def _declare_inspect(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("skill", metavar="SKILL", help=IDENTIFIER)
    parser.add_argument("--version", default="", metavar="V", help="a commit, tag, branch or version")


def _inspect(args: argparse.Namespace) -> None:
    with open_skill_hub().candidate(args.skill, args.version) as candidate:
        if args.as_json:
            record = candidate_record(candidate) | {"content": candidate.skill.body}
            say_json(record)
            return
        show(candidate_lines(candidate))
        say(f"\n{candidate.skill.body}")


def _declare_install(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("skill", metavar="SKILL", help=IDENTIFIER)
    parser.add_argument("--version", default="", metavar="V", help="a commit, tag, branch or version")
    parser.add_argument("--category", default="", metavar="NAME", help="folder of your skills (installed)")
    parser.add_argument("--force", action="store_true", help=_FORCE)
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _install(args: argparse.Namespace) -> int:
    from agent.knowledge.skills.hub.bundle import HubRefusedError
    from agent.knowledge.skills.hub.service import require_allowed

    hub = open_skill_hub()
    with hub.candidate(args.skill, args.version, force=args.force) as candidate:
        record = candidate_record(candidate, force=args.force)
        if not args.as_json:
            show(candidate_lines(candidate, force=args.force))
        try:
            require_allowed(candidate, force=args.force)
        except HubRefusedError:
            if args.as_json:
                say_json(record | {"installed": False})
            raise
        hub.installed.check_free(candidate, hub.installed.all())
        require_person(args, "Installing a skill")
        if not confirm(args, f"Install {candidate.name}?"):
            say("Nothing was installed.")
            return int(ExitCode.DENIED)
        row = hub.installed.install(candidate, category=args.category, force=args.force)
    answer(
        args,
        record | row_record(row, hub) | {"installed": True},
        f"Installed {row.name} into {hub.installed.lock.place(row)}; sessions that begin now know it.",
    )
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
            records.append(_update_one(hub, row, args))
        except HermesError as error:
            if len(chosen) == 1:
                raise
            records.append({"name": row.name, "state": "failed", "problem": str(error)})
            say(f"{row.name}: {error}", sys.stderr)
            code = error.exit_code
    if args.as_json:
        say_json({"skills": records})
    elif not chosen:
        say("Nothing is installed from elsewhere.")
    return int(ExitCode.DENIED if any(each["state"] == "declined" for each in records) else code)


def _update_one(
    hub: SkillHub, row: LockedSkill, args: argparse.Namespace, side: Side | None = None
) -> dict[str, Any]:
    from agent.knowledge.skills.hub.bundle import HubRefusedError
    from agent.knowledge.skills.hub.service import require_allowed

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
            return _update_one(hub, row, args, chosen) if chosen else record | {"state": "declined"}
        if plan.candidate is None:
            _print_result(args, f"{row.name} is up to date.")
            return record | {"state": "current"}
        if not args.as_json:
            _show_plan(row, plan)
        require_allowed(plan.candidate, force=args.force)
        require_person(args, "Updating a skill")
        if not confirm(args, f"Update {row.name}?"):
            _print_result(args, f"{row.name} stays as it is.")
            return record | {"state": "declined"}
        new = hub.installed.replace(row, plan.candidate, force=args.force)
    _print_result(args, f"Updated {row.name}.")
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
        _print_result(args, f"{clean(args.name)} is back.")
    else:
        place = hub.installed.where(args.name)
        require_person(args, "Removing a skill")
        if not confirm(args, f"Remove {clean(args.name)} ({place})? It can be brought back with --undo."):
            say("Nothing was removed.")
            return int(ExitCode.DENIED)
        removed = hub.installed.remove(args.name)
        state = {"name": removed.name, "removed": str(place), "kept": str(removed.folder)}
        _print_result(
            args, f"Removed {removed.name}; `hermes skills remove {removed.name} --undo` brings it back."
        )
    if args.as_json:
        say_json(state)
    return int(ExitCode.DONE)


def _print_result(args: argparse.Namespace, text: str) -> None:
    if not args.as_json:
        say(text)


def _declare_audit(parser: argparse.ArgumentParser) -> None:
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
        say_json({"skills": [_audit_record(each, hub) for each in found]})
    else:
        for each in found:
            _show_audit(each)
        if not found:
            say("Nothing is installed from elsewhere.")
    return int(ExitCode.DONE if all(each.state == "ok" for each in found) else ExitCode.FAILED)


def _audit_record(each: AuditedSkill, hub: SkillHub) -> dict[str, Any]:
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


def _show_audit(each: AuditedSkill) -> None:
    mark = glyph("done" if each.state == "ok" else "failed")
    row = each.row
    say(f"{mark} {row.name} ({row.trust}, {each.scan.verdict}) from {clean(row.url)} {_WORDS[each.state]}.")
    for path, how in each.changes.items():
        say(f"    {how:8} {path}")
    if each.problem:
        say(f"    {each.problem}")
    if each.state == "changed":
        advise(f"    `hermes skills audit {row.name} --approve` lets it be used; see also `update --theirs`.")


def _approve(hub: SkillHub, each: AuditedSkill, args: argparse.Namespace) -> int:
    if each.state not in ("ok", "changed"):
        raise ConfigError(f"{each.row.name} {_WORDS[each.state]}; install it again.")
    if not args.as_json:
        _show_audit(each)
        show(scan_lines(each.scan))
    require_person(args, "Approving a skill")
    if not confirm(args, f"Let {each.row.name} be used as it is now?"):
        say("Nothing was approved.")
        return int(ExitCode.DENIED)
    row = hub.installed.approve(each.row, each.digest, force=args.force)
    answer(args, row_record(row, hub) | {"approved": True}, f"{row.name} is used again.")
    return int(ExitCode.DONE)


def _declare_publish(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("skill", metavar="SKILL", help="the name of a skill, or a folder (./folder)")
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument(
        "--archive", metavar="FILE", help="write FILE.tar.gz or FILE.zip, and its index entry"
    )
    target.add_argument("--folder", metavar="DIR", help="write the checked files into DIR/NAME")
    target.add_argument("--git", metavar="URL", help="push to a branch of this repository (URL.git#folder)")
    parser.add_argument("--branch", default="", metavar="NAME", help="branch for --git (skill/NAME)")
    parser.add_argument("--author", default="", metavar="WHO", help="`Name <mail>` for --git (as git has it)")
    parser.add_argument("--force", action="store_true", help="publish what the scan calls caution")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _publish(args: argparse.Namespace) -> int:
    from agent.knowledge.skills.hub import git
    from agent.knowledge.skills.hub.publishing import (
        check_publishable,
        index_text,
        publish_archive,
        publish_folder,
        push,
    )

    skill = _skill(args)
    files, scan = check_publishable(skill, force=args.force)
    if not args.as_json:
        say(f"{skill.name}: {skill.folder}")
        show(file_lines({file.path: len(file.content) for file in files}))
        show(scan_lines(scan))
    index = ""
    if args.archive:
        target = Path(args.archive).expanduser().absolute()
        done = publish_archive(skill, files, target)
        index = index_text(skill, done)
    elif args.folder:
        done = publish_folder(skill, files, Path(args.folder).expanduser().absolute())
    else:
        where = git.place(args.git, Path.cwd())
        branch = args.branch or f"skill/{skill.name}"
        require_person(args, "Pushing a skill")
        if not confirm(args, f"Push {skill.name} to the branch {clean(branch)} of {clean(where.url)}?"):
            say("Nothing was pushed.")
            return int(ExitCode.DENIED)
        done = push(skill, files, where, branch, args.author or _author())
    if args.as_json:
        record: dict[str, Any] = {
            "name": done.name,
            "place": done.place,
            "sha256": done.digest,
            "commit": done.commit,
        }
        say_json(record | ({"index": json.loads(index)} if index else {}))
        return int(ExitCode.DONE)
    say(f"Published {done.name}: {done.place}")
    say(f"SHA-256 {done.digest}")
    if index:
        say(f"For /.well-known/agent-skills/index.json of a site:\n{index.rstrip()}")
    return int(ExitCode.DONE)


def _skill(args: argparse.Namespace) -> Skill:
    """Return the skill that the arguments name, in use or given by its folder. Raises `ConfigError`."""
    from agent.knowledge.skills.hub.publishing import skill_at

    if "/" in args.skill or args.skill.startswith("."):
        return skill_at(Path(args.skill).expanduser().absolute())
    found = open_catalog(args).load()
    skill = next((each for each in (*found.skills, *found.shadowed) if each.name == args.skill), None)
    if skill is None:
        raise ConfigError(f"There is no skill `{clean(args.skill)[:60]}` in use; see `hermes skills list`.")
    return skill


def _author() -> str:
    """Return the author from the user's git settings. Raises `ConfigError`."""
    said = []
    for key in ("user.name", "user.email"):
        try:
            done = subprocess.run(
                ["git", "config", "--global", "--get", key],
                capture_output=True,
                text=True,
                timeout=10,
                check=False,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise ConfigError(f"Git cannot be asked who you are: {error}; give --author.") from None
        said.append(done.stdout.strip())
    if not all(said):
        raise ConfigError("Git does not know who you are; give --author 'Name <mail@example.org>'.")
    return f"{said[0]} <{said[1]}>"


def _declare_snapshot(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what", nargs="?", choices=("export", "import"), default="export", metavar="export|import"
    )
    parser.add_argument(
        "file", nargs="?", default="", metavar="FILE", help="the list; export: none is stdout"
    )
    parser.add_argument("--force", action="store_true", help="import: take what the scan calls caution")
    parser.add_argument("--yes", action="store_true", help="import: do not ask")


def _snapshot(args: argparse.Namespace) -> int:
    from agent.knowledge.skills.hub.lock import parse_snapshot, render_snapshot

    hub = open_skill_hub()
    if args.what == "import":
        if not args.file:
            raise ConfigError("Name the file to import.")
        try:
            with Path(args.file).expanduser().open("rb") as file:
                content = file.read(5_000_000)
        except OSError as error:
            raise ConfigError(f"{clean(args.file)} cannot be read: {error.strerror}.") from None
        return _import_list(hub, parse_snapshot(content), args)
    text = render_snapshot(hub.installed.all().values())
    if not args.file:
        say(text.rstrip())
        return int(ExitCode.DONE)
    try:
        Path(args.file).expanduser().write_text(text, "utf-8")
    except OSError as error:
        raise ConfigError(f"{clean(args.file)} cannot be written: {error.strerror}.") from None
    count = len(hub.installed.all())
    answer(
        args,
        {"file": args.file, "skills": count},
        f"Wrote {count} skill{'' if count == 1 else 's'} to {clean(args.file)}.",
    )
    return int(ExitCode.DONE)


def _import_list(hub: SkillHub, rows: tuple[SnapshotRow, ...], args: argparse.Namespace) -> int:
    present = hub.installed.all()
    records: list[dict[str, Any]] = []
    code = ExitCode.DONE
    for row in rows:
        if row.name in present:
            records.append({"name": row.name, "state": "present"})
            continue
        try:
            records.append(_import_one(hub, row, args))
        except HermesError as error:
            code = error.exit_code
            records.append({"name": row.name, "state": "failed", "problem": str(error)})
            say(f"{clean(row.name)}: {error}", sys.stderr)
    if args.as_json:
        say_json({"skills": records})
    else:
        done = sum(each["state"] == "installed" for each in records)
        there = sum(each["state"] == "present" for each in records)
        say(f"Installed {done} of {plural(len(rows), 'skill')}; {there} were there.")
    return int(ExitCode.DENIED if any(each["state"] == "declined" for each in records) else code)


def _import_one(hub: SkillHub, row: SnapshotRow, args: argparse.Namespace) -> dict[str, Any]:
    from agent.knowledge.skills.hub.service import require_allowed

    with hub.snapshot_candidate(row, force=args.force) as candidate:
        if not args.as_json:
            show(candidate_lines(candidate, force=args.force))
        require_allowed(candidate, force=args.force)
        require_person(args, "Installing a skill")
        if not confirm(args, f"Install {candidate.name}?"):
            return {"name": row.name, "state": "declined"}
        new = hub.installed.install(candidate, category=row.category, force=args.force)
    return row_record(new, hub) | {"state": "installed"}


COMMANDS = (
    ("search", "look for skills in the sources of the settings", _declare_search, _search),
    ("inspect", "fetch a skill, scan and show it, install nothing", _declare_inspect, _inspect),
    ("install", "install a skill after showing files and findings", _declare_install, _install),
    ("update", "bring installed skills up to date, your edits kept", _declare_update, _update),
    ("remove", "remove a skill of yours, or bring it back", _declare_remove, _remove),
    ("audit", "say which installed skills are not what was approved", _declare_audit, _audit),
    ("publish", "check a skill and hand it on", _declare_publish, _publish),
    ("snapshot", "write or read the list of installed skills", _declare_snapshot, _snapshot),
)
