"""Access checks that every request must pass before it is processed. See docs/serve.md#doors.

In this order: no token in the address, a known host, no foreign origin, a valid token, an origin or a Bearer
token for changes, scope, limits. Everything unknown is refused.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import h11
from starlette.requests import ClientDisconnect, Request
from uvicorn.protocols.http.h11_impl import H11Protocol

from agent.core.event_data import FormReply
from agent.events import (
    ApprovalAsked,
    Asked,
    CeilingAsked,
    CeilingReply,
    Decision,
    ForecastAsked,
    QuestionAsked,
    Reply,
)
from agent.integrations.mcp.server_requests import filled_form
from agent.integrations.server_events import FormAsked
from app.service.credentials import (
    TOKEN_MARK,
    Credentials,
    Device,
    Lockout,
    RateLimit,
    Scope,
    includes,
    token_parts,
)
from tools.context import PersonAnswer

CONNECTIONS = 100
"""The number of simultaneous requests and sockets of one token."""
LOOK = 1.0
"""Seconds between two checks whether the device of a long request was revoked."""
_TOKEN_NAMES = frozenset(
    {"token", "access_token", "auth", "authorization", "bearer", "api_key", "key", "code"}
)
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_ONCE = frozenset(
    (
        *("host", "origin", "authorization", "cookie", "sec-fetch-site", "x-hermes-session"),
        *("content-length", "content-type", "content-encoding", "transfer-encoding"),
    )
)
"""Headers that may occur only once in a request: other programs could read a second one instead."""
_READS = frozenset({"GET", "HEAD"})
_OUR_SITES = frozenset({"same-origin", "none"})
_LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class ClientIdentity:
    """The sender of a request: a paired device, or a terminal of the same user."""

    device: str
    """The id of the device; empty for a terminal."""
    name: str
    scope: Scope
    address: str
    surface: str = "serve"
    """The kind of sender: `serve`, `terminal`, or `gateway.NAME` for a messenger."""

    def has_scope(self, scope: Scope) -> bool:
        """Return whether the sender's scope includes another one."""
        return includes(self.scope, scope)

    def __str__(self) -> str:
        """Return name and address, for the audit log and for clients whose answer came too late."""
        known = f" ({self.device})" if self.device else ""
        return f"{self.surface}: {self.name}{known} at {self.address}"


class RequestRefusedError(Exception):
    """Raised if a request is refused; the text is sent to the client."""

    def __init__(self, status: int, sentence: str, wait: float = 0.0) -> None:
        super().__init__(sentence)
        self.status = status
        self.wait = wait
        """Seconds after which the client may try again; 0 if that is not known."""


@dataclass(frozen=True, slots=True)
class Address:
    """The addresses under which the service can be reached."""

    scheme: str
    host: str
    port: int
    more_hosts: frozenset[str] = frozenset()
    """Further host names, from `serve.hosts`, under which a proxy with TLS may forward requests."""

    @property
    def cookie(self) -> str:
        """The name of the page's cookie. It contains the port, because browsers share cookies between ports.

        With TLS the prefix `__Host-` restricts it to exactly this host.
        """
        return f"{'__Host-' if self.scheme == 'https' else ''}hermes_token_{self.port}"

    def is_own_host(self, host: str, reached: str) -> bool:
        """Return whether a Host header names this service; `reached` is the connection's local address.

        Only this machine's IP addresses, `localhost`, and names from the settings are accepted. So a foreign
        page whose domain points at this address is refused.
        """
        name, port = split_host(host)
        if name in self.more_hosts:
            return True
        if port != self.port and not (port is None and self.port == (443 if self.scheme == "https" else 80)):
            return False
        if name in _LOCAL:
            return _is_loopback(reached) or name == self.host
        return name == self.host or _same_address(name, reached)

    def is_own_origin(self, host: str, origin: str) -> bool:
        """Return whether `origin` is the origin of the service's page if it is reached as `host`."""
        parts = urlsplit(origin)
        name, _ = split_host(host)
        schemes = ("https", self.scheme) if name in self.more_hosts else (self.scheme,)
        return origin in {f"{scheme}://{host.lower()}" for scheme in schemes} and not parts.path


