"""The protocol of search services, and the form of their results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agent.core.net.door import Door, DoorRequest, Permit
from agent.errors import HermesError


@dataclass(frozen=True, slots=True)
class WebHit:
    """One result. All of it is outside text."""

    title: str
    url: str
    description: str = ""
    date: str = ""
    """As the service says it."""


class SearchError(HermesError):
    """A service that gave no results. The text is a clause that follows its name."""


class SearchService(Protocol):
    """One service."""

    @property
    def name(self) -> str:
        """As settings name it."""
        ...

    @property
    def address(self) -> str:
        """Where the query goes, for the person who is asked."""
        ...

    async def search(self, query: str, limit: int, permit: Permit) -> Sequence[WebHit]:
        """Results, best first; none if there are none. Raises `HermesError` and `DeniedError`."""
        ...

    async def close(self) -> None:
        """End what runs for it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpService:
    """What services that are asked over HTTP have in common."""

    name: str
    address: str
    door: Door
    headers: Mapping[str, str]
    """With the key, which never stands in an address."""
    own: str = ""
    """The address again where the person's settings name it."""

    async def ask(self, path: str, permit: Permit, body: Mapping[str, Any] | None = None) -> Any:
        """The answer to a question as JSON. Raises `SearchError` and what the door raises."""
        headers = {"Accept": "application/json", **self.headers}
        if body is not None:
            headers["Content-Type"] = "application/json"
        request = DoorRequest(
            url=f"{self.address.rstrip('/')}{path}",
            method="GET" if body is None else "POST",
            headers=headers,
            body=b"" if body is None else json.dumps(body, ensure_ascii=False).encode(),
            own=self.own,
            kept=False,
        )
        answer = await self.door.fetch(request, permit=permit)
        if answer.status != 200:
            why = {
                401: "did not take its key",
                402: "wants to be paid",
                403: "refused",
                429: "has had enough",
            }
            raise SearchError(f"{why.get(answer.status, 'failed')} (status {answer.status})")
        try:
            return json.loads(answer.body)
        except (ValueError, RecursionError):
            raise SearchError("answered with something that is not JSON") from None

    async def close(self) -> None:
        return None


def hits(
    found: Any, *, title: str = "title", url: str = "url", description: str = "", date: str = ""
) -> list[WebHit]:
    """The results in a list of objects, by the names of their fields; what has no address is left out."""
    if not isinstance(found, list):
        return []
    return [
        WebHit(
            text(each.get(title)) or text(each.get(url)),
            text(each.get(url)),
            text(each.get(description)) if description else "",
            text(each.get(date)) if date else "",
        )
        for each in found
        if isinstance(each, dict) and text(each.get(url)).startswith(("http://", "https://"))
    ]


def text(value: Any) -> str:
    """A field as one line; a list is put together."""
    if isinstance(value, list):
        value = " … ".join(each for each in value if isinstance(each, str))
    return " ".join(value.split()) if isinstance(value, str) else ""


def within(found: Any, *path: str) -> Any:
    """What stands below `path`; None where it does not go on."""
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found
