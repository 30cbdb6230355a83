"""`hermes skills`: list, show, validate and scan skills, and install or publish them."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.errors import ConfigError, ExitCode
from app.cli.extend import skill_hub
from app.cli.frame import add_action, add_actions, say, say_json
from themes.states import glyph
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.knowledge.skills.catalog import SkillSet
    from agent.knowledge.skills.skill import Skill

DESCRIPTION = "List, check, install, update and hand on skills: written-down ways of doing a task."


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `hermes skills` to its parser."""
    actions = add_actions(parser)
    for name, summary, declare_options, do in (*COMMANDS, *skill_hub.COMMANDS):
        declare_options(add_action(actions, name, summary, do))


def _declare_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--paths", action="store_true", help="where each skill is stored")


def _list(args: argparse.Namespace) -> None:
    found = skill_hub.open_catalog(args).load()
    if args.as_json:
        say_json(as_data(found))
        return
    width = max((len(each.name) for each in found.skills), default=0)
    for skill in found.skills:
        about = str(skill.folder) if args.paths else _short(skill.description, 100)
        say(f"{skill.name:{width}}  {about}" + (f"   ({skill.scope})" if skill.scope != "bundled" else ""))
    for each in found.off:
        say(f"{glyph('off')} {each.skill.name} ({each.skill.scope}) is not used: {each.reason}.")
    for each in found.shadowed:
        winner = next((skill.scope for skill in _find_skills(found, each.name)), "another")
        say(
            f"{glyph('off')} {each.name} ({each.scope}) is shadowed by the one of the {winner}: {each.folder}"
        )
    for each in found.broken:
        say(f"{glyph('failed')} {clean(str(each.folder))}: {each.reason}.")
    for note in (*found.notes, *found.renewed):
        say(note, file=sys.stderr)


def as_data(found: SkillSet) -> dict[str, Any]:
    """Return all skills that were found, by state, as JSON data."""
    return {
        "skills": [_entry(each) for each in found.skills],
        "off": [_entry(each.skill) | {"reason": each.reason} for each in found.off],
        "shadowed": [_entry(each) for each in found.shadowed],
        "broken": [
            {"path": clean(str(each.folder)), "scope": each.scope, "reason": each.reason}
            for each in found.broken
        ],
        "notes": [*found.notes, *found.renewed],
    }


def _entry(skill: Skill) -> dict[str, Any]:
    from agent.knowledge.skills.catalog import missing_variables

    return {
        "name": skill.name,
        "description": skill.description,
        "scope": skill.scope,
        "category": skill.category,
        "path": clean(str(skill.folder)),
        "allowed_tools": None if skill.allowed_tools is None else list(skill.allowed_tools),
        "required_variables": list(skill.required_variables),
        "missing_variables": list(missing_variables(skill, os.environ)),
        "warnings": list(skill.warnings),
    }


def _declare_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")


def _show(args: argparse.Namespace) -> None:
    from agent.knowledge.skills.skill import linked_files
    from themes.skin import nearest

    found = skill_hub.open_catalog(args).load()
    all_of_them = [*found.skills, *(each.skill for each in found.off)]
    skill = next((each for each in all_of_them if each.name == args.name), None)
    if skill is None:
        names = [each.name for each in all_of_them]
        guess = nearest(args.name, names)
        raise ConfigError(f"There is no skill `{args.name[:60]}`{guess} `hermes skills` lists them.")
    files = linked_files(skill.folder)
    reason = next((each.reason for each in found.off if each.skill is skill), "")
    shadows = [str(each.folder) for each in found.shadowed if each.name == skill.name]
    if args.as_json:
        about = {"content": skill.body, "linked_files": files, "shadows": shadows, "off": reason}
        say_json(_entry(skill) | about)
        return
    entry = _entry(skill)
    say(f"{skill.name} ({skill.scope}): {skill.folder}")
    say(skill.description)
    if reason:
        say(f"It is not used: {reason}.")
    for path in shadows:
        say(f"It shadows {path}")
    for key, title in (("allowed_tools", "Tools"), ("required_variables", "Needs"), ("warnings", "Warnings")):
        if entry[key]:
            say(f"{title}: {', '.join(map(clean, entry[key]))}")
    if entry["missing_variables"]:
        say(f"Not set: {', '.join(entry['missing_variables'])}")
    for folder, paths in files.items():
        say(f"{folder}: {', '.join(map(clean, paths))}")
    say(f"\n{skill.body}")


def _find_skills(found: SkillSet, name: str) -> list[Skill]:
    return [each for each in (*found.skills, *(off.skill for off in found.off)) if each.name == name]


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1].rstrip()}…"


def _declare_validate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="the folder of a skill, or its SKILL.md")


def _validate(args: argparse.Namespace) -> int:
    from agent.knowledge.skills.skill import SkillFormatError, read_text, skill_file, validate

    folder = _folder(args.path)
    try:
        path = skill_file(folder)
        if path is None:
            raise SkillFormatError("there is no SKILL.md")
        problems = validate(read_text(path, folder), folder.name)
    except SkillFormatError as error:
        problems = (f"{str(error)[0].upper()}{str(error)[1:]}.",)
    if args.as_json:
        valid = {"path": clean(str(folder)), "valid": not problems, "problems": list(problems)}
        say_json(valid)
    else:
        for problem in problems:
            say(f"{glyph('failed')} {problem}")
        if not problems:
            say(f"{glyph('done')} {clean(folder.name)}")
    return int(ExitCode.FAILED if problems else ExitCode.DONE)


def _declare_scan(parser: argparse.ArgumentParser) -> None:
    _declare_validate(parser)
    parser.add_argument(
        "--source",
        default="",
        metavar="ID",
        help="whom it comes from: `owner/repository`, `official` or `agent`; decides what is allowed",
    )


def _scan(args: argparse.Namespace) -> None:
    from agent.knowledge.skills.scanner import scan_folder
    from agent.knowledge.skills.skill import decide, trust_of

    folder = _folder(args.path)
    trust = trust_of(args.source or str(folder))
    result = scan_folder(folder, outside=trust in ("trusted", "community"))
    allowed = decide(trust, result.verdict)
    if args.as_json:
        data: dict[str, Any] = {"verdict": result.verdict, "trust": trust, "allowed": allowed}
        data["findings"] = [asdict(each) for each in result.findings]
        say_json(data)
        return
    for each in result.findings:
        place = f"{each.file}:{each.line}" if each.line else each.file
        say(
            f"{each.severity:8}  {place}  {each.rule}: {each.why}"
            + (f" ({each.excerpt})" if each.excerpt else "")
        )
    words = {"yes": "may be installed", "no": "is not installed", "ask": "is installed after a yes"}
    say(f"{result.verdict}; from a source that counts as {trust} it {words[allowed]}.")


def _folder(given: str) -> Path:
    """Return the folder of a skill. Raises `ConfigError`."""
    try:
        path = Path(given).expanduser().resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{clean(given)} cannot be read: {reason}; name the folder of a skill.") from None
    if path.is_file() and path.name.lower() == "skill.md":
        return path.parent
    if not path.is_dir():
        raise ConfigError(f"{clean(given)} is not a folder; name the folder of a skill.")
    return path


COMMANDS = (
    ("list", "all skills, and those that are shadowed, switched off or broken", _declare_list, _list),
    ("show", "one skill with its instructions and files", _declare_show, _show),
    ("validate", "say what keeps a skill from the format", _declare_validate, _validate),
    ("scan", "say what in a skill reads like an attack", _declare_scan, _scan),
)
