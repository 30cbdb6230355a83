"""Signatures by which a failure is known again: tool, program, subcommand, normalised error, project."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from agent.knowledge.learnings.call_form import CallForm
from agent.knowledge.learnings.failures import Failure

EVERYWHERE = ""
"""The project of what holds in every one."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The same for failures of one cause."""

    tool: str
    program: str
    """Without its version; empty for tools that run none."""
    subcommand: str
    error: str
    """Normalised."""
    project: str
    """Id of the project, as in the list of trusted ones; empty for what holds everywhere."""

    @property
    def key(self) -> str:
        """A digest of all but the project, under which rows are found."""
        parts = "\0".join((self.tool, self.program, self.subcommand, self.error))
        return hashlib.sha256(parts.encode("utf-8", "replace")).hexdigest()[:32]


def signature(call: CallForm, failure: Failure, project: str) -> Signature:
    """The signature of a call that failed."""
    main = call.command.main if call.command is not None else None
    if main is None:
        return Signature(call.tool, "", "", failure.error, project)
    return Signature(call.tool, main.kin, main.subcommand, failure.error, project)
