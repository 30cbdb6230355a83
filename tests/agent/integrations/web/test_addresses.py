"""Addresses that are never reached, by each tool that fetches: spelled, linked, listed, redirected to."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from agent.core.net.door import WebClient, WebError
from agent.integrations.senses.online import Online
from agent.integrations.web.search.service import SearchRing
from tests.agent.core.net.doors import PUBLIC, TestNetwork, respond, web
from tests.agent.integrations.web.sites import site
from tests.agent.integrations.web.test_crawling import crawled, page
from tests.agent.integrations.web.test_searching import Route, anybody, found
from tests.support.refused_hosts import HOSTS, LED_THERE, SAMPLE
from tools.results import ToolError
from tools.services.actions import Action

NAMED = [f"http://{host}/refused" for host in HOSTS]
LED = [f"http://{name}/refused" for name in LED_THERE]
NAMES = {"example.org": (str(PUBLIC),), **LED_THERE}


def moved(path: str) -> bytes:
    return respond(b"", "302 Found", Location=quote(f"http://{SAMPLE[int(path[4:])]}/refused", safe=":/[]%"))


async def test_results_of_a_search_that_lead_there_are_dropped() -> None:
    answer = await SearchRing([Route("one", found(*NAMED, "https://open.example/"))]).search(
        "q", 100, anybody
    )
    assert [hit.url for hit in answer.hits] == ["https://open.example/"]
    assert answer.dropped == len(NAMED)


@pytest.mark.thorough
async def test_no_page_is_read_there(tmp_path: Path) -> None:
    pages: dict[str, Any] = {f"/to/{at}": moved(f"/to/{at}") for at in range(len(SAMPLE))}
    with site(tmp_path, pages) as here:
        here.network.names = NAMES
        urls = [*NAMED, *LED, *(f"http://example.org{path}" for path in pages)]
        for at in range(0, len(urls), 50):
            for each in (await here.call().extract(urls[at : at + 50], "", 9_000))["results"]:
                assert "error" in each, each
        await here.services.close()
    assert set(here.network.reached) == {(str(PUBLIC), 80)}
    assert "/refused" not in here.paths
    assert not any(action.headline() in {f"fetch {url}" for url in NAMED} for action in here.asked)


@pytest.mark.thorough
async def test_no_crawl_begins_or_leads_there(tmp_path: Path) -> None:
    listed = "".join(f"<url><loc>{url}</loc></url>" for url in NAMED[::7])
    pages: dict[str, Any] = {
        "/robots.txt": "User-agent: *\nAllow: /\nSitemap: http://127.0.0.1/refused\nSitemap: http://0x7f.1/refused\n",
        "/sitemap.xml": f"<urlset>{listed}</urlset>",
        "/": page("Start", *NAMED[::5], *LED, *(f"/to/{at}" for at in range(len(SAMPLE)))),
        **{f"/to/{at}": moved(f"/to/{at}") for at in range(len(SAMPLE))},
    }
    with site(tmp_path, pages) as here:
        here.network.names = NAMES
        result, _ = await crawled(here, limit=200)
    assert result["pages"] == 1
    assert {f"/to/{at}" for at in range(len(SAMPLE))} <= set(here.paths)
    for start in [*NAMED[::9], *LED]:
        with site(tmp_path / "begun", {}) as other:
            other.network.names = NAMES
            try:
                begun, _ = await crawled(other, url=start)
            except (ToolError, WebError):
                begun = {"pages": 0}
        assert begun["pages"] == 0 and other.network.reached == [], start
    assert set(here.network.reached) == {(str(PUBLIC), 80)}
    assert "/refused" not in here.paths


async def test_no_picture_is_fetched_there() -> None:
    asked: list[Action] = []

    async def permit(action: Action) -> None:
        asked.append(action)

    def answer(path: str, _headers: dict[str, str]) -> bytes:
        return moved(path)

    with web(answer, NAMES) as network:
        online = Online(WebClient(network=network))
        for url in [*NAMED, *LED, *(f"http://example.org/to/{at}" for at in range(len(SAMPLE)))]:
            try:
                await online.picture(url, "vision_analyze", permit)
            except ToolError:
                continue
            raise AssertionError(url)
    assert isinstance(network, TestNetwork)
    assert set(network.reached) == {(str(PUBLIC), 80)}
    # Who is asked is asked about a name only, never about an address that is refused anyway.
    assert {action.headline() for action in asked} == {
        *(f"fetch {url}" for url in LED),
        *(f"fetch http://example.org/to/{at}" for at in range(len(SAMPLE))),
    }
