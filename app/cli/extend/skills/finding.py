"""`hermes skills search` and `inspect`."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from agent.errors import ExitCode
from app.cli.extend.skills.command import SkillCommand
from app.cli.extend.skills.report import candidate_record, open_skill_hub, show
from app.cli.sessions.output import say
from app.tui.screens.skill_report import candidate_lines
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.knowledge.skills.hub.source import SkillOffer

IDENTIFIER = (
    "a skill: owner/repository/folder on GitHub, SOURCE:NAME, an address, a git URL (URL.git#folder), "
    "a folder (./folder), or a bare name that one source has"
)


def _declare_search(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("query", nargs="*", metavar="WORD", help="words of name or description; none: all")
    parser.add_argument("--source", default="", metavar="NAME", help="ask this source only")
    parser.add_argument("--limit", type=_count, default=20, metavar="N", help="most skills shown (20)")


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= 500:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 500")
    return int(text)


def _search(args: argparse.Namespace) -> int:
    found = open_skill_hub().search(" ".join(args.query), args.limit, args.source)
    if args.as_json:
        skills = [_record(offer) for offer in found.offers]
        say(json.dumps({"skills": skills, "problems": list(found.problems)}, ensure_ascii=False))
        return int(ExitCode.DONE)
    width = max((len(_identifier(offer)) for offer in found.offers), default=0)
    for offer in found.offers:
        text = clean(offer.description)
        say(f"{_identifier(offer):{width}}  {text if len(text) <= 100 else text[:99].rstrip() + '…'}")
    if not found.offers:
        say("Nothing was found.")
    for problem in found.problems:
        say(problem, sys.stderr)
    return int(ExitCode.DONE)


def _identifier(offer: SkillOffer) -> str:
    """What `install` takes."""
    return clean(f"{offer.source}:{offer.item or offer.name}")


def _record(offer: SkillOffer) -> dict[str, Any]:
    from agent.knowledge.skills.trust import trust_of

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


def _inspect(args: argparse.Namespace) -> int:
    with open_skill_hub().candidate(args.skill, args.version) as candidate:
        if args.as_json:
            record = candidate_record(candidate) | {"content": candidate.skill.body}
            say(json.dumps(record, ensure_ascii=False))
            return int(ExitCode.DONE)
        show(candidate_lines(candidate))
        say(f"\n{candidate.skill.body}")
    return int(ExitCode.DONE)


COMMANDS = (
    SkillCommand("search", "look for skills in the sources of the settings", _declare_search, _search),
    SkillCommand("inspect", "fetch a skill, scan and show it, install nothing", _declare_inspect, _inspect),
)
