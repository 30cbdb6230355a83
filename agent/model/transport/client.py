"""A way to one provider over HTTP, in any wire format.

The body is put together from frozen bytes and sent as it is; the stream is read
by `agent.model.transport.answer`. Requests travel through the `openai` package, which
is imported on first use, in a thread; what it would add for OpenAI alone goes to nobody else.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import ssl
from collections.abc import AsyncGenerator, Mapping
from dataclasses import asdict
from functools import cache
from time import perf_counter
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit, urlunsplit

from agent.errors import ModelError
from agent.model.addresses import is_loopback
from agent.model.protocol import Delta, ModelRequest
from agent.model.transport.answer import AnswerReader
from agent.model.transport.complaints import kind_of, read_complaint
from agent.model.transport.failures import Failures
from agent.model.wire_format import Dialect, WireFormat

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

log = logging.getLogger(__name__)

CONNECT_TIMEOUT = 10.0
"""Seconds a connection may take to come about."""

MAX_ERROR_BODY = 64 * 1024
"""Bytes of an error answer that are read."""

ERROR_BODY_TIME = 5.0
"""Seconds spent on reading them: the status alone says enough."""

SLICE = 0.002
"""Seconds of reading after which other tasks get their turn."""

DRAIN = 0.05
"""Seconds to wait for the proper end of a complete answer, so that the connection can be used again."""

_FROM_ENVIRONMENT = ("OpenAI-Organization", "OpenAI-Project")
"""Headers the package takes from the environment; they are nobody's business but OpenAI's."""


class _RefusedError(Exception):
    """An HTTP status that is no success, with the start of its body."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers
        self.body = body


class FormatClient:
    """A `ModelClient` for one provider in one wire format.

    `base_url` is the address that the format's endpoint is appended to. `api_key`
    may be empty. `stall_timeout` is in seconds without a byte; `key_hint` names
    the environment variable a person would set. Errors are `ModelError`s that
    name cause and mend and never a key.
    """

    def __init__(
        self,
        wire_format: WireFormat,
        base_url: str,
        api_key: str | None,
        *,
        headers: Mapping[str, str] | None = None,
        stall_timeout: float = 120,
        provider: str = "openai",
        key_hint: str = "OPENAI_API_KEY",
    ) -> None:
        self._format = wire_format
        self._url = _endpoint(base_url, wire_format.endpoint)
        self._key = (api_key or "").strip()
        self._headers = dict(headers or {})
        named = {name.lower() for name in self._headers}
        own = {name: value for name, value in self._given_headers().items() if name.lower() not in named}
        self._own_headers = own | self._headers
        self._stall_timeout = stall_timeout
        self._failures = Failures(
            title=wire_format.title,
            provider=provider,
            base_url=base_url,
            key_hint=key_hint,
            api_key=self._key,
            stall_timeout=stall_timeout,
        )
        self._dialects: dict[str, Dialect] = {}
        self._client: AsyncOpenAI | None = None
        self._starting = asyncio.Lock()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Send a request and read the answer. Closing or cancelling it closes the connection."""
        response = await self._open(request)
        body = response.aiter_bytes()
        content_type = response.headers.get("content-type", "")
        answer = AnswerReader(body, content_type, self._failures, self._format.reader())
        turn_ends = perf_counter() + SLICE
        try:
            while (deltas := await answer.next()) is not None:
                for delta in deltas:
                    yield delta
                if perf_counter() > turn_ends:
                    await asyncio.sleep(0)
                    turn_ends = perf_counter() + SLICE
        finally:
            if answer.over:
                await answer.drain(DRAIN)
            await body.aclose()
            await response.aclose()

    async def aclose(self) -> None:
        """Close all connections. The client can be used again afterwards."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _given_headers(self) -> Mapping[str, str]:
        """The headers of the format, with the key once it is known to be none that breaks a header."""
        return self._format.headers(self._key if _is_header_value(self._key) else "")

    async def _open(self, request: ModelRequest) -> httpx2.Response:
        """The response to a request, once its status says success."""
        client = await self._ready()
        while True:
            dialect = self._dialects.get(request.model) or self._format.dialect(request.model)
            try:
                body = self._format.body(request, dialect)
                response = await self._post(client, body)
            except _RefusedError as refused:
                other = _better_dialect(dialect, refused)
                if other is None:
                    raise self._failures.refused(refused.status, refused.headers, refused.body) from None
                self._dialects[request.model] = other
                continue
            if request.told is not None:
                request.told(request, body, asdict(cast(Any, dialect)))
            return response

    async def _post(self, client: AsyncOpenAI, body: bytes) -> httpx2.Response:
        import httpx2
        from openai import AsyncStream

        try:
            # The raw response is given back as it is; the class of the stream is never used.
            response: Any = await client.post(
                self._url,
                content=body,
                cast_to=httpx2.Response,
                options={"headers": self._request_headers()},
                stream=True,
                stream_cls=AsyncStream[Any],
            )
        except (_RefusedError, ModelError):
            raise
        except Exception as error:
            raise self._failures.transport(error) from None
        return response

    async def _ready(self) -> AsyncOpenAI:
        async with self._starting:
            if self._client is None:
                self._check()
                self._client = await asyncio.to_thread(self._connect)
            return self._client

    def _check(self) -> None:
        """Raises `ModelError` for settings no request can be made with."""
        provider = self._failures.provider
        if not _is_usable(self._url):
            raise ModelError(
                "unreachable",
                f"The address {self._failures.address!r} of {provider} is no http:// or https:// address "
                f"with a host and a valid port; correct providers.{provider}.base_url.",
            )
        if not _is_header_value(self._key):
            where = self._failures.key_hint or f"providers.{provider}.api_key_env"
            raise ModelError("auth", f"The key in {where} holds characters that no key has; copy it anew.")
        for name, value in self._headers.items():
            if not _is_header_value(value) or not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name):
                raise ModelError(
                    "bad_request",
                    f"The header {name!r} cannot be sent; correct providers.{provider}.headers.",
                )

    def _connect(self) -> AsyncOpenAI:
        """A client of the package. Slow (imports, certificates): runs in a thread."""
        import httpx2
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        timeout = httpx2.Timeout(self._stall_timeout, connect=CONNECT_TIMEOUT)
        local = is_loopback(self._url)
        # Plain HTTP on this machine needs no certificates, which take 50 ms to load: trust none.
        is_plain = local and self._url.startswith("http:")
        transport = DefaultAsyncHttpxClient(
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            if is_plain
            else _certificates(not local, *_trusted()),
            timeout=timeout,
            follow_redirects=False,
            trust_env=not local,
            event_hooks={"response": [_refuse]},
        )
        return AsyncOpenAI(
            api_key=self._key or "none",
            base_url=self._url,
            max_retries=0,
            timeout=timeout,
            default_headers=self._own_headers,
            http_client=transport,
        )

    def _request_headers(self) -> dict[str, Any]:
        """Headers that keep what belongs to OpenAI from everyone else."""
        from openai import Omit

        own = {name.lower() for name in self._own_headers}
        foreign = [] if _is_openai(self._url) else [*_FROM_ENVIRONMENT, *_environment_headers()]
        return {name: Omit() for name in [*foreign, "Authorization"] if name.lower() not in own}


