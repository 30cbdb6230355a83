"""One browser with its tabs, and the browsers of a session by task."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.browser.frames import Cdp, CdpError
from tools.browser.host import BrowserHost, OpenedBrowser
from tools.browser.tab import Tab, origin_of
from tools.results import DeniedError, ToolError
from tools.services.service import Service
from tools.text.safe_text import clean

log = logging.getLogger(__name__)

LARGEST_DOWNLOAD = 200_000_000
"""The size limit in bytes of one download."""
MOST_TABS = 20
_STARTING = 30.0

Permit = Callable[[str], Awaitable[None]]
"""A function that requests permission to open an address. Raises `DeniedError`."""


@dataclass(slots=True)
class Download:
    """One file downloaded from a page."""

    name: str
    url: str
    state: str = "inProgress"
    received: int = 0
    is_told: bool = False


class BrowserSession:
    """A browser, created by `open_session` and used by one call at a time, within `using`."""

    def __init__(self, host: BrowserHost, opened: OpenedBrowser) -> None:
        self.host = host
        self.opened = opened
        self.cdp = Cdp(opened.transport)
        self.tabs: list[Tab] = []
        self.current: Tab | None = None
        self.downloads: dict[str, Download] = {}
        self.used = time.monotonic()
        self.lock = asyncio.Lock()
        self._permit: Permit | None = None
        self._origins: set[str] = set()
        """Approved origins, within which pages may navigate."""
        self._pending: dict[str, asyncio.Task[None]] = {}
        self._arrived = asyncio.Event()
        self.is_closed = False

    async def begin(self) -> None:
        """Open the first tab. Raises `CdpError`."""
        self.cdp.listen("", self._hear)
        self.cdp.start()
        attach = {
            "autoAttach": True,
            "waitForDebuggerOnStart": True,
            "flatten": True,
            "filter": [{"type": "page"}, {"exclude": True}],
        }
        await self.cdp.call("Target.setAutoAttach", attach, patience=_STARTING)
        if self.opened.folder is not None:
            behaviour = {"behavior": "allowAndName", "downloadPath": str(self.folder("downloads"))}
        else:
            behaviour = {"behavior": "deny"}
        with suppress(CdpError):
            await self.cdp.call("Browser.setDownloadBehavior", {**behaviour, "eventsEnabled": True})
        if self.opened.backend == "local":
            # What the browser began with is only in the way.
            for _ in range(50):
                if self.tabs:
                    break
                await asyncio.sleep(0.02)
        if not self.tabs or self.opened.backend != "local":
            await self.new_tab()
        self.current = self.tabs[-1]

    def folder(self, name: str) -> Path:
        """Return a folder that both this process and the browser can access.

        Raises `ToolError` if there is none.
        """
        if self.opened.folder is None:
            raise ToolError("This browser runs on another machine; files do not go to or from it.")
        path = self.opened.folder / name
        path.mkdir(mode=0o700, exist_ok=True)
        return path

    @asynccontextmanager
    async def using(self, permit: Permit):
        """Reserve the browser for one call; meanwhile `permit` decides on new addresses that pages open."""
        async with self.lock:
            self._permit = permit
            try:
                yield self
            finally:
                self._permit = None
                self.used = time.monotonic()

    @property
    def is_alive(self) -> bool:
        return not self.is_closed and not self.cdp.gone.done()

    def tab(self) -> Tab:
        """Return the front tab. Raises `ToolError`."""
        if self.current is None or self.current.is_closed:
            self.current = self.tabs[-1] if self.tabs else None
        if self.current is None:
            raise ToolError("No page is open; call browser_navigate first.")
        return self.current

    async def new_tab(self) -> Tab:
        """Open a tab and put it in front. Raises `ToolError` and `CdpError`."""
        if len(self.tabs) >= MOST_TABS:
            raise ToolError(f"{MOST_TABS} tabs are open; close some first.")
        known = len(self.tabs)
        made = await self.cdp.call("Target.createTarget", {"url": "about:blank"})
        for _ in range(100):
            found = next((tab for tab in self.tabs if tab.target == made["targetId"]), None)
            if found is not None:
                self.current = found
                return found
            await asyncio.sleep(0.02)
        raise CdpError(f"a new tab did not open beside {known}")

    async def close_tab(self, tab: Tab) -> None:
        """Close a tab; the newest remaining one comes to the front."""
        with suppress(CdpError):
            await self.cdp.call("Target.closeTarget", {"targetId": tab.target})
        self._remove(tab)

    async def bring_to_front(self, tab: Tab) -> None:
        """Put a tab in front."""
        self.current = tab
        with suppress(CdpError):
            await self.cdp.call("Page.bringToFront", {}, tab.session)

    async def allow(self, url: str) -> None:
        """Record that the user approved an address, which is about to be opened."""
        self._origins.add(origin_of(url))
        self.host.expect(url)

    async def refusal(self, tab: Tab, url: str, is_redirect: bool) -> str:
        """Return a sentence on why a page may not open an address; empty if it may. Can ask the user."""
        shown = clean(url)[:300]
        if url.startswith(("about:", "data:", "blob:")):
            return ""
        if why := self.host.refusal(url):
            return why
        if why := self.host.denied("browser_navigate", url):
            return f"{shown} was not opened: {why}."
        if self._is_agreed(url):
            return ""
        permit = self._permit
        if permit is None:
            return (
                f"The page wanted to go to {shown} by itself; open it with browser_navigate if that is meant."
            )
        try:
            await permit(url)
        except DeniedError as error:
            return f"{shown} was not opened: {error}"
        await self.allow(url)
        return ""

    def _is_agreed(self, url: str) -> bool:
        origin = origin_of(url)
        if origin in self._origins:
            return True
        # The same host, encrypted now.
        plain = origin.replace("https://", "http://", 1).removesuffix(":443") + ":80"
        return origin.endswith(":443") and plain in self._origins

    def unfinished_downloads(self) -> list[Download]:
        """Return the unfinished downloads."""
        return [each for each in self.downloads.values() if each.state == "inProgress"]

    async def wait_for_new_download(self, seconds: float) -> bool:
        """Wait up to `seconds` for a download that was not yet reported; return whether there is one."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while all(each.is_told for each in self.downloads.values()):
                    self._arrived.clear()
                    await self._arrived.wait()
                return True
        return False

    async def wait_download(self, seconds: float) -> None:
        """Wait up to `seconds` for unfinished downloads."""
        end = time.monotonic() + seconds
        while self.unfinished_downloads() and (left := end - time.monotonic()) > 0:
            self._arrived.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._arrived.wait()

    async def close(self) -> None:
        """Close the browser, or only the tabs opened in the user's own, and the connection."""
        if self.is_closed:
            return
        self.is_closed = True
        for tab in self.tabs:
            tab.end()
        for task in self._pending.values():
            task.cancel()
        if self.opened.backend == "cdp":
            # The user's own browser keeps running; only the tabs opened here are closed.
            for tab in self.tabs:
                self.cdp.send("Target.closeTarget", {"targetId": tab.target})
        await self.cdp.close()
        await self.opened.close()

    def _remove(self, tab: Tab) -> None:
        tab.end()
        self.cdp.forget(tab.session)
        if tab in self.tabs:
            self.tabs.remove(tab)
        if self.current is tab:
            self.current = self.tabs[-1] if self.tabs else None

    def _hear(self, method: str, params: dict[str, Any]) -> None:
        match method:
            case "Target.attachedToTarget":
                self._attached(params)
            case "Target.detachedFromTarget":
                for tab in [tab for tab in self.tabs if tab.session == params["sessionId"]]:
                    self._remove(tab)
            case "Browser.downloadWillBegin":
                name = clean(params.get("suggestedFilename") or "download")
                self.downloads[params["guid"]] = Download(name, clean(params.get("url", ""))[:300])
            case "Browser.downloadProgress":
                self._progress(params)
            case _:
                pass

    def _progress(self, params: dict[str, Any]) -> None:
        download = self.downloads.get(params["guid"])
        if download is None:
            return
        download.state, download.received = params["state"], int(params.get("receivedBytes", 0))
        if download.received > LARGEST_DOWNLOAD and download.state == "inProgress":
            self.cdp.send("Browser.cancelDownload", {"guid": params["guid"]})
        self._arrived.set()
        for tab in self.tabs:
            tab.wake()

    def _attached(self, params: dict[str, Any]) -> None:
        session, info = params["sessionId"], params["targetInfo"]
        own = self.opened.backend == "local" or bool(info.get("openerId"))
        if info["type"] != "page" or len(self.tabs) >= MOST_TABS + 5:
            self.cdp.send("Runtime.runIfWaitingForDebugger", {}, session)
            return
        if not own and self.opened.backend == "cdp" and not params.get("waitingForDebugger"):
            # A tab the person had open before: not ours.
            self.cdp.send("Target.detachFromTarget", {"sessionId": session})
            return
        tab = Tab(self.cdp, info["targetId"], session, self.refusal, info.get("openerId", ""))
        self._pending[session] = asyncio.ensure_future(self._begin(tab))

    async def _begin(self, tab: Tab) -> None:
        try:
            await tab.begin()
            self.tabs.append(tab)
            if tab.opener and self.current is not None:
                self.current = tab
        except CdpError as error:
            log.debug("a tab went away: %s", error)
        finally:
            self._pending.pop(tab.session, None)

    async def wait_for_tabs(self) -> None:
        """Wait up to 5 seconds for tabs that are still opening."""
        if self._pending:
            await asyncio.wait(list(self._pending.values()), timeout=5)


