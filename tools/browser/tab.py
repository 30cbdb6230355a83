"""One tab: its events, its content, and when it is idle."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from urllib.parse import urlsplit

from tools.browser.frames import Cdp, CdpError, FrameInfo, Frames, KeptTrees, capture_view
from tools.browser.page_text import FrameCapture, PageLine, PageView, RefTable, page_lines
from tools.text.safe_text import clean

log = logging.getLogger(__name__)

WIDTH, HEIGHT = 1280, 800
"""The size of a tab in pixels."""
LOADING = 30.0
"""Seconds a page has to load."""
_AFTER_CONTENT = 4.0
_QUIET, _QUIET_AT_MOST = 50, 600
"""Milliseconds without a change to wait for after an action, and the limit of that wait."""
_REQUESTS_AT_MOST = 1.5
_MOST_CONSOLE = 200

_T = TypeVar("_T")

Judge = Callable[["Tab", str, bool], Awaitable[str]]
"""A function returning why a tab may not go to an address, or empty. The flag marks a redirect."""


@dataclass(frozen=True, slots=True)
class OpenDialog:
    """A dialog of a page, which blocks everything in its tab."""

    kind: str
    message: str
    prompt: str = ""


@dataclass(frozen=True, slots=True)
class ConsoleLine:
    """One console message or script error."""

    level: str
    text: str


class Tab:
    """An attached browser tab; call `begin` before use."""

    def __init__(self, cdp: Cdp, target: str, session: str, judge: Judge, opener: str = "") -> None:
        self.cdp = cdp
        self.target = target
        self.session = session
        self.opener = opener
        self.frames = Frames(cdp, session)
        self.table = RefTable()
        self._kept = KeptTrees()
        self.view: PageView | None = None
        """The view last shown to the model; None if none was shown."""
        self.has_scrolled = False
        """Whether the current action had to scroll."""
        self.url, self.title = "about:blank", ""
        self.dialog: OpenDialog | None = None
        self.console: deque[ConsoleLine] = deque(maxlen=_MOST_CONSOLE)
        self.notes: list[str] = []
        self.is_closed = False
        self.crashed = False
        self.is_refused = False
        """Whether the proxy answered instead of the page."""
        self.chooser: dict[str, Any] | None = None
        """The file chooser opened last by the page."""
        self._judge = judge
        self._judging = 0
        self._is_loading = False
        self._has_content = True
        self._document = 0
        self._requests: set[str] = set()
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Future[Any]] = set()
        cdp.listen(session, self._hears(session))

    async def begin(self) -> None:
        """Prepare the tab for use. Raises `CdpError`."""
        pattern = {"urlPattern": "*", "resourceType": "Document", "requestStage": "Request"}
        size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        await self._started(
            self.session,
            self.frames.enable(self.session),
            self.cdp.call("Fetch.enable", {"patterns": [pattern]}, self.session),
            self.cdp.call("Emulation.setDeviceMetricsOverride", size, self.session),
            self.cdp.call("Page.setInterceptFileChooserDialog", {"enabled": True}, self.session),
        )

    async def _started(self, session: str, *work: Awaitable[Any]) -> None:
        """Set up a target that is paused at its start, then let it run.

        `work` holds the settings; the browser confirms some of them only after the target runs.
        """
        tasks = [asyncio.ensure_future(each) for each in work]
        # Each is sent when it first runs, and so are those it makes.
        for _ in range(3):
            await asyncio.sleep(0)
        self.cdp.send("Runtime.runIfWaitingForDebugger", {}, session)
        await asyncio.gather(*tasks)

    @property
    def origin(self) -> str:
        """Return scheme, host and port of the page."""
        return origin_of(self.url)

    @property
    def is_loading(self) -> bool:
        return self._is_loading

    # Going somewhere

    async def navigate(self, url: str) -> str:
        """Open an address and wait for the page; return an error text or empty. Raises `CdpError`."""
        self._is_loading, self._has_content = True, False
        try:
            done = await self._patiently(self.cdp.call("Page.navigate", {"url": url}, self.session, 600))
        except TimeoutError:
            self.cdp.send("Page.stopLoading", {}, self.session)
            self._is_loading = False
            return f"did not answer within {LOADING:g} s"
        if error := done.get("errorText"):
            self._is_loading = False
            return "" if error == "net::ERR_ABORTED" and self.notes else str(error)
        if "loaderId" not in done:
            self._is_loading = False
        await self.wait_loaded()
        return ""

    async def _patiently(self, work: Awaitable[dict[str, Any]]) -> dict[str, Any]:
        """Wait up to `LOADING` seconds for a navigation, not counting the time in which the user is asked.

        Returns an empty answer if a dialog opens. Raises `TimeoutError`.
        """
        task = asyncio.ensure_future(work)
        left = LOADING
        while True:
            self._changed.clear()
            waiter = asyncio.ensure_future(self._changed.wait())
            done, _ = await asyncio.wait({task, waiter}, timeout=0.5, return_when=asyncio.FIRST_COMPLETED)
            waiter.cancel()
            if task in done:
                return task.result()
            if self.dialog is not None:
                self._keep(task)
                return {}
            if not self._judging and not done:
                left -= 0.5
            if left <= 0:
                task.cancel()
                raise TimeoutError

    async def wait_loaded(self, most: float = LOADING) -> bool:
        """Wait at most `most` seconds until the page has loaded or has shown its content for a moment.

        Returns False if it is still loading.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + most
        content_at: float | None = None
        while self._is_loading and self.dialog is None and not self.is_closed and not self.crashed:
            now = loop.time()
            if self._judging:
                end = max(end, now + 5)
            if self._has_content and content_at is None:
                content_at = now
            until = end if content_at is None else min(end, content_at + _AFTER_CONTENT)
            if now >= until:
                return False
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(until - now, 0.5)):
                    await self._changed.wait()
        return True

    async def wait_settled(self, requests: frozenset[str] = frozenset()) -> None:
        """Wait, for a bounded time, until the effects of an action are done: loading, requests, changes.

        `requests` were unfinished before the action.
        """
        await asyncio.sleep(0.01)
        if self._is_loading or self._judging:
            await self.wait_loaded()
        loop = asyncio.get_running_loop()
        end = loop.time() + _REQUESTS_AT_MOST
        while True:
            await self._quiet()
            if self._is_loading:
                await self.wait_loaded()
            left = end - loop.time()
            if not (self._requests - requests) or left <= 0 or self.dialog is not None:
                return
            self._changed.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, 0.25)):
                    await self._changed.wait()

    @property
    def requests(self) -> frozenset[str]:
        """Return the ids of unfinished requests by scripts."""
        return frozenset(self._requests)

    async def _quiet(self) -> None:
        if self.dialog is not None or self.is_closed or self.crashed:
            return
        with suppress(CdpError):
            infos = await self.frames.infos()
            root = next(iter(infos.values()))
            script = f"hermes.settle({_QUIET}, {_QUIET_AT_MOST})"
            quiet = self.frames.run(root.session, root.id, root.loader, script, 5)
            self._kept.is_trusted = bool(await self.unless_dialog(quiet, False))

    async def unless_dialog(self, work: Awaitable[_T], otherwise: _T) -> _T:
        """Return the result of `work`, or `otherwise` if a dialog opens and blocks the tab."""
        task = asyncio.ensure_future(work)
        while True:
            if self.dialog is not None and not task.done():
                self._keep(task)
                return otherwise
            self._changed.clear()
            waiter = asyncio.ensure_future(self._changed.wait())
            done, _ = await asyncio.wait({task, waiter}, return_when=asyncio.FIRST_COMPLETED)
            waiter.cancel()
            if task in done:
                return task.result()

    # Looking

    async def capture(self) -> PageView:
        """Capture the tab, including what is out of view. Raises `CdpError`."""
        capture, infos = await self._capture()
        self._know(infos)
        many = sum(len(each.nodes) for each in [capture, *capture.children.values()]) > 300
        work = page_lines, capture, WIDTH, HEIGHT, self.table
        lines = await asyncio.to_thread(*work) if many else page_lines(capture, WIDTH, HEIGHT, self.table)
        with suppress(CdpError):
            history = await self.cdp.call("Page.getNavigationHistory", {}, self.session)
            entry = history["entries"][history["currentIndex"]]
            self.url, self.title = entry["url"], clean(entry["title"])[:200]
        return self._make_view(capture, lines)

    async def capture_in_view(self, before: PageView) -> PageView:
        """Capture the part in view, or the whole tab if it left `before`'s document. Raises `CdpError`."""
        try:
            found = await capture_view(self.cdp, self.frames, WIDTH, HEIGHT, self._kept)
        except CdpError:
            found = None  # it goes to another page just now
        if found is None or document_of(found.root) != before.document:
            return await self.capture()
        self._know(found.infos)
        layout = found.layouts[found.root.frame]
        self.url, self.title = layout.url, clean(layout.title)[:200]
        view = self._make_view(found.root, page_lines(found.root, WIDTH, HEIGHT, self.table))
        shown = view.refs()
        lost = {line.ref: self.table.key(line.ref) for line in before.lines if line.ref not in shown}
        elsewhere = {ref for ref, key in lost.items() if key is not None and found.is_elsewhere(key)}
        return replace(view, elsewhere=frozenset(elsewhere) | before.elsewhere - shown)

    async def note_scroll(self) -> None:
        """Capture the view after a scroll, so that it does not count as a change. Raises `CdpError`."""
        if self.view is not None:
            self.view = await self.capture_in_view(self.view)
            self.has_scrolled = True

    def _know(self, infos: dict[str, FrameInfo]) -> None:
        self.table.keep(frozenset((info.id, info.loader) for info in infos.values()))

    def _make_view(self, capture: FrameCapture, lines: list[PageLine]) -> PageView:
        for line in lines:
            if line.ref:
                self.table.name(line.ref, line.text)
        return PageView(document_of(capture), tuple(lines))

    async def _capture(self) -> tuple[FrameCapture, dict[str, FrameInfo]]:
        for _ in range(2):
            try:
                return await self.frames.capture()
            except CdpError:
                # It goes to another page just now.
                if self.crashed or self.cdp.gone.done():
                    raise
                await asyncio.sleep(0.1)
                await self.wait_loaded(5)
        return await self.frames.capture()

    # What happens

    def _hears(self, session: str) -> Callable[[str, dict[str, Any]], None]:
        def hear(method: str, params: dict[str, Any]) -> None:
            self._hear(session, method, params)

        return hear

    def _hear(self, session: str, method: str, params: dict[str, Any]) -> None:
        is_main = session == self.session
        match method:
            case "Network.requestWillBeSent":
                if params.get("type") in ("XHR", "Fetch", "Script", "Document"):
                    self._requests.add(params["requestId"])
                return
            case "Network.responseReceived" if is_main and params.get("type") == "Document":
                if params.get("frameId") == self.target:
                    headers = params["response"].get("headers", {})
                    self.is_refused = any(name.lower() == "x-hermes" for name in headers)
                return
            case "Network.loadingFinished" | "Network.loadingFailed":
                self._requests.discard(params["requestId"])
            case "Fetch.requestPaused":
                self.start(self._on_paused(session, params))
            case "Page.frameStartedLoading" if is_main and params["frameId"] == self.target:
                self._is_loading, self._has_content = True, False
            case "Page.frameStoppedLoading" if is_main and params["frameId"] == self.target:
                self._is_loading = False
            case "Page.domContentEventFired" if is_main:
                self._has_content = True
            case "Page.loadEventFired" if is_main:
                self._has_content = True
            case "Page.frameNavigated" if is_main and not params["frame"].get("parentId"):
                self.url = params["frame"]["url"]
                self._requests.clear()
                self._document += 1
                self.console.clear()
            case "Page.navigatedWithinDocument" if is_main and params.get("frameId") == self.target:
                self.url = params["url"]
            case "Runtime.executionContextsCleared":
                self.frames.on_cleared(session)
            case "Page.javascriptDialogOpening":
                kind, message = params.get("type", "alert"), clean(params.get("message", ""))[:2000]
                self.dialog = OpenDialog(kind, message, clean(params.get("defaultPrompt", ""))[:500])
            case "Page.javascriptDialogClosed":
                self.dialog = None
            case "Page.fileChooserOpened":
                self.chooser = {**params, "session": session}
            case "Runtime.consoleAPICalled":
                self._console(params)
                return
            case "Runtime.exceptionThrown":
                details = params.get("exceptionDetails", {})
                text = details.get("exception", {}).get("description") or details.get("text", "")
                self.console.append(ConsoleLine("error", clean(str(text))[:500]))
                return
            case "Inspector.targetCrashed":
                self.crashed = self.crashed or is_main
                self.cdp.fail_calls(session, "the page crashed")
            case "Target.attachedToTarget":
                self._attached(session, params)
            case "Target.detachedFromTarget":
                self.cdp.forget(params["sessionId"])
                self.frames.on_detached(params["sessionId"])
            case _:
                return
        self._changed.set()

    def wake(self) -> None:
        """Wake waiting code, because the tab changed from outside."""
        self._changed.set()

    def _attached(self, around: str, params: dict[str, Any]) -> None:
        session, info = params["sessionId"], params["targetInfo"]
        self.cdp.listen(session, self._hears(session))
        if info["type"] == "iframe":
            self.frames.on_attached(session, info["targetId"], around)
            self.start(self._enable(session))
        else:
            self.cdp.send("Runtime.runIfWaitingForDebugger", {}, session)

    async def _enable(self, session: str) -> None:
        try:
            await self._started(session, self.frames.enable(session))
        except CdpError as error:
            log.debug("a frame went away: %s", error)

    async def _on_paused(self, session: str, params: dict[str, Any]) -> None:
        """Continue or refuse a paused request for a document.

        Only the page itself is checked here; the proxy checks its frames.
        """
        request = {"requestId": params["requestId"]}
        url = params["request"]["url"]
        if session == self.session and params.get("frameId") == self.target:
            self._judging += 1
            try:
                why = await self._judge(self, url, bool(params.get("redirectedRequestId")))
            except Exception as error:
                log.exception("an address could not be judged")
                why = f"could not be judged ({error})"
            finally:
                self._judging -= 1
                self._changed.set()
            if why:
                self.notes.append(why)
                self._is_loading = False
                self.cdp.send("Fetch.failRequest", {**request, "errorReason": "Aborted"}, session)
                return
        self.cdp.send("Fetch.continueRequest", request, session)

    def _console(self, params: dict[str, Any]) -> None:
        words = []
        for each in params.get("args", ())[:8]:
            value = each.get("value", each.get("description", each.get("type", "")))
            words.append(str(value)[:300])
        self.console.append(ConsoleLine(params.get("type", "log"), clean(" ".join(words))[:500]))

    def start(self, work: Awaitable[Any]) -> None:
        """Run work in the background; it is cancelled when the tab closes."""
        self._keep(asyncio.ensure_future(work))

    def _keep(self, task: asyncio.Future[Any]) -> None:
        self._tasks.add(task)

        def over(done: asyncio.Future[Any]) -> None:
            self._tasks.discard(done)
            if not done.cancelled():
                done.exception()

        task.add_done_callback(over)

    def end(self) -> None:
        """Cancel the unfinished background work of the tab."""
        self.is_closed = True
        for task in list(self._tasks):
            task.cancel()
        self._changed.set()


def document_of(capture: FrameCapture) -> str:
    """Return a key that is different for each load of a page."""
    return f"{capture.frame} {capture.loader}"


def origin_of(url: str) -> str:
    """Return scheme, host and port of an address; empty if it has none."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.hostname}:{port}" if parts.hostname else ""