def _trusted() -> tuple[str, str]:
    """Where the environment says that the certificates to be trusted are."""
    return os.environ.get("SSL_CERT_FILE", ""), os.environ.get("SSL_CERT_DIR", "")


@cache
def _certificates(trust_env: bool, _file: str, _folder: str) -> ssl.SSLContext:
    """What connections trust. Loading it takes 50 ms, so all clients of a process have the same."""
    import httpx2

    return httpx2.create_ssl_context(trust_env=trust_env)


async def _refuse(response: httpx2.Response) -> None:
    """Stop at a status that is no success, after a bounded part of its body."""
    if response.status_code < 300:
        return
    body = bytearray()
    try:
        async with asyncio.timeout(ERROR_BODY_TIME):
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > MAX_ERROR_BODY:
                    break
    except Exception:
        log.debug("the body of an error answer was incomplete", exc_info=True)
    raise _RefusedError(response.status_code, response.headers, bytes(body))


def _better_dialect(dialect: Dialect, refused: _RefusedError) -> Dialect | None:
    if refused.status not in (400, 422):
        return None
    complaint = read_complaint(refused.body)
    if kind_of(complaint, refused.status) != "bad_request":
        return None
    return dialect.without(refused.body.decode("utf-8", "replace"))


def _endpoint(base_url: str, endpoint: str) -> str:
    """The full address; a query (as some gateways want it) stays, a pasted endpoint is not doubled."""
    try:
        parts = urlsplit(base_url.strip())
    except ValueError:
        return ""
    path = parts.path.rstrip("/").removesuffix(endpoint) + endpoint
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def _is_usable(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _is_openai(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host == "openai.com" or host.endswith(".openai.com")


def _environment_headers() -> list[str]:
    lines = os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n")
    return [name.strip() for name, colon, _ in (line.partition(":") for line in lines) if colon]


def _is_header_value(value: str) -> bool:
    return value.isascii() and (value.isprintable() or not value)
