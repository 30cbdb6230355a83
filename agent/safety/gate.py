"""The gate: every effect on the outside world passes here first, whatever its cause.

A tool describes its intention as an `Action`. The gate decides, asks the user if necessary, and raises
`DeniedError` unless the answer is yes. In doubt, or if no user is present, the answer is no.

The checks run in this order, and the first denial is final: the hardline, rules that deny, self-protection,
rules that ask, grants of the session, rules that allow, the mode. An adviser can only make the result
stricter.

Grants: lasting permissions that are listed and can be revoked. A grant covers only the action it was given
for: the same command in the same folder run in the same way, the same file, the same address. Session grants
are kept in memory. Permanent ones are in `~/.hermes/grants.json`, each for one workspace. Grants never
override a denial or the hardline.
"""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from agent.core.home import PRIVATE_FILE, Home, from_home, private_folder
from agent.core.messages import Mode, ModeName
from agent.errors import ConfigError, HermesError
from agent.events import Decision
from agent.safety.permissions.policy import AgentFolders, Decider, PermissionPolicy, Permissions
from agent.safety.places import Places
from agent.safety.rules import Judge, UndoCoverage, Verdict
from agent.safety.sandbox.boundary import NO_COVERAGE, BoundaryCoverage
from agent.safety.smart import join
from tools.kit.files import file_lock, write_atomically
from tools.results import DeniedError
from tools.services.actions import (
    Action,
    ChangeFiles,
    DeletePath,
    Fetch,
    ReadPath,
    RunCommand,
    SendInput,
    WritePath,
)

if TYPE_CHECKING:
    from agent.safety.smart import Advice

log = logging.getLogger(__name__)

Scope = Literal["session", "always"]
Subject = tuple[str, ...]
"""What a grant covers, as texts compared one by one."""

_WAYS = {
    "background": "in the background",
    "pty": "on a terminal",
    "outside": "outside of the sandbox",
    "network": "with the network",
}
"""The ways to run a command: each needs separate permission."""

MOST = 2_000
"""The number of permanent grants kept."""

_SET_BACK = 60.0
"""Seconds by which a clock may be set back without ending a temporary grant."""


