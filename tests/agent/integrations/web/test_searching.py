"""Searching: each service by a recorded answer, moving on, resting, results that are dropped."""

# ruff: noqa: E501 - pages and answers as they come
from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent.core.net.door import Permit
from agent.errors import HermesError
from agent.integrations.web.search.providers.public_mcp import endpoints, read_results
from agent.integrations.web.search.service import REST, SearchError, SearchRing, WebHit
from agent.integrations.web.search.services import KEYS
from tests.agent.core.net.doors import respond
from tests.agent.integrations.web.sites import site
from tools.results import DeniedError
from tools.services.actions import SearchWeb

HIT = {"title": "Harbour log", "url": "https://example.org/log"}
ANSWERS: dict[str, tuple[str, dict[str, Any]]] = {
    "searxng": (
        "/search",
        {"results": [{**HIT, "content": "Ships", "publishedDate": "2026-11-02T00:00:00"}]},
    ),
    "brave": (
        "/res/v1/web/search",
        {
            "web": {
                "results": [
                    {**HIT, "description": "<strong>Ships</strong>", "page_age": "2026-11-02T09:00:00"}
                ]
            }
        },
    ),
    "tavily": (
        "/search",
        {"results": [{**HIT, "content": "Ships", "score": 0.9, "published_date": "2026-11-02"}]},
    ),
    "exa": (
        "/search",
        {"results": [{**HIT, "publishedDate": "2026-11-02T00:00:00.000Z", "highlights": ["Ships"]}]},
    ),
    "firecrawl": (
        "/v2/search",
        {"success": True, "data": {"web": [{**HIT, "description": "Ships", "date": "2026-11-02"}]}},
    ),
    "parallel": (
        "/v1beta/search",
        {"results": [{**HIT, "publish_date": "2026-11-02", "excerpts": ["Ships"]}]},
    ),
}
"""As their public documentation shows them."""


@pytest.mark.parametrize("name", ANSWERS)
async def test_each_service_is_understood(tmp_path: Path, name: str) -> None:
    path, answer = ANSWERS[name]
    base = "http://10.1.1.1:8888"
    named = {"searxng": {"url": base}} if name == "searxng" else {"addresses": {name: base}}
    keys = {KEYS[name]: "key-of-the-service"} if name in KEYS else {}
    with site(tmp_path, {path: answer}, {"search": {"providers": [name]}, **named}, **keys) as here:
        found = await here.call().search("ships in the harbour", 3)
    (result,) = found["results"]
    assert (result["position"], result["url"]) == (1, HIT["url"])
    assert result["title"] == "<outside-text>Harbour log</outside-text>"
    assert result["description"] == "<outside-text>Ships</outside-text>"
    assert result["date"].startswith("2026-11-02") and found["served_by"] == name
    assert here.network.reached == [("10.1.1.1", 8888)]
    assert "key-of-the-service" not in "".join(here.paths)


class Route:
    """A service that does as it is told."""

    def __init__(self, name: str, *does: Sequence[WebHit] | Exception) -> None:
        self.name, self.address, self.does, self.asked = name, f"https://{name}.example/", list(does), 0

    async def search(self, query: str, limit: int, permit: Permit) -> Sequence[WebHit]:
        self.asked += 1
        await permit(self.address, "")
        does = self.does.pop(0) if len(self.does) > 1 else self.does[0]
        if isinstance(does, Exception):
            raise does
        return does

    async def close(self) -> None:
        return None


async def anybody(url: str, source: str) -> None:
    return None


def found(*urls: str) -> list[WebHit]:
    return [WebHit(url, url) for url in urls]


@pytest.mark.parametrize(
    "failure",
    [
        SearchError("refused (status 403)"),
        SearchError("x (status 429)"),
        TimeoutError(),
        OSError("reset"),
        ValueError("bug"),
        [],
    ],
)
async def test_whatever_goes_wrong_the_next_service_is_asked(failure: Any) -> None:
    ring = SearchRing(
        [Route("one", failure), Route("two", found("https://a.example/", "https://b.example/"))]
    )
    answer = await ring.search("q", 2, anybody)
    assert answer.served_by == ("two",) and [name for name, _ in answer.passed] == ["one"]


async def test_offline_one_sentence_says_so() -> None:
    unreached = (
        SearchError("The server cannot be reached (All connection attempts failed); look at it"),
        SearchError("DDGSException: ConnectError('error sending request > Network is unreachable')"),
        SearchError(
            "DDGSException: proxy CONNECT failed: HTTP/1.1 502 Hermes: www.example.org was not found"
        ),
        OSError("[Errno -3] Temporary failure in name resolution"),
    )
    routes = [Route(f"s{number}", each) for number, each in enumerate(unreached)]
    with pytest.raises(SearchError) as told:
        await SearchRing(routes).search("q", 2, anybody)
    assert "(s0, s1, s2, s3); this computer seems to be offline" in str(told.value)
    long = Route("last", SearchError("refused " * 100))
    with pytest.raises(SearchError, match="No search service answered") as told:
        await SearchRing([*routes, long]).search("q", 2, anybody)
    assert len(str(told.value)) < 700


