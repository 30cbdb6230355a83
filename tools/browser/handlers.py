"""Handlers of the browser tools, and the calls they make on a tab."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn

from tools.browser import acting
from tools.browser.acting import GoneError, key_press
from tools.browser.actions import GiveSecret, KeepProfile, UsePage
from tools.browser.frames import BrowserGoneError, CdpError, value_of
from tools.browser.page_text import PageView, delta, matching, snapshot
from tools.browser.session import Browsers, BrowserSession, Download
from tools.browser.tab import Tab
from tools.context import ToolContext
from tools.files.access import Access
from tools.kit.files import make_folders, write_atomically
from tools.registry import Arguments
from tools.results import ToolError
from tools.senses.services import Senses
from tools.services.actions import Fetch
from tools.text.safe_text import clean
from tools.text.words import plural

NAVIGATE = "browser_navigate"
_UNSAFE = re.compile(r"[^\w .()\[\]+,=@-]+")
_BEGIN_DOWNLOAD = 1.0
"""Seconds to wait for a download to begin after an address turned out not to be a page."""
_WAIT_DOWNLOAD = 8.0


class Call:
    """One tool call on the front tab."""

    def __init__(self, tool: str, context: ToolContext, session: BrowserSession, note: str) -> None:
        self.tool = tool
        self.context = context
        self.session = session
        self.notes = [note] if note else []

    @property
    def tab(self) -> Tab:
        """Return the front tab. Raises `ToolError`."""
        return self.session.tab()

    def ready(self) -> Tab:
        """Return the front tab if no dialog is open. Raises `ToolError`."""
        tab = self.tab
        if tab.dialog is not None:
            raise ToolError(
                f"A dialog is open ({tab.dialog.kind}: {tab.dialog.message[:300]!r}); answer it with "
                "browser_dialog first.",
                dialog=tab.dialog.kind,
            )
        return tab

    def label(self, ref: str) -> str:
        """Return the name under which the model saw an element."""
        plain = ref.strip().removeprefix("ref=").strip("[]")
        line = self.tab.table.line_of(plain)
        return line.replace(f" [ref={plain}]", "").partition(": ")[0][:120] or plain[:40]

    async def permit(self, what: str) -> None:
        """Request permission for an action on the page. Raises `DeniedError`."""
        await self.context.permit(UsePage(tool=self.tool, url=self.tab.url, what=what))

    async def permit_text(self, text: str, what: str) -> None:
        """Request permission to enter a text into a form if it holds a known secret. Raises `DeniedError`."""
        if name := self.session.host.secret_in(text):
            await self.context.permit(GiveSecret(tool=self.tool, url=self.tab.url, secret=name, what=what))

    async def act(self, work: Callable[[Tab], Awaitable[Any]]) -> dict[str, Any]:
        """Run `work`, wait for its effects, and return what changed. Raises `ToolError` and `CdpError`."""
        tab = self.ready()
        if tab.view is None:
            tab.view = await tab.capture()
        requests, place, tab.has_scrolled = tab.requests, (tab.url, tab.title), False
        done: Any = None
        try:
            done = await work(tab)
        except GoneError:
            if not tab.crashed:
                await self.refuse_gone(tab)
        await tab.wait_settled(requests)
        await self.session.wait_for_tabs()
        result: dict[str, Any] = dict(done) if isinstance(done, dict) else {}
        if tab.has_scrolled:
            result["scrolled"] = "to the element"
        return result | await self.action_result(tab, tab.view, place)

    async def refuse_gone(self, tab: Tab) -> NoReturn:
        """Raise a `ToolError` that says that the element is gone and contains the current page."""
        with suppress(CdpError):
            tab.view = await tab.capture()
        page = snapshot(tab.view, full=False) if tab.view is not None else ""
        raise ToolError(
            "That element is gone from the page; nothing was done. Here is the page as it is now.", page=page
        )

    async def action_result(
        self, tab: Tab, before: PageView | None, place: tuple[str, str]
    ) -> dict[str, Any]:
        """Return the result of an action for the model: what changed, or the new page. Raises `CdpError`."""
        result: dict[str, Any] = {}
        front = self.session.tab() if self.session.tabs else None
        if front is not None and front is not tab:
            result["tab"] = f"a new tab is in front, {len(self.session.tabs)} are open"
            with suppress(TimeoutError):
                async with asyncio.timeout(15):
                    await front.wait_loaded()
            tab, before, place = front, None, ("", "")
        if tab.is_closed:
            return result | {"tab": "the tab was closed"} | await self._rest(tab)
        if tab.crashed:
            raise CdpError("the page crashed")
        if tab.dialog is not None:
            return result | _dialog(tab) | await self._rest(tab)
        after = await tab.unless_dialog(
            tab.capture() if before is None else tab.capture_in_view(before), None
        )
        changed = None if before is None or after is None else delta(before, after, self._path())
        if changed is None and before is not None and after is not None:
            after = await tab.unless_dialog(tab.capture(), None)
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
        """Capture the page and return it as a result that does not refer to earlier views."""
        after = await tab.unless_dialog(tab.capture(), None)
        if after is None:
            return _dialog(tab) | await self._rest(tab)
        tab.view = after
        await self.keep(after)
        tab.start(self._picture(tab))
        page = snapshot(after, full=full, path=self._path())
        result = {"url": clean(tab.url)[:500], "title": tab.title, "page": page}
        return result | await self._rest(tab)

    async def find_lines(self, tab: Tab, query: str) -> dict[str, Any]:
        """Return the lines of the page with these words, without changing the last view shown to
        the model.
        """
        after = await tab.unless_dialog(tab.capture(), None)
        if after is None:
            return _dialog(tab) | await self._rest(tab)
        if tab.view is None or tab.view.document != after.document:
            tab.view = after
        return {"found": matching(after, query)} | await self._rest(tab)

    def _path(self) -> str:
        return str(self.context.scratch / "browser" / "page.txt")

    async def keep(self, view: PageView) -> None:
        """Write the full page to disk, where the model can read and search it. Failures are ignored."""
        path = Path(self._path())
        tab = self.tab
        head = f"{tab.title}\n{clean(tab.url)[:500]}\n"

        def write() -> None:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(path, (head + view.whole() + "\n").encode(), 0o600)

        with suppress(OSError):
            await asyncio.to_thread(write)

    async def _picture(self, tab: Tab) -> None:
        """Store a small screenshot of the page for the user. Failures are ignored."""
        with suppress(CdpError, OSError):
            given = {"format": "jpeg", "quality": 50, "optimizeForSpeed": True}
            done = await tab.cdp.call("Page.captureScreenshot", given, tab.session)
            path = Path(self._path()).with_name("page.jpg")
            await asyncio.to_thread(write_atomically, path, base64.b64decode(done["data"]), 0o600)

    async def _rest(self, tab: Tab) -> dict[str, Any]:
        """Return the additional fields of a result: notes, refusals, downloads and script errors."""
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
        if self.session.unfinished_downloads():
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
        if left := self.session.unfinished_downloads():
            notes.append(f"{plural(len(left), 'download')} still under way.")
        return saved

    async def _save(self, guid: str, download: Download) -> str:
        """Save a download into the workspace; return its path for the model. Raises `DeniedError`."""
        source = self.session.folder("downloads") / guid
        try:
            access = Access(self.context, self.tool)
            target = await asyncio.to_thread(_free, self.context.workspace / "downloads", download.name)
            path = access.target(str(target))
            await access.permit_write(path, creates=True)

            await asyncio.to_thread(lambda: _write_for_person(path, source.read_bytes()))
            return access.name(path)
        finally:
            source.unlink(missing_ok=True)


def _write_for_person(path: Path, data: bytes) -> None:
    make_folders(path.parent)
    write_atomically(path, data, for_person=True)


def _dialog(tab: Tab) -> dict[str, Any]:
    dialog = tab.dialog
    assert dialog is not None
    shown = {"kind": dialog.kind, "message": dialog.message}
    if dialog.prompt:
        shown["default"] = dialog.prompt
    return {"dialog": shown, "hint": "The page waits; answer with browser_dialog."}


def _free(folder: Path, name: str) -> Path:
    """Return an unused path in `folder`, named after the page's name for the file. Raises `ToolError`."""
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
    """Ask the user once to approve the configured persistent profile, and store the approval.

    Raises `DeniedError`.
    """
    browsers = context.service(Browsers)
    host = browsers.host
    if host is None or browsers.running(context.task) is not None:
        return
    if name := await asyncio.to_thread(host.unagreed_profile):
        await context.permit(KeepProfile(tool=tool, profile=name))
        await asyncio.to_thread(host.agree_to_profile, name)


