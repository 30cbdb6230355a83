"""The decision about a command's network connection: by the list of hosts, by mode, then by asking.

Connections are reported in the proxy's thread; questions are asked in the session's loop. Each host is asked
about only once, however many connections wait for the answer. A single yes, and a no, apply until all
commands that were running at the time have ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent.core.messages import Mode
from agent.core.net.hosts import HostList, host_list
from tools.results import DeniedError
from tools.services.actions import ReachHost
from tools.services.sandbox import PermitHost

if TYPE_CHECKING:
    from agent.safety.gate import Gate
    from agent.safety.sandbox.filtered import FilteredNetwork

log = logging.getLogger(__name__)

DEADLINE = 600.0
"""The seconds for which a connection waits for the user."""
GRACE = 20.0
"""Seconds that a question stays open after the last connection gave up, because programs retry."""
_UNLISTED = "is not on the list of hosts"
_SILENT: tuple[Mode, ...] = ("plan", "deny")


@dataclass(slots=True)
class _Question:
    """A host that was asked about. It is changed only in the proxy's loop, except `running`."""

    answer: Future[str | None]
    running: set[int]
    """The commands for which the answer is valid."""
    waiting: int = 0
    closing: asyncio.TimerHandle | None = field(default=None)


class HostDecider:
    """The decisions about connections of one session. `loop` is the loop in which `permit` runs; `mode`
    returns the mode, in any thread.

    `running` returns the ids of running commands. `allows` returns whether a host was allowed for one of
    them. `asking` returns a function to ask with instead of `permit`, if it is known whose command it is, or
    None.
    """

    def __init__(
        self,
        listed: HostList,
        permit: PermitHost,
        mode: Callable[[], Mode],
        loop: asyncio.AbstractEventLoop,
        running: Callable[[], frozenset[int]] = frozenset,
        allows: Callable[[str], bool] = lambda host: False,
        asking: Callable[[], PermitHost | None] = lambda: None,
    ) -> None:
        self._listed = listed
        self._permit = permit
        self._mode = mode
        self._loop = loop
        self._running = running
        self._allows = allows
        self._asking = asking
        self._questions: dict[tuple[str, int], _Question] = {}

    async def decide(self, host: str, port: int) -> str | None:
        """Return None if the connection is allowed, else the reason as a clause. Must run in the proxy's
        loop.
        """
        mode = self._mode()
        if mode in _SILENT:
            return f"is not let through, as nothing leaves in mode {mode}"
        if self._listed.lists(host, port) or self._allows(host):
            return None
        question = self._question(host, port)
        question.waiting += 1
        if question.closing is not None:
            question.closing.cancel()
            question.closing = None
        try:
            waiting = asyncio.shield(asyncio.wrap_future(question.answer))
            async with asyncio.timeout(DEADLINE):
                return await waiting
        except TimeoutError:
            return f"{_UNLISTED}, and nobody answered in time"
        except asyncio.CancelledError:
            if question.answer.cancelled():
                return f"{_UNLISTED}, and the question was withdrawn"
            raise
        finally:
            question.waiting -= 1
            if not question.waiting and not question.answer.done():
                closing = asyncio.get_running_loop().call_later(GRACE, question.answer.cancel)
                question.closing = closing

    def forget_ended(self, running: frozenset[int]) -> None:
        """Forget answers all of whose commands have ended, given the running ones. Thread-safe."""
        for key, question in tuple(self._questions.items()):
            question.running &= running
            if not question.running:
                self._questions.pop(key, None)
                if not question.answer.done():
                    question.answer.cancel()

    def _question(self, host: str, port: int) -> _Question:
        known = self._questions.get((host, port))
        if known is None or known.answer.cancelled():
            answer = asyncio.run_coroutine_threadsafe(self._ask(host, port), self._loop)
            known = self._questions[host, port] = _Question(answer, set(self._running()))
        return known

    async def _ask(self, host: str, port: int) -> str | None:
        try:
            await (self._asking() or self._permit)(ReachHost(tool="network", host=host, port=port))
        except DeniedError as error:
            return _clause(error)
        except Exception as error:
            log.exception("a host could not be asked about")
            return f"{_UNLISTED}, and it could not be asked about ({type(error).__name__})"
        return None


def decide_by_gate(filtered: FilteredNetwork, gate: Gate, own: Sequence[str]) -> None:
    """Make `gate` decide, in this loop, about hosts that are neither on the built-in list nor among the
    user's `own`.
    """
    decider = HostDecider(
        host_list(own),
        gate.permit,
        lambda: gate.mode,
        asyncio.get_running_loop(),
        running=lambda: filtered.running,
        allows=filtered.allows,
        asking=filtered.permit,
    )
    filtered.idle = decider.forget_ended
    filtered.decide = decider.decide


def _clause(error: DeniedError) -> str:
    match error.extra.get("outcome"):
        case "nobody":
            return f"{_UNLISTED}, and nobody is there to allow it"
        case "expired":
            return f"{_UNLISTED}, and nobody answered in time"
        case "cancelled":
            return f"{_UNLISTED}, and the question was cancelled"
        case _:
            said = f": {feedback}" if (feedback := str(error).partition("The user says: ")[2]) else ""
            return f"{_UNLISTED} and was not allowed{said}"
