"""The report about a skill before a yes, and the question."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.home import Home
from agent.errors import ConfigError
from app.cli.sessions.output import say
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.knowledge.skills.hub.lock import LockedSkill
    from agent.knowledge.skills.hub.quarantine import Candidate
    from agent.knowledge.skills.hub.service import SkillHub


def open_skill_hub() -> SkillHub:
    """The hub of this person, as the settings have it."""
    from agent.core.config.loader import load
    from agent.knowledge.skills.hub.service import open_hub

    home, here, environ = Home.locate(), Path.cwd(), dict(os.environ)
    loaded = load(home, environ, here)
    return open_hub(home, loaded.settings, loaded.environ, here)


def show(lines: Iterable[str]) -> None:
    """Print lines."""
    for each in lines:
        say(each)


def candidate_record(candidate: Candidate, *, force: bool = False) -> dict[str, Any]:
    """The same as JSON."""
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
    """An installed skill as JSON."""
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
    """Raises `ConfigError` when a question would find nobody."""
    if not args.yes and (args.as_json or not sys.stdin.isatty()):
        raise ConfigError(f"{doing} asks first, and there is nobody to answer; give --yes.")


def confirmed(args: argparse.Namespace, question: str) -> bool:
    """The answer to a question with the safe answer as its default; `--yes` answers it."""
    if args.yes:
        return True
    say(f"{question} [y/N]", sys.stderr)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
