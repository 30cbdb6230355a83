"""`hermes web`: search the web, read pages, crawl sites, and read many documents at once."""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.home import Home
from agent.errors import ConfigError, ExitCode
from app.cli.frame import add_action, add_actions, answer, positive, say, say_json
from tools.services.web_reader import CrawlOrder
from tools.text.outside_text import unfenced
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.integrations.web.services import UserWeb

_MOST_RESULTS = 100


DESCRIPTION = "Search the web, read pages and crawl sites, as the agent does."


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `hermes web` to its parser."""
    actions = add_actions(parser)
    search = add_action(actions, "search", "search the web", run, json="print JSON")
    search.add_argument("query", nargs="+", metavar="WORD")
    search.add_argument("--limit", type=positive, default=5, metavar="N", help="results (default: 5)")
    extract = add_action(actions, "extract", "read pages and documents as text", run, json="print JSON")
    extract.add_argument("urls", nargs="*", metavar="URL")
    extract.add_argument("--query", default="", metavar="TEXT", help="only the passages that answer it")
    extract.add_argument("--char-limit", type=positive, default=15_000, metavar="N", help="characters shown")
    extract.add_argument(
        "--batch",
        metavar="FILE",
        help="read one JSON object a line (id and url, html or path; '-' is stdin) and print one for each",
    )
    crawl = add_action(actions, "crawl", "fetch the pages of a site", run, json="print JSON")
    crawl.add_argument("url", metavar="URL")
    crawl.add_argument("--depth", type=positive, default=2, metavar="N", help="links to follow (default: 2)")
    crawl.add_argument("--limit", type=positive, default=50, metavar="N", help="pages (default: 50)")
    for name, text in (("include", "only these paths"), ("exclude", "not these paths")):
        crawl.add_argument(
            f"--{name}", action="append", default=[], metavar="PATTERN", help=f"{text}, with `*`"
        )


def run(args: argparse.Namespace) -> int | None:
    """Run the chosen action; return an exit code. Raises `HermesError`."""
    if args.action == "extract" and bool(args.urls) == bool(args.batch):
        raise ConfigError("Give either addresses or --batch FILE.")
    return asyncio.run(_run(Home.locate(), args))


async def _run(home: Home, args: argparse.Namespace) -> ExitCode | None:
    from agent.integrations.web.crawl.crawling import crawl
    from agent.integrations.web.extracting import batch, extract, search
    from agent.integrations.web.services import user_web

    async with user_web(home, Path.cwd()) as web:
        if args.action == "search":
            limit = min(args.limit, _MOST_RESULTS)
            found = await search(web.services, web.gate("web_search"), " ".join(args.query), limit)
            return answer(args, found, clean(_results(found)))
        if args.action == "crawl":
            order = CrawlOrder(
                url=args.url,
                depth=args.depth,
                limit=args.limit,
                include=tuple(args.include),
                exclude=tuple(args.exclude),
            )
            tell = _print_result if not args.as_json and sys.stderr.isatty() else _ignore
            found = await crawl(web.services, web.gate("web_crawl"), order, tell)
            return answer(args, found, clean(str(found.get("summary", ""))))
        if args.batch:
            with _lines(args.batch) as lines:
                failed = False
                async for line in batch(web.services, web.gate("web_extract"), lines):
                    failed = failed or "error" in line
                    say_json(line)
            return ExitCode.FAILED if failed else ExitCode.DONE
        return await _run_extract(web, args, extract)


async def _run_extract(web: UserWeb, args: argparse.Namespace, extract: Any) -> ExitCode:
    folder = Path(tempfile.mkdtemp(prefix="hermes-web-"))
    try:
        found = await extract(
            web.services, web.gate("web_extract"), args.urls, args.query, args.char_limit, folder
        )
    finally:
        with suppress(OSError):  # Only long pages are kept in it, which the results name.
            folder.rmdir()  # noqa: ASYNC240 - nothing else runs here
    results = found["results"]
    if args.as_json:
        say_json(found)
    else:
        for each in results:
            notes = "".join(f"\n[{clean(str(note))}]" for note in each.get("notes", ()))
            text = each.get("error") or unfenced(str(each.get("content", "")))
            say(f"{each['url']}{notes}\n\n{clean(str(text))}\n")
    return ExitCode.UNREACHABLE if all("error" in each for each in results) else ExitCode.DONE


def _results(found: Mapping[str, Any]) -> str:
    lines = []
    for each in found.get("results", ()):
        date = f" ({each['date']})" if each.get("date") else ""
        lines.append(f"{each['position']}. {unfenced(each['title'])}{date}\n   {each['url']}")
        if description := unfenced(each.get("description", "")):
            lines.append(f"   {description}")
    return "\n".join([*lines, f"served by {found.get('served_by', '')}"])


class _lines:  # noqa: N801 - reads like a function where it is used
    """A context manager that yields the lines of a file, or of standard input for `-`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> Iterator[str]:
        try:
            self._file = sys.stdin if self._name == "-" else Path(self._name).open(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ConfigError(f"{self._name} cannot be read: {reason}.") from None
        return iter(self._file)

    def __exit__(self, *_: object) -> None:
        if self._file is not sys.stdin:
            self._file.close()


def _print_result(text: str) -> None:
    say(clean(text), sys.stderr)


def _ignore(_text: str) -> None:
    return None
