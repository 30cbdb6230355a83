"""`hermes import`: import another agent's sessions, memory, skills, servers and permissions."""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.home import Home
from agent.errors import ConfigError, ExitCode
from agent.integrations.migration import PROGRAMS
from app.cli.frame import ONE_OBJECT, add_json, advise, agreed_by, say, say_json
from tools.text.safe_text import clean, truncate

if TYPE_CHECKING:
    from agent.integrations.migration.reading import Findings, Part
    from agent.integrations.migration.taking_over import ImportOutcome

SHOWN = 8
"""The number of items of a kind that are named before the question; the others are counted."""

WORDS: dict[Part, str] = {
    "sessions": "sessions",
    "memory": "notes",
    "skills": "skills",
    "servers": "MCP servers",
    "permissions": "permission rules",
}


DESCRIPTION = (
    "Show what another agent keeps on this machine and, after a yes, take it over. Nothing "
    "of it is changed there, nothing of yours is replaced here, and what is here already is left out."
)


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the options of `hermes import` to its parser."""
    names = ", ".join(PROGRAMS)
    parser.add_argument(
        "agent", metavar="AGENT", nargs="?", default="", help=f"{names}; without one, those found here"
    )
    parser.add_argument("--from", dest="folder", default="", metavar="DIR", help="its folder")
    parser.add_argument(
        "--only",
        default="",
        metavar="PARTS",
        help=f"only these, separated by commas: {', '.join(WORDS)}",
    )
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_json(parser, ONE_OBJECT)
    parser.set_defaults(do=run)
    width = max(map(len, PROGRAMS))
    rows = [
        f"  {name:{width}}  {each.name} (~/{each.folder}): {each.reads}" for name, each in PROGRAMS.items()
    ]
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "\n".join(["what is read:", *rows])


def run(args: argparse.Namespace) -> int:
    """List what can be imported, ask, and import it; return an exit code. Raises `HermesError`."""
    from agent.integrations.migration.taking_over import find_data

    parts = _parts(args.only)
    home = Home.locate()
    if not args.agent:
        return _list_programs(args, home, parts)
    findings = find_data(args.agent, args.folder, home.root, dict(os.environ))
    wanted: list[Part] = [part for part in parts if findings.count(part)]
    if args.as_json and not args.yes:
        say_json(_record(findings, parts), 2)
        return ExitCode.DONE
    if not args.as_json:
        _show(findings, parts)
    nobody = "Nobody is there to confirm it; look at the list and add --yes."
    if wanted and not agreed_by(args, "Take this over?", nobody):
        say("Nothing was taken over.")
        return ExitCode.DENIED
    taken = asyncio.run(_import_parts(home, findings, wanted, quiet=args.as_json)) if wanted else []
    if args.as_json:
        results = {"results": [asdict(each) for each in taken]}
        say_json(_record(findings, parts) | results, 2)
    elif not wanted:
        say("There is nothing to take over.")
    else:
        told = []
        for part in wanted:
            done = [each.done for each in taken if each.part == part]
            told.append(f"{sum(done)} of {len(done)} {WORDS[part]}")
        say(f"Taken over: {', '.join(told)}.")
    return ExitCode.DONE


def _list_programs(args: argparse.Namespace, home: Home, parts: list[Part]) -> int:
    """List the other agents whose data is found here; return an exit code. Raises `ConfigError`."""
    from agent.integrations.migration.taking_over import find_data, places

    if args.folder or args.yes:
        raise ConfigError(f"Name the program that is meant: hermes import {'|'.join(PROGRAMS)}.")
    environ = dict(os.environ)
    found = {agent: find_data(agent, "", home.root, environ) for agent in places(home.root, environ)}
    if args.as_json:
        rows = [
            {
                "agent": agent,
                "folder": str(each.root),
                "found": {part: each.count(part) for part in parts},
            }
            for agent, each in found.items()
        ]
        say_json({"agents": rows}, 2)
        return ExitCode.DONE
    for agent, each in found.items():
        counts = [f"{count} {_unit(part, count)}" for part in parts if (count := each.count(part))]
        say(f"{agent:8}  {clean(str(each.root))}: {', '.join(counts) or 'nothing to take over'}")
    if found:
        advise("Look at one with `hermes import NAME`.")
    else:
        say(f"Nothing of {', '.join(PROGRAMS)} was found here; name a folder with NAME --from DIR.")
    return ExitCode.DONE


def _unit(part: Part, count: int) -> str:
    return WORDS[part].removesuffix("s") if count == 1 else WORDS[part]


def _parts(text: str) -> list[Part]:
    from agent.integrations.migration.reading import PARTS

    names = [name.strip() for name in text.split(",") if name.strip()]
    if wrong := [name for name in names if name not in PARTS]:
        raise ConfigError(f"--only does not know {wrong[0][:40]}; it takes {', '.join(PARTS)}.")
    return [part for part in PARTS if not names or part in names]


async def _import_parts(
    home: Home, findings: Findings, parts: list[Part], *, quiet: bool
) -> list[ImportOutcome]:
    from agent.core.config.known_secrets import secrets_of_home
    from agent.integrations.migration.taking_over import open_importer

    taken = []
    async with open_importer(home, os.environ, Path.cwd(), secrets_of_home()) as takeover:
        async for each in takeover.run(findings, parts):
            taken.append(each)
            if not quiet and (not each.done or each.part != "sessions" or "left out" in each.note):
                mark = "+" if each.done else "-"
                note = f": {each.note}" if each.note else ""
                say(f"  {mark} {clean(each.name)}{clean(note)}")
    return taken


def _show(findings: Findings, parts: list[Part]) -> None:
    say(f"Found in {findings.root}, which stays as it is:")
    for part in parts:
        if count := findings.count(part):
            say(f"{count} {_unit(part, count)}")
            names = _names(findings, part)
            for name in names[:SHOWN]:
                say(f"  {truncate(clean(name), 100)}")
            if len(names) > SHOWN:
                say(f"  … and {len(names) - SHOWN} more")
    if findings.left_out:
        say("Left out:")
        for sentence in findings.left_out:
            say(f"  {clean(sentence)}")


def _names(findings: Findings, part: Part) -> list[str]:
    match part:
        case "sessions":
            newest = sorted(findings.sessions, key=lambda each: each.updated, reverse=True)
            return [f"{_day(each.updated)}  {' '.join(each.title.split())}" for each in newest]
        case "memory":
            return [
                f"{note.source.name} -> {note.scope}: {' '.join(note.text.split())}"
                for note in findings.notes
            ]
        case "skills":
            return [folder.name for folder in findings.skills]
        case "servers":
            return [
                f"{name}: {server.get('url') or ' '.join([str(server['command']), *server.get('args', [])])}"
                for name, server in findings.servers.items()
            ]
        case "permissions":
            return [f"{rule.verdict:5}  {rule.rule}   ({rule.original})" for rule in findings.rules]


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(at)) if at else "          "


def _record(findings: Findings, parts: list[Part]) -> dict[str, Any]:
    found: dict[Part, Any] = {
        "sessions": [
            {"id": each.id, "title": each.title, "workspace": each.workspace, "updated": each.updated}
            for each in findings.sessions
        ],
        "memory": [
            {"scope": note.scope, "source": str(note.source), "project": note.project, "text": note.text}
            for note in findings.notes
        ],
        "skills": [str(folder) for folder in findings.skills],
        "servers": {name: _safe(server) for name, server in findings.servers.items()},
        "permissions": [asdict(rule) for rule in findings.rules],
    }
    return {
        "agent": findings.agent,
        "folder": str(findings.root),
        "found": {part: found[part] for part in parts},
        "left_out": list(findings.left_out),
    }


def _safe(server: Mapping[str, Any]) -> dict[str, Any]:
    """Return a server with only the names of its variables and headers, as the values may be secret."""
    return {key: sorted(value) if key in ("env", "headers") else value for key, value in server.items()}
