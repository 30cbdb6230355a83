"""The filtered network: one loopback for the commands of a session, and hosts through the proxy only."""

from __future__ import annotations

import gc
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.safety.sandbox.boundary import BoundaryFolders, SessionBoundary, explain
from agent.safety.sandbox.filtered import FilteredNetwork, nsenter_path, open_space
from tests.agent.core.net.doors import TestNetwork, read_all, server
from tests.agent.safety.sandbox.cell import Cell, room
from tests.agent.safety.sandbox.filtering import LISTED, filter_around, hello, listed
from tests.agent.safety.sandbox.kinds import KINDS
from tools.results import ToolError
from tools.services.sandbox import Need

pytestmark = pytest.mark.skipif(
    "bubblewrap" not in KINDS or nsenter_path() is None, reason="bubblewrap and nsenter are not both here"
)
FETCH = "curl -sS -m 20 -w '%{http_code}'"


@pytest.fixture
def kind() -> str:
    return "bubblewrap"


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cell]:
    with ExitStack() as stack:
        made = Cell(KINDS["bubblewrap"], stack.enter_context(room()), monkeypatch)
        port = stack.enter_context(server(hello))
        network = TestNetwork({LISTED: ["93.184.216.34"]}, port)
        filtered = FilteredNetwork(shutil.which("bwrap") or "", network=network)
        filtered.decide = listed
        stack.callback(filtered.close)
        made.boundary = filter_around(made, filtered)
        yield made


def shell(cell: Cell, text: str, **need: Any) -> tuple[int, str]:
    """Run a line with the variables the boundary sets."""
    ended = cell.run(["/bin/bash", "-c", text], need=Need(dies_with_parent=True, **need))
    return ended.code, ended.output


def test_a_listed_host_is_reached_and_another_one_is_named(cell: Cell):
    before = time.monotonic()
    assert shell(cell, f"{FETCH} http://{LISTED}/") == (0, "yes200")
    assert cell.boundary.hosts_refused(before) == ""
    code, said = shell(cell, f"{FETCH} http://example.net/")
    assert code == 0 and said.endswith("403")
    assert said.startswith("# Hermes: example.net:80 is not on the list of hosts.")
    code, said = shell(cell, f"{FETCH} https://example.net/ 2>&1")
    assert code != 0 and "403" in said
    told = cell.boundary.hosts_refused(before)
    assert "example.net:443 is not on the list of hosts." in told and "`sandbox.hosts`" in told
    assert cell.boundary.hosts_refused(time.monotonic()) == ""


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "attempt",
    [
        "curl -sS -m 5 --noproxy '*' http://93.184.216.34/",
        "exec 3<>/dev/tcp/93.184.216.34/80",
        "echo x >/dev/udp/93.184.216.34/53",
        "getent hosts example.org",
        "exec 3<>/dev/tcp/127.0.0.1/{port}",
        "curl -sS -m 5 -f http://127.0.0.1:{port}/",
        "curl -sS -m 5 -f --noproxy '' http://127.0.0.1:{port}/",
        "curl -sS -m 5 -f --noproxy '' http://localhost:{port}/",
        "curl -sS -m 5 -f --noproxy '' http://[::ffff:127.0.0.1]:{port}/",
        "ip link set lo down",
        "ip addr add 10.9.9.9/24 dev lo",
        "nsenter --net=/proc/1/ns/net true",
        "unshare -n true",
    ],
)
def test_nothing_leads_past_the_proxy(cell: Cell, attempt: str):
    with server(hello) as port:
        code, said = shell(cell, attempt.replace("{port}", str(port)))
    assert code != 0 and "yes" not in said, said


def test_abstract_sockets_of_the_machine_are_out_of_reach(cell: Cell):
    name = f"hermes-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as outside:
        outside.bind(f"\0{name}")
        outside.listen()
        code, said = shell(
            cell,
            f"python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"\\0{name}\")' 2>&1",
        )
    assert code != 0 and "refused" in said.lower()


