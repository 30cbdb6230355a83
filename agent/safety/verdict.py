"""The verdict of the rules about an action, as data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

from agent.core.event_data import VerdictKind, VerdictPart
from agent.core.net.hosts import groups
from agent.safety.reader.tree import words
from tools.kit.lazy_pattern import lazy_pattern

Judge = Literal["rule", "mode", "grant", "person", "nobody", "model"]
"""Who decided: a rule, the mode, an earlier permission, the user, nobody because none was there, or the
side model of the smart mode, which only makes a verdict stricter.
"""

SEVERITY: tuple[VerdictKind, ...] = ("allow", "ask", "deny", "hardline")
"""Verdicts from the mildest to the strictest; of several the strictest counts."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of the rules about an action."""

    kind: VerdictKind
    reasons: tuple[str, ...] = ()
    parts: tuple[VerdictPart, ...] = ()
    """For commands: the verdict on each part, in order of execution."""
    once: bool = False
    """Whether permission only counts once, whatever the user says."""
    advice: str = ""
    """The side model's result, for the audit log; empty if it was not asked."""

    @property
    def network(self) -> bool:
        """Return whether any part of the command needs the network."""
        return any(part.network for part in self.parts)


DELETERS = words("rm srm wipe trash rmtrash del grm unlink")
OWNERS = words("chmod chown chgrp chattr setfacl chflags gchmod gchown")
WRITERS = words("tee cp mv install ln rsync truncate sed perl sponge scp")


@dataclass(frozen=True, slots=True)
class UndoCoverage:
    """The parts of a workspace that checkpoints record."""

    git: bool = True
    """Whether refs, HEAD, index, settings and hooks of `.git` are recorded, and objects protected from
    pruning.
    """
    largest: int = 100_000_000
    """The size in bytes of the largest recorded file; -1: nothing is recorded."""


NO_UNDO = UndoCoverage(git=False, largest=-1)
"""The coverage without recorded steps."""


_LOOKED_UP = words(
    "google.com www.google.com cloudflare.com one.one.one.one dns.google python.org rust-lang.org golang.org "
    "npmjs.com www.npmjs.com debian.org ubuntu.org ubuntu.com kernel.org microsoft.com apple.com amazon.com "
    "wikipedia.org docker.io 1.1.1.1 1.0.0.1 8.8.8.8 8.8.4.4 9.9.9.9 localhost ::1 "
    "example.com example.org example.net www.example.com"
)
"""Hosts that commands may name unasked; the proxy asks before it connects."""
_LOCAL = lazy_pattern(r"localhost|127(?:\.\d{1,3}){3}|::1|0\.0\.0\.0")


def is_known(host: str) -> bool:
    """Return whether a host is on the list, or is this machine."""
    return is_local(host) or host in _LOOKED_UP or any(host in names for names in _read_names().values())


def is_local(host: str) -> bool:
    """Return whether a name or address is that of this machine."""
    return host.endswith(".localhost") or _LOCAL.fullmatch(host) is not None


def is_listed(host: str) -> bool:
    """Return whether a host is a public site for documentation or packages, where a request reveals nothing.

    Servers on this machine do not count, because any request may have effects there.
    """
    listed = _read_names()
    return host in listed["documentation"] or host in listed["packages"]


@cache
def _read_names() -> dict[str, frozenset[str]]:
    return {kind: frozenset(names) for kind, names in groups().items()}
