"""`hermes web`: search the web, read pages, crawl sites, and read many documents in one go."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.home import Home
from agent.errors import ConfigError, ExitCode
from app.cli.sessions.output import say
from tools.services.web_reader import CrawlOrder
from tools.text.outside_text import unfenced
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.integrations.web.person import PersonsWeb

_MOST_RESULTS = 100


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Declare the subcommand."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "web",
        help="search the web, read pages and crawl sites",
        description="Search the web, read pages and crawl sites, as the agent does.",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    search = _action(actions, "search", "search the web")
    search.add_argument("query", nargs="+", metavar="WORD")
    search.add_argument("--limit", type=_number, default=5, metavar="N", help="results (default: 5)")
    extract = _action(actions, "extract", "read pages and documents as text")
    extract.add_argument("urls", nargs="*", metavar="URL")
    extract.add_argument("--query", default="", metavar="TEXT", help="only the passages that answer it")
    extract.add_argument("--char-limit", type=_number, default=15_000, metavar="N", help="characters shown")
    extract.add_argument(
        "--batch",
        metavar="FILE",
        help="read one JSON object a line (id and url, html or path; '-' is stdin) and print one for each",
    )
    crawl = _action(actions, "crawl", "fetch the pages of a site")
    crawl.add_argument("url", metavar="URL")
    crawl.add_argument("--depth", type=_number, default=2, metavar="N", help="links to follow (default: 2)")
    crawl.add_argument("--limit", type=_number, default=50, metavar="N", help="pages (default: 50)")
    for name, text in (("include", "only these paths"), ("exclude", "not these paths")):
        crawl.add_argument(
            f"--{name}", action="append", default=[], metavar="PATTERN", help=f"{text}, with `*`"
        )
    return parser


def _action(actions: Any, name: str, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, help=text, description=f"{text.capitalize()}.")
    parser.add_argument("--json", action="store_true", dest="as_json", help="print JSON")
    return parser


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number above 0")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Carry it out. Raises `HermesError`."""
    if args.action == "extract" and bool(args.urls) == bool(args.batch):
        raise ConfigError("Give either addresses or --batch FILE.")
    code = asyncio.run(_run(Home.locate(), args))
    sys.stdout.flush()
    return int(code)


async def _run(home: Home, args: argparse.Namespace) -> ExitCode:
    from agent.integrations.web.batch import batch
    from agent.integrations.web.crawl.crawling import crawl
    from agent.integrations.web.extracting import extract
    from agent.integrations.web.person import persons_web
    from agent.integrations.web.searching import search

    async with persons_web(home, Path.cwd()) as web:
        if args.action == "search":
            limit = min(args.limit, _MOST_RESULTS)
            found = await search(web.services, web.gate("web_search"), " ".join(args.query), limit)
            return _shown(args, found, _results(found))
        if args.action == "crawl":
            order = CrawlOrder(
                url=args.url,
                depth=args.depth,
                limit=args.limit,
                include=tuple(args.include),
                exclude=tuple(args.exclude),
            )
            tell = _tell if not args.as_json and sys.stderr.isatty() else _silent
            found = await crawl(web.services, web.gate("web_crawl"), order, tell)
            return _shown(args, found, str(found.get("summary", "")))
        if args.batch:
            with _lines(args.batch) as lines:
                failed = False
                async for answer in batch(web.services, web.gate("web_extract"), lines):
                    failed = failed or "error" in answer
                    say(json.dumps(answer, ensure_ascii=False))
            return ExitCode.FAILED if failed else ExitCode.DONE
        return await _extracted(web, args, extract)


async def _extracted(web: PersonsWeb, args: argparse.Namespace, extract: Any) -> ExitCode:
    folder = Path(tempfile.mkdtemp(prefix="hermes-web-"))
    found = await extract(
        web.services, web.gate("web_extract"), args.urls, args.query, args.char_limit, folder
    )
    results = found["results"]
    if args.as_json:
        say(json.dumps(found, ensure_ascii=False))
    else:
        for each in results:
            notes = "".join(f"\n[{clean(str(note))}]" for note in each.get("notes", ()))
            text = each.get("error") or unfenced(str(each.get("content", "")))
            say(f"{each['url']}{notes}\n\n{clean(str(text))}\n")
    return ExitCode.UNREACHABLE if all("error" in each for each in results) else ExitCode.DONE


def _shown(args: argparse.Namespace, found: Mapping[str, Any], text: str) -> ExitCode:
    say(json.dumps(found, ensure_ascii=False) if args.as_json else clean(text))
    return ExitCode.DONE


def _results(found: Mapping[str, Any]) -> str:
    lines = []
    for each in found.get("results", ()):
        date = f" ({each['date']})" if each.get("date") else ""
        lines.append(f"{each['position']}. {unfenced(each['title'])}{date}\n   {each['url']}")
        if description := unfenced(each.get("description", "")):
            lines.append(f"   {description}")
    return "\n".join([*lines, f"served by {found.get('served_by', '')}"])


class _lines:  # noqa: N801 - reads like a function where it is used
    """The lines of a file or of standard input, as long as it is open."""

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


def _tell(text: str) -> None:
    say(clean(text), sys.stderr)


def _silent(_text: str) -> None:
    return None
