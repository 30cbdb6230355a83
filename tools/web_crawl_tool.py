"""The tool by which the agent fetches the pages of a site."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.context import ToolContext
from tools.registry import Arguments, registry, tool_schema
from tools.results import Display, TextDetail, error_text
from tools.services.web_reader import CrawlOrder, WebReader
from tools.text.outside_text import unfenced
from tools.text.safe_text import clean

DEPTH, PAGES = 2, 50
_MOST_DEPTH, _MOST_PAGES = 10, 10_000


async def web_crawl(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    """Save the pages of a site to disk, with an index."""
    depth, limit = arguments.get("depth"), arguments.get("limit")
    order = CrawlOrder(
        url=str(arguments["url"]).strip(),
        depth=max(0, min(_MOST_DEPTH, DEPTH if depth is None else int(depth))),
        limit=max(1, min(_MOST_PAGES, PAGES if limit is None else int(limit))),
        include=tuple(map(str, arguments.get("include") or ())),
        exclude=tuple(map(str, arguments.get("exclude") or ())),
    )
    return dict(await context.service(WebReader).crawl(order))


def _prepare(arguments: Arguments) -> Arguments:
    """Wrap a single pattern in a list."""
    for name in ("include", "exclude"):
        if isinstance(arguments.get(name), str):
            arguments[name] = [arguments[name]]
    return arguments


def _describe(arguments: Arguments, result: Mapping[str, Any] | None) -> Display:
    subject = clean(str(arguments.get("url", "")))
    if result is None or result.get("error"):
        return Display("crawl", subject, error_text(result))
    summary = f"{result.get('pages', 0)} pages"
    if stopped := result.get("stopped"):
        summary += f" · {stopped}"
    return Display(
        "crawl", subject, clean(summary), TextDetail(clean(unfenced(str(result.get("summary", "")))))
    )


registry.register(
    name="web_crawl",
    toolset="web",
    schema=tool_schema(
        (
            "Fetch the pages of a site (one host) as text files with an index. Called again with the same "
            "arguments, it continues."
        ),
        "url",
        url={"type": "string"},
        depth={"type": "integer", "description": f"Default {DEPTH}."},
        limit={"type": "integer", "description": f"Pages, default {PAGES}."},
        include={
            "type": "array",
            "items": {"type": "string"},
            "description": "Paths such as /docs/*.",
        },
        exclude={
            "type": "array",
            "items": {"type": "string"},
        },
    ),
    handler=web_crawl,
    describe=_describe,
    prepare=_prepare,
    place=62,
    bundles=("default",),
)
