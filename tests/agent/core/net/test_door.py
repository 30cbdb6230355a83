"""The client: what it lets out, to which address it connects, what it never reaches."""

from __future__ import annotations

import asyncio
import gzip
import socket
import zlib
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.core.net.door import (
    AddressError,
    PackedError,
    Unpacker,
    WebClient,
    WebError,
    WebLimits,
    WebRequest,
    WebResponse,
    client_proxy,
    web_address,
)
from agent.core.net.exchange import use_network
from agent.core.net.page_cache import PageCache
from tests.agent.core.net.doors import PUBLIC, TestNetwork, read_all, respond, server, web
from tests.support.refused_hosts import HOSTS


async def fetched(network: TestNetwork, url: str = "http://example.org/", **more: object) -> WebResponse:
    return await WebClient(network=network).fetch(WebRequest(url=url, **more))  # type: ignore[arg-type]


def void(_: object) -> None:
    """Nothing comes of it."""


async def test_no_spelling_of_a_refused_address_is_connected_to() -> None:
    network = TestNetwork({"localtest.example": ("127.0.0.1",)})
    for host in HOSTS:
        with pytest.raises(WebError) as caught:
            await fetched(network, f"http://{host}/")
        assert caught.value.kind in ("address", "form"), host
    assert (network.asked, network.reached) == ([], [])


@pytest.mark.parametrize(
    "answers", [("127.0.0.1",), (str(PUBLIC), "10.0.0.7"), ("2606:4700::1", "::1"), ("169.254.169.254",)]
)
async def test_one_refused_answer_refuses_the_name(answers: tuple[str, ...]) -> None:
    network = TestNetwork({"example.org": answers})
    with pytest.raises(WebError, match="never reached") as caught:
        await fetched(network)
    assert caught.value.kind == "address"
    assert network.reached == []


async def test_a_name_is_resolved_once_and_the_checked_address_is_connected_to() -> None:
    with web(lambda path, headers: respond(headers["host"].encode())) as network:
        answer = await fetched(network, "http://EXAMPLE.org:8080/a b".replace(" ", "%20"))
    assert answer.body == b"example.org:8080"
    assert network.asked == ["example.org"]
    assert network.reached == [(str(PUBLIC), 8080)]


async def test_a_name_that_leads_elsewhere_at_the_second_look_is_looked_at_again() -> None:
    """A rebinding name server: public for the first request, this machine for the one after the redirect."""
    with web(lambda path, headers: respond(status="302 Found", Location="/again")) as network:

        class Rebinding(TestNetwork):
            async def resolve(self, host: str, port: int):  # type: ignore[no-untyped-def]
                found = await super().resolve(host, port)
                self.names = {host: ("127.0.0.1",)}
                return found

        rebinding = Rebinding(network.names, network.port)
        with pytest.raises(WebError, match="never reached"):
            await fetched(rebinding)
    assert rebinding.reached == [(str(PUBLIC), 80)]


@pytest.mark.parametrize(
    "location", ["http://127.0.0.1:9/", "//[::1]/", "http://0x7f.1/", "http://169.254.169.254/x"]
)
async def test_a_redirect_inside_is_refused(location: str) -> None:
    with web(lambda path, headers: respond(status="301 Moved", Location=location)) as network:
        with pytest.raises(WebError, match="redirects to"):
            await fetched(network)
    assert len(network.reached) == 1


@pytest.mark.parametrize("host", ["127.0.0.1:3000", "localhost", "[::1]:8080", "192.168.1.7"])
async def test_a_refused_place_of_ones_own_names_the_rule_that_opens_it(host: str) -> None:
    with pytest.raises(WebError) as caught:
        await fetched(TestNetwork({}), f"http://{host}/x")
    rule = f"fetch(http://{host}/**)"
    assert f"hermes permissions allow '{rule}'" in str(caught.value)


@pytest.mark.parametrize("host", ["169.254.169.254", "localhost.localdomain", "0x7f.1"])
async def test_no_rule_is_named_for_what_none_opens(host: str) -> None:
    with pytest.raises(WebError) as caught:
        await fetched(TestNetwork({}), f"http://{host}/x")
    assert "permissions allow" not in str(caught.value) or "127.0.0.1" in str(caught.value)


async def test_each_hop_passes_the_gate_with_where_it_came_from() -> None:
    asked: list[tuple[str, str]] = []

    async def permit(url: str, source: str) -> None:
        asked.append((url, source))
        if "other" in url:
            raise PermissionError("no")

    hops = {"/": "/b", "/b": "http://other.example/c?d=1"}
    with web(lambda path, headers: respond(status="302 Found", Location=hops[path])) as network:
        with pytest.raises(PermissionError):
            await WebClient(network=network).fetch(WebRequest(url="http://example.org/"), permit=permit)
    assert asked == [
        ("http://example.org/", ""),
        ("http://example.org/b", "http://example.org/"),
        ("http://other.example/c?d=1", "http://example.org/b"),
    ]
    assert network.asked == ["example.org", "example.org"]


