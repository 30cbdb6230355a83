"""What the dialogs of the first minutes ask, in the place of providers and hubs."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event

from agent.errors import HermesError
from agent.model.key_check import KeyCheck, KeyProvider, ServerCheck
from agent.model.local.pull import Listener, Progress
from agent.model.local.sources import StoppedError, Weights
from agent.model.model_choices import ModelChoice

PROVIDER = KeyProvider(
    name="openrouter",
    variable="OPENROUTER_API_KEY",
    base_url="https://openrouter.ai/api/v1",
    format="chat",
)


class Doubtful:
    """Takes no key, and keeps none."""

    async def check(self, provider: KeyProvider, key: str) -> KeyCheck:
        return KeyCheck(f"{provider.name} does not take this key (401); copy it again.")

    async def server(self, address: str, key: str) -> ServerCheck:
        return ServerCheck(f"{address} is not an address.")

    async def keep_key(self, provider: KeyProvider, key: str) -> None:
        raise AssertionError("a refused key is not kept")

    async def of_provider(self, provider: str, names: Sequence[str]) -> list[ModelChoice]:
        return []


class Halfway:
    """Fetches the half of a model, and waits; or fails there."""

    def __init__(self, problem: str = "") -> None:
        self._problem = problem

    def fetch(self, weights: Weights, listener: Listener, stop: Event) -> None:
        listener.progress(Progress("fetch", weights.size // 2, weights.size))
        if self._problem:
            raise HermesError(self._problem)
        stop.wait(60)
        raise StoppedError
