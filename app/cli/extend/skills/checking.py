"""`hermes skills validate` and `scan`."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agent.errors import ConfigError, ExitCode
from app.cli.extend.skills.command import SkillCommand
from app.cli.sessions.output import say
from tools.text.safe_text import clean


def _declare_validate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="the folder of a skill, or its SKILL.md")


def _validate(args: argparse.Namespace) -> int:
    from agent.knowledge.skills.frontmatter import SkillFormatError, validate
    from agent.knowledge.skills.skill import read_text, skill_file

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
        say(json.dumps(valid, ensure_ascii=False))
    else:
        for problem in problems:
            say(f"✗ {problem}")
        if not problems:
            say(f"✓ {clean(folder.name)}")
    return int(ExitCode.FAILED if problems else ExitCode.DONE)


def _declare_scan(parser: argparse.ArgumentParser) -> None:
    _declare_validate(parser)
    parser.add_argument(
        "--source",
        default="",
        metavar="ID",
        help="whom it comes from: `owner/repository`, `official` or `agent`; decides what is allowed",
    )


def _scan(args: argparse.Namespace) -> int:
    from agent.knowledge.skills.scanner import scan_folder
    from agent.knowledge.skills.trust import decide, trust_of

    folder = _folder(args.path)
    trust = trust_of(args.source or str(folder))
    result = scan_folder(folder, outside=trust in ("trusted", "community"))
    allowed = decide(trust, result.verdict)
    if args.as_json:
        data: dict[str, Any] = {"verdict": result.verdict, "trust": trust, "allowed": allowed}
        data["findings"] = [asdict(each) for each in result.findings]
        say(json.dumps(data, ensure_ascii=False))
        return int(ExitCode.DONE)
    for each in result.findings:
        place = f"{each.file}:{each.line}" if each.line else each.file
        say(
            f"{each.severity:8}  {place}  {each.rule}: {each.why}"
            + (f" ({each.excerpt})" if each.excerpt else "")
        )
    words = {"yes": "may be installed", "no": "is not installed", "ask": "is installed after a yes"}
    say(f"{result.verdict}; from a source that counts as {trust} it {words[allowed]}.")
    return int(ExitCode.DONE)


def _folder(given: str) -> Path:
    """The folder of a skill. Raises `ConfigError`."""
    try:
        path = Path(given).expanduser().resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"{clean(given)} cannot be read: {reason}; name the folder of a skill.") from None
    if path.is_file() and path.name.lower() == "skill.md":
        return path.parent
    if not path.is_dir():
        raise ConfigError(f"{clean(given)} is no folder; name the folder of a skill.")
    return path


COMMANDS = (
    SkillCommand("validate", "say what keeps a skill from the format", _declare_validate, _validate),
    SkillCommand("scan", "say what in a skill reads like an attack", _declare_scan, _scan),
)
