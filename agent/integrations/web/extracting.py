"""Searching and reading pages for the model: the full text is saved to disk, and a part goes into the
conversation.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.core.net.door import WebError, WebRequest, WebResponse
from agent.errors import HermesError
from agent.integrations.web.reading.passages import MOST, ReadPage, UnreadableError, passages
from agent.integrations.web.services import CallGate, WebServices
from tools.kit.files import write_atomically
from tools.results import DeniedError
from tools.services.actions import SearchWeb
from tools.text.outside_text import fenced, fenced_line
from tools.text.safe_text import clean
from tools.text.words import plural

_OUTLINE = 30
"""The maximum number of headings listed for a text that is cut."""
_TAIL = 0.2
"""The share of the room for the end of a text that is cut."""


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """A page that was fetched and read."""

    answer: WebResponse
    page: ReadPage


class PageError(HermesError):
    """A page cannot be fetched or read. The text is a sentence."""


async def fetch_page(
    web: WebServices, gate: CallGate, url: str, *, wants_links: bool = False, follows: bool = False
) -> FetchedPage:
    """Fetch and read one page. `follows` means that it belongs to something approved as a whole, such as a
    crawl.

    Raises `HermesError` and `DeniedError`.
    """
    permit = gate.further if follows else gate.first
    answer = await web.client.fetch(WebRequest(url=url), permit=permit, opened=gate.is_opened)
    try:
        page = await web.reader.read(
            answer.body, answer.headers.get("content-type", ""), answer.url, wants_links=wants_links
        )
    except UnreadableError as error:
        if answer.status >= 400:
            raise PageError(_status(answer)) from None
        raise PageError(f"{answer.url} {error}.") from None
    if answer.status >= 400:
        needs = "; it needs a browser" if any("browser" in note for note in page.notes) else ""
        raise PageError(_status(answer, needs))
    return FetchedPage(answer, page)


async def extract(
    web: WebServices, gate: CallGate, urls: Sequence[str], query: str, char_limit: int, folder: Path
) -> dict[str, Any]:
    """Read pages and return the result for the tool. Raises `DeniedError` if its only URL was denied."""
    found = await asyncio.gather(*(_try_fetch(web, gate, url) for url in urls))
    if len(found) == 1 and isinstance(found[0], DeniedError):
        raise found[0]
    read = [each for each in found if isinstance(each, FetchedPage)]
    rooms = iter(_rooms([len(each.page.content) for each in read], char_limit))
    room = MOST // max(1, len(read))
    results = []
    for url, each in zip(urls, found, strict=True):
        if isinstance(each, FetchedPage):
            path = await asyncio.to_thread(save, folder, each)
            shown = await asyncio.to_thread(_page_result, each, path, query, next(rooms), room)
            results.append({"url": url, **shown})
        else:
            extra = {"status": "blocked"} if isinstance(each, DeniedError) else {}
            results.append({"url": url, "error": str(each), **extra})
    # A call of which nothing could be read has failed as a whole.
    failure = {} if read else {each: results[0][each] for each in ("error", "status") if each in results[0]}
    return {"results": results, **failure}


async def _try_fetch(web: WebServices, gate: CallGate, url: str) -> FetchedPage | HermesError | DeniedError:
    try:
        return await fetch_page(web, gate, url)
    except (HermesError, DeniedError) as error:
        return error


def _status(answer: WebResponse, needs: str = "") -> str:
    why = {401: "wants a sign-in", 402: "wants to be paid", 403: "refuses access", 404: "has no such page"}
    why |= {410: "has this page no more", 429: "takes no more requests now"}
    said = why.get(answer.status, "is broken" if answer.status >= 500 else "refuses the request")
    return f"{answer.url} {said} (status {answer.status}){needs}."


def _rooms(sizes: Sequence[int], limit: int) -> list[int]:
    """Return how many characters each text gets of `limit`.

    The room that short texts do not use is given to the others.
    """
    rooms, left = [0] * len(sizes), limit
    for done, number in enumerate(sorted(range(len(sizes)), key=lambda each: sizes[each])):
        rooms[number] = min(sizes[number], left // (len(sizes) - done))
        left -= rooms[number]
    return rooms


def save(folder: Path, found: FetchedPage) -> Path:
    """Write the full text of a page and return the path. Raises `OSError`."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / file_name(found.answer.url, found.page)
    write_atomically(path, clean(found.page.content).encode("utf-8", "replace"), mode=0o600)
    return path


def file_name(url: str, page: ReadPage) -> str:
    """Return a readable and unique file name for the text of a page."""
    words = re.sub(r"[^a-z0-9]+", "-", url.partition("://")[2].lower()).strip("-")[:60]
    ending = "json" if page.kind == "json" else "txt" if page.kind in ("code", "text") else "md"
    return f"{words}-{hashlib.sha256(url.encode()).hexdigest()[:8]}.{ending}"