class AccessChecks:
    """ASGI middleware that checks the access to the application.

    It stores the `ClientIdentity` in `scope["state"]["caller"]`.
    """

    def __init__(
        self, app: App, credentials: Credentials, address: Address, open_paths: Callable[[str, str], bool]
    ) -> None:
        """`open_paths` returns whether a method and a path need no token."""
        self._app = app
        self._credentials = credentials
        self._address = address
        self._open_paths = open_paths
        self._wrong_tokens = Lockout(10, 60)
        self._rate = RateLimit(50, 200)
        self._strangers = RateLimit(60, 300)
        self._connected: Counter[str] = Counter()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        try:
            caller = self._enter(scope)
        except RequestRefusedError as refusal:
            await refuse(scope, send, refusal)
            return
        scope.setdefault("state", {})["caller"] = caller
        if caller is None:
            await self._app(scope, receive, send)
            return
        if self._connected[caller.device] >= CONNECTIONS:
            await refuse(scope, send, RequestRefusedError(429, "This device has too many connections.", 1))
            return
        self._connected[caller.device] += 1
        try:
            work = self._app(scope, receive, send)
            # A socket checks this on its side, to send the reason for closing.
            await (self._while_welcome(caller, work) if scope["type"] == "http" else work)
        finally:
            self._connected[caller.device] -= 1
            if not self._connected[caller.device]:
                del self._connected[caller.device]

    async def _while_welcome(self, caller: ClientIdentity, work: Awaitable[None]) -> None:
        """Process a request, and cancel it if its device is revoked or its scope changes."""
        task = asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait([task], timeout=LOOK))[0]:
                device = self._credentials.device(caller.device)
                if device is None or device.scope != caller.scope:
                    return
            task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _enter(self, scope: Message) -> ClientIdentity | None:
        """Check a request; return the sender, None on an open path. Raises `RequestRefusedError`."""
        headers = _headers(scope)
        if "transfer-encoding" in headers and "content-length" in headers:
            raise RequestRefusedError(400, "A request has one length, not two.")
        if headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise RequestRefusedError(415, "A packed body is not taken.")
        _no_token_in(scope)
        path, method = scope["path"], scope.get("method", "GET")
        if (
            any(part in (".", "..") for part in path.split("/"))
            or "\\" in path
            or "\0" in path
            or "//" in path
        ):
            raise RequestRefusedError(400, "This path is not a plain one.")
        host, origin = headers.get("host", ""), headers.get("origin")
        reached = (scope.get("server") or ("", 0))[0]
        if not self._address.is_own_host(host, reached):
            raise RequestRefusedError(421, "This name does not belong to this service; see serve.hosts.")
        if origin is not None and not self._address.is_own_origin(host, origin):
            raise RequestRefusedError(403, "This page belongs to somebody else.")
        is_socket = scope["type"] == "websocket"
        client = (scope.get("client") or ("", 0))[0]
        if not is_socket and self._open_paths(method, path):
            site = headers.get("sec-fetch-site", "none").strip().lower()
            if method not in _READS and site not in _OUR_SITES:
                raise RequestRefusedError(403, "This page belongs to somebody else.")
            if wait := self._strangers.count_request(client):
                raise RequestRefusedError(429, "Too many requests; wait a little.", wait)
            return None
        bearer = _bearer(headers)
        device = self._device(bearer if bearer is not None else _cookie(headers, self._address.cookie))
        if bearer is None:
            if headers.get("sec-fetch-site", "none").strip().lower() not in _OUR_SITES:
                raise RequestRefusedError(403, "This page belongs to somebody else.")
            if origin is None and (is_socket or method not in _READS):
                raise RequestRefusedError(403, "A request that changes something names its Origin.")
        if wait := self._rate.count_request(device.id):
            raise RequestRefusedError(429, "Too many requests; wait a little.", wait)
        self._credentials.note_visit(device, client)
        return ClientIdentity(device.id, device.name, device.scope, client)

    def _device(self, token: str | None) -> Device:
        if not token:
            raise RequestRefusedError(401, "A token is needed: pair this device with `hermes serve pair`.")
        device = self._credentials.find(token)
        if device is None:
            id = token_parts(token)[0]
            known = id if id and self._credentials.device(id) is not None else ""
            if wait := self._wrong_tokens.record_failure(known):
                raise RequestRefusedError(429, "Too many wrong tokens; wait a little.", wait)
            raise RequestRefusedError(401, "This token is wrong or was revoked; pair this device again.")
        return device