class GrantsError(HermesError):
    """The file of permanent grants cannot be used. The message is a sentence for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """One lasting permission."""

    id: str
    scope: Scope
    kind: str
    """The kind of action, such as `RunCommand`."""
    rule: str
    """What it covers, as the dialog said it. Outside text."""
    covers: Subject
    workspace: str
    given: float
    """The start, in seconds since the epoch."""
    by: str = "person"
    session: str = ""
    """The session in which it was given."""
    agent: str = "main"
    expires: float | None = None
    """The end, in seconds since the epoch; None means never."""

    @property
    def headline(self) -> str:
        return self.rule

    @property
    def reason(self) -> str:
        """Return why the grant allows an action, as a clause for the user."""
        return "allowed for this session" if self.scope == "session" else "always allowed in this workspace"

    def holds(self, now: float) -> bool:
        """Return whether the grant is in force at `now`, in seconds since the epoch.

        A grant with an end is not in force before it was given, so setting back the clock does not prolong
        it.
        """
        return self.expires is None or self.given - _SET_BACK <= now < self.expires


def subject(action: Action) -> Subject | None:
    """Return what a lasting permission for `action` would cover; None if only a single permission is
    possible.
    """
    match action:
        case RunCommand():
            ways = tuple(name for name in _WAYS if getattr(action, name))
            return ("RunCommand", action.command, str(action.cwd), *ways)
        case ReadPath() | WritePath() | DeletePath():
            return (type(action).__name__, str(action.path))
        case Fetch():
            return ("Fetch", action.url, *((str(action.pages),) if action.pages > 1 else ()))
        case _ if action.effect is not None and action.effect.lasting and action.effect.covers:
            return (type(action).__name__, *action.effect.covers(action))
        case _ if action.effect is not None and action.effect.lasting is not None:
            given = (str(getattr(action, field.name)) for field in fields(action) if field.name != "tool")
            return (type(action).__name__, *given)
        case _:
            return None


def rule_words(action: Action) -> str:
    """Return a description of a lasting permission for `action`; empty if none is possible.

    It contains outside text.
    """
    match action:
        case RunCommand():
            how = "".join(f", {words}" for name, words in _WAYS.items() if getattr(action, name))
            return f"run exactly this command in {from_home(action.cwd)}{how}"
        case ReadPath():
            return f"read {from_home(action.path)}"
        case WritePath():
            return f"create or change {from_home(action.path)}"
        case DeletePath():
            return f"delete {from_home(action.path)}"
        case Fetch():
            return action.headline() if action.pages > 1 else f"fetch exactly {action.url}"
        case _ if action.effect is not None and action.effect.lasting is not None:
            return action.effect.lasting(action)
        case _:
            return ""


class Grants:
    """The grants of one session, with the permanent ones of its workspace. Queries are thread-safe.

    Without `path` nothing is stored: a permanent permission then ends with the session.
    """

    def __init__(
        self,
        workspace: Path,
        path: Path | None = None,
        *,
        session: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._workspace = str(workspace)
        self._path = path
        self._session = session
        self._clock = clock
        self._mine: dict[Subject, Grant] = {}
        self._stamp: tuple[int, ...] | None = None
        self._kept: dict[Subject, Grant] = {}

    def find(self, action: Action) -> Grant | None:
        """Return the grant that covers this action; None if there is none. Reads the file if it changed."""
        wanted = subject(action)
        if wanted is None:
            return None
        grant = self._mine.get(wanted) or self._permanent().get(wanted)
        return grant if grant is not None and grant.holds(self._clock()) else None

    def all(self) -> tuple[Grant, ...]:
        """Return the grants in force in this workspace, oldest first."""
        now = self._clock()
        found = {**self._permanent(), **self._mine}.values()
        return tuple(sorted((each for each in found if each.holds(now)), key=lambda each: each.given))

    def prepare(
        self, action: Action, scope: Scope, *, by: str = "person", agent: str = "main"
    ) -> Grant | None:
        """Return the grant for the user's yes, not yet in force; None if the action is never remembered."""
        covers = subject(action)
        if covers is None:
            return None
        rule = rule_words(action)
        if isinstance(action, RunCommand) or action.effect is not None:
            rule = f"{action.headline()}  ({rule})"
        return Grant(
            id=secrets.token_hex(4),
            scope=scope if self._path is not None else "session",
            kind=covers[0],
            rule=rule,
            covers=covers,
            workspace=self._workspace,
            given=self._clock(),
            by=by,
            session=self._session,
            agent=agent,
        )

    async def give(self, grant: Grant) -> Grant:
        """Put a grant in force and return it.

        A permanent one that cannot be written only lasts for the session; the log says why.
        """
        if grant.scope == "always":
            try:
                await asyncio.to_thread(self._keep, grant)
                return grant
            except GrantsError as error:
                log.warning("a permanent yes holds for this session only: %s", error)
                grant = replace(grant, scope="session")
        self._mine[grant.covers] = grant
        return grant

    async def revoke(self, grant: Grant) -> bool:
        """Revoke a grant; False if it no longer exists. Raises `GrantsError`."""
        known = self._mine.get(grant.covers)
        if known is not None and known.id == grant.id:
            del self._mine[grant.covers]
            return True
        if self._path is None:
            return False
        return await asyncio.to_thread(revoke_grant, self._path, grant.id)

    def _keep(self, grant: Grant) -> None:
        assert self._path is not None
        with _changing(self._path) as grants:
            same = [each.id for each in grants.values() if _place(each) == _place(grant)]
            for id in same:
                del grants[id]
            grants[grant.id] = grant
            for id in list(grants)[:-MOST]:
                del grants[id]

    def _permanent(self) -> Mapping[Subject, Grant]:
        """Return the permanent grants of this workspace; none if the file is untrusted."""
        if self._path is None:
            return {}
        stamp = _stamp(self._path)
        if stamp != self._stamp:
            try:
                found = load_grants(self._path).values()
            except GrantsError as error:
                log.warning("%s", error)
                found = ()
            self._kept = {each.covers: each for each in found if each.workspace == self._workspace}
            self._stamp = stamp
        return self._kept


