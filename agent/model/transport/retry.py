"""The schedule on which a failed request is tried again."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from agent.errors import RETRYABLE, ModelError


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential back-off with jitter. All times are in seconds."""

    retries: int
    """How often one request is tried again."""
    base: float = 0.5
    """Upper limit of the first delay; it doubles with each attempt."""
    cap: float = 30.0
    """Upper limit of every delay of our own choice."""
    asked_cap: float = 120.0
    """Upper limit of a delay the provider asks for."""

    def delay(self, attempt: int, error: ModelError, chance: Random) -> float | None:
        """How long to wait after the failure of an attempt (counted from 1); None = do not try again.

        Half of the delay is fixed and half is chance, so that many clients do
        not come back at once. A provider's wish is a lower limit.
        """
        if error.kind not in RETRYABLE or attempt > self.retries:
            return None
        ceiling = min(self.cap, self.base * 2.0 ** min(attempt - 1, 60))
        delay = chance.uniform(ceiling / 2, ceiling)
        if error.retry_after is not None:
            delay = max(delay, min(error.retry_after, self.asked_cap))
        return delay
