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
from app.cli.sessions.output import say

if TYPE_CHECKING:
    from agent.core.config.loader import LoadedSettings
    from agent.core.config.problem import Path as KeyPath
    from agent.core.config.trust import ProjectSettings

MASK = "••••••"

_ACTIONS = """\
show     every setting, its value and where it comes from
get      one setting
set      change one setting in config.yaml; comments and layout stay
path     where config.yaml is
check    say what is wrong with all settings; exit code 2 if anything is
trust    show what the project's settings would do, and use them from now on
untrust  use the project's settings no longer
"""


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Declare the subcommand."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "config",
        help="show and change settings",
        description="Show and change settings.",
        epilog=_ACTIONS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    show = actions.add_parser("show", help="every setting, its value and where it comes from")
    show.add_argument("--json", dest="as_json", action="store_true", help="print JSON")
    show.add_argument(
        "--defaults", action="store_true", help="the built-in values, whatever files and variables say"
    )
    get = actions.add_parser("get", help="one setting")
    get.add_argument("key", metavar="KEY")
    change = actions.add_parser("set", help="change one setting in config.yaml")
    change.add_argument("key", metavar="KEY")
    change.add_argument("value", metavar="VALUE", help="lists: a,b,c; `null` unsets what may be unset")
    actions.add_parser("path", help="where config.yaml is")
    actions.add_parser("check", help="say what is wrong; exit code 2 if anything is")
    for name, summary in (("trust", "use the project's settings"), ("untrust", "use them no longer")):
        action = actions.add_parser(name, help=summary)
        action.add_argument("folder", metavar="PATH", nargs="?", default=".", help="a folder of the project")
    return parser


def run(args: argparse.Namespace) -> int:
    """Carry out the action. Raises `ConfigError`."""
    home = Home.locate()
    match args.action:
        case "show":
            return _show(home, _workspace(args), args.as_json, args.defaults)
        case "get":
            return _get(home, _workspace(args), args.key)
        case "set":
            return _set(home, args.key, args.value)
        case "path":
            say(str(home.config))
            return ExitCode.DONE
        case "check":
            return _check(home, _workspace(args))
        case "trust":
            return _trust(home, Path(args.folder))
        case _:
            return _untrust(home, Path(args.folder))


def _workspace(args: argparse.Namespace) -> Path:
    return Path(getattr(args, "cwd", None) or ".").expanduser()


def _show(home: Home, workspace: Path, as_json: bool, defaults: bool) -> int:
    from agent.core.config.loader import LoadedSettings, load
    from agent.core.config.problem import dotted
    from agent.core.config.schema import Settings

    loaded = LoadedSettings(Settings()) if defaults else load(home, os.environ, workspace)
    rows = [(dotted(path), _displayed(path, value), _source(loaded, path)) for path, value in _values(loaded)]
    if as_json:
        data = {key: {"value": value, "source": source} for key, value, source in rows}
        print(json.dumps(data, ensure_ascii=True, indent=2))
        return ExitCode.DONE
    width = max(len(key) for key, _, _ in rows)
    for key, value, source in rows:
        shown = '""' if value == "" else _text(value)
        say(f"{key:{width}}  {shown}" + ("" if source == "default" else f"   ({source})"))
    _tell(loaded)
    return ExitCode.DONE


def _values(loaded: LoadedSettings) -> list[tuple[KeyPath, Any]]:
    """Every setting in effect, in the schema's order; lists are one value."""

    def walk(data: dict[str, Any], prefix: KeyPath) -> list[tuple[KeyPath, Any]]:
        found: list[tuple[KeyPath, Any]] = []
        for key, value in data.items():
            found += walk(value, (*prefix, key)) if isinstance(value, dict) else [((*prefix, key), value)]
        return found

    return walk(loaded.settings.model_dump(), ())


def _displayed(path: KeyPath, value: Any) -> Any:
    """`value` without anything secret in it."""
    from agent.core.config import setting_names
    from tools.text.redact import redact

    if isinstance(value, dict):
        return {key: _displayed((*path, key), inner) for key, inner in value.items()}
    if setting_names.is_secret(path):
        return MASK
    if isinstance(value, list):
        return [_displayed(path, item) for item in value]
    return redact(value) if isinstance(value, str) else value


def _source(loaded: LoadedSettings, path: KeyPath) -> str:
    source = loaded.sources.get(path)
    return str(source) if source else "default"


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return "unset" if value is None else json.dumps(value, ensure_ascii=False)


def _tell(loaded: LoadedSettings) -> None:
    """What a person should know beside the values, on stderr."""
    if loaded.project == "untrusted":
        say("This project brings settings that are not used; see `hermes config trust`.", file=sys.stderr)
    for problem in loaded.problems:
        say(f"✗ {problem}", file=sys.stderr)