@asynccontextmanager
async def calling(tool: str, context: ToolContext) -> AsyncIterator[Call]:
    """Open a call on the browser of the task. Errors of the browser are raised as `ToolError`."""
    await _agreed_profile(tool, context)
    session, note = await context.service(Browsers).session(context.task)

    async def permit(url: str) -> None:
        await context.permit(Fetch(tool=NAVIGATE, url=url))

    try:
        async with session.using(permit):
            yield Call(tool, context, session, note)
    except BrowserGoneError as error:
        raise ToolError("The browser crashed; call browser_navigate to continue with a new one.") from error
    except GoneError as error:
        raise ToolError("That element is gone from the page; call browser_snapshot.") from error
    except CdpError as error:
        if not session.is_alive:
            raise ToolError(
                "The browser crashed; call browser_navigate to continue with a new one."
            ) from error
        if crashed := [tab for tab in session.tabs if tab.crashed]:
            await asyncio.gather(*map(session.close_tab, crashed))
            raise ToolError(
                "The page crashed and was closed; open it again with browser_navigate."
            ) from error
        raise ToolError(f"The page could not be used: {clean(str(error))[:300]}.") from error


LONGEST_WAIT = 30.0
_LARGEST_UPLOAD = 100_000_000
_MOST_LINES = 60
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?!\d)")


