"""Several keys for one provider: when one is refused temporarily, the next one is used at once.

A key is used until it is refused, because a provider's cache belongs to the account of the key.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass

from agent.errors import ModelError
from agent.model.protocol import Delta, ModelClient, ModelRequest

log = logging.getLogger(__name__)

REST = 60.0
"""Seconds that a key is not used after a refusal that names no time."""
LONGEST_REST = 3_600.0
LASTING = frozenset({"auth", "billing"})
"""Kinds of refusals that last for the whole session."""
REFUSALS = LASTING | {"rate_limit"}


@dataclass(slots=True)
class _Key:
    variable: str
    client: ModelClient
    rests_until: float = 0.0
    """The time when it may be used again, by the pool's clock; infinite for an unusable key."""


class KeyPool:
    """A `ModelClient` that uses several clients for one model. Each client has one key, named by its
    variable.

    `tell` is called once for each key that has become unusable. `clock` returns seconds.
    """

    def __init__(
        self,
        clients: Mapping[str, ModelClient],
        tell: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keys = [_Key(variable, client) for variable, client in clients.items()]
        self._tell = tell
        self._clock = clock
        self._at = 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[Delta]:
        """Send the request with the current key; after a refusal, with the others in turn. Raises
        `ModelError`.
        """
        refusals: list[ModelError] = []
        for key in self._turn():
            begun = False
            try:
                async for delta in key.client.stream(request):
                    begun = True
                    yield delta
                return
            except ModelError as error:
                if begun or error.kind not in REFUSALS:
                    raise
                self._handle_refusal(key, error)
                refusals.append(error)
        raise self._worst(refusals)

    async def aclose(self) -> None:
        for key in self._keys:
            await key.client.aclose()

    def _turn(self) -> list[_Key]:
        """Return the keys to try, the current one first, without keys that must wait after a refusal.

        If all must wait, only the key with the shortest wait is returned.
        """
        now = self._clock()
        order = self._keys[self._at :] + self._keys[: self._at]
        awake = [key for key in order if key.rests_until <= now]
        return awake or [min(order, key=lambda key: key.rests_until)]

    def _handle_refusal(self, key: _Key, error: ModelError) -> None:
        if error.kind in LASTING:
            if key.rests_until != float("inf"):
                self._tell(f"{key.variable} is not used any more in this session: {error}")
            key.rests_until = float("inf")
        else:
            key.rests_until = self._clock() + min(error.retry_after or REST, LONGEST_REST)
            log.info("the key in %s rests for %.0f s", key.variable, key.rests_until - self._clock())
        self._at = (self._keys.index(key) + 1) % len(self._keys)

    def _worst(self, refusals: list[ModelError]) -> ModelError:
        """Return the error to report if all keys were refused: a temporary one, with the shortest wait, if
        possible.
        """
        passing = [error for error in refusals if error.kind not in LASTING]
        if not passing:
            return refusals[-1]
        waits = [key.rests_until - self._clock() for key in self._keys if key.rests_until != float("inf")]
        last = passing[-1]
        asked = min([wait for wait in waits if wait > 0], default=last.retry_after)
        return ModelError(last.kind, str(last), status=last.status, retry_after=asked)