def _get(home: Home, workspace: Path, key: str) -> int:
    from agent.core.config import setting_names
    from agent.core.config.layers import lookup
    from agent.core.config.loader import load

    path = setting_names.split(key)
    loaded = load(home, os.environ, workspace)
    try:
        value = lookup(loaded.settings.model_dump(), path)
    except KeyError:
        raise ConfigError(f"`{key}` is not set.") from None
    value = _displayed(path, value)
    say(json.dumps(value, indent=2) if isinstance(value, dict) else _text(value))
    return ExitCode.DONE


def _set(home: Home, key: str, text: str) -> int:
    from agent.core.config import setting_names
    from agent.core.config.edit import set_setting
    from agent.core.config.environment import OVERRIDES

    value = _displayed(setting_names.split(key), set_setting(home, key, text))
    say(f"{key} = {_text(value)}   ({home.config})")
    for variable, path in OVERRIDES.items():
        if path == setting_names.split(key) and os.environ.get(variable):
            say(f"{variable} is set and overrides it for now.")
    return ExitCode.DONE


def _check(home: Home, workspace: Path) -> int:
    from agent.core.config.loader import load

    loaded = load(home, os.environ, workspace, thorough=True)
    for problem in loaded.problems:
        say(f"✗ {problem}")
    if loaded.problems:
        count = len(loaded.problems)
        say(f"{count} {'problem' if count == 1 else 'problems'} in {home.config} and around it.")
        return ExitCode.USAGE
    say(f"✓ {home.config}" + ("" if home.config.exists() else " (not there: all defaults)"))
    return ExitCode.DONE


def _trust(home: Home, folder: Path) -> int:
    from agent.core.config import trust
    from agent.core.config.document import parse
    from agent.core.config.layers import leaves, lookup
    from agent.core.config.loader import PROJECT_FILE
    from agent.core.config.problem import dotted
    from agent.core.config.settings_file import UnreadableSettingsError

    try:
        project = trust.read_project(home, folder)
    except UnreadableSettingsError as error:
        raise ConfigError(f"{PROJECT_FILE}: {error}.") from None
    brings_skills = _trust_skills(home, folder)
    if project is None:
        if brings_skills:
            return ExitCode.DONE
        raise ConfigError(f"{trust.project_root(folder)} brings no settings or skills; nothing to trust.")
    allowed = trust.restrict(parse(project.config or b"", PROJECT_FILE), PROJECT_FILE)
    say(f"{project.root / trust.FOLDER} may now set:")
    for path in leaves(allowed.data):
        say(f"  {dotted(path)} = {_text(_displayed(path, lookup(allowed.data, path)))}")
    for problem in allowed.problems:
        say(f"  ✗ {problem}")
    if project.permissions is not None:
        from agent.safety.permissions.file import parse_file
        from agent.safety.permissions.policy import PROJECT
        from agent.safety.permissions.subjects import Setting

        rules = parse_file(project.permissions, PROJECT, Setting(project.root, Path.home()))
        say("and decides about actions:")
        for rule in rules.rules:
            say(f"  {rule.text}: {rule.verdict}")
        for wrong in rules.problems:
            say(f"  ✗ {wrong}")
    if project.agents or project.refused:
        _say_agents(project)
    trust.trust(home, project)
    say("Trust ends when one of these files changes, or with `hermes config untrust`.")
    return ExitCode.DONE


def _trust_skills(home: Home, folder: Path) -> bool:
    """Trust the skills that a project brings, and say which; False if it brings none."""
    from agent.knowledge.skills.discover import SkillIndex
    from agent.knowledge.skills.project import read_project_skills, trust_skills

    project = read_project_skills(home, folder)
    if project is None:
        return False
    if project.problem:
        say(f"✗ {project.problem} They are not used.")
        return True
    found = SkillIndex().find(project.roots())
    say(f"{project.root} brings skills, which are used from now on:")
    for skill in found.skills:
        say(f"  {skill.name}: {skill.description[:200]}")
    for broken in found.broken:
        say(f"  ✗ {broken.folder.name}: {broken.reason}.")
    trust_skills(home, project)
    say("This ends when one of their files changes, or with `hermes config untrust`.")
    return True


def _say_agents(project: ProjectSettings) -> None:
    """The agents that a project brings, as they would work."""
    from agent.session.subagents.definitions import parse
    from app.tui.screens.agents.agent_files import limits

    say("and brings agents:")
    for name, content in project.agents.items():
        parsed = parse(content, name, "project")
        if (kind := parsed.definition) is not None:
            say(f"  {kind.name}: {kind.description} ({limits(kind)})")
        for problem in parsed.problems:
            say(f"  ✗ {problem}")
    for name, reason in project.refused.items():
        say(f"  ✗ agents/{name}: it is not read: {reason}.")


def _untrust(home: Home, folder: Path) -> int:
    from agent.core.config import trust

    root = trust.project_root(folder)
    known = trust.untrust(home, root)
    say(f"{root} is no longer trusted." if known else f"{root} was not trusted.")
    return ExitCode.DONE