def test_a_server_of_one_command_is_reached_by_the_next(cell: Cell):
    (cell.workspace / "page").write_text("served")
    with serving(cell, "127.0.0.1") as port:
        for host in ("127.0.0.1", "localhost"):
            assert shell(cell, f"{FETCH} http://{host}:{port}/page") == (0, "served200")


def test_what_keeps_the_network_open_is_not_handed_to_commands(cell: Cell):
    _, said = shell(cell, "ls -l /proc/self/fd; ls -l /proc/1/fd")
    assert "net:[" not in said and "user:[" not in said


def test_scripts_are_filtered_too_and_counted_while_they_work(cell: Cell):
    assert shell(cell, f"{FETCH} http://{LISTED}/", offline=True) == (0, "yes200")
    filtered = cell.boundary.filtered
    assert filtered is not None
    waiting = cell.boundary.wrap(["true"], Need(offline=True, counts=False))
    assert filtered.running == frozenset()
    over = cell.boundary.mark_working()
    assert len(filtered.running) == 1
    over()
    over()
    waiting.started()
    waiting.ended()
    assert filtered.running == frozenset()


def test_programs_are_told_of_the_proxy(cell: Cell):
    _, said = shell(cell, "env")
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        assert f"{name}=http://127.0.0.1:3128\n" in said
        assert f"{name.upper()}=http://127.0.0.1:3128\n" in said
    assert "localhost" in said.partition("no_proxy=")[2].partition("\n")[0]


def test_commands_that_run_are_counted_until_they_end(cell: Cell):
    filtered = cell.boundary.filtered
    assert filtered is not None and filtered.running == frozenset()
    told: list[frozenset[int]] = []
    filtered.idle = told.append
    one = cell.boundary.wrap(["true"], Need())
    other = cell.boundary.wrap(["true"], Need())
    assert len(filtered.running) == 2
    for each in (one, other, one, other):
        each.started()
        each.ended()
    assert [len(running) for running in told] == [1, 0]


