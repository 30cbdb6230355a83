"""The models of one provider, for the model picker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agent.model.model_choices import ModelChoice
from app.tui.screens.models.model_menu import Offers


class _Source(Protocol):
    async def of_provider(self, provider: str, names: Sequence[str]) -> list[ModelChoice]: ...

    async def keep(self, name: str) -> str: ...


class ProviderModels:
    """A `Menu` of the picker. `names` are those that the provider told; empty: what is known of it."""

    def __init__(self, provider: str, names: Sequence[str], source: _Source) -> None:
        self._provider = provider
        self._names = names
        self._source = source

    async def listed(self) -> list[ModelChoice]:
        return await self._source.of_provider(self._provider, self._names)

    async def offers(self) -> Offers:
        return Offers()

    async def found(self) -> list[ModelChoice]:
        return []

    async def keep(self, name: str) -> str:
        return await self._source.keep(name)
