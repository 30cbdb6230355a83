"""The tool by which the agent reads web pages and documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.context import ToolContext
from tools.registry import Arguments, registry, tool_schema
from tools.results import Display, TextDetail, ToolError, error_text
from tools.services.web_reader import WebReader
from tools.text.outside_text import unfenced
from tools.text.safe_text import clean

MOST_URLS = 5
CHARACTERS = 15_000
_MOST_CHARACTERS = 80_000
_SHOWN = 20_000


def _prepare(arguments: Arguments) -> Arguments:
    """Wrap a single address in a list, and accept other names of the parameter."""
    urls = arguments.pop("url", None) if "urls" not in arguments else arguments["urls"]
    if isinstance(urls, str):
        urls = [urls]
    if urls is not None:
        arguments["urls"] = urls
    return arguments


async def web_extract(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    """Return the beginning of pages as text; the full text of each is written to a file."""
    urls = list(dict.fromkeys(str(each).strip() for each in arguments["urls"] if str(each).strip()))
    if not urls:
        raise ToolError("Give at least one address in urls.")
    if len(urls) > MOST_URLS:
        raise ToolError(f"At most {MOST_URLS} addresses at once; {len(urls)} were given.")
    limit = max(500, min(_MOST_CHARACTERS, int(arguments.get("char_limit") or CHARACTERS)))
    return dict(
        await context.service(WebReader).extract(urls, str(arguments.get("query") or "").strip(), limit)
    )


def _describe(arguments: Arguments, result: Mapping[str, Any] | None) -> Display:
    urls = arguments.get("urls") or [arguments.get("url") or ""]
    subject = clean(", ".join(map(str, [urls] if isinstance(urls, str) else urls)))
    if result is None or result.get("error"):
        return Display("read", subject, error_text(result))
    parts, texts = [], []
    for each in result.get("results", ()):
        if error := each.get("error"):
            parts.append(clean(str(error)))
            continue
        passages = f", {each['passages']} passages" if each.get("passages") else ""
        parts.append(f"{each.get('kind', '')} {each.get('characters', 0):,} characters{passages}")
        parts += [clean(str(note)).partition(":")[0] for note in each.get("notes", ())]
        texts.append(f"{each.get('url', '')}\n\n{unfenced(str(each.get('content', '')))}")
    detail = clean("\n\n".join(texts))[:_SHOWN]
    return Display("read", subject, " · ".join(parts), TextDetail(detail, "markdown") if detail else None)


registry.register(
    name="web_extract",
    toolset="web",
    schema=tool_schema(
        (
            "Read web pages and documents (PDF, DOCX, feeds) as text. With query: only passages that answer "
            "it, far cheaper. The whole text is in the file full_text."
        ),
        "urls",
        urls={
            "type": "array",
            "items": {"type": "string"},
            "description": f"At most {MOST_URLS}.",
        },
        query={"type": "string", "description": "What you want to know."},
        char_limit={
            "type": "integer",
            "description": f"Of all pages together, default {CHARACTERS:,}.",
        },
    ),
    handler=web_extract,
    describe=_describe,
    prepare=_prepare,
    read_only=True,
    place=61,
    bundles=("default", "safe"),
    traits=("for_scripts",),
)
