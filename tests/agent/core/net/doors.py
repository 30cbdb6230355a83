"""A proxy with a network of its own: names lead to public addresses, and these to servers on loopback."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from ipaddress import ip_address

from agent.core.net.addresses import Address
from agent.core.net.exchange import Decide, ProxyRefusal
from agent.core.net.proxy import EgressProxy

PUBLIC = ip_address("93.184.216.34")


class TestNetwork:
    """Names by the addresses they resolve to; each of them is `port` of this machine."""

    __test__ = False
    by_name = False

    def __init__(self, names: Mapping[str, Sequence[str]], port: int = 0) -> None:
        self.names = names
        self.port = port
        self.asked: list[str] = []
        self.reached: list[tuple[str, int]] = []

    async def resolve(self, host: str, port: int) -> Sequence[Address]:
        self.asked.append(host)
        if host not in self.names:
            raise OSError("no such name")
        return [ip_address(each) for each in self.names[host]]

    async def connect(self, target: Address | str, port: int) -> socket.socket:
        self.reached.append((str(target), port))
        connection = socket.socket()
        connection.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", self.port))
        except BaseException:
            connection.close()
            raise
        return connection


async def everything(host: str, port: int) -> str | None:
    return None


class Door:
    """A running proxy and what came of it."""

    def __init__(self, proxy: EgressProxy, address: tuple[str, int], network: TestNetwork) -> None:
        self.proxy = proxy
        self.address = address
        self.network = network
        self.refused: list[ProxyRefusal] = []

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=20)

    def say(self, data: bytes, *, ends: bool = False) -> bytes:
        """Everything that comes back for `data`."""
        with self.connect() as client:
            client.sendall(data)
            if ends:
                client.shutdown(socket.SHUT_WR)
            return read_all(client)

    def tunnel(self, host: str, port: int = 443) -> socket.socket:
        """A connection through the proxy."""
        client = self.connect()
        client.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            byte = client.recv(1)
            assert byte, answer
            answer += byte
        assert answer.startswith(b"HTTP/1.1 200"), answer
        return client


def read_all(client: socket.socket) -> bytes:
    found = bytearray()
    while True:
        try:
            piece = client.recv(65536)
        except ConnectionResetError:
            break
        if not piece:
            break
        found += piece
    return bytes(found)


@contextmanager
def door(
    network: TestNetwork,
    decide: Decide = everything,
    secrets: Mapping[str, str] | None = None,
    is_own: Callable[[str, int], bool] = lambda host, port: False,
) -> Iterator[Door]:
    listener = socket.create_server(("127.0.0.1", 0))
    refused: list[ProxyRefusal] = []
    proxy = EgressProxy(decide, secrets=secrets, on_refusal=refused.append, network=network, is_own=is_own)
    proxy.start()
    proxy.listen(listener)
    made = Door(proxy, listener.getsockname(), network)
    made.refused = refused
    try:
        yield made
    finally:
        proxy.close()


Serve = Callable[[socket.socket], None]


@contextmanager
def server(serve: Serve) -> Iterator[int]:
    """A server on loopback whose connections are handed to `serve`, each in a thread; its port."""
    listener = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []

    def run() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connection.settimeout(20)
            threads.append(threading.Thread(target=one, args=(connection,)))
            threads[-1].start()

    def one(connection: socket.socket) -> None:
        with connection:
            try:
                serve(connection)
            except OSError:
                pass

    accepting = threading.Thread(target=run)
    accepting.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for each in [accepting, *threads]:
            each.join(30)


def hello(name: str | None) -> bytes:
    """The first bytes that a TLS client sends to `name`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    shake = context.wrap_bio(incoming, outgoing, server_hostname=name)
    try:
        shake.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


Answer = Callable[[str, dict[str, str]], bytes]


def respond(body: bytes = b"hello", status: str = "200 OK", **headers: str) -> bytes:
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    head = "\r\n".join([f"HTTP/1.1 {status}", *lines, f"Content-Length: {len(body)}", "", ""])
    return head.encode() + body


@contextmanager
def web(answer: Answer, names: Mapping[str, tuple[str, ...]] | None = None) -> Iterator[TestNetwork]:
    """A network in which every address is one server, which answers by path and headers."""

    def serve(connection: socket.socket) -> None:
        data = b""
        while b"\r\n\r\n" not in data:
            data += connection.recv(65536)
        first, *rest = data.partition(b"\r\n\r\n")[0].decode().split("\r\n")
        fields = (line.partition(": ") for line in rest)
        connection.sendall(answer(first.split()[1], {name.lower(): value for name, _, value in fields}))

    with server(serve) as port:
        yield TestNetwork(names or {"example.org": (str(PUBLIC),), "other.example": (str(PUBLIC),)}, port)