async def test_redirects_end_and_keep_headers_at_home() -> None:
    seen: list[dict[str, str]] = []

    def answer(path: str, headers: dict[str, str]) -> bytes:
        seen.append(headers)
        if path == "/away":
            return respond(status="302 Found", Location="http://other.example/end")
        return respond() if path == "/end" else respond(status="302 Found", Location="/round")

    with web(answer) as network:
        with pytest.raises(WebError, match="more than 10 times"):
            await fetched(network)
        assert len(seen) == 11
        found = await fetched(network, "http://example.org/away", headers={"Authorization": "Bearer x"})
    assert (found.url, found.redirects) == ("http://other.example/end", ("http://example.org/away",))
    assert "authorization" in seen[-2] and "authorization" not in seen[-1]


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("ftp://example.org/", "form"),
        ("file:///etc/passwd", "form"),
        ("http://user:pw@example.org/", "form"),
        ("http://user@example.org/", "form"),
        ("http://exa mple.org/", "form"),
        ("http://example.org\\@127.0.0.1/", "form"),
        ("http://example.org:0/", "form"),
        ("http://127%2e0.0.1/", "form"),
        ("http://example.org/?q=s3cr3t-value-0042", "secret"),
        ("http://example.org/?q=czNjcjN0LXZhbHVlLTAwNDI", "secret"),
        ("http://s3cr3t.value.0042.example.org/", "secret"),
    ],
)
async def test_what_does_not_belong_into_an_address_stays_here(url: str, kind: str) -> None:
    network = TestNetwork({"example.org": (str(PUBLIC),)})
    with pytest.raises(WebError) as caught:
        await WebClient(network=network, secrets={"API_KEY": "s3cr3t-value-0042"}).fetch(WebRequest(url=url))
    assert caught.value.kind == kind
    assert (network.asked, network.reached) == ([], [])


async def test_only_the_named_place_is_opened_and_only_for_itself() -> None:
    """The person's rule opens one address; neither a redirect to it nor a name that leads there is."""
    hops = {"/moved": "/page", "/away": "http://127.0.0.1:4000/page", "/in": "http://127.0.0.1:3000/page"}

    def answer(path: str, headers: dict[str, str]) -> bytes:
        return respond(status="302 Found", Location=hops[path]) if path in hops else respond()

    names = {"example.org": (str(PUBLIC),), "near.example": ("127.0.0.1",)}
    with web(answer, names) as network:
        client = WebClient(network=network)

        async def ask(url: str) -> int:
            found = await client.fetch(
                WebRequest(url=url), opened=lambda url: url.startswith("http://127.0.0.1:3000/")
            )
            return found.status

        assert await ask("http://127.0.0.1:3000/moved") == 200
        assert {each for each, _ in network.reached} == {"127.0.0.1"}
        for url in ("http://127.0.0.1:3000/away", "http://example.org/in", "http://near.example:3000/page"):
            with pytest.raises(WebError, match="never reached"):
                await ask(url)


@pytest.mark.parametrize(
    ("own", "url", "reached"),
    [
        ("http://search.lan:8888", "http://search.lan:8888/search?q=x", True),
        ("http://search.lan:8888", "http://search.lan/search", False),
        ("http://localhost:8888", "http://localhost:8888/search", True),
        ("http://169.254.169.254", "http://169.254.169.254/latest", False),
        ("http://clouds.lan", "http://clouds.lan/", False),
    ],
)
async def test_an_address_of_the_settings_is_reached_at_its_own_origin(
    own: str, url: str, reached: bool
) -> None:
    names = {"search.lan": ("10.1.2.3",), "clouds.lan": ("169.254.169.254",)}
    with web(lambda path, headers: respond(), names) as network:
        if reached:
            assert (await fetched(network, url, own=own)).status == 200
        else:
            with pytest.raises(WebError, match="never reached"):
                await fetched(network, url, own=own)
            assert network.reached == []


async def test_limits_hold_while_the_answer_comes_in() -> None:
    bomb = gzip.compress(bytes(3_000_000))
    answers = {
        "/long": respond(bytes(2_000)),
        "/bomb": respond(bomb, Content_Encoding="gzip"),
        "/odd": respond(b"x", Content_Encoding="br"),
        "/lies": b"HTTP/1.1 200 OK\r\nContent-Length: 90000000\r\n\r\n",
        "/cut": b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\nabc",
    }
    limits = WebLimits(size=len(bomb), unpacked=1_000_000)
    with web(lambda path, headers: answers[path]) as network:
        client = WebClient(network=network, limits=limits)
        found: dict[str, str] = {}
        for path in answers:
            try:
                await client.fetch(
                    WebRequest(url=f"http://example.org{path}"),
                    limits=WebLimits(size=1_000) if path == "/long" else None,
                )
            except WebError as error:
                found[path] = error.kind
    assert found == {
        "/long": "size",
        "/bomb": "packed",
        "/odd": "packed",
        "/lies": "size",
        "/cut": "unreachable",
    }


