"""Behind a proxy of the environment: what it is asked for, and what it says."""

from __future__ import annotations

import asyncio
import socket
from ipaddress import ip_address

import pytest

from agent.core.net.exchange import SystemNetwork, UpstreamNetwork, outgoing_network, resolve_allowed
from agent.core.net.proxy import EgressProxy
from tests.agent.core.net.doors import everything, read_all, server


def answering(heads: list[bytes], status: bytes = b"200 OK"):
    def serve(connection: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(65536)
        heads.append(head)
        connection.sendall(b"HTTP/1.1 " + status + b"\r\nX: y\r\n\r\nfirst")
        while data := connection.recv(65536):
            connection.sendall(data)

    return serve


async def test_it_is_asked_for_the_address_that_was_checked():
    heads: list[bytes] = []
    with server(answering(heads)) as port:
        network = UpstreamNetwork("127.0.0.1", port, "me", "s3cret")
        with await network.connect(ip_address("93.184.216.34"), 443) as connection:
            assert await asyncio.get_running_loop().sock_recv(connection, 100) == b"first"
        with await network.connect(ip_address("2606:4700::1"), 80):
            pass
    assert heads == [
        b"CONNECT 93.184.216.34:443 HTTP/1.1\r\nHost: 93.184.216.34:443\r\n"
        b"Proxy-Authorization: Basic bWU6czNjcmV0\r\n\r\n",
        b"CONNECT [2606:4700::1]:80 HTTP/1.1\r\nHost: [2606:4700::1]:80\r\n"
        b"Proxy-Authorization: Basic bWU6czNjcmV0\r\n\r\n",
    ]


@pytest.mark.parametrize("status", [b"403 Forbidden", b"407 Proxy Authentication Required", b"x"])
async def test_its_no_is_a_host_that_cannot_be_reached(status: bytes):
    with server(answering([], status)) as port:
        with pytest.raises(ConnectionRefusedError):
            await UpstreamNetwork("127.0.0.1", port).connect(ip_address("93.184.216.34"), 443)


async def test_a_name_that_only_it_can_resolve_is_left_to_it_and_an_inner_one_is_refused_here(
    monkeypatch: pytest.MonkeyPatch,
):
    async def resolve(self: SystemNetwork, host: str, port: int):
        if host == "inner.example.org":
            return [ip_address("10.0.0.1")]
        raise OSError("no name service")

    monkeypatch.setattr(SystemNetwork, "resolve", resolve)
    network = UpstreamNetwork("proxy.example.org", 3128)
    assert await resolve_allowed(network, "example.org", 443) == ("example.org",)
    with pytest.raises(Exception, match=r"leads to 10\.0\.0\.1"):
        await resolve_allowed(network, "inner.example.org", 443)
    with pytest.raises(Exception, match="was not found"):
        await resolve_allowed(SystemNetwork(), "example.org", 443)


def test_a_tunnel_leads_through_both():
    heads: list[bytes] = []
    with server(answering(heads)) as port:
        proxy = EgressProxy(everything, network=UpstreamNetwork("127.0.0.1", port))
        proxy.start()
        listener = socket.create_server(("127.0.0.1", 0))
        proxy.listen(listener)
        try:
            with socket.create_connection(listener.getsockname(), timeout=20) as client:
                client.sendall(b"CONNECT 93.184.216.34:25 HTTP/1.1\r\n\r\nhello")
                client.shutdown(socket.SHUT_WR)
                assert read_all(client).endswith(b"\r\n\r\nfirsthello")
        finally:
            proxy.close()


@pytest.mark.parametrize(
    ("environ", "found"),
    [
        ({}, None),
        ({"https_proxy": ""}, None),
        ({"https_proxy": "http://proxy.example.org:3128"}, ("proxy.example.org", 3128)),
        ({"HTTP_PROXY": "proxy.example.org:8080"}, ("proxy.example.org", 8080)),
        ({"ALL_PROXY": "http://proxy.example.org"}, ("proxy.example.org", 80)),
        ({"https_proxy": "socks5://proxy.example.org:1080"}, None),
        ({"https_proxy": "http://proxy.example.org:x"}, None),
    ],
)
def test_the_environment_names_it(environ: dict[str, str], found: tuple[str, int] | None):
    network = outgoing_network(environ)
    assert (network._proxy if isinstance(network, UpstreamNetwork) else None) == found
