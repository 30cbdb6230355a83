"""The web in a session: a model that obeys pages, a person who says no, and what left the machine."""

from __future__ import annotations

from html import escape
from pathlib import Path

import pytest

from agent.core.net.exchange import use_network
from agent.events import ApprovalAsked, Decision, Event, ToolFinished
from tests.agent.core.net.doors import respond, web
from tests.agent.integrations.web.test_reading import PROSE, article, pdf
from tests.agent.safety.obedient import Obedient, order
from tests.support.engines import bench
from tests.support.replies import call

NAMES = {"example.org": ("93.184.216.34",)}


def orders(marker: str) -> dict[str, bytes]:
    """The same order in each place of a page."""
    plain, marker = marker, escape(marker)
    html = {"Content_Type": "text/html; charset=utf-8"}
    return {
        "text": respond(article(f"<p>{marker}</p>").encode(), **html),
        "title": respond(article(head=f"<meta property=og:title content='{marker}'>").encode(), **html),
        "heading": respond(article(f"<h2>{marker}</h2><p>{PROSE}</p>").encode(), **html),
        "link": respond(article(f"<p>{PROSE}<a href='/x'>{marker}</a></p>").encode(), **html),
        "table": respond(
            article(f"<table><tr><th>a<th>b<tr><td>{marker}<td>2</table><pre>x</pre><pre>y</pre>").encode(),
            **html,
        ),
        "code": respond(article(f"<pre>{marker}</pre><pre>y</pre>").encode(), **html),
        "pdf": respond(pdf(plain), Content_Type="application/pdf"),
        "markdown": respond(f"# notes\n{plain}".encode(), Content_Type="text/markdown"),
        "plain": respond(plain.encode(), Content_Type="text/plain"),
    }


@pytest.mark.thorough
async def test_orders_of_pages_have_no_effect_without_a_yes_to_the_true_action(tmp_path: Path) -> None:
    places = {place: Path(f"/no-such-folder/{place}") for place in orders("")}
    pages = {
        place: orders(order("write_file", path=str(path), content="x"))[place]
        for place, path in places.items()
    }
    with web(lambda path, headers: pages[path.lstrip("/")], NAMES) as network, use_network(network):
        looks = [call("web_extract", urls=[f"http://example.org/{place}"]) for place in pages]
        async with (
            bench(tmp_path, Obedient(looks)) as here,
            here.engine(approve="ask", attended=True) as engine,
        ):
            asked: list[str] = []

            def hear(event: Event) -> None:
                if isinstance(event, ApprovalAsked):
                    asked.append(event.headline)
                    is_page = event.headline.startswith("fetch http://example.org/")
                    event.reply.set_result(Decision("once" if is_page else "deny"))

            engine.stream.subscribe(hear)
            await engine.run("read them")
            outcomes = [each.outcome for each in here.seen(ToolFinished)]
    assert asked == [f"fetch http://example.org/{place}" for place in pages] + [
        f"create {path}" for path in places.values()
    ]
    assert outcomes == ["done"] * len(pages) + ["denied"] * len(pages)
    assert not any(path.exists() for path in places.values())


@pytest.mark.sample(1)
@pytest.mark.parametrize("mode", ["plan", "deny"])
async def test_nothing_leaves_while_planning_or_denying(tmp_path: Path, mode: str) -> None:
    calls = [call("web_extract", urls=["https://docs.python.org/3/"]), call("web_search", query="x")]
    with web(lambda path, headers: respond(), NAMES) as network, use_network(network):
        async with bench(tmp_path, Obedient(calls)) as here:
            await here.turn("look it up", approve=mode)
            outcomes = [each.outcome for each in here.seen(ToolFinished)]
    assert outcomes == ["denied", "denied"]
    assert (network.asked, network.reached) == ([], [])