def load_grants(path: Path) -> dict[str, Grant]:
    """Load all permanent grants by id, oldest first. Blocking. Raises `GrantsError`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if status.st_uid != os.getuid() or status.st_mode & 0o022:
                raise GrantsError(
                    f"The grants in {path} do not count, because others may write them; chmod 600 it."
                )
            data = json.loads(file.read())
        found = [_grant(each) for each in data["grants"]]
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise GrantsError(f"The grants in {path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise GrantsError(f"The file {path} is damaged and grants nothing; remove it.") from None
    return {each.id: each for each in found}


def revoke_grant(path: Path, id: str) -> bool:
    """Revoke one permanent grant; False if the id is unknown. Blocking. Raises `GrantsError`."""
    with _changing(path) as grants:
        return grants.pop(id, None) is not None


@contextmanager
def _changing(path: Path) -> Iterator[dict[str, Grant]]:
    """Yield the permanent grants for a change under a lock, and write them afterwards."""
    try:
        private_folder(path.parent)
        with file_lock(path.with_name(f"{path.name}.lock")):
            grants = load_grants(path)
            before = dict(grants)
            yield grants
            if grants != before:
                text = json.dumps(
                    {"version": 1, "grants": [asdict(each) for each in grants.values()]}, indent=1
                )
                write_atomically(path, text.encode(), PRIVATE_FILE)
    except ConfigError as error:
        raise GrantsError(str(error)) from error
    except OSError as error:
        raise GrantsError(f"The grants in {path} cannot be written: {error.strerror or error}.") from error


def _grant(data: Mapping[str, Any]) -> Grant:
    """Parse a grant of the file. Raises `TypeError` or `ValueError` for invalid data."""
    grant = Grant(**{**data, "covers": tuple(data["covers"])})
    texts = (
        grant.id,
        grant.kind,
        grant.rule,
        grant.workspace,
        grant.by,
        grant.session,
        grant.agent,
        *grant.covers,
    )
    numbers = (grant.given, *(() if grant.expires is None else (grant.expires,)))
    if not all(isinstance(each, str) for each in texts) or not grant.covers:
        raise TypeError("a grant is made of texts")
    if not all(isinstance(each, int | float) and not isinstance(each, bool) for each in numbers):
        raise TypeError("a grant holds for a time")
    if grant.scope != "always":
        raise ValueError("only permanent grants are stored")
    return cast(Grant, grant)


def _place(grant: Grant) -> tuple[object, ...]:
    return (grant.workspace, grant.covers)


def _stamp(path: Path) -> tuple[int, ...] | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_ino, status.st_size, status.st_mode)


Outcome = Literal["allowed", "denied", "expired", "cancelled", "nobody"]


@dataclass(frozen=True, slots=True)
class Ruling:
    """The decision about one action, for the audit log: who decided, and the outcome."""

    action: Action
    verdict: Verdict
    judge: Judge
    outcome: Outcome
    feedback: str = ""
    grant: str = ""
    """The id of the grant that was used or given."""
    by: str = ""
    """Who answered and from where; empty for the user at the terminal."""


Audit = Callable[[Ruling], Awaitable[None] | None]
"""Records a decision before its action happens."""


Advise = Callable[["Action", "Verdict"], Awaitable["Advice | None"]]
"""Gives a second opinion on actions that would be allowed or asked about."""


class Approver(Protocol):
    """The connection to a user who can say yes or no."""

    async def ask(self, action: Action, verdict: Verdict) -> Decision: ...


class Gate:
    """Decides about actions of one session.

    `mode` comes from the settings, `permissions` are the user's rules. `chosen` is a mode for this session
    that overrides both.

    Tools never change the files and folders in `protected` (Hermes' own settings and store), and never read
    those in `secret`. By default `secret` are the protected files named `.env` and `state.db`. Without
    `approver` no user is present, so actions that need a yes are denied. `grants` hold lasting permissions,
    by default only for the session.

    `coverage` is the protection by the boundary, `undo` the files that checkpoints can restore.

    `audit` receives every decision and is awaited; if it raises, the action does not happen. `adviser` is
    consulted about actions that would be allowed or asked about, but not about those the user allowed.
    """

    def __init__(
        self,
        decider: Decider,
        grants: Grants,
        approver: Approver | None = None,
        audit: Audit | None = None,
        adviser: Advise | None = None,
    ) -> None:
        """Set up the gate. `grants` are the lasting permissions; without `approver` no user can be asked."""
        self.grants = grants
        self._decider = decider
        self._approver = approver
        self._agent = "main"
        self._audit = audit
        self._adviser = adviser
        self.changed: Callable[[PermissionPolicy], None] | None = None
        """Called with the policy after the permissions were read again, before the action continues."""
        self._told: PermissionPolicy | None = None
        self._limit: Callable[[Action], str] = _unlimited
        self._asking: dict[Subject, asyncio.Lock] = {}

    @classmethod
    def for_home(
        cls,
        home: Home,
        workspace: Path,
        mode: ModeName = "ask",
        approver: Approver | None = None,
        *,
        scratch: Path | None = None,
        chosen: ModeName | None = None,
        permissions: Permissions | None = None,
        grants: Grants | None = None,
        audit: Audit | None = None,
        adviser: Advise | None = None,
        coverage: BoundaryCoverage = NO_COVERAGE,
        undo: UndoCoverage | None = None,
    ) -> Gate:
        """Return a gate that guards the files of `home`."""
        # Commands may spell a linked folder either way.
        roots = dict.fromkeys((home.root, home.root.resolve()))
        guarded = (home.config, home.permissions, home.grants, home.env, home.database, home.trust)
        guarded = (*guarded, home.audit, home.run, home.passages)
        secret = (home.env, home.database)
        user = Path.home()
        places = Places(
            home=str(user),
            guarded=[str(root / path.name) for root in roots for path in guarded],
            secret=[str(root / path.name) for root in roots for path in secret],
            other_homes=(str(user.resolve()),),
        )
        decider = Decider(
            AgentFolders(workspace, scratch, home.root),
            places,
            mode=mode,
            chosen=chosen,
            permissions=permissions,
            coverage=coverage,
            undo=undo,
        )
        return cls(decider, grants or Grants(workspace), approver, audit, adviser)

    def for_agent(self, approver: Approver | None, audit: Audit | None, agent: str) -> Gate:
        """Return a gate with the same rules and grants for another agent, which asks through `approver`.

        `audit` records the decisions about that agent; `agent` is the user's name for it.
        """
        other = copy.copy(self)
        other._approver = approver
        other._audit = audit
        other._agent = agent
        return other

    def within(self, limit: Callable[[Action], str]) -> Gate:
        """Return a gate that also denies actions for which `limit` returns a reason, as a clause."""
        other = copy.copy(self)
        other._limit = limit
        return other

    def for_agreed(self) -> Gate:
        """Return a gate for actions that the user just approved: those that would be asked about are allowed.

        The objections of the adviser are new to the user, so those actions are asked about anyway.
        """
        if self._approver is None:
            return self
        return self.for_agent(_Agreed(self._approver), self._audit, self._agent)

    def follow(self, other: Gate) -> None:
        """Use the mode chosen in `other` from now on."""
        self._decider.follow(other._decider)

    @property
    def mode(self) -> Mode:
        """The mode in force. Setting it selects a mode for the rest of the session."""
        return self._decider.mode

    @mode.setter
    def mode(self, name: ModeName) -> None:
        self._decider.choose(name)
        if self.changed is not None:
            self.changed(self.policy)

    @property
    def policy(self) -> PermissionPolicy:
        """The permissions in force."""
        return self._decider.policy

    def opens(self, action: Fetch) -> bool:
        """Return whether the user's rules allow an address that is otherwise never requested."""
        return self.policy.opens(action)

    def decide(self, action: Action) -> Verdict:
        """Return the verdict on `action` without asking the user. Reads rule files and links."""
        return self._decide(action)[0]

    def programs_that_look(self, action: RunCommand) -> frozenset[str] | None:
        """Return the names of the programs of a command that certainly changes no file, as long as these
        names mean the usual programs; None if it may change one. Blocking.
        """
        return self._decider.programs_that_look(action)

    async def permit(self, action: Action) -> tuple[Path, ...]:
        """Raise `DeniedError` if the action must not happen; else return the guarded paths that the user
        allowed.

        The error's `extra` is `{"status": "blocked", "reasons": […], "outcome": …}`.
        """
        verdict, judge = await self._decide_off_loop(action)
        self._tell()
        verdict, judge = await self._advise(action, verdict, judge)
        if verdict.kind == "allow":
            grant = self.grants.find(action) if judge == "grant" else None
            await self._record(action, verdict, judge, "allowed", grant=grant)
        elif verdict.kind == "hardline":
            await self._record(action, verdict, judge, "denied")
            raise _denial("This is never allowed, in any mode", verdict.reasons, "denied")
        elif verdict.kind == "deny":
            await self._record(action, verdict, judge, "denied")
            raise _denial("Denied", verdict.reasons, "denied")
        elif self._approver is None:
            await self._record(action, verdict, "nobody", "nobody")
            raise _denial(
                "Denied: this needs approval and nobody is there to give it", verdict.reasons, "nobody"
            )
        else:
            await self._ask(self._approver, action, verdict)
            return await asyncio.to_thread(self._decider.places, action)
        return ()

    async def _decide_off_loop(self, action: Action) -> tuple[Verdict, Judge]:
        # A long command takes a while to read, many files to judge, and so do rules that have changed.
        permissions = self._decider.permissions
        if isinstance(action, (RunCommand, SendInput, ChangeFiles)) or (
            permissions is not None and permissions.stale
        ):
            return await asyncio.to_thread(self._decide, action)
        return self._decide(action)

    def _decide(self, action: Action) -> tuple[Verdict, Judge]:
        if reason := self._limit(action):
            return Verdict("deny", (reason,)), "rule"
        return self._decider.decide(action, self._grant_for)

    async def _advise(self, action: Action, verdict: Verdict, judge: Judge) -> tuple[Verdict, Judge]:
        """Return the verdict with the adviser's objections, and who made the final decision."""
        is_open = verdict.kind == "allow" or (verdict.kind == "ask" and self._approver is not None)
        if self._adviser is None or judge == "grant" or not is_open:
            return verdict, judge
        try:
            advice = await self._adviser(action, verdict)
        except Exception as error:
            log.exception("asking the side model failed")
            return replace(verdict, advice=f"the side model could not be asked: {error}"), judge
        if advice is None:
            return verdict, judge
        joined = replace(join(verdict, advice.opinion), advice=advice.note)
        return joined, judge if joined.kind == verdict.kind else "model"

    def _grant_for(self, action: Action) -> str | None:
        grant = self.grants.find(action)
        return None if grant is None else grant.reason

    def _tell(self) -> None:
        """Report that the permission files were read again, once for each time."""
        permissions = self._decider.permissions
        policy = None if permissions is None else permissions.last
        if self.changed is not None and policy is not None and policy is not self._told:
            self._told = policy
            self.changed(policy)

    async def _ask(self, approver: Approver, action: Action, verdict: Verdict) -> None:
        """Ask the user about an action; equal actions that wait at the same time are asked about once."""
        # What guards the guard is asked each time.
        key = None if self._decider.guards(action) else subject(action)
        if key is None:
            await self._ask_now(approver, action, replace(verdict, once=True))
            return
        lock = self._asking.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                if grant := self.grants.find(action):
                    granted = Verdict("allow", (grant.reason,))
                    await self._record(action, granted, "grant", "allowed", grant=grant)
                else:
                    await self._ask_now(approver, action, verdict)
        finally:
            if not lock.locked():
                self._asking.pop(key, None)

    async def _ask_now(self, approver: Approver, action: Action, verdict: Verdict) -> None:
        try:
            decision = await approver.ask(action, verdict)
        except Exception as error:
            log.exception("asking for approval failed")
            await self._record(action, verdict, "nobody", "nobody")
            raise _denial("Denied: the question could not be asked", verdict.reasons, "nobody") from error
        match decision.choice:
            case "once":
                pass
            case "session" | "always" as scope:
                grant = None if verdict.once else self.grants.prepare(action, scope, agent=self._agent)
                await self._record(
                    action, verdict, "person", "allowed", decision.feedback, grant, decision.by
                )
                if grant is not None:
                    await self.grants.give(grant)
                return
            case "expired":
                await self._record(action, verdict, "nobody", "expired", decision.feedback)
                raise _denial(
                    "Denied: nobody answered in time", verdict.reasons, "expired", decision.feedback
                )
            case "cancelled":
                await self._record(action, verdict, "person", "cancelled", decision.feedback, by=decision.by)
                raise _denial("Cancelled by the user", verdict.reasons, "cancelled", decision.feedback)
            case _:
                await self._record(action, verdict, "person", "denied", decision.feedback, by=decision.by)
                raise _denial("Denied by the user", verdict.reasons, "denied", decision.feedback)
        await self._record(action, verdict, "person", "allowed", decision.feedback, by=decision.by)

    async def _record(
        self,
        action: Action,
        verdict: Verdict,
        judge: Judge,
        outcome: Outcome,
        feedback: str = "",
        grant: Grant | None = None,
        by: str = "",
    ) -> None:
        if self._audit is not None:
            given = grant.id if grant is not None else ""
            ruling = Ruling(action, verdict, judge, outcome, feedback, given, by)
            written = self._audit(ruling)
            if written is not None:
                await written


@dataclass(frozen=True, slots=True)
class _Agreed:
    """An approver that says yes unless the adviser objects, because the user has already approved."""

    person: Approver

    async def ask(self, action: Action, verdict: Verdict) -> Decision:
        return await self.person.ask(action, verdict) if verdict.advice else Decision("once")


def _unlimited(_action: Action) -> str:
    """Return an empty text: nothing limits further."""
    return ""


def _denial(sentence: str, reasons: Sequence[str], outcome: str, feedback: str = "") -> DeniedError:
    text = f"{sentence}: {'; '.join(reasons)}." if reasons else f"{sentence}."
    if feedback:
        text += f" The user says: {feedback}"
    return DeniedError(text, status="blocked", reasons=list(reasons), outcome=outcome)
