"""Searching for the model: asked for at the gate once, answered by the first service that can."""

from __future__ import annotations

import re
from typing import Any

from agent.core.net.door import DoorError
from agent.integrations.web.gate import CallGate
from agent.integrations.web.services import WebServices
from tools.services.actions import SearchWeb
from tools.text.outside_text import fenced_line

_DATE = re.compile(r"[\w ,:.+-]{1,32}")
_DESCRIPTION = 400
"""Characters of a description."""


async def search(web: WebServices, gate: CallGate, query: str, limit: int) -> dict[str, Any]:
    """The result of the tool. Raises `HermesError` and `DeniedError`."""
    ring = web.ring
    if (name := web.door.secret_in(query)) is not None:
        raise DoorError(f"The query holds the secret {name}; secrets never leave.", "secret")
    routes = tuple(f"{name} ({address})" for name, address in ring.routes)
    await gate.ask(SearchWeb(tool=gate.tool, query=query, routes=routes))
    found = await ring.search(query, limit, gate.further)
    result: dict[str, Any] = {
        "results": [
            {
                "position": number,
                "title": fenced_line(hit.title[:300]),
                "url": hit.url,
                "description": fenced_line(hit.description[:_DESCRIPTION]),
                **({"date": date[0]} if (date := _DATE.match(hit.date)) else {}),
            }
            for number, hit in enumerate(found.hits, 1)
        ],
        "served_by": ", ".join(found.served_by),
    }
    if found.passed:
        result["passed_over"] = dict(found.passed)
    if found.dropped:
        result["dropped"] = f"{found.dropped} results that lead to addresses which are never reached"
    if found.is_circling:
        result["hint"] = (
            "Three searches for nearly the same words found nothing: search for other words, or read a page "
            "you know of."
        )
    return result
