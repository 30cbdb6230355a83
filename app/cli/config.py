"""`hermes config`: show, check and change settings, and trust those of a project."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.home import Home
from agent.errors import ConfigError, ExitCode
from app.cli.frame import add_action, add_actions, advise, load_settings, say, say_json, say_path
from themes.states import glyph

if TYPE_CHECKING:
    from agent.core.config.loader import LoadedSettings
    from agent.core.config.problem import Path as KeyPath
    from agent.core.config.trust import ProjectSettings

MASK = "••••••"

DESCRIPTION = "Show and change settings."


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `hermes config` to its parser."""
    actions = add_actions(parser)
    show = add_action(
        actions, "show", "every setting, its value and where it comes from", _show, json="print JSON"
    )
    show.add_argument(
        "--defaults", action="store_true", help="the built-in values, whatever files and variables say"
    )
    get = add_action(actions, "get", "one setting", _get, json="print JSON")
    get.add_argument("key", metavar="KEY")
    change = add_action(
        actions, "set", "change one setting in config.yaml; comments and layout stay", _set, json=""
    )
    change.add_argument("key", metavar="KEY")
    change.add_argument("value", metavar="VALUE", help="lists: a,b,c; `null` unsets what may be unset")
    add_action(actions, "path", "where config.yaml is", lambda args: say_path(args, Home.locate().config))
    add_action(actions, "check", "say what is wrong with all settings; exit code 2 if anything is", _check)
    for name, summary, do in (
        ("trust", "show what the project's settings would do, and use them from now on", _trust),
        ("untrust", "stop using the project's settings", _untrust),
    ):
        action = add_action(actions, name, summary, do, json="")
        action.add_argument("folder", metavar="PATH", nargs="?", default=".", help="a folder of the project")


def _workspace(args: argparse.Namespace) -> Path:
    return Path(getattr(args, "cwd", None) or ".").expanduser()


def _load(args: argparse.Namespace) -> LoadedSettings:
    return load_settings(Home.locate(), _workspace(args))


def _show(args: argparse.Namespace) -> None:
    from agent.core.config.loader import LoadedSettings
    from agent.core.config.problem import dotted_key
    from agent.core.config.schema import Settings

    loaded = LoadedSettings(Settings()) if args.defaults else _load(args)
    rows = [
        (dotted_key(path), _mask_secrets(path, value), _source(loaded, path))
        for path, value in _values(loaded)
    ]
    if args.as_json:
        data = {key: {"value": value, "source": source} for key, value, source in rows}
        say_json(data, 2)
        return
    width = max(len(key) for key, _, _ in rows)
    for key, value, source in rows:
        shown = '""' if value == "" else _text(value)
        say(f"{key:{width}}  {shown}" + ("" if source == "default" else f"   ({source})"))
    if loaded.project == "untrusted":
        advise("This project brings settings that are not used; see `hermes config trust`.", file=sys.stderr)
    for problem in loaded.problems:
        say(f"{glyph('failed')} {problem}", file=sys.stderr)


def _values(loaded: LoadedSettings) -> list[tuple[KeyPath, Any]]:
    """Return the paths and values of all settings in effect, in the schema's order; a list is one value."""

    def walk(data: dict[str, Any], prefix: KeyPath) -> list[tuple[KeyPath, Any]]:
        found: list[tuple[KeyPath, Any]] = []
        for key, value in data.items():
            found += walk(value, (*prefix, key)) if isinstance(value, dict) else [((*prefix, key), value)]
        return found

    return walk(loaded.settings.model_dump(), ())


def _mask_secrets(path: KeyPath, value: Any) -> Any:
    """Return `value` with its secrets masked."""
    from agent.core.config import setting_names
    from tools.text.redact import redact

    if isinstance(value, dict):
        return {key: _mask_secrets((*path, key), inner) for key, inner in value.items()}
    if setting_names.is_secret(path):
        return MASK
    if isinstance(value, list):
        return [_mask_secrets(path, item) for item in value]
    return redact(value) if isinstance(value, str) else value


def _source(loaded: LoadedSettings, path: KeyPath) -> str:
    source = loaded.sources.get(path)
    return str(source) if source else "default"


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "unset" if value is None else json.dumps(value, ensure_ascii=False)


def _get(args: argparse.Namespace) -> None:
    from agent.core.config import setting_names
    from agent.core.config.layers import lookup

    path = setting_names.split(args.key)
    loaded = _load(args)
    try:
        value = lookup(loaded.settings.model_dump(), path)
    except KeyError:
        raise ConfigError(f"`{args.key}` is not set.") from None
    value = _mask_secrets(path, value)
    if args.as_json:
        say_json(value)
    else:
        say(json.dumps(value, indent=2) if isinstance(value, dict) else _text(value))


