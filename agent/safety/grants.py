"""Grants: lasting permissions that the user can list and revoke.

A grant covers only the action it was given for: the same command in the same folder run in the same way, the
same file, the same address. Session grants are kept in memory. Permanent ones are in `~/.hermes/grants.json`,
each for one workspace. Grants never override a denial or the hardline.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, cast

from agent.core.home import PRIVATE_FILE, from_home, private_folder
from agent.errors import ConfigError, HermesError
from tools.kit.files import file_lock, write_atomically
from tools.services.actions import Action, DeletePath, Fetch, ReadPath, RunCommand, WritePath

log = logging.getLogger(__name__)

Scope = Literal["session", "always"]
Subject = tuple[str, ...]
"""The parts that identify what a grant covers; all of them must be equal."""

_WAYS = {
    "background": "in the background",
    "pty": "on a terminal",
    "outside": "outside of the sandbox",
    "network": "with the network",
}
"""The ways to run a command, with their descriptions; each needs separate permission."""

MOST = 2_000
"""The number of permanent grants that are kept."""

_SET_BACK = 60.0
"""Seconds by which a clock may be set back without suspending a temporary grant."""


class GrantsError(HermesError):
    """Raised if the file of permanent grants cannot be used. The message is a sentence for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """One lasting permission."""

    id: str
    scope: Scope
    kind: str
    """The kind of action, such as `RunCommand`."""
    rule: str
    """A description of what it covers, as shown in the dialog. Untrusted text."""
    covers: Subject
    workspace: str
    given: float
    """The time when it was given, in seconds since the epoch."""
    by: str = "person"
    session: str = ""
    """The id of the session in which it was given."""
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

        A temporary grant is not in force before it was given, so setting back the clock does not prolong it.
        """
        return self.expires is None or self.given - _SET_BACK <= now < self.expires


def subject(action: Action) -> Subject | None:
    """Return what a lasting permission for `action` would cover; None if it can only be permitted once."""
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

    It contains untrusted text.
    """
    match action:
        case RunCommand():
            # The conditions come first, because a long folder name is cut off in the list of choices.
            how = "".join(f" {words}" for name, words in _WAYS.items() if getattr(action, name))
            return f"run exactly this command{how} in {from_home(action.cwd)}"
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
    """The grants of one session, with the permanent ones of its workspace. Look-ups are thread-safe.

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
        """Return the grant for the user's yes, not yet in force; None if the yes cannot be lasting."""
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
        """Put a grant in force and return it as stored.

        A permanent grant that cannot be written lasts only for the session; the reason is logged.
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
        """Revoke a grant; return False if it no longer exists. Raises `GrantsError`."""
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
        """Return the permanent grants of this workspace; none if the file cannot be used."""
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
    """Return all permanent grants by id, oldest first. Blocking. Raises `GrantsError`."""
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
    """Revoke one permanent grant; return False if the id is unknown. Blocking. Raises `GrantsError`."""
    with _changing(path) as grants:
        return grants.pop(id, None) is not None


@contextmanager
def _changing(path: Path) -> Iterator[dict[str, Grant]]:
    """Yield the permanent grants, locked, and write them afterwards if changed. Raises `GrantsError`."""
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
    """Parse a stored grant. Raises `TypeError`, `KeyError` or `ValueError` for invalid data."""
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
