"""Bodies of requests: bounded in bytes and time, and JSON objects of the form that is asked for."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from starlette.requests import ClientDisconnect, Request

from app.service.doors import TurnedAwayError

BODY = 1_000_000
"""Bytes of a body."""
ATTACHMENTS = 25_000_000
"""Bytes of a body that brings images."""
BODY_SECONDS = 30.0


async def json_body(request: Request, most: int = BODY) -> dict[str, Any]:
    """The object that a request brings. Raises `TurnedAwayError`."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise TurnedAwayError(415, "The body is to be application/json.")
    return parsed(await body_of(request, most))


async def body_of(request: Request, most: int) -> bytes:
    """The bytes a request brings. Raises `TurnedAwayError`."""
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > most:
        raise TurnedAwayError(413, f"The body is larger than {most:,} bytes.")
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.stream():
                data += piece
                if len(data) > most:
                    raise TurnedAwayError(413, f"The body is larger than {most:,} bytes.")
    except TimeoutError:
        raise TurnedAwayError(408, "The body took too long.") from None
    except ClientDisconnect:
        raise TurnedAwayError(400, "The body broke off.") from None
    return bytes(data)


def parsed(data: bytes | str) -> dict[str, Any]:
    """The JSON object that stands there. Raises `TurnedAwayError`."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise TurnedAwayError(400, "The body is no JSON.") from None
    if not isinstance(found, dict):
        raise TurnedAwayError(400, "The body is to be a JSON object.")
    return found


def text_of(data: Mapping[str, Any], name: str, default: str | None = None, most: int = 400_000) -> str:
    """A text of an object; surrogates that nothing can store are replaced. Raises `TurnedAwayError`."""
    value = data.get(name, default)
    if not isinstance(value, str):
        raise TurnedAwayError(400, f"`{name}` is to be a text.")
    if len(value) > most:
        raise TurnedAwayError(413, f"`{name}` is longer than {most:,} characters.")
    return value.encode("utf-8", "replace").decode("utf-8")


def only(data: Mapping[str, Any], *names: str) -> None:
    """Refuse what is not known, so that a misspelt name is no surprise. Raises `TurnedAwayError`."""
    for name in data:
        if name not in names:
            raise TurnedAwayError(400, f"`{str(name)[:40]}` is not known here; there is {', '.join(names)}.")
