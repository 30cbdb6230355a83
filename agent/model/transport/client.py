"""A client of one provider over HTTP, in any wire format.

The body is joined from unchanging bytes and sent as it is; `agent.model.transport.answer` reads the stream.
Requests use the `openai` package, which is imported on first use, in a thread; headers that it adds for
OpenAI are not sent to other providers.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import re
import ssl
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from agent.core.event_data import Usage
from agent.errors import ModelError
from agent.model.addresses import below, is_loopback
from agent.model.dialect import DEFAULT, Dialect, load
from agent.model.dialect_book import SpokenDialect
from agent.model.protocol import (
    MOST_SENDINGS,
    AnsweredDelta,
    Delta,
    ModelRequest,
    ReplyEnd,
    RequestTrial,
    UsageDelta,
)
from agent.model.repairs import Refusal, repairs_for
from agent.model.transport.answer import AnswerReader
from agent.model.transport.failures import Failures
from agent.model.wire_format import WireFormat

if TYPE_CHECKING:
    import httpx2
    from openai import AsyncOpenAI

log = logging.getLogger(__name__)

CONNECT_TIMEOUT = 10.0
"""The maximum time in seconds to open a connection."""

MAX_ERROR_BODY = 64 * 1024
"""The maximum number of bytes of an error response that are read."""

ERROR_BODY_TIME = 5.0
"""The maximum time in seconds to read them: the status alone says enough."""

SLICE = 0.002
"""Seconds of reading after which other tasks may run."""

DRAIN = 0.05
"""Seconds to wait for the proper end of a complete answer, so that the connection can be reused."""

_ABOUT_FORM = ("bad_request", "images", "not_found", "overloaded")
"""Kinds of failures that may be about the form of a request."""

_FROM_ENVIRONMENT = ("OpenAI-Organization", "OpenAI-Project")
"""Headers that the package takes from the environment; they are for OpenAI only."""


class _RefusedError(Exception):
    """Raised for an HTTP status that is not a success, with the beginning of the body."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers
        self.body = body


@dataclass(frozen=True, slots=True)
class _OpenAnswer:
    """A response with a successful status, and the reader of its body."""

    response: httpx2.Response
    body: AsyncGenerator[bytes, None]
    answer: AnswerReader

    def told_beside(self, asked: str) -> Iterator[Delta]:
        """Yield what a gateway reports besides the reply: another model that answered, and the cost."""
        if self.answer.model not in ("", asked):
            yield AnsweredDelta(self.answer.model)
        try:
            cost = float(self.response.headers.get("x-litellm-response-cost", ""))
        except ValueError:
            return
        # Before a stream begins the gateway knows no cost and reports zero.
        if cost > 0 and math.isfinite(cost):
            yield UsageDelta(Usage(cost=cost))

    async def close(self) -> None:
        if self.answer.over:
            await self.answer.drain(DRAIN)
        await self.body.aclose()
        await self.response.aclose()


class FailureNames(NamedTuple):
    """The names that messages about failures use, and the secrets that they must not show."""

    provider: str = "openai"
    key_hint: str = "OPENAI_API_KEY"
    """The environment variable with the key."""
    secrets: tuple[str, ...] = ()


