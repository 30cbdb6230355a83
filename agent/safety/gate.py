"""The gate: every effect on the outside world must pass this check first, whatever its cause.

A tool describes its intention as an `Action`. The gate decides, asks the user if necessary, and raises
`DeniedError` unless the answer is yes. In doubt, or if no user is present, the answer is no.

The checks run in this order, and the first denial is final: the hardline (what is never allowed), rules that
deny, protection of Hermes's own files, rules that ask, grants of the session, rules that allow, the mode. An
adviser can only make the result stricter.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from agent.core.home import Home
from agent.core.messages import Mode, ModeName
from agent.events import Decision
from agent.safety.grants import Grant, Grants, Subject, subject
from agent.safety.permissions.policy import AgentFolders, Decider, PermissionPolicy, Permissions
from agent.safety.places import Places
from agent.safety.rules import Judge, UndoCoverage, Verdict
from agent.safety.sandbox.boundary import NO_COVERAGE, BoundaryCoverage
from agent.safety.smart import join
from tools.results import DeniedError
from tools.services.actions import Action, ChangeFiles, Fetch, RunCommand, SendInput

if TYPE_CHECKING:
    from agent.safety.smart import Advice


log = logging.getLogger(__name__)

Outcome = Literal["allowed", "denied", "expired", "cancelled", "nobody"]


@dataclass(frozen=True, slots=True)
class Ruling:
    """The decision about one action, for the audit log: what decided, and the outcome."""

    action: Action
    verdict: Verdict
    judge: Judge
    outcome: Outcome
    feedback: str = ""
    grant: str = ""
    """The id of the grant that was used or given; empty without one."""
    by: str = ""
    """The user who answered, and from where; empty for the user at the terminal."""


Audit = Callable[[Ruling], Awaitable[None] | None]
"""A function that records a decision before its action happens."""


Advise = Callable[["Action", "Verdict"], Awaitable["Advice | None"]]
"""A function that gives a second opinion on actions that would be allowed or asked about."""


class Approver(Protocol):
    """The connection to a user who can say yes or no."""

    async def ask(self, action: Action, verdict: Verdict) -> Decision: ...


class Gate:
    """The permission check for actions of one session.

    `decider` applies the user's rules, the mode and the protection of files; `grants` hold lasting
    permissions. Without `approver` no user is present, so actions that need a yes are denied.

    `audit` receives every decision and is awaited; if it raises, the action does not happen. `adviser` is
    consulted about actions that would be allowed or asked about, but not about those with a grant.
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
        """A function called with the policy after permissions were read again, before the action goes on."""
        self._reported: PermissionPolicy | None = None
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
        """Return a gate that also protects Hermes's own files in `home`."""
        # Commands may name a linked folder by either path.
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
        """Return a gate that also denies actions for which `limit` returns a reason instead of ""."""
        other = copy.copy(self)
        other._limit = limit
        return other

    def for_agreed(self) -> Gate:
        """Return a gate for actions that the user just approved: those that would be asked about are allowed.

        If the adviser objects, the user is asked anyway, because the objection is new. Without an approver,
        nothing changes.
        """
        if self._approver is None:
            return self
        return self.for_agent(_Agreed(self._approver), self._audit, self._agent)

    def follow(self, other: Gate) -> None:
        """Use the mode of the gate `other` from now on."""
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
        """Return whether the user's rules permit an address that is otherwise never requested."""
        return self.policy.opens(action)

    def decide(self, action: Action) -> Verdict:
        """Return the verdict on `action` without asking the user. Reads rule files and links."""
        return self._decide(action)[0]

    def programs_that_look(self, action: RunCommand) -> frozenset[str] | None:
        """Return the names of the programs in a command that certainly changes no file, as long as these
        names mean the usual programs; None if it may change one. Blocking.
        """
        return self._decider.programs_that_look(action)

    async def permit(self, action: Action) -> tuple[Path, ...]:
        """Raise `DeniedError` if the action must not happen; otherwise return the protected paths that the
        user allowed.

        The error's `extra` is `{"status": "blocked", "reasons": […], "outcome": …}`.
        """
        verdict, judge = await self._decide_off_loop(action)
        self._report_change()
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
        # Long commands, many files and changed rules take a while to check.
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
        """Return the verdict with the adviser's objections, and the name of what made the final decision."""
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

    def _report_change(self) -> None:
        """Call `changed` with the policy if the permission files were read again since the last time."""
        permissions = self._decider.permissions
        policy = None if permissions is None else permissions.last
        if self.changed is not None and policy is not None and policy is not self._reported:
            self._reported = policy
            self.changed(policy)

    async def _ask(self, approver: Approver, action: Action, verdict: Verdict) -> None:
        """Ask the user; equal actions that wait at the same time share one question. Raises `DeniedError`."""
        # Actions on Hermes's own safety settings are asked about each time.
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
    """An approver that asks the user, who has already approved, only if the adviser objects."""

    person: Approver

    async def ask(self, action: Action, verdict: Verdict) -> Decision:
        return await self.person.ask(action, verdict) if verdict.advice else Decision("once")


def _unlimited(_action: Action) -> str:
    """Return an empty text: there is no further limit."""
    return ""


def _denial(sentence: str, reasons: Sequence[str], outcome: str, feedback: str = "") -> DeniedError:
    text = f"{sentence}: {'; '.join(reasons)}." if reasons else f"{sentence}."
    if feedback:
        text += f" The user says: {feedback}"
    return DeniedError(text, status="blocked", reasons=list(reasons), outcome=outcome)