async def test_a_service_that_failed_rests_and_comes_back() -> None:
    now = [0.0]
    one = Route("one", SearchError("is down"), found("https://a.example/"))
    ring = SearchRing([one, Route("two", found("https://b.example/"))], lambda: now[0])
    for _ in range(3):
        await ring.search("q", 1, anybody)
    assert one.asked == 1 and [name for name, _ in ring.routes] == ["two"]
    now[0] = REST + 1
    assert (await ring.search("q", 1, anybody)).served_by == ("one",)


async def test_results_are_told_apart_across_services_and_refused_ones_dropped() -> None:
    first = found(
        "https://a.example/x?utm_source=n", "http://127.0.0.1/admin", "http://[::ffff:10.0.0.1]/", "ftp://c/"
    )
    second = found("http://www.a.example/x/", "https://b.example/")
    answer = await SearchRing([Route("one", first), Route("two", second)]).search("q", 10, anybody)
    assert [hit.url for hit in answer.hits] == ["https://a.example/x?utm_source=n", "https://b.example/"]
    assert (answer.served_by, answer.dropped) == (("one", "two"), 3)


async def test_nobody_answers_nobody_may_and_nothing_is_found() -> None:
    with pytest.raises(HermesError, match="one: is down; two: timed out"):
        await SearchRing(
            [Route("one", SearchError("is down")), Route("two", SearchError("timed out"))]
        ).search("q", 5, anybody)

    async def nobody(url: str, source: str) -> None:
        raise DeniedError("no")

    with pytest.raises(DeniedError):
        await SearchRing([Route("one", found("https://a.example/"))]).search("q", 5, nobody)
    ring = SearchRing([Route("one", [])])
    circling = [(await ring.search(f"{word} harbour log 1901", 5, anybody)).is_circling for word in "abcx"]
    assert circling == [False, False, True, True]


async def test_the_person_sees_the_query_and_where_it_goes_before_anything_leaves(tmp_path: Path) -> None:
    settings = {"search": {"providers": ["searxng", "brave"]}, "searxng": {"url": "http://10.1.1.1:8888"}}
    with site(tmp_path, {"/search": {"results": []}}, settings, BRAVE_API_KEY="k" * 20) as here:
        here.denies = ("search the web",)
        with pytest.raises(DeniedError):
            await here.call().search("ships", 5)
        with pytest.raises(HermesError, match="SOME_KEY"):
            await here.call().search("what is s3cr3t-value-0042", 5)
    (action,) = here.asked
    assert isinstance(action, SearchWeb)
    assert action.headline() == (
        "search the web for 'ships' with searxng (http://10.1.1.1:8888), else brave (https://api.search.brave.com)"
    )
    assert here.network.reached == []


TEXTS = [
    json.dumps(
        {"search_id": "s", "results": [{**HIT, "publish_date": "2026-11-02", "excerpts": ["Ships", "sail"]}]}
    ),
    json.dumps([{**HIT, "snippet": "Ships"}]),
    "Title: Harbour log\nPublished Date: 2026-11-02\nURL: https://example.org/log\nText: Ships\nand more\n\nTitle: x",
    "1. [Harbour log](https://example.org/log) Ships",
]


@pytest.mark.parametrize("text", TEXTS)
def test_results_of_public_endpoints_are_read_whatever_their_form(text: str) -> None:
    (hit,) = read_results({"content": text})
    assert (hit.title, hit.url) == ("Harbour log", "https://example.org/log")
    assert "Ships" in hit.description or text.startswith("1.")


def test_public_endpoints_are_data_and_lie_on_the_public_internet() -> None:
    assert len(endpoints()) >= 2
    for name, endpoint in endpoints().items():
        assert name.endswith("-public") and endpoint["address"].startswith("https://")
        assert "QUERY" in str(endpoint["arguments"])


async def test_answers_that_are_no_results_are_clauses(tmp_path: Path) -> None:
    settings = {"search": {"providers": ["searxng"]}, "searxng": {"url": "http://example.org"}}
    for answer in (
        respond(b"<html>"),
        respond(b"", "403 Forbidden"),
        respond(b"", "302 Found", Location="http://127.0.0.1/"),
    ):
        with site(tmp_path, {"/search": answer}, settings) as here:
            with pytest.raises(HermesError, match="No search service answered"):
                await here.call().search("q", 5)
