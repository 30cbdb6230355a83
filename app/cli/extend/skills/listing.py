"""`hermes skills list` and `show`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from agent.errors import ConfigError, ExitCode
from app.cli.extend.skills.command import SkillCommand, open_catalog
from app.cli.sessions.output import say
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.knowledge.skills.discover import SkillSet
    from agent.knowledge.skills.skill import Skill


def _declare_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--paths", action="store_true", help="where each skill lies")


def _list(args: argparse.Namespace) -> int:
    found = open_catalog(args).load()
    if args.as_json:
        say(json.dumps(as_data(found), ensure_ascii=False))
        return int(ExitCode.DONE)
    width = max((len(each.name) for each in found.skills), default=0)
    for skill in found.skills:
        about = str(skill.folder) if args.paths else _short(skill.description, 100)
        say(f"{skill.name:{width}}  {about}" + (f"   ({skill.scope})" if skill.scope != "bundled" else ""))
    for each in found.off:
        say(f"○ {each.skill.name} ({each.skill.scope}) is not used: {each.reason}.")
    for each in found.shadowed:
        winner = next((skill.scope for skill in _named(found, each.name)), "another")
        say(f"○ {each.name} ({each.scope}) is shadowed by the one of the {winner}: {each.folder}")
    for each in found.broken:
        say(f"✗ {clean(str(each.folder))}: {each.reason}.")
    for note in (*found.notes, *found.renewed):
        say(note, file=sys.stderr)
    return int(ExitCode.DONE)


def as_data(found: SkillSet) -> dict[str, Any]:
    """Everything that was found, as JSON."""
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


def _show(args: argparse.Namespace) -> int:
    from agent.knowledge.skills.skill import linked_files
    from themes.skin_problem import nearest

    found = open_catalog(args).load()
    all_of_them = [*found.skills, *(each.skill for each in found.off)]
    skill = next((each for each in all_of_them if each.name == args.name), None)
    if skill is None:
        names = [each.name for each in all_of_them]
        raise ConfigError(f"There is no skill `{args.name[:60]}`{nearest(args.name, names)}")
    files = linked_files(skill.folder)
    reason = next((each.reason for each in found.off if each.skill is skill), "")
    shadows = [str(each.folder) for each in found.shadowed if each.name == skill.name]
    if args.as_json:
        about = {"content": skill.body, "linked_files": files, "shadows": shadows, "off": reason}
        say(json.dumps(_entry(skill) | about, ensure_ascii=False))
        return int(ExitCode.DONE)
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
    return int(ExitCode.DONE)


def _named(found: SkillSet, name: str) -> list[Skill]:
    return [each for each in (*found.skills, *(off.skill for off in found.off)) if each.name == name]


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1].rstrip()}…"


COMMANDS = (
    SkillCommand(
        "list", "all skills, and those that are shadowed, switched off or broken", _declare_list, _list
    ),
    SkillCommand("show", "one skill with its instructions and files", _declare_show, _show),
)
