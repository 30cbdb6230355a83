"""Crawling: its order, its manners, what it leaves out, going on after it was cut off."""

# ruff: noqa: E501 - pages and answers as they come
from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agent.integrations.web.crawl import crawling as rules
from agent.integrations.web.crawl.crawling import crawl
from agent.integrations.web.services import CallGate
from tests.agent.core.net.doors import respond
from tests.agent.integrations.web.sites import Site, site
from tools.results import DeniedError
from tools.services.web_reader import CrawlOrder


def page(name: str, *links: str) -> str:
    listed = "".join(f"<li><a href='{each}'>{each}</a></li>" for each in links)
    return (
        f"<html><head><title>{name}</title></head><body><main><h1>{name}</h1><p>{f'About {name} and its matters. ' * 20}"
        f"</p><pre>{name}</pre><pre>x</pre><ul>{listed}</ul></main></body></html>"
    )


PAGES: dict[str, Any] = {
    "/robots.txt": "User-agent: *\nDisallow: /private\nCrawl-delay: 3\n",
    "/": page(
        "Start",
        "/a",
        "/b",
        "/private/x",
        "http://other.example/y",
        "/pic.png",
        "/copy",
        "http://127.0.0.1/z",
        "/moved",
    ),
    "/a": page("A", "/a/deep", "/"),
    "/b": page("B"),
    "/copy": page("B"),
    "/a/deep": page("Deep", "/a/deeper"),
    "/a/deeper": page("Deeper"),
    "/moved": respond(b"", "302 Found", Location="http://other.example/y"),
    "/sitemap.xml": "<urlset><url><loc>http://example.org/listed</loc></url></urlset>",
    "/listed": page("Listed"),
}


async def crawled(here: Site, **order: Any) -> tuple[dict[str, Any], list[float]]:
    """The result, and the pauses from one request to the next in whole seconds; nothing waits."""
    pauses: list[float] = []
    left = asyncio.get_running_loop().time()

    async def sleep(seconds: float) -> None:
        nonlocal left
        now = asyncio.get_running_loop().time()
        # What the work in between took is part of the pause.
        pauses.append(round(now + seconds - left))
        left = now

    call = here.call()
    gate = CallGate(tool="web_crawl", ask=call.ask, agreed=call.agreed, opens=call.opens)
    order = {"url": "http://example.org/", **order}
    try:
        return await crawl(here.services, gate, CrawlOrder(**order), call.progress, sleep=sleep), pauses
    finally:
        await here.services.close()


@pytest.mark.thorough
async def test_a_site_is_crawled_in_order_politely_and_to_the_disk(tmp_path: Path) -> None:
    with site(tmp_path, PAGES) as here:
        result, pauses = await crawled(here)
    index = Path(result["index"]).read_text()
    asked = [path for path in here.paths if path not in ("/robots.txt", "/sitemap.xml")]
    assert asked == ["/", "/listed", "/a", "/b", "/copy", "/moved", "/a/deep"]
    assert result["pages"] == 5 and result["complete"] and "stopped" not in result
    assert len(pauses) == len(here.paths) - 1 and set(pauses[1:]) == {3}
    assert all(f"]({path.name})" in index for path in Path(result["folder"]).glob("example*.md"))
    assert "/copy: the same as http://example.org/b" in index and "another host" in index
    assert result["summary"].startswith("<outside-text from=") and len(result["summary"]) < 6_000
    assert [action.headline() for action in here.asked] == [
        "fetch http://example.org/ and up to 49 pages that it leads to"
    ]
    assert here.told[0].startswith("0 of 50 pages")
    assert set(here.network.asked) == {"example.org"}


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("order", "names"),
    [
        ({"depth": 0}, ["Start"]),
        ({"depth": 1, "include": ("/a*", "/")}, ["Start", "A"]),
        ({"exclude": ("/a/*", "/listed", "/copy", "/moved")}, ["Start", "A", "B"]),
        ({"limit": 2}, ["Start", "Listed"]),
    ],
)
async def test_depth_number_and_patterns_hold(
    tmp_path: Path, order: dict[str, Any], names: list[str]
) -> None:
    with site(tmp_path, PAGES) as here:
        result, _ = await crawled(here, **order)
    assert [
        line.split("[")[1].split("]")[0]
        for line in Path(result["index"]).read_text().splitlines()
        if "](" in line
    ] == names


@pytest.mark.parametrize("answer", [respond(b"", "503 Busy"), b"garbage\r\n\r\n"])
async def test_a_site_whose_rules_cannot_be_read_is_left_alone(tmp_path: Path, answer: bytes) -> None:
    with site(tmp_path, {**PAGES, "/robots.txt": answer}) as here:
        with pytest.raises(rules.RobotsError, match="nothing is fetched"):
            await crawled(here)
    assert set(here.paths) == {"/robots.txt"}


@pytest.mark.thorough
async def test_a_crawl_goes_on_where_it_stopped(tmp_path: Path) -> None:
    with site(tmp_path, PAGES) as here:
        first, _ = await crawled(here, limit=2)
        (log,) = (tmp_path / "home" / "web" / "crawls").glob("*/crawl.jsonl")
        with log.open("a") as file:
            file.write('{"url": "http://example.org/cut')  # killed while it wrote
        before = len(here.paths)
        second, _ = await crawled(here, limit=50)
        again = here.paths[before:]
    assert not first["complete"] and second["complete"] and second["resumed"]
    assert again == ["/robots.txt", "/a", "/b", "/copy", "/moved", "/a/deep"]
    assert [json.loads(line).get("complete") for line in log.read_text().splitlines()[-1:]] == [True]


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["alike", "empty", "missing"])
async def test_no_more_is_fetched_than_was_agreed_whatever_the_pages_hold(tmp_path: Path, kind: str) -> None:
    links = "".join(f"<a href=/p{number}>{number}</a>" for number in range(60))
    page = {
        "alike": respond(b"<html><body><p>always the same</p></body></html>"),
        "empty": respond(b"<html><body></body></html>"),
        "missing": respond(b"", "404 Not Found"),
    }[kind]
    start = respond(f"<html><body><p>Start of it all</p>{links}</body></html>".encode())
    pages = {"/robots.txt": respond(b"", "404 Not Found"), "/": start}
    pages |= {f"/p{number}": page for number in range(60)}
    with site(tmp_path, pages) as here:
        result, _ = await crawled(here, limit=12)
        sent = [path for path in here.paths if path == "/" or path.startswith("/p")]
        assert len(sent) == 12
        assert not result["complete"]
        assert "12 pages were fetched" in result["stopped"]
        await crawled(here, limit=12)
    assert len([path for path in here.paths if path.startswith("/p")]) == 23


async def test_a_no_at_the_gate_lets_nothing_leave(tmp_path: Path) -> None:
    with site(tmp_path, PAGES) as here:
        here.denies = ("pages that it leads to",)
        with pytest.raises(DeniedError):
            await crawled(here)
    assert here.network.reached == []


def test_the_pause_is_between_one_and_ten_seconds() -> None:
    from protego import Protego

    def pause(text: str) -> float:
        return rules.Robots(Protego.parse(text)).pause

    assert [
        pause(f"User-agent: *\n{line}") for line in ("Allow: /", "Crawl-delay: 0.1", "Crawl-delay: 60")
    ] == [1, 1, 10]