def _set(args: argparse.Namespace) -> None:
    from agent.api.known_names import change_setting
    from agent.core.config import setting_names
    from agent.core.config.environment import OVERRIDES

    home, key = Home.locate(), args.key
    warnings: list[str] = []
    value = _mask_secrets(setting_names.split(key), change_setting(home, key, args.value, warnings))
    say(f"{key} = {_text(value)}   ({home.config})")
    for sentence in warnings:
        say(sentence)
    for variable, path in OVERRIDES.items():
        if path == setting_names.split(key) and os.environ.get(variable):
            say(f"{variable} is set and overrides it for now.")


def _check(args: argparse.Namespace) -> int:
    from agent.core.config.loader import load
    from agent.model.dialect import FOLDER, mistakes

    home = Home.locate()
    problems = load(home, os.environ, _workspace(args), thorough=True).problems
    said = [*map(str, problems), *mistakes(home.root / FOLDER)]
    if args.as_json:
        say_json({"path": str(home.config), "problems": said}, 2)
        return ExitCode.USAGE if said else ExitCode.DONE
    for problem in said:
        say(f"{glyph('failed')} {problem}")
    if count := len(said):
        say(f"{count} {'problem' if count == 1 else 'problems'} in {home.config} and around it.")
        return ExitCode.USAGE
    say(f"{glyph('done')} {home.config}" + ("" if home.config.exists() else " (not there: all defaults)"))
    return ExitCode.DONE


def _trust(args: argparse.Namespace) -> None:
    from agent.core.config import trust
    from agent.core.config.document import parse
    from agent.core.config.layers import leaves, lookup
    from agent.core.config.loader import PROJECT_FILE
    from agent.core.config.problem import dotted_key
    from agent.core.config.settings_file import UnreadableSettingsError

    home, folder = Home.locate(), Path(args.folder)

    try:
        project = trust.read_project(home, folder)
    except UnreadableSettingsError as error:
        raise ConfigError(f"{PROJECT_FILE}: {error}.") from None
    brings_skills = _trust_skills(home, folder)
    if project is None:
        if brings_skills:
            return
        raise ConfigError(f"{trust.project_root(folder)} brings no settings or skills; nothing to trust.")
    allowed = trust.restrict(parse(project.config or b"", PROJECT_FILE), PROJECT_FILE)
    say(f"{project.root / trust.FOLDER} may now set:")
    for path in leaves(allowed.data):
        say(f"  {dotted_key(path)} = {_text(_mask_secrets(path, lookup(allowed.data, path)))}")
    for problem in allowed.problems:
        say(f"  {glyph('failed')} {problem}")
    if project.permissions is not None:
        from agent.safety.permissions.file import parse_file
        from agent.safety.permissions.policy import PROJECT
        from agent.safety.permissions.subjects import Setting

        rules = parse_file(project.permissions, PROJECT, Setting(project.root, Path.home()))
        say("and decides about actions:")
        for rule in rules.rules:
            say(f"  {rule.text}: {rule.verdict}")
        for wrong in rules.problems:
            say(f"  {glyph('failed')} {wrong}")
    if project.agents or project.refused:
        _print_agents(project)
    trust.trust(home, project)
    advise("Trust ends when one of these files changes, or with `hermes config untrust`.")


def _trust_skills(home: Home, folder: Path) -> bool:
    """Trust the skills of a project and print them; return whether the project has skills."""
    from agent.knowledge.skills.catalog import SkillIndex, read_project_skills, trust_skills

    project = read_project_skills(home, folder)
    if project is None:
        return False
    if project.problem:
        say(f"{glyph('failed')} {project.problem} They are not used.")
        return True
    found = SkillIndex().find(project.roots())
    say(f"{project.root} brings skills, which are used from now on:")
    for skill in found.skills:
        say(f"  {skill.name}: {skill.description[:200]}")
    for broken in found.broken:
        say(f"  {glyph('failed')} {broken.folder.name}: {broken.reason}.")
    trust_skills(home, project)
    advise("This ends when one of their files changes, or with `hermes config untrust`.")
    return True


def _print_agents(project: ProjectSettings) -> None:
    """Print the agents of a project with their tools and settings."""
    from agent.session.subagents.definitions import parse
    from app.tui.screens.agents.agent_files import limits

    say("and brings agents:")
    for name, content in project.agents.items():
        parsed = parse(content, name, "project")
        if (kind := parsed.definition) is not None:
            say(f"  {kind.name}: {kind.description} ({limits(kind)})")
        for problem in parsed.problems:
            say(f"  {glyph('failed')} {problem}")
    for name, reason in project.refused.items():
        say(f"  {glyph('failed')} agents/{name}: it is not read: {reason}.")


def _untrust(args: argparse.Namespace) -> None:
    from agent.core.config import trust

    root = trust.project_root(Path(args.folder))
    known = trust.untrust(Home.locate(), root)
    say(f"{root} is no longer trusted." if known else f"{root} was not trusted.")
