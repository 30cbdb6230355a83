"""The verdict of the rules about an action, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agent.core.event_data import VerdictKind, VerdictPart

Judge = Literal["rule", "mode", "grant", "person", "nobody", "model"]
"""Who decided: a rule, the mode, a yes that was given before, a person, nobody because none was there, or
the side model of the smart mode, which only makes a verdict stricter."""

SEVERITY: tuple[VerdictKind, ...] = ("allow", "ask", "deny", "hardline")
"""From the mildest to the strictest; of several verdicts the strictest counts."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the rules say about an action."""

    kind: VerdictKind
    reasons: tuple[str, ...] = ()
    parts: tuple[VerdictPart, ...] = ()
    """For commands: what was said of each part, in the order in which they would run."""
    once: bool = False
    """Whether a yes counts for this once only, whatever the person says."""
    advice: str = ""
    """What became of asking the side model, for the audit log; empty when it was not asked."""

    @property
    def network(self) -> bool:
        """Whether any part wants the network."""
        return any(part.network for part in self.parts)
