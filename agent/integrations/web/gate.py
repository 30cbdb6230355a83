"""Requests of one call at the gate: the first as the tool's action, redirects by the same rules."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from tools.services.actions import Action, Fetch

Ask = Callable[[Action], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallGate:
    """The gate as one call of a tool sees it. `ask` and `agreed` raise `DeniedError`."""

    tool: str
    ask: Ask
    """Asks a person where the rules say so."""
    agreed: Ask
    """For what a person has agreed to with something else: only what is denied is refused."""
    opens: Callable[[Fetch], bool]
    """Whether the person's own rules open an address that requests never reach otherwise."""

    def opened(self, url: str) -> bool:
        return self.opens(Fetch(tool=self.tool, url=url))

    async def first(self, url: str, source: str) -> None:
        """For a page that the model asks for; a redirect within its site was agreed to with it."""
        if source and same_site(url, source):
            await self.agreed(Fetch(tool=self.tool, url=url))
        else:
            await self.ask(Fetch(tool=self.tool, url=url))

    async def further(self, url: str, source: str) -> None:
        """For what belongs to something that was agreed to as a whole."""
        if source and not same_site(url, source):
            await self.ask(Fetch(tool=self.tool, url=url))
        else:
            await self.agreed(Fetch(tool=self.tool, url=url))


def same_site(one: str, other: str) -> bool:
    """Whether two addresses are of one host, `www.` left out of account, and none of them less safe."""
    here, there = urlsplit(one), urlsplit(other)
    if here.scheme != there.scheme and (here.scheme, there.scheme) != ("https", "http"):
        return False
    if (here.port or None) != (there.port or None):
        return False
    return (here.hostname or "").removeprefix("www.") == (there.hostname or "").removeprefix("www.")