async def refuse(scope: Message, send: Send, refusal: RequestRefusedError) -> None:
    """Send the status and a sentence as JSON, and close the connection."""
    error: Any = str(refusal)
    if scope["path"].startswith("/v1/"):
        # In the form that clients of these endpoints read.
        error = {"message": error, "type": _TYPES.get(refusal.status, "invalid_request_error")}
        error |= {"param": None, "code": None}
    body = json.dumps({"error": error}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
    ]
    if refusal.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="hermes"'))
    if refusal.wait:
        headers.append((b"retry-after", str(int(refusal.wait) + 1).encode()))
    kind = "http.response"
    if scope["type"] == "websocket":
        kind = "websocket.http.response"
        headers = [each for each in headers if each[0] not in (b"connection", b"content-length")]
    await send({"type": f"{kind}.start", "status": refusal.status, "headers": headers})
    await send({"type": f"{kind}.body", "body": body})


def split_host(host: str) -> tuple[str, int | None]:
    """Return name and port of a Host header. Pure.

    The name is empty if the header is invalid, and the port None if it has none.
    """
    host = host.strip().lower()
    if host.startswith("["):
        name, bracket, rest = host[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            return "", None
        port = rest[1:]
    else:
        name, _, port = host.partition(":")
    if port and not (port.isascii() and port.isdigit() and len(port) < 6):
        return "", None
    return name, int(port) if port else None


def _headers(scope: Message) -> Mapping[str, str]:
    """Return the headers by name. Raises `RequestRefusedError` for a header that must not occur twice."""
    found: dict[str, str] = {}
    for raw_name, raw in scope["headers"]:
        name = raw_name.decode("latin-1").lower()
        if name in found and name in _ONCE:
            raise RequestRefusedError(400, f"The header {name} appears twice.")
        found[name] = raw.decode("latin-1")
    return found


def _no_token_in(scope: Message) -> None:
    query = scope.get("query_string", b"").decode("latin-1")
    whole = scope.get("raw_path", b"").decode("latin-1") + scope["path"] + query
    try:
        pairs: Sequence[tuple[str, str]] = parse_qsl(query, keep_blank_values=True, max_num_fields=50)
    except ValueError:
        raise RequestRefusedError(400, "The address has too many parts.") from None
    if TOKEN_MARK in whole or any(
        name.lower() in _TOKEN_NAMES or TOKEN_MARK in value for name, value in pairs
    ):
        raise RequestRefusedError(
            400, "A token does not belong in an address; send it as `Authorization: Bearer`."
        )


def _bearer(headers: Mapping[str, str]) -> str | None:
    """Return the token in the Authorization header; None without the header. Raises `RequestRefusedError`."""
    given = headers.get("authorization")
    if given is None:
        return None
    kind, _, token = given.partition(" ")
    if kind.lower() != "bearer" or not token.strip():
        raise RequestRefusedError(401, "Only `Authorization: Bearer TOKEN` is taken.")
    return token.strip()


def _cookie(headers: Mapping[str, str], name: str) -> str | None:
    """Return the token in the cookie; None without one. Raises `RequestRefusedError` if it appears twice."""
    given = headers.get("cookie")
    if given is None:
        return None
    if sum(each.partition("=")[0].strip() == name for each in given.split(";")) > 1:
        raise RequestRefusedError(400, "The cookie of this service appears twice.")
    try:
        morsel = SimpleCookie(given).get(name)
    except CookieError:
        return None
    return morsel.value if morsel is not None else None


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _same_address(name: str, reached: str) -> bool:
    try:
        one, other = ipaddress.ip_address(name), ipaddress.ip_address(reached.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(other, "ipv4_mapped", None)
    return one == other or (mapped is not None and one == mapped)


HEAD_BYTES = 16 * 1024
HEAD_SECONDS = 10.0
MOST_CONNECTIONS = 1_000
"""The largest number of connections of all clients together."""
_SENTENCES = {
    400: b'{"error": "This is not a request of HTTP."}',
    408: b'{"error": "The head of the request took too long."}',
    431: b'{"error": "The head of the request is too large."}',
    503: b'{"error": "Too many connections; wait a little."}',
}
_REASONS = {
    400: b"Bad Request",
    408: b"Request Timeout",
    431: b"Request Header Fields Too Large",
    503: b"Service Unavailable",
}


class GuardedProtocol(H11Protocol):
    """uvicorn's connection, with limits on the size and time of the head of each request."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._head = 0
        """The number of bytes received of the current head."""
        self._late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the time limit for the first head, or refuse the connection if there are too many."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            self._reject(503)
            return
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the time limit for the head."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count the bytes of a request's head; close the connection if there are too many."""
        if self.transport.is_closing():
            return
        if self.conn.their_state is h11.IDLE:
            if not self._head:
                self._wait()
            self._head += len(data)
            if self._head > HEAD_BYTES and _head_end(data, self._head) > HEAD_BYTES:
                self._reject(431)
                return
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE or self._is_upgraded():
            self._head = 0
            self._stop_waiting()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        """Upgrade the connection to a WebSocket; refuse requests with a body or a method other than GET."""
        names = {name for name, _ in self.headers}
        if event.method != b"GET" or names & {b"content-length", b"transfer-encoding"}:
            self._reject(400)
            return
        super().handle_websocket_upgrade(event)

    def on_response_complete(self) -> None:
        """Close the connection if the body was not read, instead of waiting for the rest."""
        super().on_response_complete()
        if self.conn.their_state is h11.SEND_BODY and not self.transport.is_closing():
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Reject an invalid request. A request too large for the parser gets another status."""
        self._reject(431 if self._head > HEAD_BYTES else 400)

    def _is_upgraded(self) -> bool:
        return self.transport.get_protocol() is not self

    def _wait(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(HEAD_SECONDS, self._reject, 408)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _reject(self, status: int) -> None:
        self._stop_waiting()
        if self.transport.is_closing() or self._is_upgraded():
            return
        body = _SENTENCES[status]
        if self.cycle is not None and not self.cycle.response_complete:
            # The application is still running; its response comes too late.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            head = b"HTTP/1.1 %d %s\r\ncontent-type: application/json\r\n" % (status, _REASONS[status])
            self.transport.write(head + b"content-length: %d\r\nconnection: close\r\n\r\n" % len(body) + body)
        self.transport.close()


def _head_end(data: bytes, total: int) -> int:
    """Return how many of `total` received bytes belong to the head; `data` is the last chunk. Pure."""
    end = data.find(b"\r\n\r\n")
    return total if end < 0 else total - len(data) + end


BODY = 1_000_000
"""The largest number of bytes in a body."""
ATTACHMENTS = 25_000_000
"""The largest number of bytes in a body with images."""
BODY_SECONDS = 30.0
DISCARDING = 1.0
"""Seconds for which a body that is too large is read and discarded: a client that is still sending when its
connection is closed never sees the refusal.
"""


async def json_body(request: Request, most: int = BODY) -> dict[str, Any]:
    """Return the JSON object in a request's body, of at most `most` bytes. Raises `RequestRefusedError`."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RequestRefusedError(415, "The body must be application/json.")
    return parse_object(await body_of(request, most))


async def body_of(request: Request, most: int) -> bytes:
    """Return a request's body. Raises `RequestRefusedError` if it is larger than `most` bytes or too slow."""
    length = request.headers.get("content-length", "")
    is_large = length.isdigit() and int(length) > most
    if is_large and "expect" in request.headers:  # nothing is sent yet
        raise _too_large(most)
    data = bytearray()
    try:
        async with asyncio.timeout(DISCARDING if is_large else BODY_SECONDS) as limit:
            async for piece in request.stream():
                if not is_large and len(data) + len(piece) > most:
                    is_large = True
                    limit.reschedule(asyncio.get_running_loop().time() + DISCARDING)
                if not is_large:
                    data += piece
    except TimeoutError:
        if is_large:
            raise _too_large(most) from None
        raise RequestRefusedError(408, "The body took too long.") from None
    except ClientDisconnect:
        raise RequestRefusedError(400, "The body broke off.") from None
    if is_large:
        raise _too_large(most)
    return bytes(data)


def _too_large(most: int) -> RequestRefusedError:
    return RequestRefusedError(413, f"The body is larger than {most:,} bytes.")


def parse_object(data: bytes | str) -> dict[str, Any]:
    """Parse a JSON object. Raises `RequestRefusedError` for anything else."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise RequestRefusedError(400, "The body is not JSON.") from None
    if not isinstance(found, dict):
        raise RequestRefusedError(400, "The body must be a JSON object.")
    return found


def text_of(data: Mapping[str, Any], name: str, default: str | None = None, most: int = 400_000) -> str:
    """Return the text in a field of an object, with lone surrogates replaced.

    A missing field counts as `default`. Raises `RequestRefusedError` for another type, or above `most`
    characters.
    """
    value = data.get(name, default)
    if not isinstance(value, str):
        raise RequestRefusedError(400, f"`{name}` must be a text.")
    if len(value) > most:
        raise RequestRefusedError(413, f"`{name}` is longer than {most:,} characters.")
    return value.encode("utf-8", "replace").decode("utf-8")


def check_fields(data: Mapping[str, Any], *names: str) -> None:
    """Raise `RequestRefusedError` for fields other than `names`, so that a misspelt name is noticed."""
    for name in data:
        if name not in names:
            raise RequestRefusedError(
                400, f"`{str(name)[:40]}` is not known here; there is {', '.join(names)}."
            )


LONGEST = 100_000


def scope_of(request: Asked) -> Scope:
    """Return the scope that a device needs to answer a request: `talk` for questions from the model, else
    `approve`.
    """
    return "talk" if isinstance(request, QuestionAsked) else "approve"


def reply_of(request: Asked, answer: Any, feedback: str, by: str) -> Reply:
    """Convert a client's answer to a pending request into a reply; `by` names the client.

    Raises `RequestRefusedError` for an invalid answer.
    """
    match request:
        case QuestionAsked():
            return _person_answer(request, answer)
        case ApprovalAsked():
            allowed = ("once", "session", "always", "deny") if request.rule else ("once", "deny")
            return Decision(_one_of(answer, allowed), feedback, by)
        case ForecastAsked():
            return Decision(_one_of(answer, ("once", "session", "deny")), feedback, by)
        case CeilingAsked():
            if _one_of(answer, ("once", "deny")) == "once":
                return CeilingReply("raised", request.again, by)
            return CeilingReply("stopped", by=by)
        case FormAsked():
            return _form_reply(request, answer)
        case _:
            raise RequestRefusedError(400, "This kind of request can only be answered in the terminal.")


def _person_answer(request: QuestionAsked, answer: Any) -> PersonAnswer:
    if answer is None:
        return PersonAnswer("declined")
    if not isinstance(answer, str) or not answer.strip() or len(answer) > LONGEST:
        raise RequestRefusedError(400, "The answer to a question is a text, or null for none.")
    text = answer.encode("utf-8", "replace").decode("utf-8")
    if text not in request.choices and request.choices and not request.allow_freetext:
        raise RequestRefusedError(400, "The answer must be one of the choices.")
    return PersonAnswer("answered", text)


def _form_reply(request: FormAsked, answer: Any) -> FormReply:
    if answer is None:
        return FormReply("declined")
    if not isinstance(answer, dict):
        raise RequestRefusedError(400, "The answer to a form is an object of texts, or null to decline.")
    texts = {str(name): str(value)[:LONGEST] for name, value in answer.items()}
    values, wrong = filled_form(request.fields, texts)
    if wrong:
        raise RequestRefusedError(400, next(iter(wrong.values())))
    return FormReply("answered", values)


def _one_of(answer: Any, allowed: tuple[str, ...]) -> Any:
    if answer not in allowed:
        raise RequestRefusedError(400, f"The answer must be one of {', '.join(allowed)}.")
    return answer
