"""Reading pages for the model: what fits into the conversation, all of it on the disk, passages."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.core.net.door import DoorAnswer, DoorRequest
from agent.errors import HermesError
from agent.integrations.web.gate import CallGate
from agent.integrations.web.reading.page import ReadPage, UnreadableError
from agent.integrations.web.reading.passages import MOST, passages
from agent.integrations.web.services import WebServices
from tools.kit.files import write_atomically
from tools.results import DeniedError
from tools.text.outside_text import fenced
from tools.text.safe_text import clean

_OUTLINE = 30
"""Headings that are told of a text that is cut."""
_TAIL = 0.2
"""The share of the room that the end of a text gets."""


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """A page that was fetched and read."""

    answer: DoorAnswer
    page: ReadPage


class PageError(HermesError):
    """A page that cannot be had. The text is a sentence."""


async def fetch_page(
    web: WebServices, gate: CallGate, url: str, *, wants_links: bool = False, follows: bool = False
) -> FetchedPage:
    """Fetch and read one page. `follows`: it belongs to what was agreed to as a whole.

    Raises `HermesError` and `DeniedError`.
    """
    permit = gate.further if follows else gate.first
    answer = await web.door.fetch(DoorRequest(url=url), permit=permit, opened=gate.opened)
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
    """The result of the tool. Raises `DeniedError` where nothing but a no came of it."""
    found = await asyncio.gather(*(_tried(web, gate, url) for url in urls))
    if len(found) == 1 and isinstance(found[0], DeniedError):
        raise found[0]
    read = [each for each in found if isinstance(each, FetchedPage)]
    rooms = iter(_rooms([len(each.page.content) for each in read], char_limit))
    room = MOST // max(1, len(read))
    results = []
    for url, each in zip(urls, found, strict=True):
        if isinstance(each, FetchedPage):
            path = await asyncio.to_thread(save, folder, each)
            shown = await asyncio.to_thread(_shown, each, path, query, next(rooms), room)
            results.append({"url": url, **shown})
        else:
            extra = {"status": "blocked"} if isinstance(each, DeniedError) else {}
            results.append({"url": url, "error": str(each), **extra})
    return {"results": results}


async def _tried(web: WebServices, gate: CallGate, url: str) -> FetchedPage | HermesError | DeniedError:
    try:
        return await fetch_page(web, gate, url)
    except (HermesError, DeniedError) as error:
        return error


def _status(answer: DoorAnswer, needs: str = "") -> str:
    why = {401: "wants a sign-in", 402: "wants to be paid", 403: "refuses access", 404: "has no such page"}
    why |= {410: "has this page no more", 429: "takes no more requests now"}
    said = why.get(answer.status, "is broken" if answer.status >= 500 else "refuses the request")
    return f"{answer.url} {said} (status {answer.status}){needs}."


def _rooms(sizes: Sequence[int], limit: int) -> list[int]:
    """How many characters each text gets of `limit`: what short ones leave goes to the others."""
    rooms, left = [0] * len(sizes), limit
    for done, number in enumerate(sorted(range(len(sizes)), key=lambda each: sizes[each])):
        rooms[number] = min(sizes[number], left // (len(sizes) - done))
        left -= rooms[number]
    return rooms


def save(folder: Path, found: FetchedPage) -> Path:
    """Write the whole text; where it stands then. Raises `OSError`."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / file_name(found.answer.url, found.page)
    write_atomically(path, clean(found.page.content).encode("utf-8", "replace"), mode=0o600)
    return path


def file_name(url: str, page: ReadPage) -> str:
    """A name for the text of a page: readable, and its own."""
    words = re.sub(r"[^a-z0-9]+", "-", url.partition("://")[2].lower()).strip("-")[:60]
    ending = "json" if page.kind == "json" else "txt" if page.kind in ("code", "text") else "md"
    return f"{words}-{hashlib.sha256(url.encode()).hexdigest()[:8]}.{ending}"


def _shown(found: FetchedPage, path: Path, query: str, limit: int, room: int) -> dict[str, Any]:
    page, answer = found.page, found.answer
    content = clean(page.content)
    head = [f"Title: {page.title}"] if page.title else []
    head += [f"Date: {page.date}"] if page.date else []
    result: dict[str, Any] = {"kind": page.kind, "characters": len(content), "full_text": str(path)}
    if answer.redirects:
        result["led_to"] = answer.url
    if page.hidden:
        result["hidden"] = (
            f"{page.hidden} hidden pieces ({page.hidden_characters:,} characters) were left out"
        )
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
