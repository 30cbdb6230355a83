"""A whole session whose commands run in the sandbox of this machine."""

from __future__ import annotations

import asyncio
import http.server
import json
import os
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from agent.core.net.exchange import SystemNetwork
from agent.events import ApprovalAsked, Decision, SessionOpened
from agent.safety.sandbox.opening import probe
from tests.support.engines import Bench, bench
from tests.support.replies import by_step, call, calls, say

KEPT_IN = probe().name
PYTHON = os.path.realpath(sys.executable)


async def _results(b: Bench, calls: int, **options: Any) -> list[dict[str, Any]]:
    await b.turn("go", **options)
    assert not b.server.refusals
    return [
        json.loads(message["content"]) for message in b.server.requests[calls].messages[-2 * calls + 1 :: 2]
    ]


@pytest.mark.thorough
async def test_a_project_is_written_and_tested_inside(tmp_path: Path) -> None:
    steps = [
        call("write_file", path="double.py", content="def double(x):\n    return 2 * x\n"),
        call(
            "write_file",
            path="test_double.py",
            content="from double import double\n\n\ndef test_double(tmp_path):\n"
            "    (tmp_path / 'made').write_text('x')\n    assert double(2) == 4\n",
        ),
        call("terminal", command=f"'{sys.executable}' -m pytest -q -p no:cacheprovider 2>&1 | tail -3"),
        call(
            "write_file",
            path="build.sh",
            content="echo out > /tmp/hermes-report.txt; touch /usr/hermes-out\n",
        ),
        call("terminal", command="sh ./build.sh"),
        call("read_file", path="/tmp/hermes-report.txt"),
        say("done"),
    ]
    async with bench(tmp_path, by_step(steps)) as b:
        # Where the packages lie below /tmp, commands do not see them otherwise.
        b.config(f"sandbox:\n  writable: ['{sys.prefix}']\n")
        b.environ["PYTHONPATH"] = os.pathsep.join(sys.path[1:])
        *_, tested, _, reported, read = await _results(b, len(steps) - 1)
        assert b.seen(SessionOpened)[0].sandbox == KEPT_IN != "none"
    assert "1 passed" in tested["output"]
    assert "outside=true" in reported["note"] and not Path("/usr/hermes-out").exists()
    assert "out" in read["content"] and not Path("/tmp/hermes-report.txt").exists()


async def test_a_switched_off_sandbox_is_told_from_the_start(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([call("terminal", command="echo free"), say("done")])) as b:
        b.config("sandbox:\n  mode: 'off'\n")
        (result,) = await _results(b, 1)
        assert result["output"] == "free\n"
        assert b.seen(SessionOpened)[0].sandbox == "none"


@pytest.mark.thorough
async def test_a_limit_of_memory_holds_for_commands(tmp_path: Path) -> None:
    grab = f"'{PYTHON}' -c 'x = bytearray(900_000_000); print(len(x))'"
    async with bench(tmp_path, by_step([call("terminal", command=grab), say("done")])) as b:
        b.config("sandbox:\n  memory: 500\n")
        (result,) = await _results(b, 1)
    assert result["exit_code"] != 0 and "MemoryError" in result["output"]


async def test_without_a_yes_nothing_runs_outside(tmp_path: Path) -> None:
    steps = [call("terminal", command=f"touch '{tmp_path}/beyond'", outside=True), say("done")]
    async with bench(tmp_path, by_step(steps)) as b:
        (result,) = await _results(b, 1, attended=False)
    assert result["status"] == "blocked" and not (tmp_path / "beyond").exists()


class _PrivateRepository(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        login = "Authorization" in self.headers
        self.send_response(200 if login else 401)
        self.send_header("WWW-Authenticate", 'Basic realm="private"')
        self.end_headers()
        if login and "info/refs" in self.path:
            self.wfile.write(b"0123456789012345678901234567890123456789\trefs/heads/main\n")

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.mark.skipif(KEPT_IN == "none", reason="no sandbox here")
async def test_what_needs_a_hidden_login_asks_once_to_run_outside_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _PrivateRepository)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    host = f"127.0.0.1:{server.server_port}"
    command = f"git ls-remote http://{host}/private.git"
    steps = [call("terminal", command=command), call("terminal", command=command, outside=True), say("done")]
    async with bench(tmp_path, by_step(steps)) as b:
        home = tmp_path / "person"
        home.mkdir()
        monkeypatch.setenv("HOME", str(home))
        b.environ["HOME"] = str(home)
        (home / ".git-credentials").write_text(f"http://me:word@{host}\n")
        (home / ".gitconfig").write_text("[credential]\n\thelper = store\n")
        b.config("sandbox:\n  network: 'on'\n")
        async with b.engine(attended=True, approve="ask") as engine:
            turn = asyncio.ensure_future(engine.run("go"))
            while not turn.done():
                for asked in b.seen(ApprovalAsked):
                    if not asked.reply.done():
                        asked.reply.set_result(Decision("once"))
                await asyncio.sleep(0.01)
        inside, outside = (json.loads(each["content"]) for each in b.server.requests[-1].messages[-3::2])
    server.shutdown()
    server.server_close()
    assert inside["exit_code"] == 128 and ".git-credentials is there, but hidden" in inside["note"]
    assert (outside["exit_code"], outside["output"].split()[1]) == (0, "refs/heads/main"), outside
    why = [asked.reasons for asked in b.seen(ApprovalAsked) if "outside" in str(asked.reasons)]
    assert len(why) == 1 and ".git-credentials is hidden inside" in why[0][0]


