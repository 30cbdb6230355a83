"""What the egress proxy costs, beside the same transfer without it, in pairs in the same run.

`download`: 100 MB fetched by curl from a server on loopback, over TLS as packages come, and in the clear
(where nothing but copying is left, so that the share is the largest there can be). `link`: the same at the
pace of a line of 1 Gbit/s. `connection`: a request and its answer of one byte on a connection of its own.
Direct and through the proxy take turns.

A share of what a transfer over the network takes: on loopback the copying of a third program on two cores
is all there is to see. Targets: link < 1.05 ×, connection < 2 ms more.

    python benchmarks/egress_proxy.py [--rounds 9] [--connections 200]
"""

from __future__ import annotations

import argparse
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.agent.core.net.doors import TestNetwork, door

SIZE = 100_000_000
HOST = "example.org"
LINE = 125_000_000
"""Bytes a second of a line of 1 Gbit/s."""

SERVER = """
import socket, ssl, sys, threading, time
size, pace, cert = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
context = None
if cert:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); context.load_cert_chain(cert)
listener = socket.create_server(("127.0.0.1", 0), backlog=512)
print(listener.getsockname()[1], flush=True)
block = b"x" * 65536
def serve(connection):
    try:
        if context: connection = context.wrap_socket(connection, server_side=True)
        with connection:
            head = connection.recv(65536)
            wanted = size if b"/big" in head else 1
            answer = b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\nConnection: close\\r\\n\\r\\n"
            connection.sendall(answer % wanted)
            begin, sent = time.perf_counter(), 0
            while sent < wanted:
                connection.sendall(block[: wanted - sent]); sent += 65536
                if pace and (ahead := sent / pace - (time.perf_counter() - begin)) > 0.002: time.sleep(ahead)
    except OSError: pass
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""


def serving(pace: int, certificate: str) -> tuple[subprocess.Popen[str], int]:
    child = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(SIZE), str(pace), certificate], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    return child, int(child.stdout.readline())


def fetch(url: str, port: int, proxy: str) -> float:
    """Seconds that curl takes for `url`."""
    usual = 443 if url.startswith("https") else 80
    way = ["--proxy", proxy] if proxy else ["--connect-to", f"{HOST}:{usual}:127.0.0.1:{port}"]
    begin = time.perf_counter()
    subprocess.run(["curl", "-sSkf", "--noproxy", "", "-o", "/dev/null", *way, url], check=True)
    return time.perf_counter() - begin


def request(address: tuple[str, int], target: str) -> float:
    """Seconds for a small request on a connection of its own."""
    begin = time.perf_counter()
    with socket.create_connection(address) as client:
        client.sendall(f"GET {target} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
        while client.recv(4096):
            pass
    return time.perf_counter() - begin


def pairs(
    rounds: int, direct: Callable[[], float], through: Callable[[], float]
) -> tuple[float, float, float]:
    """The medians of both, and that of their quotients."""
    direct()
    through()
    found = [(direct(), through()) for _ in range(rounds)]
    ones, others = zip(*found, strict=True)
    return (
        statistics.median(ones),
        statistics.median(others),
        statistics.median(other / one for one, other in found),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--connections", type=int, default=200)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        certificate = ""
        if shutil.which("openssl"):
            certificate = str(Path(folder) / "both.pem")
            made = [
                "openssl",
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
            ]
            made += ["-subj", f"/CN={HOST}", "-keyout", f"{folder}/key.pem", "-out", f"{folder}/cert.pem"]
            subprocess.run(made, check=True, capture_output=True)
            parts = [Path(folder, name).read_text() for name in ("key.pem", "cert.pem")]
            Path(certificate).write_text("".join(parts))
        kinds = [
            ("download, in the clear", "http", 0, ""),
            ("link of 1 Gbit/s, in the clear", "http", LINE, ""),
        ]
        if certificate:
            kinds = [
                ("download, TLS", "https", 0, certificate),
                ("link of 1 Gbit/s, TLS", "https", LINE, certificate),
                *kinds,
            ]
        for name, scheme, pace, given in kinds:
            child, port = serving(pace, given)
            try:
                with door(TestNetwork({HOST: ["93.184.216.34"]}, port)) as made:
                    proxy = f"http://127.0.0.1:{made.address[1]}"
                    url = f"{scheme}://{HOST}/big"
                    one, other, quotient = pairs(
                        chosen.rounds, partial(fetch, url, port, ""), partial(fetch, url, port, proxy)
                    )
                    print(f"{name:32} direct {one:6.3f} s  proxy {other:6.3f} s  {quotient:5.2f} ×")
                    if scheme == "http" and not pace:
                        one, other, _ = pairs(
                            chosen.connections,
                            partial(request, ("127.0.0.1", port), "/"),
                            partial(request, made.address, f"http://{HOST}/"),
                        )
                        print(
                            f"{'connection':32} direct {one * 1e3:6.2f} ms proxy {other * 1e3:6.2f} ms "
                            f"{(other - one) * 1e3:+.2f} ms"
                        )
            finally:
                child.kill()
                child.wait()


if __name__ == "__main__":
    main()