async def open_session(host: BrowserHost) -> BrowserSession:
    """Start a browser. Raises `ToolError`."""
    opened = await host.open()
    session = BrowserSession(host, opened)
    try:
        async with asyncio.timeout(_STARTING):
            await session.begin()
    except (CdpError, TimeoutError) as error:
        await session.close()
        said = str(error) or f"it did not answer within {_STARTING:g} s"
        raise ToolError(f"The browser could not be started: {said}. See `hermes doctor`.") from error
    except BaseException:
        await session.close()
        raise
    return session


IDLE = 120.0
"""Seconds without use after which a browser is closed."""
MOST = 4
"""The maximum number of browsers that run at once."""


class Browsers(Service):
    """The browsers of all tasks. `host` is None if there can be none."""

    def __init__(self, host: BrowserHost | None, *, idle: float = IDLE, reason: str = "") -> None:
        self.host = host
        self._reason = reason
        self._idle = idle
        self._open: dict[str, BrowserSession] = {}
        self._lock = asyncio.Lock()
        self._watch: asyncio.Task[None] | None = None

    def running(self, task: str = "") -> BrowserSession | None:
        """Return the browser of a task, or any running one; None if none runs."""
        if task:
            return self._open.get(task)
        return next(reversed(self._open.values()), None) if self._open else None

    async def session(self, task: str) -> tuple[BrowserSession, str]:
        """Return the browser of a task, started if necessary, and a note about the start.

        Raises `ToolError`.
        """
        from tools.browser.session import open_session

        if self.host is None:
            raise ToolError(self._reason or "There is no browser here.")
        async with self._lock:
            session, note = self._open.get(task), ""
            if session is not None and not session.is_alive:
                del self._open[task]
                await session.close()
                session, note = None, "The browser had crashed; this is a new one, and its pages are gone."
            if session is None:
                if len(self._open) >= MOST:
                    oldest = min(self._open, key=lambda each: self._open[each].used)
                    if self._open[oldest].lock.locked():
                        raise ToolError(f"{MOST} browsers run already; close one with browser_close.")
                    await self._open.pop(oldest).close()
                session = self._open[task] = await open_session(self.host)
            if self._watch is None or self._watch.done():
                self._watch = asyncio.create_task(self._close_idle())
            return session, note

    async def close(self, task: str) -> bool:
        """Close the browser of a task; return whether one ran."""
        async with self._lock:
            session = self._open.pop(task, None)
            if session is None:
                return False
            await session.close()
            return True

    async def aclose(self) -> None:
        """Close all browsers."""
        if self._watch is not None:
            self._watch.cancel()
            await asyncio.gather(self._watch, return_exceptions=True)
        async with self._lock:
            while self._open:
                await self._open.popitem()[1].close()

    async def _close_idle(self) -> None:
        while self._open:
            await asyncio.sleep(min(5.0, max(self._idle / 4, 0.05)))
            async with self._lock:
                now = time.monotonic()
                for task, session in list(self._open.items()):
                    if not session.lock.locked() and now - session.used >= self._idle:
                        del self._open[task]
                        await session.close()
