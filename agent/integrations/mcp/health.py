"""The health of a server, and the moment from which it may be tried again. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

State = Literal["idle", "starting", "ready", "failed", "parked", "sign-in", "off", "not agreed"]
"""`idle`: it starts at the first use. `failed`: it is tried again soon. `parked`: it failed several times
in a row, and is tried again at the first use after a longer pause."""

PAUSES = (1.0, 4.0, 15.0, 60.0, 300.0)
"""Seconds until the next try after so many failures in a row."""
PARKED_AFTER = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What is known of one server. Times are of `time.monotonic`."""

    state: State = "idle"
    failures: int = 0
    """In a row."""
    retry_at: float = 0.0
    reason: str = ""
    """Why it failed last, as a clause."""
    starts: int = 0
    took: float = 0.0
    """Seconds its last start took."""
    protocol: str = ""
    calls: int = 0
    """Requests it answered since the session began."""
    answered_in: float = 0.0
    """Seconds the last of them took."""

    def waits(self, now: float) -> float:
        """Seconds until it may be tried again; 0 when it may be now."""
        return max(self.retry_at - now, 0.0) if self.state in ("failed", "parked") else 0.0

    def starting(self) -> Health:
        return replace(self, state="starting", starts=self.starts + 1)

    def ready(self, protocol: str, took: float) -> Health:
        return replace(self, state="ready", failures=0, retry_at=0.0, reason="", protocol=protocol, took=took)

    def answered(self, took: float) -> Health:
        return replace(self, calls=self.calls + 1, answered_in=took)

    def failed(self, reason: str, now: float) -> Health:
        """One more failure in a row."""
        failures = self.failures + 1
        pause = PAUSES[min(failures, len(PAUSES)) - 1]
        state: State = "parked" if failures >= PARKED_AFTER else "failed"
        return replace(self, state=state, failures=failures, retry_at=now + pause, reason=reason)

    def needs_sign_in(self) -> Health:
        return replace(self, state="sign-in", reason="it asks for a sign-in")

    def stopped(self) -> Health:
        return replace(self, state="idle", failures=0, retry_at=0.0)
