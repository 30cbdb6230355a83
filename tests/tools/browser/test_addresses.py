"""Addresses that are never reached, asked for by pages of a real Chromium in every way a page can ask.

The browser's own network holds nothing but the proxy, and the proxy connects by a recorder, so that nothing
of this machine could be reached and everything that would have been is seen.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import quote, unquote

import pytest

from agent.core.net.exchange import use_network
from tests.agent.core.net.doors import PUBLIC, TestNetwork
from tests.support.browser_stage import MISSING, Asked, BrowserStage, Reply
from tests.support.refused_hosts import HOSTS, LED_THERE, SAMPLE
from tests.support.thorough import thoroughly
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING or "there is one")

WAYS = {
    "image": "new Image().src = u",
    "image set": "const i = new Image(); i.srcset = u + ' 1x'",
    "image button": "put('input', {type: 'image', src: u})",
    "drawing": "put('div', {innerHTML: `<svg width=9 height=9><image width=9 height=9 href='${u}'/></svg>`})",
    "script": "put('script', {src: u})",
    "module": "put('script', {type: 'module', src: u})",
    "module ahead": "put('link', {rel: 'modulepreload', href: u})",
    "style sheet": "put('link', {rel: 'stylesheet', href: u})",
    "style import": "put('style', {textContent: `@import url('${u}');`})",
    "background": "put('div', {textContent: '.', style: `background: url('${u}')`})",
    "font": "new FontFace('f', `url('${u}')`).load().catch(() => 0)",
    "frame": "put('iframe', {src: u})",
    "object": "put('object', {data: u})",
    "embedded": "put('embed', {src: u})",
    "film": "put('video', {src: u, preload: 'auto'})",
    "sound": "put('audio', {src: u, preload: 'auto'})",
    "poster": "put('video', {poster: u})",
    "fetch": "fetch(u, {mode: 'no-cors'}).catch(() => 0)",
    "fetch that lives on": "fetch(u, {mode: 'no-cors', method: 'POST', keepalive: true}).catch(() => 0)",
    "older request": "const x = new XMLHttpRequest(); x.open('GET', u); x.send()",
    "socket": "new WebSocket(u.replace('http:', 'ws:')).onerror = () => 0",
    "event stream": "const e = new EventSource(u); e.onerror = () => e.close()",
    "beacon": "navigator.sendBeacon(u, 'x')",
    "ahead": "put('link', {rel: 'prefetch', href: u})",
    "soon": "put('link', {rel: 'preload', as: 'image', href: u})",
    "form": "const n = 'f' + Math.random(); put('iframe', {name: n}); "
    "put('form', {action: u, method: 'post', target: n}).submit()",
    "refresh": "put('iframe', {srcdoc: `<meta http-equiv=refresh content=\"0;url=${u}\">`})",
    "worker": "new Worker(URL.createObjectURL(new Blob([`importScripts('${u}')`]))).onerror = () => 0",
    "fetch of a worker": "new Worker(URL.createObjectURL(new Blob([`fetch('${u}', {mode: 'no-cors'})`])))",
}
"""What a page does with the address `u`, by name."""
OFTEN = (
    *("image", "script", "style sheet", "background", "frame", "fetch", "socket", "event stream", "beacon"),
    *("ahead", "form", "refresh", "worker"),
)
"""Ways of the usual run."""
SLOW = ("frame", "object", "embedded", "film", "form", "refresh", "socket")
"""Ways that take a document or a while for each address: fewer of these in the usual run."""
PAGE = """<body><script>
const put = (tag, given) => {
  const el = document.createElement(tag);
  for (const [name, value] of Object.entries(given))
    name in el && !["style", "src"].includes(name) ? el[name] = value : el.setAttribute(name, value);
  document.body.append(el);
  return el;
};
const ask = (way, urls) => {
  document.body.replaceChildren();
  for (const u of urls) try { way(u); } catch {}
};
</script>"""
WORKER = """
self.onmessage = (told) => { for (const u of told.data) fetch(u, {mode: "no-cors"}).catch(() => 0); };
self.oninstall = () => self.skipWaiting();
"""


class Rebinding(TestNetwork):
    """A name server that gives a public address once, and one of this machine ever after."""

    async def resolve(self, host: str, port: int) -> Sequence[Any]:
        found = await super().resolve(host, port)
        if host.startswith("rebinding"):
            self.names = {**self.names, host: ("127.0.0.1",)}
        return found


class Stand:
    """A browser whose proxy connects by a recorder; every public name is the site."""

    def __init__(self, stage: BrowserStage, network: TestNetwork) -> None:
        self.stage = stage
        self.network = network
        stage.site.answer = self.answer  # type: ignore[method-assign]

    def answer(self, asked: Asked) -> Reply:
        path, _, query = asked.path.partition("?")
        if path == "/to":
            return Reply("", 302, {"location": quote(unquote(query), safe=":/?#[]@!$&'()*+,;=%")})
        if path == "/worker.js":
            return Reply(WORKER, kind="text/javascript")
        return Reply(PAGE if path in ("/", "/start") else "")

    def saw(self, path: str) -> bool:
        return any(each.path.startswith(path) for each in self.stage.site.asked)

    def run(self, script: str) -> Any:
        result = self.stage.call("console", expression=script)
        assert "error" not in result, result
        return result.get("value")

    def until(self, true: Callable[[], object], what: str) -> None:
        end = time.monotonic() + PATIENCE
        while not true():
            assert time.monotonic() < end, f"{what} never happened"
            time.sleep(0.02)

    def ask(self, name: str, urls: Sequence[str]) -> int:
        """Have the page ask for all of these, and for one that is reached; how many the proxy refused."""
        self.stage.site.asked.clear()
        before = len(self.stage.host.heard)
        # What is reached is asked for at both ends: a way that does not work here proves nothing.
        reached = [f"http://open.example/{end}/{quote(name)}" for end in ("first", "last")]
        listed = json.dumps([reached[0], *urls, reached[1]])
        self.run(f"ask((u) => {{ {WAYS[name]} }}, {listed})")
        for end in ("first", "last"):
            self.until(lambda end=end: self.saw(f"/{end}/"), f"a request by {name!r} ({end})")
        return len(self.stage.host.heard) - before

    def check(self) -> None:
        """Nothing but the public address and the site itself was connected to, nothing refused came there."""
        allowed = {(str(PUBLIC), 80), ("127.0.0.1", self.stage.site.port)}
        assert set(self.network.reached) <= allowed
        assert not self.saw("/refused")


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    names = {name: (str(PUBLIC),) for name in ("pages.example", "open.example")}
    network = Rebinding({**names, **LED_THERE, "rebinding.example": (str(PUBLIC),)})
    with use_network(network):
        stage = BrowserStage(tmp_path_factory.mktemp("addresses"))
        network.port = stage.site.port
        yield Stand(stage, network)
        stage.close()


def refused_urls(stand: Stand, hosts: Sequence[str]) -> list[str]:
    """An address on each host, names that lead there, ports of the site itself, and redirects to some."""
    port = stand.stage.site.port
    plain = [f"http://{host}/refused/{at}" for at, host in enumerate([*hosts, *LED_THERE])]
    own = [f"http://{host}:{port}/refused" for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]")]
    moved = [f"http://open.example/to?{quote(url)}" for url in [*plain[::5], *own]]
    return [*plain, *own, *moved]


def page(stand: Stand, url: str = "http://pages.example/") -> None:
    stand.stage.fresh()
    result = stand.stage.call("navigate", url=url)
    assert "error" not in result, result


@pytest.mark.sample(1)
@pytest.mark.parametrize("way", [*OFTEN, *thoroughly(*(way for way in WAYS if way not in OFTEN))])
def test_no_way_of_a_page_reaches_what_is_never_reached(stand: Stand, way: str) -> None:
    page(stand)
    # Between them, the ways go through all of the sample.
    step = 14 if way in SLOW else 3
    assert stand.ask(way, refused_urls(stand, SAMPLE[list(WAYS).index(way) % step :: step])) > 0
    stand.check()


@pytest.mark.thorough
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("way", WAYS)
def test_no_way_reaches_any_spelling(stand: Stand, way: str) -> None:
    for at in range(0, len(HOSTS), 60):
        page(stand)
        stand.ask(way, refused_urls(stand, HOSTS[at : at + 60]))
        stand.check()


def test_a_service_worker_reaches_only_the_origin_that_a_rule_opens(stand: Stand) -> None:
    """Service workers exist on encrypted pages and on this machine; a rule opened the site by its address."""
    page(stand, stand.stage.site.url("/start"))
    stand.run(
        "navigator.serviceWorker.register('/worker.js')"
        ".then(() => navigator.serviceWorker.ready).then(() => 1)"
    )
    stand.stage.site.asked.clear()
    before = len(stand.stage.host.heard)
    port = stand.stage.site.port
    urls = [url for url in refused_urls(stand, SAMPLE) if f":{port}/" not in unquote(url)]
    listed = json.dumps([*urls, stand.stage.site.url("/own"), "http://open.example/last/worker"])
    stand.run(f"navigator.serviceWorker.ready.then((r) => r.active.postMessage({listed}))")
    stand.until(lambda: stand.saw("/own") and stand.saw("/last/worker"), "a request of the service worker")
    assert len(stand.stage.host.heard) > before
    stand.check()


@pytest.mark.thorough
def test_going_there_is_refused_before_anybody_is_asked(stand: Stand) -> None:
    page(stand)
    context = stand.stage.fresh()
    stand.network.asked.clear()
    stand.network.reached.clear()
    for host in HOSTS:
        assert "error" in stand.stage.call("navigate", url=f"http://{host}/refused"), host
    assert context.actions == []
    assert (stand.network.asked, stand.network.reached) == ([], [])
    for url in [f"http://{name}/refused" for name in LED_THERE] + [
        f"http://open.example/to?{quote(f'http://{host}/refused')}" for host in SAMPLE[::6]
    ]:
        result = stand.stage.call("navigate", url=url)
        assert "error" in result, (url, result)
    stand.check()


@pytest.mark.thorough
@pytest.mark.parametrize(
    "way",
    ["put('a', {href: u, textContent: 'Go'}).click()", *thoroughly("location.href = u", "open(u)")],
)
def test_a_page_does_not_take_the_tab_there(stand: Stand, way: str) -> None:
    for url in refused_urls(stand, SAMPLE[::15])[::3]:
        page(stand)
        stand.run(f"setTimeout((u) => {{ {way} }}, 0, {json.dumps(url)}); 0")
        shown = stand.stage.call("wait", seconds=0.3)
        session = stand.stage.browsers.running()
        assert session is not None
        for tab in list(session.tabs)[1:]:
            stand.stage.run(session.close_tab(tab))
        assert "refused" not in json.dumps(shown.get("url", "")), shown
    stand.check()


def test_a_name_that_leads_elsewhere_at_the_second_look_is_not_followed(stand: Stand) -> None:
    page(stand, "http://rebinding.example/")
    stand.stage.site.asked.clear()
    for _ in range(3):
        stand.run(
            "fetch('/refused/now', {cache: 'no-store'}).catch(() => 0);"
            "new Image().src = '/refused/pic?' + Math.random(); 0"
        )
    stand.run("fetch('http://open.example/last/rebinding', {mode: 'no-cors'}); 0")
    stand.until(lambda: stand.saw("/last/rebinding"), "the last request")
    assert ("127.0.0.1", 80) not in stand.network.reached
    stand.check()
