"""Reading many documents in one go, each a line of JSON in and out, as benchmarks of extraction do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

from agent.core.net.door import DoorRequest
from agent.errors import HermesError
from agent.integrations.web.gate import CallGate
from agent.integrations.web.reading.page import UnreadableError
from agent.integrations.web.services import WebServices
from tools.results import DeniedError

_TYPES = {".html": "text/html", ".htm": "text/html", ".gz": "text/html"}


async def batch(web: WebServices, gate: CallGate, lines: Iterable[str]) -> AsyncIterator[dict[str, Any]]:
    """For each line `{"id", "url" or "html" or "path"}` an answer: `id`, `text`, `markdown`, or `error`."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            order = json.loads(line)
        except (ValueError, RecursionError):
            order = None
        if not isinstance(order, dict):
            yield {"id": None, "line": number, "error": f"Line {number} is no JSON object."}
            continue
        named = {"id": order.get("id", number)} | ({"url": order["url"]} if order.get("url") else {})
        try:
            yield named | await _one(web, gate, order)
        except UnreadableError as error:
            yield named | {"error": f"It {error}."}
        except (HermesError, DeniedError) as error:
            yield named | {"error": str(error)}
        except OSError as error:
            yield named | {"error": f"{order.get('path')} cannot be read: {error.strerror or error}."}


async def _one(web: WebServices, gate: CallGate, order: dict[str, Any]) -> dict[str, Any]:
    url = str(order.get("url") or "")
    if "html" in order:
        data, kind = str(order["html"]).encode("utf-8", "replace"), "text/html; charset=utf-8"
    elif "path" in order:
        path = Path(str(order["path"]))
        data, kind = await asyncio.to_thread(_file, path), _TYPES.get(path.suffix.lower(), "")
    elif url:
        answer = await web.door.fetch(DoorRequest(url=url), permit=gate.first, opened=gate.opened)
        data, kind = answer.body, answer.headers.get("content-type", "")
        if answer.status >= 400:
            return {"error": f"{answer.url} answered with status {answer.status}."}
    else:
        return {"error": "There is neither url, html nor path."}
    page = await web.reader.read(data, kind, url, wants_plain=True)
    return {
        "title": page.title,
        "date": page.date,
        "kind": page.kind,
        "text": page.plain,
        "markdown": page.content,
        "hidden": page.hidden,
        "notes": list(page.notes),
    }


def _file(path: Path) -> bytes:
    data = path.read_bytes()
    if path.suffix.lower() == ".gz":
        from agent.core.net.door import PackedError, Unpacker

        try:
            return Unpacker("gzip", 100_000_000).feed(data)
        except PackedError as error:
            raise OSError(str(error)) from None
    return data