def test_several_commands_at_once_share_one_network(cell: Cell):
    codes: list[tuple[int, str]] = []
    threads = [
        threading.Thread(target=lambda: codes.append(shell(cell, f"{FETCH} http://{LISTED}/")))
        for _ in range(6)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join(120)
    assert codes == [(0, "yes200")] * 6


def test_after_the_session_nothing_starts(cell: Cell):
    assert cell.boundary.filtered is not None
    cell.boundary.filtered.close()
    with pytest.raises(ToolError, match="has ended"):
        cell.boundary.wrap(["true"], Need())


@pytest.mark.thorough
def test_connections_that_are_open_end_with_the_session(cell: Cell, caplog: pytest.LogCaptureFixture):
    def silent(connection: socket.socket) -> None:
        connection.sendall(b"first")
        read_all(connection)

    with server(silent) as port, serving(cell, "127.0.0.1") as inside:
        assert cell.boundary.filtered is not None
        filtered = FilteredNetwork(shutil.which("bwrap") or "", services=[port])
        around = filter_around(cell, filtered)
        wrapped = around.wrap(
            ["/bin/bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{port}; head -c 5 <&3; cat <&3"],
            Need(dies_with_parent=True),
        )
        child = subprocess.Popen(wrapped.argv, stdout=subprocess.PIPE, pass_fds=wrapped.fds)
        wrapped.started()
        assert child.stdout is not None and child.stdout.read(5) == b"first"
        fetched("127.0.0.1", inside)
        with socket.create_connection(("127.0.0.1", inside), timeout=10) as client:
            filtered.close()
            cell.boundary.filtered.close()
            assert read_all(client) == b""
        assert child.wait(30) == 0
        child.stdout.close()
        wrapped.ended()
    gc.collect()
    assert "pending" not in caplog.text


def test_without_a_filter_the_mode_is_to_ask(cell: Cell):
    cell.boundary = SessionBoundary(
        cell.sandbox,
        BoundaryFolders(cell.workspace, cell.private, cell.boundary._home),
        network="filtered",
    )
    assert cell.boundary.network == "ask" and cell.boundary.filtered is None
    assert shell(cell, "exec 3<>/dev/tcp/127.0.0.1/3128")[0] != 0


def test_a_space_that_cannot_be_opened_says_why(tmp_path: Path):
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create a new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    with pytest.raises(ToolError, match=r"could not be opened: bwrap: No permissions"):
        open_space(str(fake))


def test_a_program_that_passes_the_proxy_by_hears_of_it(tmp_path: Path):
    line = "ssh: Could not resolve hostname example.org: Temporary failure in name resolution"
    said = explain(line, (tmp_path,), (), False, filtered=True)
    assert "The network is filtered" in said and "http_proxy" in said
    assert "The network is off" in explain(line, (tmp_path,), (), False)


SERVE = (
    "import http.server as h, socket, sys\n"
    "class S(h.HTTPServer): address_family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET\n"
    "s = S((sys.argv[1], 0), h.SimpleHTTPRequestHandler)\n"
    "print(s.server_port, flush=True); s.serve_forever()"
)


@contextmanager
def serving(cell: Cell, host: str) -> Iterator[int]:
    """A server that a command has started; its port."""
    wrapped = cell.boundary.wrap(["python3", "-c", SERVE, host], Need(dies_with_parent=True))
    child = subprocess.Popen(
        wrapped.argv,
        cwd=cell.workspace,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        pass_fds=wrapped.fds,
    )
    try:
        wrapped.started()
        assert child.stdout is not None
        yield int(child.stdout.readline())
    finally:
        child.kill()
        child.communicate()
        wrapped.ended()


def fetched(host: str, port: int) -> bytes:
    """What a server of this machine says, asked until somebody answers."""
    until = time.monotonic() + 30
    while True:
        try:
            with socket.create_connection((host, port), timeout=10) as client:
                client.sendall(b"GET /page HTTP/1.0\r\n\r\n")
                return read_all(client)
        except ConnectionRefusedError:
            assert time.monotonic() < until, "nobody listens"
            time.sleep(0.05)


@pytest.mark.thorough
@pytest.mark.parametrize("inside", ["127.0.0.1", "0.0.0.0", "::1", "::"])
def test_a_server_of_a_command_is_reached_from_outside_under_the_same_port_while_it_runs(
    cell: Cell, inside: str
):
    (cell.workspace / "page").write_text("served")
    with serving(cell, inside) as port:
        for _ in range(40):
            assert fetched("127.0.0.1", port).endswith(b"served")
    until = time.monotonic() + 30
    while True:
        try:
            socket.create_server(("127.0.0.1", port)).close()
            break
        except OSError:
            assert time.monotonic() < until, "the port is still held"
            time.sleep(0.05)


def test_a_port_that_somebody_else_has_outside_stays_theirs(cell: Cell):
    with server(hello) as taken:
        text = SERVE.replace("[1], 0)", f"[1], {taken})")
        wrapped = cell.boundary.wrap(["python3", "-c", text, "127.0.0.1"], Need(dies_with_parent=True))
        child = subprocess.Popen(
            wrapped.argv,
            cwd=cell.workspace,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=wrapped.fds,
        )
        try:
            wrapped.started()
            assert child.stdout is not None and int(child.stdout.readline()) == taken
            with serving(cell, "127.0.0.1") as other:
                # By now both were seen: the other one is forwarded.
                assert b"404" in fetched("127.0.0.1", other)
            assert fetched("127.0.0.1", taken).endswith(b"yes")
        finally:
            child.kill()
            child.communicate()
            wrapped.ended()


def test_a_service_of_the_person_is_reached_where_they_name_it(cell: Cell):
    with server(hello) as port:
        filtered = FilteredNetwork(shutil.which("bwrap") or "", services=[port])
        try:
            cell.boundary = filter_around(cell, filtered)
            assert shell(cell, f"{FETCH} http://127.0.0.1:{port}/") == (0, "yes200")
        finally:
            filtered.close()