UNLISTED = "unlisted.example.net"
FETCH = f"curl -sS -m 60 https://{UNLISTED}/"
UNSEEN = "sh fetch.sh; true"
"""The command names no host: only the proxy sees it."""
filtered = pytest.mark.skipif(
    KEPT_IN != "bubblewrap" or shutil.which("curl") is None, reason="bubblewrap and curl are not both here"
)


@pytest.mark.thorough
@filtered
async def test_a_host_that_is_not_let_through_is_named_in_the_result(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([call("terminal", command=UNSEEN), say("done")])) as b:
        (b.workspace / "fetch.sh").write_text(FETCH)
        b.config("sandbox:\n  network: filtered\n")
        (result,) = await _results(b, 1, attended=False, approve="ask")
    assert "403" in result["output"]
    assert f"{UNLISTED}:443 is not on the list of hosts, and nobody is there to allow it." in result["note"]
    assert "`sandbox.hosts`" in result["note"]


@pytest.mark.thorough
@filtered
@pytest.mark.parametrize("action", ["wait", "log"])
async def test_a_host_that_a_background_process_did_not_reach_is_named_where_it_is_looked_at(
    tmp_path: Path, action: str
) -> None:
    def look(request: Any) -> Any:
        started = json.loads(request.messages[-1]["content"])["session_id"]
        first = ("process", {"action": "wait", "session_id": started})
        return calls(first, ("process", {"action": action, "session_id": started, "limit": 9}))

    start = call("terminal", command=UNSEEN, background=True)
    async with bench(tmp_path, by_step([start, look, say("done")])) as b:
        (b.workspace / "fetch.sh").write_text(FETCH)
        b.config("sandbox:\n  network: filtered\n")
        await b.turn("go", attended=False, approve="ask")
    said = [each["content"] for each in b.server.requests[-1].messages if each["role"] == "tool"]
    _, waited, again = map(json.loads, said)
    assert f"{UNLISTED}:443 is not on the list of hosts, and nobody is there to allow it." in waited["note"]
    # The log is the whole of it; a second look has no news.
    assert ("note" in again) is (action == "log")


@pytest.mark.thorough
@filtered
@pytest.mark.parametrize(("choice", "said"), [("deny", "was not allowed"), ("once", "was not found")])
async def test_a_person_is_asked_about_a_host_while_the_command_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, choice: str, said: str
) -> None:
    async def no_such_name(self: SystemNetwork, host: str, port: int) -> list[Any]:
        raise OSError(f"{host} is not looked up in tests")

    monkeypatch.setattr(SystemNetwork, "resolve", no_such_name)
    async with bench(tmp_path, by_step([call("terminal", command=UNSEEN), say("done")])) as b:
        (b.workspace / "fetch.sh").write_text(FETCH)
        b.config("sandbox:\n  network: filtered\n")
        async with b.engine(attended=True, approve="ask") as engine:
            turn = asyncio.ensure_future(engine.run("go"))
            while not b.seen(ApprovalAsked):
                assert not turn.done()
                await asyncio.sleep(0.01)
            (asked,) = b.seen(ApprovalAsked)
            assert asked.headline == f"let commands reach {UNLISTED} on port 443"
            assert "connects to a host that is not on the list" in asked.reasons
            asked.reply.set_result(Decision(choice))
            await turn
        (result,) = [json.loads(each["content"]) for each in b.server.requests[1].messages[-1:]]
    assert len(b.seen(ApprovalAsked)) == 1
    assert said in result["note"]


@pytest.mark.thorough
@filtered
async def test_a_yes_to_a_command_is_a_yes_to_the_hosts_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: list[str] = []

    async def no_such_name(self: SystemNetwork, host: str, port: int) -> list[Any]:
        looked_up.append(host)
        raise OSError(f"{host} is not looked up in tests")

    monkeypatch.setattr(SystemNetwork, "resolve", no_such_name)
    async with bench(tmp_path, by_step([call("terminal", command=FETCH), say("done")])) as b:
        async with b.engine(attended=True, approve="ask") as engine:
            turn = asyncio.ensure_future(engine.run("go"))
            while not b.seen(ApprovalAsked):
                assert not turn.done()
                await asyncio.sleep(0.01)
            (asked,) = b.seen(ApprovalAsked)
            assert asked.headline == FETCH and asked.network == "filtered"
            asked.reply.set_result(Decision("once"))
            await turn
    assert len(b.seen(ApprovalAsked)) == 1 and looked_up == [UNLISTED]


@pytest.mark.thorough
@filtered
async def test_a_script_is_filtered_and_hears_which_host_was_not_let_through(tmp_path: Path) -> None:
    code = (
        "import urllib.request\n"
        f"try: urllib.request.urlopen('https://{UNLISTED}/')\n"
        "except OSError as error: print(error)"
    )
    async with bench(tmp_path, by_step([call("execute_code", code=code), say("done")])) as b:
        (result,) = await _results(b, 1, attended=False, approve="ask")
    assert "403" in result["output"] and result["status"] == "success"
    assert f"{UNLISTED}:443 is not on the list of hosts, and nobody is there to allow it." in result["note"]
