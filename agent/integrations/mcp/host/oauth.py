"""OAuth 2.1 sign-in to a server: the MCP SDK's own client, with files, locks and callback server of Hermes.

Tokens, their expiry time, the registration and their origin are stored, so that they can be renewed after a
restart. Only one process renews at a time.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthTokenError
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl, ValidationError

from agent.integrations.mcp.host.results import SignInNeededError
from agent.integrations.mcp.launch import ServerLaunch, TokenFile

HOST = "127.0.0.1"
PATIENCE = 300.0
"""Seconds that the user has for a sign-in."""
_LARGEST = 16_384
_DONE = "Hermes has the answer and says whether you are signed in. Close this page."
_NOT_DONE = "Signing in did not work. Go back to Hermes, which says why."


class Callback:
    """A local web server that receives the result of one sign-in. A free port is reserved on creation."""

    def __init__(self, path: str, port: int = 0, *, opens: bool = True) -> None:
        """Set up the server. `port` is that of an earlier registration, or 0; `opens` whether a browser will
        call.
        """
        self._path = path
        self._socket = None if port or not opens else _bound(0)
        self._port = port if self._socket is None else int(self._socket.getsockname()[1])
        self._server: asyncio.Server | None = None
        self._answer: asyncio.Future[dict[str, str]] | None = None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._port}{self._path}"

    async def open(self) -> None:
        """Start listening. May be called again for another sign-in. Raises `OSError`."""
        self._answer = asyncio.get_running_loop().create_future()
        if self._server is None:
            self._socket = self._socket or _bound(self._port)
            self._server = await asyncio.start_server(self._serve, sock=self._socket, limit=_LARGEST)

    async def answer(self) -> dict[str, str]:
        """Return the query parameters with which the browser returned. Raises `TimeoutError`."""
        assert self._answer is not None
        async with asyncio.timeout(PATIENCE):
            return await self._answer

    def close(self) -> None:
        """Close the server and release the port."""
        if self._server is not None:
            self._server.close()
        elif self._socket is not None:
            self._socket.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(
            ConnectionError, ValueError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError
        ):
            async with asyncio.timeout(10):
                head = await reader.readuntil(b"\r\n\r\n")
            found = _parameters(head, self._path)
            if found is None:
                writer.write(_page("404 Not Found", "There is nothing here."))
            else:
                writer.write(_page("200 OK", _NOT_DONE if "error" in found else _DONE))
                if self._answer is not None and not self._answer.done():
                    self._answer.set_result(found)
            await writer.drain()
        writer.close()


def _bound(port: int) -> socket.socket:
    own = socket.socket()
    own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        own.bind((HOST, port))
    except OSError as error:
        own.close()
        raise OSError(error.errno, f"port {port}, where the browser comes back to, is in use") from error
    return own


def _parameters(head: bytes, path: str) -> dict[str, str] | None:
    """Return the query parameters of a sign-in result sent to `path`; None for any other request."""
    words = head.split(b"\r\n", 1)[0].decode("ascii", "replace").split(" ")
    if len(words) != 3 or words[0] != "GET":
        return None
    parts = urlsplit(words[1])
    found = dict(parse_qsl(parts.query))
    return found if parts.path == path and ("code" in found or "error" in found) else None


def _page(status: str, text: str) -> bytes:
    body = f"<!doctype html><meta charset=utf-8><title>Hermes</title><p>{text}</p>".encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
        "Content-Security-Policy: default-src 'none'\r\nReferrer-Policy: no-referrer\r\n"
        "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + body


FORGOTTEN = ("invalid_client", "unauthorized_client")
"""OAuth errors which mean that the server no longer knows the registration."""
EARLY = 30.0
"""The number of seconds before their expiry at which tokens are renewed."""
_PATH = "/callback"

Ask = Callable[[str, Any], Awaitable[Any]]


def provider_for(launch: ServerLaunch, ask: Ask) -> SignInProvider:
    """Create the object that signs requests to a server. Reads the server's token file, and may clear it."""
    file = TokenFile(Path(launch.tokens))
    if launch.sign_in.renew:
        file.change({"tokens": None, "expires": None})
    callback = Callback(_PATH, _port_before(file), opens=launch.sign_in.interactive)
    return SignInProvider(launch, _Storage(launch, file, callback), callback, ask)