class FormatClient:
    """A `ModelClient` for one provider in one wire format.

    `base_url` is the address to which the format's endpoint is appended. `api_key` may be empty.
    `stall_timeout` is the longest time without a byte, in seconds. Errors are `ModelError`s that name cause
    and fix but never a key.
    """

    def __init__(
        self,
        wire_format: WireFormat,
        base_url: str,
        api_key: str | None,
        *,
        headers: Mapping[str, str] | None = None,
        stall_timeout: float = 120,
        names: FailureNames | None = None,
        spoken: Callable[[str], SpokenDialect] | None = None,
    ) -> None:
        """Create the client. `spoken` returns the dialect of a model, given by its name."""
        self._format = wire_format
        self._url = _endpoint(base_url, wire_format.endpoint)
        self._key = (api_key or "").strip()
        self._headers = dict(headers or {})
        named = {name.lower() for name in self._headers}
        own = {name: value for name, value in self._given_headers().items() if name.lower() not in named}
        self._own_headers = own | self._headers
        self._stall_timeout = stall_timeout
        names = names or FailureNames()
        self._failures = Failures(
            title=wire_format.title,
            provider=names.provider,
            base_url=base_url,
            key_hint=names.key_hint,
            api_key=self._key,
            secrets=names.secrets,
            stall_timeout=stall_timeout,
        )
        self._spoken = spoken or cache(lambda _: SpokenDialect())
        self._client: AsyncOpenAI | None = None
        self._starting = asyncio.Lock()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Send a request and yield the answer. Closing or cancelling the generator closes the connection.

        A request refused for its form is repaired and sent again before anything is yielded.
        """
        opened, deltas = await self._begin(request)
        turn_ends = perf_counter() + SLICE
        try:
            while deltas is not None:
                for delta in deltas:
                    if isinstance(delta, ReplyEnd):
                        for told in opened.told_beside(request.model):
                            yield told
                    yield delta
                if perf_counter() > turn_ends:
                    await asyncio.sleep(0)
                    turn_ends = perf_counter() + SLICE
                deltas = await opened.answer.next()
        finally:
            await opened.close()

    async def aclose(self) -> None:
        """Close all connections. The client can be used again afterwards."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _given_headers(self) -> Mapping[str, str]:
        """Return the headers of the format, with the key only if it is valid in a header."""
        return self._format.headers(self._key if _is_header_value(self._key) else "")

    async def _begin(self, request: ModelRequest) -> tuple[_OpenAnswer, list[Delta] | None]:
        """Return the answer to the request, repaired if necessary, and its first deltas, if any."""
        client = await self._ready()
        spoken = self._spoken(request.model)
        trial = request.trial or RequestTrial()
        while True:
            dialect = trial.dialect or spoken.current
            body = self._format.body(request, dialect)
            opened: _OpenAnswer | None = None
            try:
                opened = await self._open(await self._post(client, body))
                deltas = await opened.answer.next()
                while deltas is not None and not deltas:
                    deltas = await opened.answer.next()
            except BaseException as error:
                if opened is not None:
                    await opened.close()
                if isinstance(error, _RefusedError):
                    error = await asyncio.to_thread(
                        self._failures.refusal_error, error.status, error.headers, error.body, dialect
                    )
                if not isinstance(error, ModelError):
                    raise
                request = await self._repair_request(request, dialect, body, error, trial)
                continue
            spoken.learn(trial.learned)
            trial.learned.clear()
            trial.dialect = None
            if request.told is not None:
                request.told(request, body, dialect.deviation())
            return opened, deltas

    async def _repair_request(
        self, request: ModelRequest, dialect: Dialect, body: bytes, error: ModelError, trial: RequestTrial
    ) -> ModelRequest:
        """Return the request in another form. Raises `error` if no form is left to try."""
        if error.kind not in _ABOUT_FORM or not (error.said or error.words):
            raise error
        trial.sendings += 1
        refusal = Refusal(
            error.status or 0,
            error.said,
            error.words,
            model=request.model,
            format=self._format.name,
            body=body,
            images=trial.images(),
            tools=trial.tools(),
        )
        for repair in await asyncio.to_thread(lambda: list(repairs_for(dialect, refusal))):
            if repair.key in trial.tried or trial.sendings >= MOST_SENDINGS:
                continue
            other = dialect.apply_change(repair.change)
            if other.tools.mode != dialect.tools.mode:
                # The decoder depends on the dialect: the caller has to ask again.
                if request.tools:
                    trial.take(repair, self._failures.clean(error.said), other)
                    error.no_tools = True
                    raise error
                continue
            trial.tried.add(repair.key)
            made = await self._rebuilt(request, other, trial)
            if self._format.body(made, other) != body:
                trial.take(repair, self._failures.clean(error.said), other)
                return made
        raise error

    async def _rebuilt(self, request: ModelRequest, dialect: Dialect, trial: RequestTrial) -> ModelRequest:
        if trial.rebuild is None:
            return request
        made = await trial.rebuild(request, dialect)
        return replace(request, frames=made.frames, system=made.system, tools=made.tools, marks=made.marks)

    async def _open(self, response: httpx2.Response) -> _OpenAnswer:
        body = response.aiter_bytes()
        content_type = response.headers.get("content-type", "")
        return _OpenAnswer(
            response, body, AnswerReader(body, content_type, self._failures, self._format.reader())
        )

    async def _post(self, client: AsyncOpenAI, body: bytes) -> httpx2.Response:
        import httpx2
        from openai import AsyncStream

        try:
            # The raw response is returned unchanged; the class of the stream is never used.
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
        """Raise `ModelError` if the settings make requests impossible."""
        provider = self._failures.provider
        if not _is_usable(self._url):
            raise ModelError(
                "unreachable",
                f"The address {self._failures.address!r} of {provider} is not an http:// or https:// address "
                f"with a host and a valid port; correct it: {self._failures.setting('base_url', 'URL')}.",
            )
        if not _is_header_value(self._key):
            where = self._failures.key_hint or f"providers.{provider}.api_key_env"
            raise ModelError("auth", f"The key in {where} holds characters that no key has; copy it again.")
        for name, value in self._headers.items():
            if not _is_header_value(value) or not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name):
                raise ModelError(
                    "bad_request",
                    f"The header {name!r} cannot be sent; correct providers.{provider}.headers.",
                )

    def _connect(self) -> AsyncOpenAI:
        """Return a client of the `openai` package.

        Slow, because it imports the package and loads certificates; for use in a thread.
        """
        import httpx2
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        load(DEFAULT)
        timeout = httpx2.Timeout(self._stall_timeout, connect=CONNECT_TIMEOUT)
        local = is_loopback(self._url)
        # Plain HTTP to this machine needs no certificates, which take 50 ms to load: trust none.
        is_plain = local and self._url.startswith("http:")
        transport = DefaultAsyncHttpxClient(
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            if is_plain
            else _certificates(not local, *_certificate_places()),
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
        """Return headers that remove those that the package would send but only OpenAI should get."""
        from openai import Omit

        own = {name.lower() for name in self._own_headers}
        foreign = [] if _is_openai(self._url) else [*_FROM_ENVIRONMENT, *_environment_headers()]
        return {name: Omit() for name in [*foreign, "Authorization"] if name.lower() not in own}


def _certificate_places() -> tuple[str, str]:
    """Return the certificate file and the certificate folder that the environment names, or empty texts."""
    return os.environ.get("SSL_CERT_FILE", ""), os.environ.get("SSL_CERT_DIR", "")


@cache
def _certificates(trust_env: bool, _file: str, _folder: str) -> ssl.SSLContext:
    """Return the TLS context. Loading takes 50 ms, so all clients of a process share one."""
    import httpx2

    return httpx2.create_ssl_context(trust_env=trust_env)


async def _refuse(response: httpx2.Response) -> None:
    """Read a limited part of the body and raise `_RefusedError`, unless the status is a success."""
    if response.status_code < 300:
        return
    body = bytearray()
    try:
        async with asyncio.timeout(ERROR_BODY_TIME):
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > MAX_ERROR_BODY:
                    break
    except Exception:  # noqa: BLE001, RUF100 - the status is known; the body only adds details
        log.debug("the body of an error answer was incomplete", exc_info=True)
    raise _RefusedError(response.status_code, response.headers, bytes(body))


def _endpoint(base_url: str, endpoint: str) -> str:
    """Return the full address of an endpoint; empty if `base_url` is malformed.

    The query of `base_url` is kept for gateways. An endpoint that it already contains is not added again.
    """
    try:
        parts = urlsplit(base_url.strip())
        path = parts.path.rstrip("/").removesuffix(endpoint)
        return below(urlunsplit(parts._replace(path=path)), endpoint.removeprefix("/"))
    except ValueError:
        return ""


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
