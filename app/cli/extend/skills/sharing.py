"""`hermes skills publish` and `snapshot`."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.errors import ConfigError, ExitCode, HermesError
from app.cli.extend.skills.command import SkillCommand, open_catalog
from app.cli.extend.skills.report import (
    confirmed,
    open_skill_hub,
    require_person,
    row_record,
    show,
)
from app.cli.sessions.output import say
from app.tui.screens.skill_report import candidate_lines, file_lines, scan_lines
from tools.text.safe_text import clean
from tools.text.words import plural

if TYPE_CHECKING:
    from agent.knowledge.skills.hub.service import SkillHub
    from agent.knowledge.skills.hub.snapshot import SnapshotRow
    from agent.knowledge.skills.skill import Skill


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
    from agent.knowledge.skills.hub.publishing import (
        check_publishable,
        index_text,
        publish_archive,
        publish_folder,
        push,
        repository_at,
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
        where = repository_at(args.git, Path.cwd())
        branch = args.branch or f"skill/{skill.name}"
        require_person(args, "Pushing a skill")
        if not confirmed(args, f"Push {skill.name} to the branch {clean(branch)} of {clean(where.url)}?"):
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
        say(json.dumps(record | ({"index": json.loads(index)} if index else {}), ensure_ascii=False))
        return int(ExitCode.DONE)
    say(f"Published {done.name}: {done.place}")
    say(f"SHA-256 {done.digest}")
    if index:
        say(f"For /.well-known/agent-skills/index.json of a site:\n{index.rstrip()}")
    return int(ExitCode.DONE)


def _skill(args: argparse.Namespace) -> Skill:
    """The skill that is meant. Raises `ConfigError`."""
    from agent.knowledge.skills.hub.publishing import skill_at

    if "/" in args.skill or args.skill.startswith("."):
        return skill_at(Path(args.skill).expanduser().absolute())
    found = open_catalog(args).load()
    skill = next((each for each in (*found.skills, *found.shadowed) if each.name == args.skill), None)
    if skill is None:
        raise ConfigError(f"There is no skill `{clean(args.skill)[:60]}` in use; see `hermes skills list`.")
    return skill


def _author() -> str:
    """Who the person is to git. Raises `ConfigError`."""
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
    from agent.knowledge.skills.hub.snapshot import parse_snapshot, render_snapshot

    hub = open_skill_hub()
    if args.what == "import":
        if not args.file:
            raise ConfigError("Name the file to import.")
        try:
            with Path(args.file).expanduser().open("rb") as file:
                content = file.read(5_000_000)
        except OSError as error:
            raise ConfigError(f"{clean(args.file)} cannot be read: {error.strerror}.") from None
        return _import(hub, parse_snapshot(content), args)
    text = render_snapshot(hub.installed.all().values())
    if not args.file:
        say(text.rstrip())
        return int(ExitCode.DONE)
    try:
        Path(args.file).expanduser().write_text(text, "utf-8")
    except OSError as error:
        raise ConfigError(f"{clean(args.file)} cannot be written: {error.strerror}.") from None
    count = len(hub.installed.all())
    say(
        json.dumps({"file": args.file, "skills": count})
        if args.as_json
        else f"Wrote {plural(count, 'skill')} to {clean(args.file)}."
    )
    return int(ExitCode.DONE)


def _import(hub: SkillHub, rows: tuple[SnapshotRow, ...], args: argparse.Namespace) -> int:
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
        say(json.dumps({"skills": records}, ensure_ascii=False))
    else:
        done = sum(each["state"] == "installed" for each in records)
        there = sum(each["state"] == "present" for each in records)
        say(f"Installed {done} of {len(rows)} skills; {there} were there.")
    return int(ExitCode.DENIED if any(each["state"] == "declined" for each in records) else code)


def _import_one(hub: SkillHub, row: SnapshotRow, args: argparse.Namespace) -> dict[str, Any]:
    from agent.knowledge.skills.hub.installing import require_allowed

    with hub.snapshot_candidate(row, force=args.force) as candidate:
        if not args.as_json:
            show(candidate_lines(candidate, force=args.force))
        require_allowed(candidate, force=args.force)
        require_person(args, "Installing a skill")
        if not confirmed(args, f"Install {candidate.name}?"):
            return {"name": row.name, "state": "declined"}
        new = hub.installed.install(candidate, category=row.category, force=args.force)
    return row_record(new, hub) | {"state": "installed"}


COMMANDS = (
    SkillCommand("publish", "check a skill and hand it on", _declare_publish, _publish),
    SkillCommand("snapshot", "write or read the list of installed skills", _declare_snapshot, _snapshot),
)