class _Storage:
    """A store for the MCP SDK's data in the token file."""

    def __init__(self, launch: ServerLaunch, file: TokenFile, callback: Callback) -> None:
        self.file = file
        self._sign_in = launch.sign_in
        self._callback = callback

    async def get_tokens(self) -> OAuthToken | None:
        return _read(OAuthToken, self.file.read().get("tokens"))

    async def set_tokens(self, tokens: OAuthToken) -> None:
        expires = None if tokens.expires_in is None else time.time() + tokens.expires_in
        kept = tokens.model_dump(mode="json", exclude_none=True)
        await asyncio.to_thread(self.file.change, {"tokens": kept, "expires": expires})

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        if self._sign_in.client_id:
            return OAuthClientInformationFull(
                client_id=self._sign_in.client_id,
                client_secret=self._sign_in.client_secret or None,
                redirect_uris=[AnyUrl(self._callback.url)],
                token_endpoint_auth_method="client_secret_basic" if self._sign_in.client_secret else "none",
            )
        return _read(OAuthClientInformationFull, self.file.read().get("client"))

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        kept = client_info.model_dump(mode="json", exclude_none=True)
        await asyncio.to_thread(self.file.change, {"client": kept})


class SignInProvider(OAuthClientProvider):
    """The package's sign-in flow with two additions.

    Tokens are loaded after a restart, and they are renewed before the user is asked to sign in.
    """

    def __init__(self, launch: ServerLaunch, storage: _Storage, callback: Callback, ask: Ask) -> None:
        sign_in = launch.sign_in
        metadata = OAuthClientMetadata(
            client_name="Hermes",
            redirect_uris=[AnyUrl(callback.url)],
            scope=" ".join(sign_in.scopes) or None,
            grant_types=["authorization_code", "refresh_token"],
            token_endpoint_auth_method=None,
        )
        super().__init__(
            launch.url,
            metadata,
            storage,
            self._send_person,
            self._await_person,
            client_metadata_url=sign_in.client_metadata_url or None,
        )
        self._file = storage.file
        self._callback = callback
        self._ask = ask
        self._is_interactive = sign_in.interactive
        self._is_given = bool(sign_in.client_id)

    def close(self) -> None:
        """Release the port reserved for the browser's return."""
        self._callback.close()

    async def _send_person(self, url: str) -> None:
        if not self._is_interactive:
            raise SignInNeededError
        await self._callback.open()
        await self._ask("sign_in", {"url": url})

    async def _await_person(self) -> AuthorizationCodeResult:
        answer = await self._callback.answer()
        if error := answer.get("error"):
            said = f"{error} {answer.get('error_description', '')}".strip()
            raise OAuthTokenError(f"the sign-in was refused: {said}")
        return AuthorizationCodeResult(
            code=answer.get("code", ""), state=answer.get("state"), iss=answer.get("iss")
        )

    async def _initialize(self) -> None:
        await super()._initialize()
        kept = await asyncio.to_thread(self._file.read)
        context, expires = self.context, kept.get("expires")
        context.token_expiry_time = expires - EARLY if isinstance(expires, int | float) else None
        context.oauth_metadata = _read(OAuthMetadata, kept.get("metadata"))
        context.protected_resource_metadata = _read(ProtectedResourceMetadata, kept.get("resource"))
        if context.protected_resource_metadata is not None:
            servers = context.protected_resource_metadata.authorization_servers
            context.auth_server_url = str(servers[0]) if servers else None

    async def _perform_authorization(self) -> httpx2.Request:
        context = self.context
        taken = (
            context.oauth_metadata.token_endpoint_auth_methods_supported if context.oauth_metadata else None
        )
        if self._is_given and context.client_info is not None and context.client_info.client_secret and taken:
            usable = [each for each in ("client_secret_basic", "client_secret_post") if each in taken]
            context.client_info.token_endpoint_auth_method = (usable or ["client_secret_basic"])[0]
        return await super()._perform_authorization()

    async def _handle_token_response(self, response: httpx2.Response) -> None:
        await super()._handle_token_response(response)
        context = self.context
        found = {"metadata": context.oauth_metadata, "resource": context.protected_resource_metadata}
        kept = {
            name: None if each is None else each.model_dump(mode="json", exclude_none=True)
            for name, each in found.items()
        }
        await asyncio.to_thread(self._file.change, kept)

    async def _handle_refresh_response(self, response: httpx2.Response) -> bool:
        if response.status_code != 200:
            body = (await response.aread()).decode("utf-8", "replace")
            if any(word in body for word in FORGOTTEN):
                await self._forget_registration()
        return await super()._handle_refresh_response(response)

    async def _forget_registration(self) -> None:
        """Delete a registration that the server no longer knows, and the tokens obtained with it."""
        self.context.client_info = None
        self.context.clear_tokens()
        await asyncio.to_thread(self._file.change, {"client": None, "tokens": None, "expires": None})

    async def _auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if not self._initialized:
            await self._initialize()
        with ExitStack() as held:
            if not self.context.is_token_valid() and self.context.can_refresh_token():
                await self._take_turn(held)
            has_retried = False
            while True:
                flow = super()._auth_flow(request)
                try:
                    async for step in _relay(flow):
                        if step.request is request:
                            held.close()
                        step.response = yield step.request
                        if step.request is request and await self._needs_renewal(step.response, held):
                            refresh = yield await self._refresh_token()
                            if await self._handle_refresh_response(refresh):
                                held.close()
                                self._add_auth_header(request)
                                step.response = yield request
                        if step.request is request and not self._is_interactive and _asks(step.response):
                            raise SignInNeededError
                    return
                except OAuthTokenError as error:
                    if has_retried or self._is_given or not any(word in str(error) for word in FORGOTTEN):
                        raise
                    has_retried = True
                    await self._forget_registration()
                finally:
                    await flow.aclose()

    async def _take_turn(self, held: ExitStack) -> None:
        """Lock the token file for a renewal, and load what another process may have renewed in the
        meantime.
        """
        lock = self._file.lock()
        await asyncio.to_thread(held.enter_context, lock)
        await self._initialize()

    async def _needs_renewal(self, response: httpx2.Response, held: ExitStack) -> bool:
        """Return whether the server refused the tokens and they should be renewed before a new sign-in."""
        if response.status_code != 401 or not self.context.can_refresh_token():
            return False
        before = self.context.current_tokens
        await self._take_turn(held)
        after = self.context.current_tokens
        return self.context.can_refresh_token() and before is not None and after == before


