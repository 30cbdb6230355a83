"""The gate: every effect on the world passes here first, whoever causes it.

A tool describes what it wants as an `Action`; the gate decides, asks a person
where need be, and raises `DeniedError` unless the answer is yes. When in doubt,
or when nobody is there, the answer is no.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from agent.events import Decision
from agent.home import Home
from agent.safety.hardline import Hardline
from agent.safety.places import Places
from agent.safety.verdict import Verdict
from tools.actions import (
    Action,
    ChangeSettings,
    DeletePath,
    Fetch,
    ReadPath,
    RunCommand,
    SendInput,
    WritePath,
)
from tools.results import DeniedError

log = logging.getLogger(__name__)

Mode = Literal["ask", "deny", "all"]
Outcome = Literal["allowed", "denied", "expired", "cancelled", "nobody"]
Judge = Literal["rule", "mode", "grant", "person", "nobody"]


@dataclass(frozen=True, slots=True)
class Ruling:
    """One decided action, for the audit log: who decided, and how it ended."""

    action: Action
    verdict: Verdict
    judge: Judge
    outcome: Outcome
    feedback: str = ""


@dataclass(frozen=True, slots=True)
class Grant:
    """A yes that was given for the rest of the session, for exactly this."""

    key: Hashable
    headline: str


Audit = Callable[[Ruling], Awaitable[None] | None]
"""Takes a ruling down before its action happens."""


class Approver(Protocol):
    """The way to a person who can say yes or no."""

    async def ask(self, action: Action, verdict: Verdict) -> Decision: ...


class Gate:
    """Decides about actions of one session.

    `protected` are files and folders that tools never change (Hermes' own
    settings and store), `secret` those they never read either; by default the
    protected files named `.env` and `state.db`. Without `approver` nobody is
    there: what needs a yes is denied.

    `audit` receives every ruling and is waited for; if it raises, the action does not happen.
    """

    def __init__(
        self,
        workspace: Path,
        mode: Mode = "ask",
        protected: Sequence[Path] = (),
        approver: Approver | None = None,
        *,
        secret: Sequence[Path] | None = None,
        scratch: Path | None = None,
        home: Path | None = None,
        audit: Audit | None = None,
    ) -> None:
        if secret is None:
            secret = [path for path in protected if path.name in (".env", "state.db")]
        self.mode: Mode = mode
        self._workspace = workspace
        self._scratch = scratch
        self._approver = approver
        self._audit = audit
        home = home or Path.home()
        self._places = Places(
            home=str(home),
            guarded=tuple(str(path) for path in protected),
            secret=tuple(str(path) for path in secret),
            other_homes=(str(home.resolve()),),
        )
        self._hardline = Hardline(self._places)
        self._grants: dict[Hashable, Grant] = {}
        self._asking: dict[Hashable, asyncio.Lock] = {}

    @classmethod
    def for_home(
        cls,
        home: Home,
        workspace: Path,
        mode: Mode = "ask",
        approver: Approver | None = None,
        *,
        scratch: Path | None = None,
        audit: Audit | None = None,
    ) -> Gate:
        """A gate that guards the files of `home`."""
        # Commands may spell a linked folder either way.
        roots = dict.fromkeys((home.root, home.root.resolve()))
        guarded = (home.config, home.env, home.database, home.trust, home.audit, home.run)
        secret = (home.env, home.database)
        return cls(
            workspace,
            mode,
            [root / path.name for root in roots for path in guarded],
            approver,
            secret=[root / path.name for root in roots for path in secret],
            scratch=scratch,
            audit=audit,
        )

    def decide(self, action: Action) -> Verdict:
        """What would happen to `action` now. Asks nobody and looks at nothing but its arguments."""
        if reasons := self._forbidden(action):
            return Verdict("hardline", reasons)
        if isinstance(action, ReadPath) and self._is_open(action.path):
            return Verdict("allow", ("reading inside the workspace",))
        if self.mode == "all":
            return Verdict("allow", ("approvals are set to all",))
        if self.mode == "deny":
            return Verdict("deny", self._why(action))
        key = action_key(action)
        if key is not None and key in self._grants:
            return Verdict("allow", ("allowed for this session",))
        return Verdict("ask", self._why(action))

    async def permit(self, action: Action) -> None:
        """Return if the action may happen. Raises `DeniedError` otherwise.

        The error's `extra` is `{"status": "blocked", "reasons": […], "outcome": …}`.
        """
        verdict = await self._decide_off_loop(action)
        if verdict.kind == "allow":
            await self._record(action, verdict, self._judge_of(verdict), "allowed")
        elif verdict.kind == "hardline":
            await self._record(action, verdict, "rule", "denied")
            raise _denied("This is never allowed, in any mode", verdict.reasons, "denied")
        elif verdict.kind == "deny":
            await self._record(action, verdict, "mode", "denied")
            raise _denied("Denied: actions that need approval are switched off", verdict.reasons, "denied")
        elif self._approver is None:
            await self._record(action, verdict, "nobody", "nobody")
            raise _denied(
                "Denied: this needs approval and nobody is there to give it", verdict.reasons, "nobody"
            )
        else:
            await self._ask(self._approver, action, verdict)

    @property
    def grants(self) -> tuple[Grant, ...]:
        """What was allowed for the rest of the session, oldest first."""
        return tuple(self._grants.values())

    def revoke(self, grant: Grant) -> None:
        """Take a grant back; from now on it is asked again."""
        self._grants.pop(grant.key, None)

    async def _decide_off_loop(self, action: Action) -> Verdict:
        if isinstance(action, (RunCommand, SendInput)):  # a long command takes a while to read
            return await asyncio.to_thread(self.decide, action)
        return self.decide(action)

    async def _ask(self, approver: Approver, action: Action, verdict: Verdict) -> None:
        """Ask a person, once for several equal actions that wait at the same time."""
        key = action_key(action)
        if key is None:
            await self._ask_now(approver, action, verdict, key)
            return
        lock = self._asking.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                if key in self._grants:
                    granted = Verdict("allow", ("allowed for this session",))
                    await self._record(action, granted, "grant", "allowed")
                else:
                    await self._ask_now(approver, action, verdict, key)
        finally:
            if not lock.locked():
                self._asking.pop(key, None)

    async def _ask_now(
        self, approver: Approver, action: Action, verdict: Verdict, key: Hashable | None
    ) -> None:
        try:
            decision = await approver.ask(action, verdict)
        except Exception as error:
            log.exception("asking for approval failed")
            await self._record(action, verdict, "nobody", "nobody")
            raise _denied("Denied: the question could not be asked", verdict.reasons, "nobody") from error
        match decision.choice:
            case "once":
                pass
            case "session" | "always":
                if key is not None:
                    self._grants[key] = Grant(key, action.headline())
            case "expired":
                await self._record(action, verdict, "nobody", "expired", decision.feedback)
                raise _denied(
                    "Denied: nobody answered in time", verdict.reasons, "expired", decision.feedback
                )
            case "cancelled":
                await self._record(action, verdict, "person", "cancelled", decision.feedback)
                raise _denied("Cancelled by the user", verdict.reasons, "cancelled", decision.feedback)
            case _:
                await self._record(action, verdict, "person", "denied", decision.feedback)
                raise _denied("Denied by the user", verdict.reasons, "denied", decision.feedback)
        await self._record(action, verdict, "person", "allowed", decision.feedback)

    def _judge_of(self, verdict: Verdict) -> Judge:
        if verdict.reasons == ("allowed for this session",):
            return "grant"
        return "mode" if verdict.reasons == ("approvals are set to all",) else "rule"

    async def _record(
        self, action: Action, verdict: Verdict, judge: Judge, outcome: Outcome, feedback: str = ""
    ) -> None:
        if self._audit is not None:
            written = self._audit(Ruling(action, verdict, judge, outcome, feedback))
            if written is not None:
                await written

    def _forbidden(self, action: Action) -> tuple[str, ...]:
        """Why no mode lets the action pass; empty when it is no such thing."""
        places = self._places
        match action:
            case RunCommand():
                return self._hardline.check(action.command, action.cwd)
            case SendInput():
                return self._hardline.check(action.data, self._workspace)
            case ReadPath() if places.hides(str(action.path)):
                return ("it holds keys or stored conversations",)
            case WritePath():
                loss = places.wreck(str(action.path))
                return (f"it would overwrite {loss}",) if loss else ()
            case DeletePath():
                loss = places.disaster(str(action.path)) or places.wreck(str(action.path))
                return (f"it would delete {loss}",) if loss else ()
            case _:
                return ()

    def _is_open(self, path: Path) -> bool:
        """Whether reading there needs no yes."""
        folders = (self._workspace, self._scratch)
        return any(folder is not None and path.is_relative_to(folder) for folder in folders)

    def _why(self, action: Action) -> tuple[str, ...]:
        """Why the action needs a yes, in words for the person who gives it."""
        outside = "" if self._inside(action) else ", outside the workspace"
        match action:
            case RunCommand():
                return (f"runs a command{outside}", *self._hardline.doubts(action.command, action.cwd))
            case SendInput():
                return ("types into a running program",)
            case ReadPath():
                return (f"reads a file or folder{outside}",)
            case WritePath():
                return (f"{'creates' if action.creates else 'changes'} a file{outside}",)
            case DeletePath():
                return (f"deletes a file{outside}",)
            case Fetch():
                return ("reaches the network",)
            case ChangeSettings():
                return ("changes Hermes' own settings",)
            case _:
                return (f"is an action of {action.tool} the gate does not know",)

    def _inside(self, action: Action) -> bool:
        path = getattr(action, "path", None) or getattr(action, "cwd", None)
        return path is None or path.is_relative_to(self._workspace)


def action_key(action: Action) -> Hashable | None:
    """What a yes for the session covers: exactly this action again, nothing wider.

    For commands the whole text, the folder and the way it is run; for files the
    one path and what is done to it; for addresses the whole URL. None means that
    a yes is never remembered: typing into programs and changing settings.
    """
    match action:
        case RunCommand():
            return ("run", action.command, action.cwd, action.background, action.pty)
        case ReadPath() | WritePath() | DeletePath():
            return (type(action).__name__, action.path)
        case Fetch():
            return ("fetch", action.url)
        case _:
            return None


def _denied(sentence: str, reasons: Sequence[str], outcome: str, feedback: str = "") -> DeniedError:
    text = f"{sentence}: {'; '.join(reasons)}." if reasons else f"{sentence}."
    if feedback:
        text += f" The user says: {feedback}"
    return DeniedError(text, status="blocked", reasons=list(reasons), outcome=outcome)
