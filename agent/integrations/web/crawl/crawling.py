"""The crawl of one host: breadth first, obeying robots.txt, saving pages and an index to disk."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from agent.core.net.door import AddressError, WebAddress, WebError, WebRequest, WebResponse, web_address
from agent.errors import ExitCode, HermesError
from agent.integrations.web.extracting import PageError, fetch_page, save
from agent.integrations.web.services import CallGate, WebServices, same_site
from tools.extras import missing
from tools.kit.files import write_atomically
from tools.results import DeniedError
from tools.services.actions import Fetch
from tools.services.web_reader import CrawlOrder
from tools.text.outside_text import fenced
from tools.text.safe_text import clean
from tools.text.words import one_line, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawledPage:
    """One URL that was fetched or skipped."""

    url: str
    depth: int
    file: str = ""
    """The file with its text, relative to the folder of the crawl; empty if there is none."""
    title: str = ""
    characters: int = 0
    size: int = 0
    """The number of bytes received."""
    digest: str = ""
    """The hash of its text, by which duplicates are recognized."""
    why: str = ""
    """The reason why there is no text."""
    links: Sequence[str] = field(default=(), repr=False)
    """The links on it that may be followed."""


class CrawlLog:
    """The file `crawl.jsonl` in a folder. Its methods block."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / "crawl.jsonl"

    def read(self) -> tuple[list[CrawledPage], bool]:
        """Return the recorded pages, and whether the crawl is complete. A truncated line is ignored."""
        pages: list[CrawledPage] = []
        is_complete = False
        for data in self._lines():
            if data.get("complete"):
                is_complete = True
            else:
                try:
                    pages.append(CrawledPage(**data))
                except TypeError:
                    continue
        return pages, is_complete

    def add(self, page: CrawledPage) -> None:
        """Record a page. Raises `OSError`."""
        self._write(asdict(page))

    def end(self) -> None:
        """Record that the crawl is complete."""
        self._write({"complete": True})

    def begin_anew(self) -> None:
        """Delete the records, so that the crawl starts again."""
        self._path.unlink(missing_ok=True)

    def _lines(self) -> Iterator[dict[str, Any]]:
        try:
            text = self._path.read_text("utf-8", "replace")
        except FileNotFoundError:
            return
        for line in text.splitlines():
            try:
                data = json.loads(line)
            except ValueError:
                continue
            if isinstance(data, dict):
                yield data

    def _write(self, data: dict[str, object]) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        line = json.dumps(data, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        opened = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            # What was cut off before ends here, so that it spoils no line after it.
            if os.fstat(opened).st_size and not self._ends():
                line = b"\n" + line
            os.write(opened, line)
        finally:
            os.close(opened)

    def _ends(self) -> bool:
        with self._path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"


ROBOT = "hermes-tui"
LEAST_PAUSE, MOST_PAUSE = 1.0, 10.0
"""The minimum and maximum number of seconds between two requests to a host."""
MOST_SITEMAPS = 5
MOST_PLACES = 5_000
_LOC = re.compile(r"<(?:\w+:)?loc>\s*(?:<!\[CDATA\[)?\s*([^<\]\s]{1,2000})", re.IGNORECASE)

Get = Callable[[str], Awaitable[WebResponse]]


class RobotsError(HermesError):
    """The robots.txt of a site cannot be read, so nothing is fetched."""

    exit_code = ExitCode.UNREACHABLE


@dataclass(frozen=True, slots=True)
class Robots:
    """The robots.txt rules of one host. If `rules` is None, there are none and everything may be fetched."""

    rules: Any = None

    def lets(self, url: str) -> bool:
        """Return whether a URL may be fetched."""
        return self.rules is None or bool(self.rules.can_fetch(url, ROBOT))

    @property
    def pause(self) -> float:
        """The seconds to wait between two requests."""
        wanted = None if self.rules is None else self.rules.crawl_delay(ROBOT)
        return min(MOST_PAUSE, max(LEAST_PAUSE, float(wanted or 0)))

    @property
    def sitemaps(self) -> list[str]:
        return [] if self.rules is None else list(self.rules.sitemaps)[:MOST_SITEMAPS]


async def read_robots(origin: str, get: Get) -> Robots:
    """Return the rules in the robots.txt of `origin`. Raises `RobotsError` or `WebError`."""
    try:
        answer = await get(f"{origin}/robots.txt")
    except WebError as error:
        if error.kind in ("address", "secret"):
            raise
        raise RobotsError(
            f"The robots.txt of {origin} cannot be read, so nothing is fetched there: {error}"
        ) from error
    if answer.status >= 500:
        raise RobotsError(
            f"The robots.txt of {origin} cannot be read (status {answer.status}), so nothing is fetched "
            "there; try again later."
        )
    if answer.status != 200:
        return Robots()
    try:
        from protego import Protego
    except ModuleNotFoundError:
        raise RobotsError(missing("Crawling", "web")) from None

    return Robots(Protego.parse(answer.body[:500_000].decode("utf-8", "replace")))


async def read_sitemaps(origin: str, robots: Robots, get: Get) -> list[str]:
    """Return at most `MOST_PLACES` page URLs from the site's sitemaps; empty if there are none."""
    left = robots.sitemaps or [f"{origin}/sitemap.xml"]
    found: dict[str, None] = {}
    for number, place in enumerate(left):
        if number >= MOST_SITEMAPS or len(found) >= MOST_PLACES:
            break
        try:
            answer = await get(place)
        except HermesError:
            continue
        text = answer.body.decode("utf-8", "replace") if answer.status == 200 else ""
        places = [each.replace("&amp;", "&") for each in _LOC.findall(text)[:MOST_PLACES]]
        if "<sitemapindex" in text:
            left += places
        else:
            found |= dict.fromkeys(places)
    return list(found)[:MOST_PLACES]


SUMMARY = 5_000
"""The maximum number of characters of a summary, well below 2,000 tokens."""
MOST_WAITING = 20_000
"""The maximum number of URLs that are known to a crawl."""
_NO_PAGE = re.compile(
    r"\.(?:png|jpe?g|gif|webp|svg|ico|css|js|mjs|map|woff2?|ttf|eot|zip|gz|tgz|bz2|xz|7z|rar|exe|dmg|iso|mp[34]|"
    r"webm|avi|mov|ogg|wav|whl|jar|deb|rpm)\Z",
    re.IGNORECASE,
)

Tell = Callable[[str], None]
Sleep = Callable[[float], Awaitable[None]]


async def crawl(
    web: WebServices, gate: CallGate, order: CrawlOrder, tell: Tell, *, sleep: Sleep = asyncio.sleep
) -> dict[str, Any]:
    """Crawl a site and return the result for the tool. Raises `HermesError`, `DeniedError` and `OSError`."""
    try:
        start = web_address(order.url)
    except AddressError as error:
        raise WebError(str(error), "form") from None
    limit = min(order.limit, web.settings.crawl.pages)
    if not gate.is_opened(start.url):
        web.client.check(start.url)
    await gate.ask(Fetch(tool=gate.tool, url=start.url, pages=limit))
    run = _Crawl(web, gate, replace(order, limit=limit), start, tell, sleep)
    return await run.run()


class _Crawl:
    """The state of one running crawl."""

    def __init__(
        self, web: WebServices, gate: CallGate, order: CrawlOrder, start: WebAddress, tell: Tell, sleep: Sleep
    ) -> None:
        self._web = web
        self._gate = gate
        self._order = order
        self._start = start
        self._tell = tell
        self._sleep = sleep
        self._folder = web.folder / "crawls" / _name(order, start)
        self._log = CrawlLog(self._folder)
        self._robots = Robots()
        self._waiting: deque[tuple[str, int]] = deque()
        self._known: set[str] = set()
        self._digests: dict[str, str] = {}
        self._pages: list[CrawledPage] = []
        self._next = 0.0
        """The earliest time of the next request, by the clock of the event loop."""

    async def run(self) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        ends = loop.time() + self._web.settings.crawl.seconds
        before, is_complete = await asyncio.to_thread(self._log.read)
        if is_complete:
            before = []
            await asyncio.to_thread(self._log.begin_anew)
        self._robots = await read_robots(self._start.origin, self._get)
        self._enqueue(self._start.url, 0)
        for page in before:
            self._take(page)
        if not before and self._order.depth > 0:
            for url in await read_sitemaps(self._start.origin, self._robots, self._get):
                self._enqueue(url, 1)
        done = {page.url for page in self._pages}
        # What was agreed to with this call is a number of requests, whatever each of them brings.
        fetched = 0
        size = sum(page.size for page in self._pages)
        stopped = ""
        while self._waiting and not stopped:
            if fetched >= self._order.limit:
                stopped = f"{fetched} pages were fetched"
            elif size >= self._web.settings.crawl.size_mb * 1_000_000:
                stopped = f"{size / 1_000_000:.0f} MB were fetched"
            elif loop.time() >= ends:
                stopped = f"{self._web.settings.crawl.seconds:g} s are over"
            else:
                url, depth = self._waiting.popleft()
                if url in done:
                    continue
                self._tell(f"{fetched} of {self._order.limit} pages · {url}")
                page = await self._page(url, depth)
                await asyncio.to_thread(self._log.add, page)
                self._take(page)
                fetched += 1
                size += page.size
        if not self._waiting:
            await asyncio.to_thread(self._log.end)
        return await asyncio.to_thread(self._result, stopped, bool(before))

    async def _page(self, url: str, depth: int) -> CrawledPage:
        await self._pace()
        try:
            found = await fetch_page(self._web, self._within(), url, wants_links=True, follows=True)
        except (HermesError, DeniedError) as error:
            return CrawledPage(url=url, depth=depth, why=str(error)[:300])
        links = [each for each in found.page.links if self._wants(each)] if depth < self._order.depth else []
        size, text = len(found.answer.body), " ".join(found.page.content.split())
        digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
        page = CrawledPage(url=url, depth=depth, size=size, digest=digest, links=tuple(links))
        if not text:
            return replace(page, why="there is no text on it")
        if digest in self._digests:
            return replace(page, why=f"the same as {self._digests[digest]}")
        if depth > 0 and not self._fits(found.answer.url):
            return replace(page, why="it leads to what is left out")
        path = await asyncio.to_thread(save, self._folder, found)
        title = one_line(found.page.title)[:160]
        return replace(page, file=path.name, title=title, characters=len(found.page.content))

    async def _get(self, url: str) -> WebResponse:
        await self._pace()
        gate = self._within()
        return await self._web.client.fetch(WebRequest(url=url), permit=gate.further, opened=gate.is_opened)

    async def _pace(self) -> None:
        loop = asyncio.get_running_loop()
        if (pause := self._next - loop.time()) > 0:
            await self._sleep(pause)
        self._next = loop.time() + self._robots.pause

    def _within(self) -> CallGate:
        """Return the permission check limited to this host.

        A page on another host raises an error instead of asking the user.
        """

        async def ask(action: Any) -> None:
            raise PageError(
                f"It leads to another host ({urlsplit(action.url).hostname}), which is not crawled."
            )

        async def check_action(action: Any) -> None:
            if not same_site(action.url, self._start.url):
                await ask(action)
            await self._gate.agreed(action)

        return replace(self._gate, ask=ask, agreed=check_action)

    def _take(self, page: CrawledPage) -> None:
        self._pages.append(page)
        self._known.add(page.url)
        if page.file:
            self._digests.setdefault(page.digest, page.url)
        for url in page.links:
            self._enqueue(url, page.depth + 1)

    def _enqueue(self, url: str, depth: int) -> None:
        """Queue a URL to be fetched, if it may be fetched, was not queued before and there is room."""
        try:
            url = web_address(url).url
        except AddressError:
            return
        if url in self._known or len(self._known) >= MOST_WAITING or depth > self._order.depth:
            return
        if depth > 0 and not self._wants(url):
            return
        self._known.add(url)
        self._waiting.append((url, depth))

    def _wants(self, url: str) -> bool:
        """Return whether a link may be followed: same host, a page by its extension, allowed by robots.txt
        and patterns.
        """
        return (
            same_site(url, self._start.url)
            and _NO_PAGE.search(urlsplit(url).path) is None
            and self._fits(url)
            and self._robots.lets(url)
        )

    def _fits(self, url: str) -> bool:
        path = unquote(urlsplit(url).path or "/")
        if any(fnmatchcase(path, each) for each in self._order.exclude):
            return False
        return not self._order.include or any(fnmatchcase(path, each) for each in self._order.include)

    def _result(self, stopped: str, resumed: bool) -> dict[str, Any]:
        kept = [page for page in self._pages if page.file]
        left_out = [page for page in self._pages if page.why]
        lines = [f"# {self._start.url}", "", f"{plural(len(kept), 'page')}."]
        lines += ["", *(f"- [{_plain(page)}]({page.file}): {page.url}" for page in kept)]
        if left_out:
            lines += ["", "## Left out", "", *(f"- {page.url}: {clean(page.why)}" for page in left_out)]
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        index = self._folder / "index.md"
        write_atomically(index, ("\n".join(lines) + "\n").encode("utf-8", "replace"), mode=0o600)
        result: dict[str, Any] = {
            "pages": len(kept),
            "folder": str(self._folder),
            "index": str(index),
            "complete": not self._waiting,
            "summary": fenced(_summary(kept), self._start.url),
        }
        if left_out:
            result["left_out"] = dict(Counter(_kind(page.why) for page in left_out).most_common(8))
        if stopped:
            result["stopped"] = (
                f"{stopped}; {len(self._waiting):,} addresses wait: the same call continues there"
            )
        if resumed:
            result["resumed"] = True
        return result


def _summary(pages: list[CrawledPage]) -> str:
    lines, left = [], SUMMARY
    for number, page in enumerate(pages):
        line = f"{page.file} · {_plain(page)} · {page.characters:,} characters"
        if len(line) > left - 60:
            lines.append(f"and {len(pages) - number} more, see the index")
            break
        left -= len(line) + 1
        lines.append(line)
    return "\n".join(lines)


def _plain(page: CrawledPage) -> str:
    return re.sub(r"[\[\]\n]", " ", page.title) or urlsplit(page.url).path


def _kind(why: str) -> str:
    """Return the reason for a skipped page without details, so that equal reasons can be counted."""
    for known in ("the same as another page", "there is no text on it", "it leads to what is left out"):
        if why.startswith(known[:11]):
            return known
    if match := re.search(r"\(status (\d+)\)", why):
        return f"status {match[1]}"
    return "another host" if "another host" in why else why[-80:]


def _name(order: CrawlOrder, start: WebAddress) -> str:
    """Return the folder name of a crawl; the same for equal orders, so that a crawl can be resumed."""
    told = repr((start.url, order.depth, order.include, order.exclude))
    words = re.sub(r"[^a-z0-9]+", "-", start.authority.lower()).strip("-")[:40]
    return f"{words}-{hashlib.sha256(told.encode()).hexdigest()[:10]}"