def _asks(response: httpx2.Response) -> bool:
    """Return whether a response asks for a sign-in, or for more rights than the tokens have."""
    challenge = response.headers.get("WWW-Authenticate", "")
    return response.status_code == 401 or (response.status_code == 403 and "insufficient_scope" in challenge)


class _Step:
    """One request of a flow, and the response it waits for."""

    def __init__(self, request: httpx2.Request) -> None:
        self.request = request
        self.response: httpx2.Response | None = None


async def _relay(flow: AsyncGenerator[httpx2.Request, httpx2.Response]) -> AsyncGenerator[_Step, None]:
    """Yield the requests of a flow as steps.

    The caller sets the response of each step before it asks for the next.
    """
    try:
        step = _Step(await anext(flow))
        while True:
            yield step
            assert step.response is not None
            step = _Step(await flow.asend(step.response))
    except StopAsyncIteration:
        return


def _read(kind: Any, data: Any) -> Any:
    """Return an entry of the token file as an object of the MCP SDK; None if it is invalid."""
    if not isinstance(data, dict):
        return None
    try:
        return kind.model_validate(data)
    except ValidationError:
        return None


def _port_before(file: TokenFile) -> int:
    """Return the port with which this client was registered; 0 if it is not known."""
    client = _read(OAuthClientInformationFull, file.read().get("client"))
    uris = client.redirect_uris if client is not None else None
    return (uris[0].port or 0) if uris else 0
