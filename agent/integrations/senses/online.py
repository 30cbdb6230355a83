"""Image downloads and requests to configured services, all through one `WebClient`."""

from __future__ import annotations

import json
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from agent.core.net.door import WebClient, WebError, WebLimits, WebRequest, WebResponse
from tools.results import ToolError
from tools.services.actions import Fetch, Permit
from tools.text.words import one_line

PICTURE = WebLimits(size=50_000_000, unpacked=50_000_000, seconds=60.0)
_LONGEST_WORDS = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAddress:
    """The URL and key of a configured service."""

    name: str
    """The name of the service in messages to the user."""
    base: str
    headers: Mapping[str, str]

    @property
    def host(self) -> str:
        """The host of the service, for the permission check."""
        return urlsplit(self.base).netloc.rpartition("@")[2].lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class FormPart:
    """One part of a form, possibly a file."""

    name: str
    data: bytes
    file: str = ""
    media_type: str = ""


class Online:
    """Image downloads and requests to configured services."""

    def __init__(self, client: WebClient) -> None:
        self._client = client

    async def picture(self, url: str, tool: str, permit: Permit) -> bytes:
        """Return an image fetched from the web. Raises `ToolError`, and what `permit` raises."""

        async def ask(address: str, _source: str) -> None:
            await permit(Fetch(tool=tool, url=address))

        answer = await self._fetch(WebRequest(url=url, headers={"Accept": "image/*"}), PICTURE, ask)
        if answer.status >= 400:
            raise ToolError(f"{urlsplit(answer.url).netloc} answers {answer.status}; there is no picture.")
        return answer.body

    async def made_picture(self, url: str, action: Fetch, permit: Permit) -> bytes:
        """Return an image that a service made and offers at a URL. Raises `ToolError`."""
        await permit(action)
        return (await self._fetch(WebRequest(url=url, kept=False), PICTURE, _allow)).body

    async def json_form(
        self, service: ServiceAddress, path: str, parts: Sequence[FormPart], limits: WebLimits
    ) -> Any:
        """Send a form to a service and return its JSON answer. Raises `ToolError`."""
        return _parse_json(service, await self.raw(service, path, parts=parts, limits=limits))

    async def json(
        self,
        service: ServiceAddress,
        path: str,
        body: Any = None,
        *,
        method: Literal["GET", "POST"] = "POST",
        limits: WebLimits | None = None,
    ) -> Any:
        """Send a request to a service and return its JSON answer. Raises `ToolError`."""
        return _parse_json(service, await self.raw(service, path, body, method=method, limits=limits))

    async def raw(
        self,
        service: ServiceAddress,
        path: str,
        body: Any = None,
        *,
        method: Literal["GET", "POST"] = "POST",
        parts: Sequence[FormPart] = (),
        headers: Mapping[str, str] | None = None,
        limits: WebLimits | None = None,
    ) -> WebResponse:
        """Send JSON, text or a form to a service and return its answer.

        Raises `ToolError` with the service's own error message.
        """
        sent = {"Accept": "application/json, */*", **service.headers, **(headers or {})}
        data = b""
        if parts:
            data, sent["Content-Type"] = multipart(parts)
        elif isinstance(body, str):
            data = body.encode()
        elif body is not None:
            data = json.dumps(body, ensure_ascii=False).encode()
            sent["Content-Type"] = "application/json"
        request = WebRequest(
            url=service.base.rstrip("/") + path,
            method=method,
            headers=sent,
            body=data,
            own=service.base,
            kept=False,
        )
        answer = await self._fetch(request, limits or WebLimits(), _allow)
        if answer.status >= 400:
            words = complaint(answer.body)
            said = f": {words}" if words else "; look at its key and its settings"
            raise ToolError(f"{service.name} refuses with {answer.status}{said}", status_code=answer.status)
        if answer.status >= 300:
            raise ToolError(f"{service.name} answers {answer.status}; check its address.")
        return answer

    async def _fetch(
        self, request: WebRequest, limits: WebLimits, permit: Callable[[str, str], Awaitable[None]]
    ) -> WebResponse:
        try:
            return await self._client.fetch(request, permit=permit, limits=limits)
        except WebError as error:
            raise ToolError(str(error)) from error


def _parse_json(service: ServiceAddress, answer: WebResponse) -> Any:
    try:
        return json.loads(answer.body)
    except (ValueError, RecursionError):
        raise ToolError(f"{service.name} answers something else than JSON; check its address.") from None


async def _allow(_url: str, _source: str) -> None:
    """Allow a request: the settings name the service, and the action was already permitted."""


def complaint(body: bytes) -> str:
    """Return a service's error message on one line; empty if it has no readable one."""
    text = body[:20_000].decode("utf-8", "replace")
    try:
        found = _error_text(json.loads(body))
    except (ValueError, RecursionError):
        found = "" if text.lstrip().startswith("<") else text
    return one_line(found)[:_LONGEST_WORDS]


def _error_text(data: Any) -> str:
    if isinstance(data, str):
        return data
    if isinstance(data, list):
        return "; ".join(filter(None, map(_error_text, data[:3])))
    if isinstance(data, Mapping):
        for key in ("error", "message", "detail", "msg", "errors"):
            if data.get(key) and (words := _error_text(data[key])):
                return words
    return ""


def multipart(parts: Sequence[FormPart]) -> tuple[bytes, str]:
    """Encode a form with files; return the body and its content type."""
    mark = f"hermes-{secrets.token_hex(16)}"
    pieces: list[bytes] = []
    for part in parts:
        head = f'--{mark}\r\nContent-Disposition: form-data; name="{part.name}"'
        if part.file:
            name = part.file.encode("ascii", "replace").decode().translate({34: 39, 92: 95, 13: 95, 10: 95})
            head += f'; filename="{name}"\r\nContent-Type: {part.media_type or "application/octet-stream"}'
        pieces += [head.encode(), b"\r\n\r\n", part.data, b"\r\n"]
    return b"".join([*pieces, f"--{mark}--\r\n".encode()]), f"multipart/form-data; boundary={mark}"