async def navigate(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    url = str(arguments["url"]).strip()
    if not _SCHEME.match(url):
        url = f"https://{url}"
    host = context.service(Browsers).host
    if host is not None and url != "about:blank":
        if why := host.refusal(url):
            raise ToolError(why)
        await context.permit(Fetch(tool=NAVIGATE, url=url))
    async with calling(NAVIGATE, context) as call:
        session = call.session
        tab = session.tab() if session.tabs else await session.new_tab()
        if tab.dialog is not None:
            await tab.cdp.call("Page.handleJavaScriptDialog", {"accept": True}, tab.session)
        await session.allow(url)
        why = await tab.navigate(url)
        if "ERR_ABORTED" in why and await session.wait_for_new_download(_BEGIN_DOWNLOAD):
            return await call.whole(tab, full=False)
        if why and not tab.notes:
            said = clean(why)[:200]
            refused = session.host.refused()
            if refused:
                raise ToolError(" ".join(refused[:3]))
            raise ToolError(f"{clean(url)[:200]} could not be opened: {_error(said)}.")
        if why or (tab.notes and tab.url in ("about:blank", "")):
            notes, tab.notes = tab.notes, []
            raise ToolError(" ".join(notes[:3]) or why)
        if tab.is_refused:
            raise ToolError(" ".join(session.host.refused()[:3]) or f"{clean(url)[:200]} is not reached.")
        await tab.wait_settled()
        if tab.is_loading:
            call.notes.append("The page is still loading; browser_wait or browser_snapshot show what comes.")
        return await call.whole(tab, full=False)


async def take_snapshot(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    async with calling("browser_snapshot", context) as call:
        query = " ".join(str(arguments.get("query") or "").split())
        if query:
            return await call.find_lines(call.ready(), query)
        return await call.whole(call.ready(), full=bool(arguments.get("full")))


async def click(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    ref = str(arguments["ref"])
    button = str(arguments.get("button") or "left")
    count = 2 if arguments.get("double") else 1
    async with calling("browser_click", context) as call:
        call.ready()
        how = "double-click" if count == 2 else "click" if button == "left" else f"{button}-click"
        await call.permit(f"{how} {call.label(ref)}")
        return await call.act(lambda tab: acting.click(tab, ref, button=button, count=count))


async def type_text(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    ref, text = str(arguments["ref"]), str(arguments["text"])
    async with calling("browser_type", context) as call:
        tab = call.ready()
        label = call.label(ref)
        try:
            found = await acting.find(tab, ref)
            kind = await acting.kind_of(tab, found)
        except acting.GoneError:
            await call.refuse_gone(tab)
        shown = "a password" if kind["password"] else json.dumps(text, ensure_ascii=False)
        then = " and submit" if arguments.get("submit") else ""
        what = f"type {shown} into {label}{then}"
        await call.permit(what)
        await call.permit_text(text, what)

        async def work(tab: Tab) -> None:
            await acting.type_text(tab, found, kind, text)
            if arguments.get("submit") and tab.dialog is None:
                await acting.press(tab, key_press("Enter"), ref)

        return await call.act(work)


async def scroll(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    amount = min(max(float(arguments.get("amount") or 0.85), 0.05), 50.0)
    across, down = {"up": (0, -1), "down": (0, 1), "left": (-1, 0), "right": (1, 0)}[
        str(arguments.get("direction") or "down")
    ]
    ref = str(arguments.get("ref") or "")
    async with calling("browser_scroll", context) as call:

        async def work(tab: Tab) -> dict[str, Any]:
            done = await acting.scroll(tab, across * amount, down * amount, ref)
            return {} if done["moved"] else {"scroll": "nothing moved: this is the end"}

        return await call.act(work)


async def back(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    async with calling("browser_back", context) as call:
        tab = call.ready()
        history = await tab.cdp.call("Page.getNavigationHistory", {}, tab.session)
        place = history["currentIndex"] - 1
        if place < 0:
            raise ToolError("This is the first page of the tab; there is nothing to go back to.")
        entry = history["entries"][place]
        call.session.host.expect(entry["url"])
        await tab.cdp.call("Page.navigateToHistoryEntry", {"entryId": entry["id"]}, tab.session)
        await asyncio.sleep(0.1)
        await tab.wait_loaded()
        await tab.wait_settled()
        return await call.whole(tab, full=False)


async def press(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    ref = str(arguments.get("ref") or "")
    try:
        key = key_press(str(arguments["key"]))
    except ValueError as error:
        raise ToolError(f"{error}.") from error
    async with calling("browser_press", context) as call:
        call.ready()
        at = f" on {call.label(ref)}" if ref else ""
        await call.permit(f"press {clean(str(arguments['key']))[:40]}{at}")
        return await call.act(lambda tab: acting.press(tab, key, ref))


async def close(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    closed = await context.service(Browsers).close(context.task)
    return {"closed": closed} if closed else {"closed": False, "note": "No browser was open."}


async def get_images(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    async with calling("browser_get_images", context) as call:
        tab = call.ready()
        found: list[dict[str, Any]] = []
        for info in (await tab.frames.infos()).values():
            try:
                found += await tab.frames.run(info.session, info.id, info.loader, "hermes.images()")
            except CdpError:
                continue
        images = [
            {
                "alt": clean(str(each["alt"]))[:200],
                "src": _source(str(each["src"])),
                "size": f"{each['width']}x{each['height']}",
            }
            for each in found[:100]
        ]
        return {"count": len(found), "images": images}


async def screenshot(call: Call, *, full: bool = False) -> Path:
    """Take a screenshot; return the path of the file. Raises `CdpError` and `ToolError`."""
    tab = call.ready()
    done = await tab.cdp.call(
        "Page.captureScreenshot", {"format": "png", "captureBeyondViewport": full}, tab.session
    )
    data = base64.b64decode(done["data"])
    folder = call.session.host.screenshots()
    path = folder / f"page-{time.time_ns() // 1_000_000}.png"
    await asyncio.to_thread(write_atomically, path, data, 0o600)
    return path


async def vision(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    async with calling("browser_vision", context) as call:
        path = await screenshot(call)
        url = clean(call.tab.url)[:500]
    data, question = await asyncio.to_thread(path.read_bytes), str(arguments["question"])
    try:
        seen = await context.service(Senses).analyze(data, path.name, question, context.permit)
    except ToolError as error:
        seen = {"note": f"The picture was only kept: {error}"}
    return {"url": url, "screenshot": str(path), **seen}


async def dialog(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    accept = str(arguments.get("action") or "accept") == "accept"
    async with calling("browser_dialog", context) as call:
        tab = call.tab
        shown = tab.dialog
        if shown is None:
            raise ToolError("No dialog is open.")
        text = str(arguments.get("text") or "")
        if accept and shown.kind != "alert":
            what = f"answer {shown.kind} {shown.message[:200]!r} with yes"
            await call.permit(f"{what} and {text!r}" if text else what)
            await call.permit_text(text, what)
        requests = tab.requests
        given: dict[str, Any] = {"accept": accept}
        if shown.kind == "prompt" and accept:
            given["promptText"] = text
        await tab.cdp.call("Page.handleJavaScriptDialog", given, tab.session)
        for _ in range(50):
            if tab.dialog is not shown:
                break
            await asyncio.sleep(0.01)
        await tab.wait_settled(requests)
        await call.session.wait_for_tabs()
        return await call.action_result(tab, tab.view, (tab.url, tab.title))


async def tabs(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    action = str(arguments.get("action") or "list")
    async with calling("browser_tabs", context) as call:
        session = call.session
        await session.wait_for_tabs()
        if action == "new":
            await session.new_tab()
        elif action in ("select", "close"):
            number = int(arguments.get("index") or 0)
            if not 1 <= number <= len(session.tabs):
                raise ToolError(f"There is no tab {number}; {len(session.tabs)} are open.")
            tab = session.tabs[number - 1]
            if action == "close":
                await session.close_tab(tab)
            else:
                await session.bring_to_front(tab)
                return {"tab": number} | await call.whole(call.ready(), full=False)
        return {
            "tabs": [
                f"{'*' if tab is session.current else ' '} {place}: {tab.title or '(no title)'} "
                f"{clean(tab.url)[:200]}"
                for place, tab in enumerate(session.tabs, 1)
            ]
        }


async def upload(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    ref = str(arguments.get("ref") or "")
    given = arguments.get("paths") or []
    async with calling("browser_upload", context) as call:
        call.ready()
        access = Access(context, "browser_upload")
        found = [access.target(str(each)) for each in given]
        for path in found:
            if not await asyncio.to_thread(path.is_file):
                raise ToolError(f"{access.name(path)} is not a file; nothing was uploaded.")
            await access.permit_read(path)
        names = ", ".join(access.name(path) for path in found)
        at = f" into {call.label(ref)}" if ref else ""
        await call.permit(f"upload {names}{at}")
        folder = call.session.folder("uploads")
        copies = await asyncio.to_thread(_copied, found, folder)
        return await call.act(lambda tab: acting.upload(tab, ref, copies))


async def wait(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    text, gone = str(arguments.get("text") or ""), str(arguments.get("gone") or "")
    seconds = min(max(float(arguments.get("seconds") or (10 if text or gone else 1)), 0.0), LONGEST_WAIT)
    async with calling("browser_wait", context) as call:

        async def work(tab: Tab) -> dict[str, Any]:
            end = time.monotonic() + seconds
            while True:
                if text or gone:
                    is_there = await _holds(tab, text or gone)
                    if is_there if text else not is_there:
                        return {}
                left = end - time.monotonic()
                if left <= 0 or tab.dialog is not None:
                    if not (text or gone):
                        return {}
                    state = "did not appear" if text else "is still there"
                    return {"waited": f"{text or gone!r} {state} within {seconds:g} s"}
                await asyncio.sleep(min(0.15, left))

        return await call.act(work)


async def select(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    ref = str(arguments["ref"])
    values = [str(each) for each in arguments.get("values") or []]
    async with calling("browser_select", context) as call:
        call.ready()
        await call.permit(f"choose {', '.join(map(repr, values))} in {call.label(ref)}")

        async def work(tab: Tab) -> dict[str, Any]:
            return {"selected": await acting.select(tab, ref, values)}

        return await call.act(work)


async def hover(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    ref = str(arguments["ref"])
    async with calling("browser_hover", context) as call:
        return await call.act(lambda tab: acting.hover(tab, ref))


async def console(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    expression = str(arguments.get("expression") or "")
    async with calling("browser_console", context) as call:
        tab = call.ready()
        result: dict[str, Any] = {}
        if expression:
            await call.permit(f"run the script {expression[:2000]}")
            await call.permit_text(expression, "run a script")
            given = {
                "expression": expression,
                "returnByValue": True,
                "awaitPromise": True,
                "userGesture": True,
                "replMode": True,
            }
            done = await tab.unless_dialog(tab.cdp.call("Runtime.evaluate", given, tab.session), {})
            value = json.dumps(value_of(done), ensure_ascii=False, default=str)
            result["value"] = clean(value)[:8000]
            await tab.wait_settled()
        lines = [f"{line.level}: {line.text}" for line in tab.console]
        if arguments.get("clear"):
            tab.console.clear()
        left = len(lines) - _MOST_LINES
        return result | {"console": lines[-_MOST_LINES:]} | ({"earlier": left} if left > 0 else {})


async def pdf(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    async with calling("browser_pdf", context) as call:
        tab = call.ready()
        access = Access(context, "browser_pdf")
        path = access.target(str(arguments.get("path") or "page.pdf"))
        await access.permit_write(path, creates=not path.exists())
        done = await tab.cdp.call("Page.printToPDF", {"printBackground": True}, tab.session, 60)
        data = base64.b64decode(done["data"])
        try:
            await asyncio.to_thread(_write_for_person, path, data)
        except OSError as error:
            raise ToolError(f"{access.name(path)} cannot be written: {error.strerror}.") from error
        return {"file": access.name(path), "bytes": len(data)}


async def _holds(tab: Tab, text: str) -> bool:
    script = f"hermes.holds({json.dumps(text)})"
    try:
        for info in (await tab.frames.infos()).values():
            if await tab.unless_dialog(tab.frames.run(info.session, info.id, info.loader, script, 5), False):
                return True
    except CdpError:
        # It goes to another page just now.
        return False
    return False


def _copied(paths: list[Path], folder: Path) -> list[str]:
    """Copy files to a folder the browser can read; return the new paths. Raises `ToolError`."""
    copies = []
    for place, path in enumerate(paths):
        if path.stat().st_size > _LARGEST_UPLOAD:
            raise ToolError(
                f"{path.name} has more than {_LARGEST_UPLOAD // 1_000_000} MB; nothing was uploaded."
            )
        target = folder / f"{time.time_ns()}-{place}"
        target.mkdir(mode=0o700)
        shutil.copyfile(path, target / path.name)
        copies.append(str(target / path.name))
    return copies


def _source(url: str) -> str:
    return f"{url[:40]}… ({len(url)} characters)" if url.startswith("data:") else clean(url)[:500]


def _error(code: str) -> str:
    known = {
        "net::ERR_NAME_NOT_RESOLVED": "its host was not found",
        "net::ERR_TUNNEL_CONNECTION_FAILED": "its host cannot be reached",
        "net::ERR_CONNECTION_REFUSED": "nobody answers there",
        "net::ERR_EMPTY_RESPONSE": "it answered with nothing",
        "net::ERR_CERT_AUTHORITY_INVALID": "its certificate is not trusted",
        "net::ERR_CERT_DATE_INVALID": "its certificate has expired",
        "net::ERR_TOO_MANY_REDIRECTS": "it redirects without end",
        "net::ERR_ABORTED": "it was broken off, perhaps because it is a file to download",
        "net::ERR_CONNECTION_RESET": "the connection was broken off",
        "net::ERR_INVALID_RESPONSE": "its answer cannot be read",
        "net::ERR_INVALID_HTTP_RESPONSE": "its answer cannot be read",
    }
    return known.get(code, code)