def _page_result(found: FetchedPage, path: Path, query: str, limit: int, room: int) -> dict[str, Any]:
    page, answer = found.page, found.answer
    content = clean(page.content)
    head = [f"Title: {page.title}"] if page.title else []
    head += [f"Date: {page.date}"] if page.date else []
    result: dict[str, Any] = {"kind": page.kind, "characters": len(content), "full_text": str(path)}
    if answer.redirects:
        result["led_to"] = answer.url
    if page.hidden:
        what = plural(page.hidden, "hidden piece")
        result["hidden"] = f"left out: {what} ({plural(page.hidden_characters, 'character')})"
    if page.notes:
        result["notes"] = list(page.notes)
    if not content.strip():
        result.setdefault("notes", []).append("there is no text on it")
    if query:
        fitting = passages(content, page.headings if content == page.content else (), query, room)
        texts = [
            f"[at {each.start:,}{f', under {each.under}' if each.under else ''}]\n{each.text}"
            for each in fitting
        ]
        if fitting:
            result["passages"] = len(fitting)
            result["content"] = fenced("\n\n".join([*head, *texts]), answer.url)
            return result
        result["passages"] = 0
        limit = min(limit, room)
        result.setdefault("notes", []).append("no passage has words of the query; its beginning is shown")
    result["content"] = fenced(
        "\n\n".join(filter(None, ["\n".join(head), _cut(content, page, limit)])), answer.url
    )
    return result


def _cut(content: str, page: ReadPage, limit: int) -> str:
    if len(content) <= limit:
        return content
    tail = int(limit * _TAIL)
    head = limit - tail
    left = len(content) - limit
    outline = [f"{at:,}: {text}" for at, text in page.headings if head <= at < len(content) - tail][:_OUTLINE]
    named = "".join(f"\n  {each}" for each in outline)
    where = f", by position:{named}" if named else ""
    mark = f"[… {left:,} characters left out here; they are in full_text{where}]"
    return f"{content[:head].rstrip()}\n\n{mark}\n\n{content[len(content) - tail :].lstrip()}"


_TYPES = {".html": "text/html", ".htm": "text/html", ".gz": "text/html"}


async def batch(web: WebServices, gate: CallGate, lines: Iterable[str]) -> AsyncIterator[dict[str, Any]]:
    """Process lines of JSON with `id` and one of `url`, `html` and `path`.

    Yields an answer for each: `id`, `text` and `markdown`, or `id` and `error`.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            order = json.loads(line)
        except (ValueError, RecursionError):
            order = None
        if not isinstance(order, dict):
            yield {"id": None, "line": number, "error": f"Line {number} is not a JSON object."}
            continue
        named = {"id": order.get("id", number)} | ({"url": order["url"]} if order.get("url") else {})
        try:
            yield named | await _one(web, gate, order)
        except UnreadableError as error:
            yield named | {"error": f"It {error}."}
        except (HermesError, DeniedError) as error:
            yield named | {"error": str(error)}
        except OSError as error:
            yield named | {"error": f"{order.get('path')} cannot be read: {error.strerror or error}."}


async def _one(web: WebServices, gate: CallGate, order: dict[str, Any]) -> dict[str, Any]:
    url = str(order.get("url") or "")
    if "html" in order:
        data, kind = str(order["html"]).encode("utf-8", "replace"), "text/html; charset=utf-8"
    elif "path" in order:
        path = Path(str(order["path"]))
        data, kind = await asyncio.to_thread(_file, path), _TYPES.get(path.suffix.lower(), "")
    elif url:
        answer = await web.client.fetch(WebRequest(url=url), permit=gate.first, opened=gate.is_opened)
        data, kind = answer.body, answer.headers.get("content-type", "")
        if answer.status >= 400:
            return {"error": f"{answer.url} answered with status {answer.status}."}
    else:
        return {"error": "There is neither url, html nor path."}
    page = await web.reader.read(data, kind, url, wants_plain=True)
    return {
        "title": page.title,
        "date": page.date,
        "kind": page.kind,
        "text": page.plain,
        "markdown": page.content,
        "hidden": page.hidden,
        "notes": list(page.notes),
    }


def _file(path: Path) -> bytes:
    data = path.read_bytes()
    if path.suffix.lower() == ".gz":
        from agent.core.net.door import PackedError, Unpacker

        try:
            return Unpacker("gzip", 100_000_000).feed(data)
        except PackedError as error:
            raise OSError(str(error)) from None
    return data


_DATE = re.compile(r"[\w ,:.+-]{1,32}")
_DESCRIPTION = 400
"""The maximum number of characters of a description."""


async def search(web: WebServices, gate: CallGate, query: str, limit: int) -> dict[str, Any]:
    """Search the web and return the result for the tool. Raises `HermesError` and `DeniedError`."""
    ring = web.ring
    if (name := web.client.secret_in(query)) is not None:
        raise WebError(f"The query holds the secret {name}; secrets never leave.", "secret")
    routes = tuple(f"{name} ({address})" for name, address in ring.routes)
    await gate.ask(SearchWeb(tool=gate.tool, query=query, routes=routes))
    found = await ring.search(query, limit, gate.further)
    result: dict[str, Any] = {
        "results": [
            {
                "position": number,
                "title": fenced_line(hit.title[:300]),
                "url": hit.url,
                "description": fenced_line(hit.description[:_DESCRIPTION]),
                **({"date": date[0]} if (date := _DATE.match(hit.date)) else {}),
            }
            for number, hit in enumerate(found.hits, 1)
        ],
        "served_by": ", ".join(found.served_by),
    }
    if found.passed:
        result["passed_over"] = dict(found.passed)
    if found.dropped:
        result["dropped"] = f"{plural(found.dropped, 'result')} with addresses that are never reached"
    if found.is_circling:
        result["hint"] = (
            "Three searches for nearly the same words found nothing: search for other words, or read a page "
            "you know of."
        )
    return result