async def test_a_server_that_says_nothing_is_not_waited_for() -> None:
    with server(lambda connection: void(read_all(connection))) as port:
        network = TestNetwork({"example.org": (str(PUBLIC),)}, port)
        with pytest.raises(WebError, match=r"within 0\.2 s") as caught:
            await WebClient(network=network, limits=WebLimits(seconds=0.2)).fetch(
                WebRequest(url="http://example.org/")
            )
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert caught.value.kind == "time"


async def test_the_second_request_is_conditional_and_cookies_are_never_kept(tmp_path: Path) -> None:
    asked: list[dict[str, str]] = []

    def answer(path: str, headers: dict[str, str]) -> bytes:
        asked.append(headers)
        if headers.get("if-none-match") == '"1"':
            return b"HTTP/1.1 304 Not Modified\r\n\r\n"
        return respond(b"whole", ETag='"1"', Vary="Accept", Content_Type="text/plain")

    cache = PageCache(tmp_path / "web" / "cache", 1_000_000)
    with web(answer) as network:
        client = WebClient(network=network, cache=cache)

        async def ask(**headers: str) -> tuple[bytes, bool]:
            found = await client.fetch(WebRequest(url="http://example.org/", headers=headers))
            return found.body, found.revalidated

        assert [await ask(Cookie="a=b"), await ask(), await ask()] == [(b"whole", False)] * 2 + [
            (b"whole", True)
        ]
        assert await ask(Accept="text/plain") == (b"whole", False)
    assert ["if-none-match" in each for each in asked] == [False, False, True, False]
    (kept,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert kept.stat().st_mode & 0o777 == 0o600


def test_the_cache_stays_within_its_room_and_the_oldest_pages_go(tmp_path: Path) -> None:
    cache = PageCache(tmp_path / "cache", 50_000)
    for number in range(20):
        assert cache.keep(f"http://example.org/{number}", {}, {"etag": '"1"'}, bytes(5_000))
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) <= 50_000
    assert cache.find("http://example.org/19", {}) is not None
    assert cache.find("http://example.org/0", {}) is None
    assert not cache.keep("http://example.org/x", {}, {"etag": '"1"', "cache-control": "no-store"}, b"")


async def test_libraries_with_a_transport_of_their_own_go_through_the_same_checks() -> None:
    with web(lambda path, headers: respond()) as network, use_network(network):
        network.names = {"example.org": (str(PUBLIC),), "near.example": ("127.0.0.1",)}
        async with client_proxy(WebClient(), lambda host: host != "other.example") as proxy:
            host, port = proxy.removeprefix("http://").split(":")

            def say(url: str) -> bytes:
                with socket.create_connection((host, int(port)), timeout=20) as client:
                    client.sendall(f"GET {url} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                    return read_all(client).partition(b"\r\n")[0]

            said = [
                await asyncio.to_thread(say, f"http://{name}/")
                for name in ("example.org", "other.example", "near.example", "127.0.0.1", "example.org:22")
            ]
    assert [line.split()[1] for line in said] == [b"200", b"403", b"403", b"403", b"403"]


@example(b"a header of two bytes", 1, "bare")
@given(st.binary(max_size=5_000), st.integers(1, 700), st.sampled_from(["gzip", "deflate", "bare", ""]))
def test_what_was_packed_comes_out_as_it_was_however_it_is_cut(data: bytes, cut: int, kind: str) -> None:
    bare = zlib.compressobj(wbits=-15)
    packed = {
        "gzip": gzip.compress(data[:100]) + gzip.compress(data[100:]),
        "deflate": zlib.compress(data),
        "bare": bare.compress(data) + bare.flush(),
        "": data,
    }[kind]
    unpacker = Unpacker("deflate" if kind == "bare" else kind, 5_000)
    assert b"".join(unpacker.feed(packed[at : at + cut]) for at in range(0, len(packed), cut)) == data
    if len(data) > 10:
        with pytest.raises(PackedError):
            Unpacker("deflate" if kind == "bare" else kind, 10).feed(packed)


def test_an_address_that_is_not_of_the_web_is_told_how_one_begins() -> None:
    for text, said in (("example.org", "is only a part of an address"), ("ftp://h/", "begins with ftp:")):
        with pytest.raises(AddressError, match=f"^{text} {said}.*; begin it with https:// or http://.$"):
            web_address(text)


@pytest.mark.thorough
@given(st.text(max_size=60))
def test_any_text_is_an_address_of_plain_ascii_or_a_sentence(text: str) -> None:
    try:
        found = web_address(f"http://{text}")
    except AddressError as error:
        assert str(error).endswith(".")
    else:
        assert found.url.isascii() and not any(each <= " " for each in found.url)
