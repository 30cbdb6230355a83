"""Calls of the browser tools: the tab, the leave to act, and what is told after."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from tools.browser.acting import GoneError
from tools.browser.actions import GiveSecret, KeepProfile, UsePage
from tools.browser.cdp import BrowserGoneError, CdpError
from tools.browser.session import BrowserSession, Download
from tools.browser.tab import Tab
from tools.browser.view import PageView, delta, matching, snapshot
from tools.context import ToolContext
from tools.files.access import Access
from tools.kit.files import make_folders, write_atomically
from tools.results import ToolError
from tools.services.actions import Fetch
from tools.text.safe_text import clean
from tools.text.words import plural

NAVIGATE = "browser_navigate"
_UNSAFE = re.compile(r"[^\w .()\[\]+,=@-]+")
_WAIT_DOWNLOAD = 8.0


class Call:
    """One call of a tool on the tab in front."""

    def __init__(self, tool: str, context: ToolContext, session: BrowserSession, note: str) -> None:
        self.tool = tool
        self.context = context
        self.session = session
        self.notes = [note] if note else []

    @property
    def tab(self) -> Tab:
        """The tab in front. Raises `ToolError`."""
        return self.session.tab()

    def ready(self) -> Tab:
        """The tab, with no dialog in the way. Raises `ToolError`."""
        tab = self.tab
        if tab.dialog is not None:
            raise ToolError(
                f"A dialog is open ({tab.dialog.kind}: {tab.dialog.message[:300]!r}); answer it with "
                "browser_dialog first.",
                dialog=tab.dialog.kind,
            )
        return tab

    def label(self, ref: str) -> str:
        """What an element was called when the model saw it."""
        plain = ref.strip().removeprefix("ref=").strip("[]")
        line = self.tab.table.named(plain)
        return line.replace(f" [ref={plain}]", "").partition(": ")[0][:120] or plain[:40]

    async def permit(self, what: str) -> None:
        """Ask the gate whether this may be done on the page. Raises `DeniedError`."""
        await self.context.permit(UsePage(tool=self.tool, url=self.tab.url, what=what))

    async def permit_text(self, text: str, what: str) -> None:
        """Ask about a text that goes into a form, if it holds a known secret."""
        if name := self.session.host.secret_in(text):
            await self.context.permit(GiveSecret(tool=self.tool, url=self.tab.url, secret=name, what=what))

    async def act(self, work: Callable[[Tab], Awaitable[Any]]) -> dict[str, Any]:
        """Do something on the page, wait until it is done, and tell what changed."""
        tab = self.ready()
        if tab.view is None:
            tab.view = await tab.look()
        requests, place, tab.has_scrolled = tab.requests, (tab.url, tab.title), False
        done: Any = None
        try:
            done = await work(tab)
        except GoneError:
            if not tab.crashed:
                await self.gone(tab)
        await tab.settle(requests)
        await self.session.settled_tabs()
        result: dict[str, Any] = dict(done) if isinstance(done, dict) else {}
        if tab.has_scrolled:
            result["scrolled"] = "to the element"
        return result | await self.told(tab, tab.view, place)

    async def gone(self, tab: Tab) -> NoReturn:
        """Say that a reference is gone, with the page as it is now. Raises `ToolError`."""
        with suppress(CdpError):
            tab.view = await tab.look()
        page = snapshot(tab.view, full=False) if tab.view is not None else ""
        raise ToolError(
            "That element is gone from the page; nothing was done. Here is the page as it is now.", page=page
        )

    async def told(self, tab: Tab, before: PageView | None, place: tuple[str, str]) -> dict[str, Any]:
        """What the model hears after an action."""
        result: dict[str, Any] = {}
        front = self.session.tab() if self.session.tabs else None
        if front is not None and front is not tab:
            result["tab"] = f"a new tab is in front, {len(self.session.tabs)} are open"
            with suppress(TimeoutError):
                async with asyncio.timeout(15):
                    await front.loaded()
            tab, before, place = front, None, ("", "")
        if tab.is_closed:
            return result | {"tab": "the tab was closed"} | await self._rest(tab)
        if tab.crashed:
            raise CdpError("the page crashed")
        if tab.dialog is not None:
            return result | _dialog(tab) | await self._rest(tab)
        after = await tab.unless_dialog(tab.look() if before is None else tab.look_in_view(before), None)
        changed = None if before is None or after is None else delta(before, after, self._path())
        if changed is None and before is not None and after is not None:
            after = await tab.unless_dialog(tab.look(), None)
        if after is None:
            return result | _dialog(tab) | await self._rest(tab)
        tab.view = after
        if (tab.url, tab.title) != place:
            result |= {"url": clean(tab.url)[:500], "title": tab.title}
        if changed is None:
            await self.keep(after)
            tab.start(self._picture(tab))
            result["page"] = snapshot(after, full=False, path=self._path())
        else:
            result["changed"] = changed
        return result | await self._rest(tab)

    async def whole(self, tab: Tab, *, full: bool) -> dict[str, Any]:
        """The page from the beginning."""
        after = await tab.unless_dialog(tab.look(), None)
        if after is None:
            return _dialog(tab) | await self._rest(tab)
        tab.view = after
        await self.keep(after)
        tab.start(self._picture(tab))
        page = snapshot(after, full=full, path=self._path())
        result = {"url": clean(tab.url)[:500], "title": tab.title, "page": page}
        return result | await self._rest(tab)

    async def found(self, tab: Tab, query: str) -> dict[str, Any]:
        """The lines of the page with these words. What the model was shown last stays what it was."""
        after = await tab.unless_dialog(tab.look(), None)
        if after is None:
            return _dialog(tab) | await self._rest(tab)
        if tab.view is None or tab.view.document != after.document:
            tab.view = after
        return {"found": matching(after, query)} | await self._rest(tab)

    def _path(self) -> str:
        return str(self.context.scratch / "browser" / "page.txt")

    async def keep(self, view: PageView) -> None:
        """Write the whole page to disk, where the model can read and search it."""
        path = Path(self._path())
        tab = self.tab
        head = f"{tab.title}\n{clean(tab.url)[:500]}\n"

        def write() -> None:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(path, (head + view.whole() + "\n").encode(), 0o600)

        with suppress(OSError):
            await asyncio.to_thread(write)

    async def _picture(self, tab: Tab) -> None:
        """Keep a small picture of the page, which the person may look at."""
        with suppress(CdpError, OSError):
            given = {"format": "jpeg", "quality": 50, "optimizeForSpeed": True}
            done = await tab.cdp.call("Page.captureScreenshot", given, tab.session)
            path = Path(self._path()).with_name("page.jpg")
            await asyncio.to_thread(write_atomically, path, base64.b64decode(done["data"]), 0o600)

    async def _rest(self, tab: Tab) -> dict[str, Any]:
        """Notes, refusals, downloads and errors of scripts."""
        notes = [*self.notes, *tab.notes, *self.session.host.refused()]
        self.notes, tab.notes = [], []
        result: dict[str, Any] = {}
        saved = await self._downloads(notes)
        if notes:
            result["notes"] = list(dict.fromkeys(notes))[:8]
        if saved:
            result["downloads"] = saved
        errors = sum(1 for line in tab.console if line.level == "error")
        if errors:
            result["console_errors"] = errors
        return result

    async def _downloads(self, notes: list[str]) -> list[str]:
        if self.session.under_way():
            await self.session.wait_download(_WAIT_DOWNLOAD)
        saved: list[str] = []
        for guid, each in list(self.session.downloads.items()):
            if each.is_told or each.state == "inProgress":
                continue
            each.is_told = True
            if each.state != "completed":
                notes.append(f"The download of {each.name[:100]} was broken off.")
                continue
            try:
                saved.append(await self._save(guid, each))
            except (ToolError, OSError) as error:
                notes.append(f"The download {each.name[:100]} was not kept: {error}")
        if left := self.session.under_way():
            notes.append(f"{plural(len(left), 'download')} still under way.")
        return saved

    async def _save(self, guid: str, download: Download) -> str:
        """Put a file into the workspace, after the gate; its path as the model reads it."""
        source = self.session.folder("downloads") / guid
        try:
            access = Access(self.context, self.tool)
            target = await asyncio.to_thread(_free, self.context.workspace / "downloads", download.name)
            path = access.target(str(target))
            await access.permit_write(path, creates=True)

            def write() -> None:
                make_folders(path.parent)
                write_atomically(path, source.read_bytes(), for_person=True)

            await asyncio.to_thread(write)
            return access.name(path)
        finally:
            source.unlink(missing_ok=True)


def _dialog(tab: Tab) -> dict[str, Any]:
    dialog = tab.dialog
    assert dialog is not None
    shown = {"kind": dialog.kind, "message": dialog.message}
    if dialog.prompt:
        shown["default"] = dialog.prompt
    return {"dialog": shown, "hint": "The page waits; answer with browser_dialog."}


def _free(folder: Path, name: str) -> Path:
    """A name in `folder` that is not taken, made of what the page calls the file."""
    plain = _UNSAFE.sub("_", name.replace("\\", "/").rpartition("/")[2]).strip(" .")[:120] or "download"
    stem, dot, ending = plain.rpartition(".")
    if not stem:
        stem, dot, ending = plain, "", ""
    for number in range(1000):
        path = folder / (plain if not number else f"{stem}-{number}{dot}{ending}")
        if not path.exists():
            return path
    raise ToolError(f"There are too many files called {plain} in {folder}.")


async def _agreed_profile(tool: str, context: ToolContext) -> None:
    """Ask for the lasting profile that the settings name, once for good. Raises `DeniedError`."""
    host = context.browsers.host
    if host is None or context.browsers.running(context.task) is not None:
        return
    if name := await asyncio.to_thread(host.unagreed_profile):
        await context.permit(KeepProfile(tool=tool, profile=name))
        await asyncio.to_thread(host.agree_to_profile, name)


@asynccontextmanager
async def calling(tool: str, context: ToolContext) -> AsyncIterator[Call]:
    """A call on the browser of the task. Raises `ToolError` in words for what goes wrong in it."""
    await _agreed_profile(tool, context)
    session, note = await context.browsers.session(context.task)

    async def permit(url: str) -> None:
        await context.permit(Fetch(tool=NAVIGATE, url=url))

    try:
        async with session.using(permit):
            yield Call(tool, context, session, note)
    except BrowserGoneError as error:
        raise ToolError("The browser crashed; call browser_navigate to go on with a new one.") from error
    except GoneError as error:
        raise ToolError("That element is gone from the page; call browser_snapshot.") from error
    except CdpError as error:
        if not session.is_alive:
            raise ToolError("The browser crashed; call browser_navigate to go on with a new one.") from error
        if crashed := [tab for tab in session.tabs if tab.crashed]:
            await asyncio.gather(*map(session.close_tab, crashed))
            raise ToolError(
                "The page crashed and was closed; open it again with browser_navigate."
            ) from error
        raise ToolError(f"The page could not be used: {clean(str(error))[:300]}.") from error
