"""A learning: what fails, what worked, and how sure that is. Two that say the same become one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from agent.knowledge.learnings.failures import normalise
from agent.knowledge.learnings.what_worked import FixKind
from tools.text.words import shorten

Status = Literal["candidate", "learning", "retired", "stale"]
STATUSES: tuple[Status, ...] = ("candidate", "learning", "retired", "stale")
"""`candidate`: seen once, nobody vouches for it. `learning`: told, and calls are held back for it.
`retired`: refuted twice. `stale`: what it depends on has changed since."""
Origin = Literal["observed", "agent", "person"]
"""Who wrote it down: nobody (it was read off the calls), the agent, the person."""

RETIRED_AT = 2
"""Refutations after which a learning is no longer told."""

LONGEST: Mapping[str, int] = {"pattern": 400, "error_type": 120, "fix": 600, "context": 1_000}
"""Characters of its texts."""
MOST_TAGS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Learning:
    """One of them. `id` is 0 until it is kept. Times are seconds since the epoch."""

    id: int = 0
    key: str
    """That of its signature; see `agent.knowledge.learnings.signature`."""
    project: str
    """Id of the project it holds in; empty: everywhere."""
    status: Status
    origin: Origin
    tool: str
    program: str = ""
    subcommand: str = ""
    error: str = ""
    """Normalised."""
    pattern: str
    """The call that fails, as a person writes it."""
    error_type: str
    """What the error is called."""
    fix: str
    fix_kind: FixKind = "words"
    fix_key: str = ""
    """That of the call that worked."""
    context: str = ""
    """When it matters, in words."""
    tags: tuple[str, ...] = ()
    created_at: float
    updated_at: float
    times_used: int = 0
    """How often it was told, or a call held back for it."""
    confirmed: int = 0
    refuted: int = 0
    session: str = ""
    """Where it came from; empty where a person wrote it down."""
    node: int | None = None
    """The message there."""
    evidence: Mapping[str, str] = field(default_factory=dict)
    """What was seen: `failed`, `error`, `worked`."""
    depends: Mapping[str, str] = field(default_factory=dict)
    """Stamps of the lock files and the program it was learned with."""


_RANKS: tuple[Origin, ...] = ("person", "agent", "observed")


def same(one: Learning, other: Learning) -> bool:
    """Whether two say the same: one failure or call, one project, one fix, in whichever session."""
    if one.project != other.project:
        return False
    # What was only observed says nothing beyond its failure.
    only_seen = one.origin == other.origin == "observed"
    if one.key != other.key and (only_seen or _plain(one.pattern) != _plain(other.pattern)):
        return False
    if one.fix_key and one.fix_key == other.fix_key:
        return True
    return _plain(one.fix) == _plain(other.fix)


def _plain(text: str) -> str:
    """What a text says, however it is set: marks of code and the full stop make no difference."""
    return normalise(text.replace("`", "")).rstrip(" .!")


def merged(one: Learning, other: Learning) -> Learning:
    """One of two that say the same, with the id of the first. What both were seen to do is added up.

    The words of whoever vouches for it stay, a person's before the agent's; among equals the newer ones.
    """
    first, second = sorted((one, other), key=lambda each: (_RANKS.index(each.origin), -each.updated_at))
    newest = max(one, other, key=lambda each: each.updated_at)
    # Where the failure was seen, it is known again by what it said.
    seen = first if first.evidence or not second.evidence else second
    return replace(
        first,
        id=one.id,
        key=seen.key,
        tool=seen.tool,
        program=seen.program,
        subcommand=seen.subcommand,
        error=seen.error,
        status=_status(one.status, other.status),
        fix_kind=first.fix_kind if first.fix_key or not second.fix_key else second.fix_kind,
        fix_key=first.fix_key or second.fix_key,
        context=first.context or second.context,
        tags=tuple(sorted({*one.tags, *other.tags}))[:MOST_TAGS],
        created_at=min(one.created_at, other.created_at),
        updated_at=newest.updated_at,
        times_used=one.times_used + other.times_used,
        confirmed=one.confirmed + other.confirmed,
        refuted=one.refuted + other.refuted,
        session=first.session or second.session,
        node=first.node if first.session else second.node,
        evidence=first.evidence or second.evidence,
        depends=newest.depends,
    )


def _status(one: Status, other: Status) -> Status:
    both = {one, other}
    if "learning" in both:
        return "learning"
    if "retired" in both:
        return "retired"
    # What was a learning before something changed has been seen to hold again.
    return "learning" if both == {"stale", "candidate"} else one


def after_use(
    learning: Learning, *, used: int = 0, confirmed: int = 0, refuted: int = 0, promote_after: int = 0
) -> Learning:
    """The learning after what happened.

    Refuted twice, it is told no more. A candidate that worked for the `promote_after`-th time is a learning
    (0: never), and one that was stale holds again once it has worked.
    """
    total, good = learning.refuted + refuted, learning.confirmed + confirmed
    status = learning.status
    if refuted and total >= RETIRED_AT:
        status = "retired"
    elif confirmed and (status == "stale" or (status == "candidate" and 0 < promote_after <= good + 1)):
        status = "learning"
    used += learning.times_used
    return replace(learning, times_used=used, confirmed=good, refuted=total, status=status)


def short(name: str, text: str) -> str:
    """A text of a learning on one line, cut to what it may have."""
    line = " ".join(text.split())
    most = LONGEST[name]
    return shorten(line, most)
