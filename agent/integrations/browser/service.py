"""The browsers of one session, for its tools: opened as configured, restricted by the permission check."""

from __future__ import annotations

import asyncio
import json
import os
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agent.core.home import Home, private_folder
from agent.core.net.door import AddressError, WebClient, WebError, WebRequest, web_address
from agent.core.net.door import refusal as refused
from agent.integrations.browser.profile import ProfileConsent
from agent.safety.gate import Gate
from tools.browser.actions import KeepProfile
from tools.browser.host import OpenedBrowser, find_browser
from tools.results import ToolError
from tools.services.actions import Fetch
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

    from agent.core.config.schema import BrowserSettings
    from agent.core.net.exchange import ProxyRefusal
    from agent.core.net.secret_scan import SecretScan
    from agent.integrations.browser.profile import Lifting


_MOST_KEPT = 40
_QUIET = ("plan", "deny")
"""Modes in which a browser sends no requests."""


class SessionBrowsers:
    """The browsers that the tools of one agent open. Implements `BrowserHost`."""

    def __init__(
        self,
        settings: BrowserSettings,
        gate: Gate,
        home: Home,
        workspace: Path,
        scratch: Path,
        environ: Mapping[str, str],
        secrets: Mapping[str, str],
    ) -> None:
        self._settings = settings
        self._gate = gate
        self._home = home
        self._workspace = workspace
        self._scratch = scratch
        self._environ = environ
        self._secrets = secrets
        self._refused: deque[str] = deque(maxlen=_MOST_KEPT)
        self._lifting: Lifting | None = None
        self._scan: SecretScan | None = None

    # What `BrowserHost` asks for

    async def open(self) -> OpenedBrowser:
        backend = self._backend()
        if backend == "cdp":
            return await open_running(self._settings.cdp_url)
        if backend == "browserbase":
            return await open_browserbase(self._environ)
        return await self._open_local()

    def unagreed_profile(self) -> str:
        name = self._settings.profile
        if (
            not name
            or self._backend() != "local"
            or name in ProfileConsent(self._home.browser_profiles).approved_names()
        ):
            return ""
        return name

    def agree_to_profile(self, name: str) -> None:
        if self._gate.decide(KeepProfile(tool="browser_navigate", profile=name)).kind != "ask":
            return  # nobody was asked, by a rule or a mode: that is not a yes for other sessions
        ProfileConsent(self._home.browser_profiles).agree(name)

    def refusal(self, url: str) -> str:
        try:
            found = web_address(url)
        except AddressError as error:
            return str(error)
        if name := self.secret_in(url):
            return f"The address holds the secret {name}; secrets never leave."
        if self._lift_origins().is_lifted(url):
            return ""
        why = refused(found)
        return "" if why is None else f"{found.host}:{found.port} is never reached: it {why}."

    def denied(self, tool: str, url: str) -> str:
        verdict = self._gate.decide(Fetch(tool=tool, url=url))
        return "; ".join(verdict.reasons) if verdict.kind in ("deny", "hardline") else ""

    def secret_in(self, text: str) -> str:
        from agent.core.net.secret_scan import SecretScan

        if self._scan is None:
            self._scan = SecretScan(self._secrets)
        return self._scan.find(text.encode("utf-8", "replace")) or ""

    def expect(self, url: str) -> None:
        self._lift_origins().expect(url)

    def refused(self) -> tuple[str, ...]:
        found = tuple(dict.fromkeys(self._refused))
        self._refused.clear()
        return found

    def screenshots(self) -> Path:
        private_folder(self._scratch)
        folder = self._scratch / "screenshots"
        private_folder(folder)
        return folder

    # How it is done

    def _backend(self) -> str:
        backend = self._settings.backend
        if backend == "auto":
            backend = "cdp" if self._settings.cdp_url else "local"
            if backend == "local" and not find_browser(self._settings.program):
                backend = "browserbase" if self._environ.get("BROWSERBASE_API_KEY") else "local"
        return backend

    def _lift_origins(self) -> Lifting:
        """Return the `Lifting`, updated with the origins that the current rules lift."""
        from agent.integrations.browser.profile import Lifting, lifted_origins

        if self._lifting is None:
            self._lifting = Lifting()
        self._lifting.set(lifted_origins(self._gate.policy.rules.rules))
        return self._lifting

    async def _open_local(self) -> OpenedBrowser:
        from agent.integrations.browser.local import BrowserNetwork, LocalBrowser
        from agent.integrations.browser.profile import open_profile
        from agent.safety.sandbox.opening import Bubblewrap, NoSandbox, probe, unfiltered

        program = find_browser(self._settings.program)
        if not program:
            named = self._settings.program
            raise ToolError(
                f"browser.program names {named}, which is not a program that can be started."
                if named
                else "No browser is installed; install chromium (`apt-get install chromium`)."
            )
        sandbox = await asyncio.to_thread(probe, "auto")
        is_closed = isinstance(sandbox, Bubblewrap) and not unfiltered(sandbox)
        if not is_closed and os.geteuid() == 0:
            raise ToolError("As root a browser only starts inside bubblewrap; install bubblewrap.")
        if not is_closed:
            sandbox = NoSandbox()
        profile = await asyncio.to_thread(open_profile, self._home.root / "browser", self._settings.profile)
        try:
            network = await asyncio.to_thread(
                BrowserNetwork,
                sandbox.path if isinstance(sandbox, Bubblewrap) else "",
                self._decide,
                self._lift_origins(),
                self._secrets,
                self._environ,
                self._note_refusal,
            )
        except BaseException:
            profile.close()
            raise
        browser = LocalBrowser(program, sandbox, profile, network, self._home, self._workspace, self._environ)
        try:
            transport = await browser.start()
        except BaseException:
            await browser.close()
            raise
        return OpenedBrowser(
            backend="local",
            transport=transport,
            folder=browser.folder,
            close=browser.close,
            title=Path(program).name,
        )

    async def _decide(self, host: str, port: int) -> str | None:
        """Return why a page may not reach a host, as a clause; None if it may.

        Called in the proxy's own thread for every connection.
        """
        if self._gate.mode in _QUIET:
            return f"is not reached in mode {self._gate.mode}"
        scheme = "https" if port == 443 else "http"
        shown = f"[{host}]" if ":" in host else host
        url = f"{scheme}://{shown}/" if port in (80, 443) else f"{scheme}://{shown}:{port}/"
        why = await asyncio.to_thread(partial(self.denied, "browser_navigate", url))
        return f"is not reached: {why}" if why else None

    def _note_refusal(self, refusal: ProxyRefusal) -> None:
        # Connections that the browser opens ahead and never uses are not worth telling.
        if refusal.kind in ("address", "host", "secret"):
            self._refused.append(refusal.sentence)


