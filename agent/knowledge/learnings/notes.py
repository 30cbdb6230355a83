"""Learnings in somebody's words: what is taken, and what they become. Pure."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from agent.errors import ExitCode, HermesError
from agent.knowledge.injection import scan
from agent.knowledge.learnings.call_form import CallPlace, call_form
from agent.knowledge.learnings.failures import normalise
from agent.knowledge.learnings.learning import MOST_TAGS, Learning, Origin, short
from agent.knowledge.learnings.signature import Signature
from tools.services.learning_notes import LearningNote
from tools.text.redact import redact


class LearningRefusedError(HermesError):
    """A learning that is not taken; the message says why."""

    exit_code = ExitCode.USAGE


def checked(note: LearningNote, secrets: Mapping[str, str]) -> LearningNote:
    """A note with its texts on one line, cut and without secrets. Refuses orders."""
    texts = {
        name: short(name, redact(getattr(note, name), secrets))
        for name in ("pattern", "error_type", "fix", "context")
    }
    tags = tuple(dict.fromkeys(" ".join(tag.split())[:40] for tag in note.tags if tag.strip()))
    findings = scan("\n".join([*texts.values(), *tags]))
    if findings:
        names = ", ".join(dict.fromkeys(each.rule for each in findings))
        raise LearningRefusedError(
            f"This reads like an instruction to an agent ({names}: {findings[0].excerpt[:80]!r}), which "
            "learnings do not take; write what fails and what works."
        )
    return replace(note, **texts, tags=tags[:MOST_TAGS])


def written(note: LearningNote, project: str, origin: Origin, session: str = "") -> Learning:
    """A learning in somebody's words, about a failure that was not seen."""
    error = normalise(note.error_type or note.pattern)
    sign = Signature("terminal", "", "", error, project)
    now = time.time()
    return Learning(
        key=sign.key,
        project=project,
        status="learning",
        origin=origin,
        tool=sign.tool,
        error=error,
        pattern=note.pattern,
        error_type=note.error_type or "failed",
        fix=note.fix,
        context=note.context,
        tags=note.tags,
        created_at=now,
        updated_at=now,
        session=session,
    )


def call_key(pattern: str, workspace: Path) -> str:
    """The key of the call that a pattern is, read as a command in the workspace."""
    place = CallPlace(str(workspace), str(workspace))
    return call_form("terminal", {"command": pattern.strip().strip("`")}, place).key
