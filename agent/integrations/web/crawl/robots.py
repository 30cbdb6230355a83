"""Rules of a site for robots: what they may fetch, and how fast."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from agent.core.net.door import DoorAnswer, DoorError
from agent.errors import ExitCode, HermesError

ROBOT = "hermes-tui"
LEAST_PAUSE, MOST_PAUSE = 1.0, 10.0
"""Seconds between two requests to a host."""
MOST_SITEMAPS = 5
MOST_PLACES = 5_000
_LOC = re.compile(r"<(?:\w+:)?loc>\s*(?:<!\[CDATA\[)?\s*([^<\]\s]{1,2000})", re.IGNORECASE)

Get = Callable[[str], Awaitable[DoorAnswer]]


class RobotsError(HermesError):
    """A site that says nothing about robots, so that nothing is fetched."""

    exit_code = ExitCode.UNREACHABLE


@dataclass(frozen=True, slots=True)
class Robots:
    """The rules of one host. `rules` None: it has none, and everything may be fetched."""

    rules: Any = None

    def lets(self, url: str) -> bool:
        """Whether an address may be fetched."""
        return self.rules is None or bool(self.rules.can_fetch(url, ROBOT))

    @property
    def pause(self) -> float:
        """Seconds between two requests."""
        wanted = None if self.rules is None else self.rules.crawl_delay(ROBOT)
        return min(MOST_PAUSE, max(LEAST_PAUSE, float(wanted or 0)))

    @property
    def sitemaps(self) -> list[str]:
        return [] if self.rules is None else list(self.rules.sitemaps)[:MOST_SITEMAPS]


async def read_robots(origin: str, get: Get) -> Robots:
    """The rules at `origin`. Raises `RobotsError` where they cannot be read: then nothing may be fetched."""
    try:
        answer = await get(f"{origin}/robots.txt")
    except DoorError as error:
        if error.kind in ("address", "secret"):
            raise
        raise RobotsError(
            f"The robots.txt of {origin} cannot be read, so nothing is fetched there: {error}"
        ) from error
    if answer.status >= 500:
        raise RobotsError(
            f"The robots.txt of {origin} cannot be read (status {answer.status}), so nothing is fetched "
            "there; try again later."
        )
    if answer.status != 200:
        return Robots()
    from protego import Protego

    return Robots(Protego.parse(answer.body[:500_000].decode("utf-8", "replace")))


async def read_sitemaps(origin: str, robots: Robots, get: Get) -> list[str]:
    """Addresses of pages that the site lists; none where it lists none."""
    left = robots.sitemaps or [f"{origin}/sitemap.xml"]
    found: dict[str, None] = {}
    for number, place in enumerate(left):
        if number >= MOST_SITEMAPS or len(found) >= MOST_PLACES:
            break
        try:
            answer = await get(place)
        except HermesError:
            continue
        text = answer.body.decode("utf-8", "replace") if answer.status == 200 else ""
        places = [each.replace("&amp;", "&") for each in _LOC.findall(text)[:MOST_PLACES]]
        if "<sitemapindex" in text:
            left += places
        else:
            found |= dict.fromkeys(places)
    return list(found)[:MOST_PLACES]
