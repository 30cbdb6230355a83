"""Chat completions over HTTP, through the `openai` package: any provider that speaks them.

The body is put together from frozen bytes and sent as it is; the stream is read
by `agent.model.transport.answer`. The package is imported on first use, in a thread.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import ssl
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from agent.errors import ModelError
from agent.model.addresses import is_loopback
from agent.model.protocol import Delta, Request
from agent.model.transport.answer import AnswerReader
from agent.model.transport.complaints import kind_of, read_complaint
from agent.model.transport.failures import Failures

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

_ENDPOINT = "/chat/completions"
_FROM_ENVIRONMENT = ("OpenAI-Organization", "OpenAI-Project")
"""Headers the package takes from the environment; they are nobody's business but OpenAI's."""

_UNKNOWN_FIELD = re.compile(
    r"unsupported|not support|unrecognized|not recognized|unknown|unexpected|not permitted|extra|not allowed"
    r"|deprecated|not a valid|invalid (?:field|parameter|argument)|max_completion_tokens",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Dialect:
    """How one model wants its request; learned from what it refuses."""

    stream_options: bool = True
    limit_field: str = "max_tokens"
    temperature: bool = True

    def without(self, complaint: str) -> _Dialect | None:
        """The dialect to try after a refusal, or None if it does not name a field we can leave out."""
        if self.stream_options and re.search(r"stream_options|include_usage", complaint):
            return replace(self, stream_options=False)
        if not _UNKNOWN_FIELD.search(complaint) or "too large" in complaint:
            return None
        if self.limit_field == "max_tokens" and "max_tokens" in complaint:
            return replace(self, limit_field="max_completion_tokens")
        if self.limit_field == "max_completion_tokens" and "max_completion_tokens" in complaint:
            return replace(self, limit_field="")
        if self.temperature and "temperature" in complaint:
            return replace(self, temperature=False)
        return None


class _RefusedError(Exception):
    """An HTTP status that is no success, with the start of its body."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers
        self.body = body


class OpenAIChat:
    """A `ModelClient` for one provider.

    `base_url` is the address that `/chat/completions` is appended to. `api_key`
    may be empty. `stall_timeout` is in seconds without a byte; `key_hint` names
    the environment variable a person would set. Errors are `ModelError`s that
    name cause and mend and never a key.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None,
        *,
        headers: Mapping[str, str] | None = None,
        stall_timeout: float = 120,
        provider: str = "openai",
        key_hint: str = "OPENAI_API_KEY",
    ) -> None:
        self._url = _endpoint(base_url)
        self._key = (api_key or "").strip()
        self._headers = dict(headers or {})
        named = {name.lower() for name in self._headers}
        own = {"Authorization": f"Bearer {self._key}"} if self._key and "authorization" not in named else {}
        self._own_headers = own | self._headers
        self._stall_timeout = stall_timeout
        self._failures = Failures(
            provider=provider,
            base_url=base_url,
            key_hint=key_hint,
            api_key=self._key,
            stall_timeout=stall_timeout,
        )
        self._dialects: dict[str, _Dialect] = {}
        self._client: AsyncOpenAI | None = None
        self._starting = asyncio.Lock()

    async def stream(self, request: Request) -> AsyncGenerator[Delta, None]:
        """Send a request and read the answer. Closing or cancelling it closes the connection."""
        response = await self._open(request)
        body = response.aiter_bytes()
        answer = AnswerReader(body, response.headers.get("content-type", ""), self._failures)
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

    async def _open(self, request: Request) -> httpx2.Response:
        """The response to a request, once its status says success."""
        client = await self._ready()
        while True:
            dialect = self._dialects.get(request.model, _Dialect())
            try:
                return await self._post(client, request_body(request, dialect))
            except _RefusedError as refused:
                other = _better_dialect(dialect, refused)
                if other is None:
                    raise self._failures.refused(refused.status, refused.headers, refused.body) from None
                self._dialects[request.model] = other

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
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if is_plain else True,
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


def request_body(request: Request, dialect: _Dialect = _Dialect()) -> bytes:  # noqa: B008, RUF100 - frozen
    """The body of a request. Messages and tools go in as the bytes they are."""
    settings: dict[str, Any] = {"stream": True}
    if dialect.stream_options:
        settings["stream_options"] = {"include_usage": True}
    if request.max_output is not None and dialect.limit_field:
        settings[dialect.limit_field] = request.max_output
    if request.temperature is not None and dialect.temperature:
        settings["temperature"] = request.temperature
    settings |= {name: value for name, value in request.extra.items() if name not in ("model", "messages")}
    head = b'{"model":' + json.dumps(request.model).encode() + b',"messages":['
    tail = b"]" + (b',"tools":' + request.tools if request.tools else b"")
    tail += b"," + json.dumps(settings, separators=(",", ":")).encode()[1:]
    if len(request.messages) < 2:
        return head + b"".join(request.messages) + tail
    # Joined in one go: a long conversation is copied once.
    first, *middle, last = request.messages
    return b",".join((head + first, *middle, last + tail))


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


def _better_dialect(dialect: _Dialect, refused: _RefusedError) -> _Dialect | None:
    if refused.status not in (400, 422):
        return None
    complaint = read_complaint(refused.body)
    if kind_of(complaint, refused.status) != "bad_request":
        return None
    return dialect.without(refused.body.decode("utf-8", "replace"))


def _endpoint(base_url: str) -> str:
    """The full address; a query (as some gateways want it) stays, a pasted endpoint is not doubled."""
    try:
        parts = urlsplit(base_url.strip())
    except ValueError:
        return ""
    path = parts.path.rstrip("/").removesuffix(_ENDPOINT) + _ENDPOINT
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
