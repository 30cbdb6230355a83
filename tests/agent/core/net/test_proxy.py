"""The egress proxy against real sockets: what passes, what is refused, and what a client is told."""

from __future__ import annotations

import asyncio
import re
import socket
import subprocess
import threading
import time
from collections.abc import Iterator

import pytest

from agent.core.net import exchange
from tests.agent.core.net.doors import Door, TestNetwork, door, hello, read_all, server

SECRET = "s3cr3t/Value+with=Signs"
NAMES = {
    "example.org": ["93.184.216.34"],
    "inside.example.org": ["10.0.0.8"],
    "both.example.org": ["93.184.216.34", "127.0.0.1"],
    "six.example.org": ["64:ff9b::7f00:1"],
}


def echo_request(connection: socket.socket) -> None:
    """Answer with the request itself, once its body is complete."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    chunked = b"chunked" in head.lower()
    while (length and len(body) < int(length[1])) or (chunked and not body.endswith(b"0\r\n\r\n")):
        piece = connection.recv(65536)
        if not piece:
            break
        body += piece
    connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + head + b"\r\n\r\n" + body)


def echo(connection: socket.socket) -> None:
    """Send everything back, and what came in all in the end."""
    count = 0
    while data := connection.recv(65536):
        count += len(data)
        connection.sendall(data)
    connection.sendall(b"|%d" % count)


@pytest.fixture
def plain() -> Iterator[Door]:
    with server(echo_request) as port, door(TestNetwork(NAMES, port), secrets={"API_KEY": SECRET}) as made:
        yield made


@pytest.fixture
def raw() -> Iterator[Door]:
    with server(echo) as port, door(TestNetwork(NAMES, port), secrets={"API_KEY": SECRET}) as made:
        yield made


def test_a_request_is_passed_on_for_the_host_it_names(plain: Door):
    said = plain.say(
        b"GET http://Example.org/a%20b?c=d#e HTTP/1.1\r\nHost: other.example\r\nAccept: */*\r\n"
        b"Proxy-Connection: keep-alive\r\nProxy-Authorization: Basic eA==\r\n"
        b"Connection: X-Own\r\nX-Own: 1\r\n\r\n"
    )
    head = said.partition(b"\r\n\r\n")[2]
    assert head == (
        b"GET /a%20b?c=d HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    )
    assert plain.network.reached == [("93.184.216.34", 80)]
    assert plain.refused == []


@pytest.mark.parametrize(
    ("headers", "body", "passed"),
    [
        (b"Content-Length: 5\r\n", b"12345GET http://x/ HTTP/1.1\r\n\r\n", b"12345"),
        (
            b"Transfer-Encoding: chunked\r\n",
            b"3;x=y\r\nabc\r\n0\r\n\r\nGET / HTTP/1.1",
            b"3;x=y\r\nabc\r\n0\r\n\r\n",
        ),
        (b"", b"GET http://x/ HTTP/1.1\r\n\r\n", b""),
    ],
)
def test_nothing_behind_the_body_is_passed_on(plain: Door, headers: bytes, body: bytes, passed: bytes):
    said = plain.say(b"POST http://example.org/ HTTP/1.1\r\n" + headers + b"\r\n" + body)
    assert said.partition(b"\r\n\r\n")[2].partition(b"\r\n\r\n")[2] == passed


@pytest.mark.sample(20)
@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n", 400),
        (b"GET http://example.org/ HTTP/2\r\n\r\n", 505),
        (b"GET https://example.org/ HTTP/1.1\r\n\r\n", 501),
        (b"GET ftp://example.org/ HTTP/1.1\r\n\r\n", 501),
        (b"GET http://a:b@example.org/ HTTP/1.1\r\n\r\n", 400),
        (b"GET http://exa mple.org/ HTTP/1.1\r\n\r\n", 400),
        (b"GET http://[::1/ HTTP/1.1\r\n\r\n", 400),
        (b"CONNECT example.org HTTP/1.1\r\n\r\n", 400),
        (b"CONNECT example.org:0 HTTP/1.1\r\n\r\n", 400),
        (b"CONNECT 1.2.3.4.5:80 HTTP/1.1\r\n\r\n", 400),
        (b"\r\n\r\n", 400),
        (b"\x16\x03\x01\x00\x05hello\r\n\r\n", 400),
        (b"POST http://example.org/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (
            b"POST http://example.org/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            400,
        ),
        (b"POST http://example.org/ HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 400),
        (b"POST http://example.org/ HTTP/1.1\r\nContent-Length: +1\r\n\r\n", 400),
        (b"GET http://example.org/ HTTP/1.1\r\nA : b\r\n\r\n", 400),
        (b"GET http://example.org/ HTTP/1.1\r\n folded: b\r\n\r\n", 400),
        (b"GET http://example.org/ HTTP/1.1\r\nA: b\nC: d\r\n\r\n", 400),
        (b"GET http://example.org/ HTTP/1.1\r\n" + b"A: b\r\n" * 300 + b"\r\n", 431),
        (b"GET http://example.org/ HTTP/1.1\r\nA: " + b"b" * 70_000, 431),
    ],
)
def test_what_two_programs_could_read_differently_is_refused(plain: Door, request_bytes: bytes, status: int):
    said = plain.say(request_bytes)
    assert said.startswith(b"HTTP/1.1 %d Hermes: " % status)
    assert plain.network.reached == []


@pytest.mark.parametrize(
    ("target", "named"),
    [
        ("127.0.0.1:80", "127.0.0.1"),
        ("localhost:80", "localhost"),
        ("2130706433:80", "127.0.0.1"),
        ("[::1]:80", "::1"),
        ("[::ffff:10.0.0.1]:80", "::ffff:a00:1"),
        ("169.254.169.254:80", "169.254.169.254"),
        ("metadata.google.internal:80", "metadata.google.internal"),
        ("inside.example.org:80", "10.0.0.8"),
        ("both.example.org:80", "127.0.0.1"),
        ("six.example.org:80", "64:ff9b::7f00:1"),
    ],
)
def test_addresses_that_are_not_public_are_never_reached_though_everything_is_allowed(
    raw: Door, target: str, named: str
):
    said = raw.say(f"CONNECT {target} HTTP/1.1\r\n\r\n".encode())
    assert said.startswith(b"HTTP/1.1 403") and b"is never reached" in said and named.encode() in said
    assert raw.network.reached == []
    assert [each.kind for each in raw.refused] == ["address"]


def test_a_host_of_the_person_s_own_networks_is_reached_at_a_private_address():
    own = {("inside.example.org", 80), ("10.0.0.8", 80), ("both.example.org", 80)}
    with server(echo_request) as port:
        with door(TestNetwork(NAMES, port), is_own=lambda host, port: (host, port) in own) as made:
            for host in ("inside.example.org", "10.0.0.8"):
                assert b" 200 OK" in made.say(f"GET http://{host}/ HTTP/1.1\r\n\r\n".encode())
            for target in ("both.example.org:80", "inside.example.org:443", "10.0.0.9:80"):
                assert b" 403 " in made.say(f"CONNECT {target} HTTP/1.1\r\n\r\n".encode())
    assert made.network.reached == [("10.0.0.8", 80), ("10.0.0.8", 80)]


def test_a_host_that_is_not_let_through_is_named_and_never_looked_up():
    async def nobody(host: str, port: int) -> str | None:
        return f"is not on the list of hosts ({port})"

    with door(TestNetwork(NAMES), nobody) as made:
        for text in (
            b"CONNECT example.org:443 HTTP/1.1\r\n\r\n",
            b"GET http://example.org/ HTTP/1.0\r\n\r\n",
        ):
            said = made.say(text)
            assert said.startswith(b"HTTP/1.1 403 Hermes: example.org:")
            page = said.partition(b"\r\n\r\n")[2]
            assert page.splitlines()[0].endswith((b"is not on the list of hosts (443).", b"(80)."))
            run = subprocess.run(["sh"], input=page, capture_output=True)
            assert (run.returncode, run.stdout, run.stderr) == (1, b"", b"")
        assert made.network.asked == [] and made.network.reached == []
        assert [(each.host, each.port) for each in made.refused] == [
            ("example.org", 443),
            ("example.org", 80),
        ]


def test_a_name_that_is_not_found_and_a_server_that_is_not_there_say_so(plain: Door):
    assert b" 502 Hermes: unknown.example.org:80 was not found." in plain.say(
        b"GET http://unknown.example.org/ HTTP/1.1\r\n\r\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as gone:
        plain.network.port = gone.getsockname()[1]
    assert b" 502 Hermes: example.org:80 refused the connection." in plain.say(
        b"GET http://example.org/ HTTP/1.1\r\n\r\n"
    )


def test_a_tunnel_carries_both_ways_and_each_side_ends_by_itself(raw: Door):
    sent = hello("example.org") + bytes(range(256)) * 40_000
    with raw.tunnel("example.org") as client:
        got: list[bytes] = []
        reading = threading.Thread(target=lambda: got.append(read_all(client)))
        reading.start()
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        reading.join(60)
    assert got[0] == sent + b"|%d" % len(sent)


def test_a_server_may_speak_first():
    def greet(connection: socket.socket) -> None:
        connection.sendall(b"220 hello\r\n")
        connection.sendall(connection.recv(100)[::-1])

    with (
        server(greet) as port,
        door(TestNetwork(NAMES, port)) as made,
        made.tunnel("example.org", 25) as client,
    ):
        assert client.recv(100) == b"220 hello\r\n"
        client.sendall(b"abc")
        assert read_all(client) == b"cba"


@pytest.mark.parametrize("name", [None, "example.org", "EXAMPLE.org"])
@pytest.mark.parametrize("size", [1, 3, 100, 10_000])
def test_tls_for_the_host_that_was_let_through_passes_however_it_is_cut(
    raw: Door, name: str | None, size: int
):
    sent = hello(name)
    with raw.tunnel("example.org") as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for place in range(0, len(sent), size):
            client.sendall(sent[place : place + size])
        client.shutdown(socket.SHUT_WR)
        assert read_all(client) == sent + b"|%d" % len(sent)


@pytest.mark.parametrize(
    "sent", [None, b"\x16\x03\x01\x00\x04abcd", b"\x16\x03\x01\x00\x02\x01"], ids=["name", "junk", "cut"]
)
def test_tls_for_another_host_is_broken_off(raw: Door, sent: bytes | None):
    with raw.tunnel("example.org") as client:
        client.sendall(sent or hello("evil.example.net"))
        client.shutdown(socket.SHUT_WR)
        assert read_all(client) == b""
    assert [each.host for each in raw.refused] == ["example.org"]


def forms() -> list[bytes]:
    import base64
    import json
    from urllib.parse import quote, quote_plus

    raw = SECRET.encode()
    return [
        raw,
        json.dumps(SECRET).encode(),
        quote(SECRET, safe="").encode(),
        quote_plus(SECRET).encode(),
        quote(SECRET, safe="").replace("%2F", "%2f").encode(),
        raw.hex().encode(),
        raw.hex().upper().encode(),
        *(base64.b64encode(b"x" * shift + raw + b"y" * after) for shift in range(4) for after in range(3)),
        base64.urlsafe_b64encode(b"user:" + raw),
    ]


@pytest.mark.sample(10)
@pytest.mark.parametrize("form", forms())
def test_a_known_secret_leaves_in_no_form(plain: Door, raw: Door, form: bytes):
    text = form.decode()
    requests = [
        f"GET http://example.org/?q={text} HTTP/1.1\r\n\r\n".encode(),
        f"GET http://example.org/ HTTP/1.1\r\nAuthorization: Basic {text}\r\n\r\n".encode(),
        f"POST http://example.org/ HTTP/1.1\r\nContent-Length: {len(form) + 10}\r\n\r\n".encode()
        + b"a" * 5
        + form
        + b"a" * 5,
    ]
    if re.search(r'[ "]', text) is None:
        for each in requests:
            said = plain.say(each)
            assert said.startswith(b"HTTP/1.1 403") and b"holds the secret API_KEY" in said
            assert form not in said
    assert {each.kind for each in plain.refused} <= {"secret"}
    with raw.tunnel("example.org", 80) as client:
        client.sendall(b"GET / HTTP/1.1\r\nX: " + form + b"\r\n\r\n")
        assert form not in read_all(client)
    assert [each.kind for each in raw.refused] == ["secret"]


def test_a_secret_in_pieces_never_begins_to_leave():
    got: list[bytes] = []

    def collect(connection: socket.socket) -> None:
        got.append(read_all(connection))

    with server(collect) as port:
        with door(TestNetwork(NAMES, port), secrets={"API_KEY": SECRET}) as made:
            with made.connect() as client:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                client.sendall(b"POST http://example.org/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
                for byte in b"64\r\n" + b"." * 500 + SECRET.encode():
                    try:
                        client.sendall(bytes([byte]))
                    except OSError:
                        break
                assert b"403" in read_all(client)[:20]
            until = time.monotonic() + 20
            while not got and time.monotonic() < until:
                time.sleep(0.01)
    assert SECRET[:1].encode() + SECRET[1:2].encode() not in got[0].partition(b"\r\n\r\n")[2]


def test_in_a_tunnel_nothing_is_held_back_that_the_other_side_waits_for(raw: Door):
    with raw.tunnel("example.org", 80) as client:
        for question in (
            b"GET /chat HTTP/1.1\r\nUpgrade: websocket\r\n\r\n",
            b"a" * 3_000,
            b"\x81\x83abcs3c",
        ):
            client.sendall(question)
            answer = b""
            while len(answer) < len(question):
                answer += client.recv(4096)
            assert answer == question
        # What has left already counts when the rest comes.
        client.sendall(SECRET[3:].encode())
        assert read_all(client) == b""
    assert [each.kind for each in raw.refused] == ["secret"]


def test_a_secret_in_the_name_of_a_host_is_refused_before_anybody_is_asked():
    asked: list[str] = []

    async def decide(host: str, port: int) -> str | None:
        asked.append(host)
        return None

    with door(TestNetwork(NAMES), decide, secrets={"TOKEN": "abcd1234efgh"}) as made:
        for host in (
            "abcd1234efgh.example.org",
            "ABCD.1234.efgh.example.org",
            "616263643132333465666768.a.b",
        ):
            said = made.say(f"CONNECT {host}:443 HTTP/1.1\r\n\r\n".encode())
            assert said.startswith(b"HTTP/1.1 403") and b"secret TOKEN" in said
    assert asked == []


def test_a_question_is_withdrawn_when_the_client_goes_away():
    asked, withdrawn = threading.Event(), threading.Event()

    async def slow(host: str, port: int) -> str | None:
        asked.set()
        try:
            await asyncio.Future()
        finally:
            withdrawn.set()
        return None

    with door(TestNetwork(NAMES), slow) as made:
        with made.connect() as client:
            client.sendall(b"CONNECT example.org:443 HTTP/1.1\r\n\r\n")
            assert asked.wait(20)
        assert withdrawn.wait(20)


def test_a_head_that_trickles_in_is_given_up(plain: Door, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(exchange, "HEAD_PATIENCE", 0.2)
    with plain.connect() as client:
        client.sendall(b"GET http://example.org/ HTT")
        assert read_all(client).startswith(b"HTTP/1.1 408")


def test_many_clients_are_served_at_once(raw: Door):
    clients = [raw.tunnel("example.org") for _ in range(60)]
    for number, client in enumerate(clients):
        client.sendall(b"%d" % number)
        client.shutdown(socket.SHUT_WR)
    for number, client in enumerate(clients):
        with client:
            assert read_all(client).startswith(b"%d|" % number)


def test_closing_breaks_everything_off(raw: Door):
    with raw.tunnel("example.org") as client:
        raw.proxy.close()
        assert read_all(client) == b""
    raw.proxy.close()