BROWSERBASE = "https://api.browserbase.com"
_LARGEST = 1 << 29


class SocketTransport:
    """A DevTools connection over a WebSocket."""

    def __init__(self, connection: ClientConnection) -> None:
        import asyncio

        self._connection = connection
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._writer = asyncio.create_task(self._write())

    def send(self, message: bytes) -> None:
        if self._writer.done():
            raise BrokenPipeError("the browser has gone")
        self._queue.put_nowait(message)

    async def receive(self) -> bytes:
        from websockets.exceptions import ConnectionClosed

        try:
            data = await self._connection.recv(decode=False)
        except ConnectionClosed as error:
            raise EOFError from error
        return data if isinstance(data, bytes) else data.encode()

    async def close(self) -> None:
        """Close the connection."""
        import asyncio

        self._writer.cancel()
        await asyncio.gather(self._writer, return_exceptions=True)
        await self._connection.close()

    async def _write(self) -> None:
        from websockets.exceptions import ConnectionClosed

        with suppress(ConnectionClosed):
            while (message := await self._queue.get()) is not None:
                await self._connection.send(message.decode())


async def open_running(url: str) -> OpenedBrowser:
    """Connect to the running browser at `browser.cdp_url`. Raises `ToolError`."""
    if not url:
        raise ToolError("browser.cdp_url is empty; set it to the address of a browser that runs.")
    address = url
    if urlsplit(url).scheme in ("http", "https"):
        try:
            answer = await WebClient().fetch(
                WebRequest(url=f"{url.rstrip('/')}/json/version", own=url, kept=False)
            )
            address = str(json.loads(answer.body)["webSocketDebuggerUrl"])
        except (WebError, ValueError, KeyError, TypeError) as error:
            raise ToolError(
                f"No browser answers at browser.cdp_url ({clean(url)[:200]}): {error} Start it with "
                "--remote-debugging-port=9222."
            ) from error
    transport = await _connect(address, "browser.cdp_url")
    return OpenedBrowser(
        backend="cdp", transport=transport, folder=None, close=transport.close, title="a running browser"
    )


async def open_browserbase(environ: Mapping[str, str], base: str = BROWSERBASE) -> OpenedBrowser:
    """Rent a browser from Browserbase; closing it ends the rental. Raises `ToolError`."""
    key, project = environ.get("BROWSERBASE_API_KEY", ""), environ.get("BROWSERBASE_PROJECT_ID", "")
    if not key:
        raise ToolError("BROWSERBASE_API_KEY is not set; put it into ~/.hermes/.env.")
    made = await _browserbase(base, "/v1/sessions", key, {"projectId": project} if project else {})
    try:
        id, address = str(made["id"]), str(made["connectUrl"])
    except (KeyError, TypeError):
        raise ToolError("Browserbase gave no browser: its answer cannot be read.") from None
    release = {"status": "REQUEST_RELEASE"} | ({"projectId": project} if project else {})
    try:
        transport = await _connect(address, "Browserbase")
    except ToolError:
        await _browserbase(base, f"/v1/sessions/{id}", key, release)
        raise

    async def close() -> None:
        await transport.close()
        with suppress(ToolError):
            await _browserbase(base, f"/v1/sessions/{id}", key, release)

    return OpenedBrowser(
        backend="browserbase", transport=transport, folder=None, close=close, title="Browserbase"
    )


async def _browserbase(base: str, path: str, key: str, body: Mapping[str, Any]) -> Any:
    headers = {"X-BB-API-Key": key, "Content-Type": "application/json"}
    request = WebRequest(
        url=f"{base}{path}",
        method="POST",
        headers=headers,
        body=json.dumps(body).encode(),
        own=base,
        kept=False,
    )
    try:
        answer = await WebClient().fetch(request)
    except WebError as error:
        raise ToolError(f"Browserbase cannot be reached: {error}") from error
    if answer.status >= 400:
        said = clean(answer.body[:200].decode("utf-8", "replace"))
        raise ToolError(f"Browserbase refused ({answer.status}): {said}")
    try:
        return json.loads(answer.body)
    except ValueError:
        return {}


async def _connect(address: str, source: str) -> SocketTransport:
    from websockets.asyncio.client import connect
    from websockets.exceptions import WebSocketException

    try:
        connection = await connect(address, max_size=_LARGEST, proxy=None, open_timeout=20)
    except (OSError, ValueError, TimeoutError, WebSocketException) as error:
        raise ToolError(f"The browser of {source} cannot be reached: {error}.") from error
    return SocketTransport(connection)
