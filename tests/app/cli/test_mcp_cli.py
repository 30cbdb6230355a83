"""`hermes mcp` as a command: what it does, what bad input gets, and our own sessions as a server."""

from __future__ import annotations

import json
import shlex
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import ElicitResult

from tests.support import plain_server
from tests.support.command import HERMES, environment, run
from tests.support.model_process import ServerProcess
from tests.support.web_server import web_server

PLAIN = ("--", sys.executable, "-IS", plain_server.__file__)
FOLLOW = str(Path(__file__).parents[2] / "conformance" / "follow_redirects.py")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    return tmp_path


def hermes(place: Path, *arguments: str, code: int = 0, stdin: str = "", **more: str) -> Any:
    """What a command prints: as data with `--json`, its one sentence where it fails."""
    done = run("mcp", *arguments, env=environment(place / "home", **more), cwd=place / "work", stdin=stdin)
    assert done.returncode == code, done.stderr + done.stdout
    assert "Traceback" not in done.stderr
    if code and done.stderr:
        return done.stderr.strip()
    return json.loads(done.stdout) if "--json" in arguments else done.stdout


@pytest.mark.thorough
def test_a_server_is_added_listed_probed_called_trusted_and_removed(place: Path) -> None:
    mark = place / "work" / "mark"
    added = hermes(place, "add", "box", "--json", "--no-sandbox", *PLAIN, "changes", str(mark))
    assert added["added"] == "box" and [tool["name"] for tool in added["tools"]] == ["echo", "other"]
    assert hermes(place, "call", "box", "other", "--args", "-", stdin='{"text": "hé"}') == "hé\n"
    probed = hermes(place, "probe", "box", "--json")
    assert {tool["name"]: tool["standing"] for tool in probed["tools"]} == {
        "echo": "changed",
        "other": "ready",
    }
    listed = hermes(place, "list", "--json")["servers"][0]
    assert (listed["tools"], listed["parked"]) == (["other"], {"echo": "changed"})
    assert "--yes" in hermes(place, "trust", "box", code=2)
    assert "\n-Says it again.\n+Says it to everybody.\n" in listed["differences"]["echo"]
    trusted = hermes(place, "trust", "box", "--yes", "--json")
    assert trusted == {"trusted": "box", "tools": ["echo"], "differences": listed["differences"]}
    assert "2 tools" in hermes(place, "list")
    assert hermes(place, "remove", "box", "--json") == {"removed": "box"}
    assert hermes(place, "list", "--json")["servers"] == []


def test_a_call_prints_long_texts_whole_and_puts_other_content_into_the_current_folder(place: Path) -> None:
    said = "long " * 30_000
    server = {"command": PLAIN[1], "args": [*PLAIN[2:], "long-with-picture"], "sandbox": False}
    (place / "home" / "config.yaml").write_text(json.dumps({"mcp_servers": {"box": server}}))
    answer = hermes(place, "call", "box", "echo", "--json")
    (image,) = answer["images"]
    assert answer == {"content": said, "images": [image]}
    assert Path(image["path"]).read_bytes() == b"hello"
    assert [each.name for each in (place / "work").iterdir()] == [Path(image["path"]).name]
    assert not list((place / "home").rglob("mcp-*"))
    text, path, end = hermes(place, "call", "box", "echo").split("\n")
    assert text == said.rstrip() + " " and image["path"] in path and end == ""


def test_servers_of_plugins_are_listed_and_left_to_their_plugin(place: Path) -> None:
    folder = place / "pack"
    folder.mkdir()
    schema = "https://agent-plugins.org/schemas/1.0.0"
    (folder / "plugin.json").write_text(
        json.dumps({"$schema": f"{schema}/plugin.schema.json", "name": "pack", "version": "1.0.0"})
    )
    server = {"type": "stdio", "command": "sh", "args": ["-c", "exit 3"]}
    (folder / "mcp.json").write_text(
        json.dumps({"$schema": f"{schema}/mcp.schema.json", "mcpServers": {"box": server}})
    )
    done = run("plugin", "install", str(folder), "--yes", env=environment(place / "home"), cwd=place / "work")
    assert done.returncode == 0, done.stderr
    listed = hermes(place, "list", "--json")["servers"]
    assert [(each["name"], each["origin"]) for each in listed] == [("pack.box", "plugin")]
    refused = hermes(place, "remove", "pack.box", code=2)
    assert "hermes plugin disable pack" in refused.replace("hermes' ", "hermes ")


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("probe", "nobody"), 2, "There is no MCP server 'nobody'"),
        (("login", "local"), 2, "only servers with an address sign in"),
        (("add", "a b", "--no-probe", "--", "x"), 2, "needs a name of letters"),
        (("add", "new", "--no-probe", "--env", "X", "--", "x"), 2, "--env takes NAME=VALUE"),
        (("add", "local", "--no-probe", "--", "x"), 2, "There is an MCP server 'local' already"),
        (("add", "new", "--url", "ftp://h"), 2, "begins with http:// or https://"),
        (("add", "new", "--", "no-such-program"), 3, "no program 'no-such-program'; install it"),
        (("call", "local", "echo", "--args", "{"), 2, "--args is not JSON"),
        (("call", "http://127.0.0.1:9/", "echo"), 3, "cannot be reached"),
        (("probe", "http://me:pw@h/"), 2, "put it into `headers`"),
        (("probe", "local"), 3, "it ended with code 3 (no licence found)"),
        (("probe", "theirs"), 2, "Nobody agreed to theirs yet"),
        (("remove", "theirs"), 2, "comes with this project"),
    ],
)
def test_bad_input_gets_one_sentence(place: Path, arguments: tuple[str, ...], code: int, said: str) -> None:
    local = {"command": sys.executable, "args": ["-IS", plain_server.__file__, "dies"]}
    (place / "home" / "config.yaml").write_text(json.dumps({"mcp_servers": {"local": local}}))
    (place / "work" / ".mcp.json").write_text(
        json.dumps({"mcpServers": {"theirs": {"command": "x"}, "broken": {"command": 5}}})
    )
    text = hermes(place, *arguments, code=code)
    assert said in text and text.count("\n") <= 1 and "mcp probe" not in text


class Nonsense(BaseHTTPRequestHandler):
    """Answers everything with a body that is not JSON."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", "3")
        self.end_headers()
        self.wfile.write(b"zzz")

    def log_message(self, format: str, *args: Any) -> None:
        pass


def test_an_answer_that_is_not_json_is_refused_without_words_for_programmers(place: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Nonsense) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        text = hermes(place, "probe", f"http://127.0.0.1:{server.server_port}/mcp", code=3)
        server.shutdown()
    assert text.endswith("Failed to parse JSON response.") and "pydantic" not in text


@pytest.mark.thorough
def test_a_sign_in_without_a_browser_prints_its_address_and_is_forgotten(place: Path) -> None:
    with web_server(asks_sign_in=True) as web:
        given = {"mcp_servers": {"web": {"url": f"{web.url}/mcp"}}}
        (place / "home" / "config.yaml").write_text(json.dumps(given))
        browser = f"{shlex.join([sys.executable, str(FOLLOW)])} %s"
        assert hermes(place, "login", "web", "--json", BROWSER=browser) == {"signed_in": "web"}
        assert hermes(place, "call", "web", "echo", "--args", '{"text": "hi"}') == "hi\n"
        kept = [each for each in (place / "home" / "mcp" / "tokens").iterdir() if each.suffix == ".json"]
        assert [each.stat().st_mode & 0o777 for each in kept] == [0o600]
        assert hermes(place, "logout", "web", "--json") == {"signed_out": True}
        assert hermes(place, "logout", "web", "--json") == {"signed_out": False}
        web.broken["authorize"] = (302, {"error": "access_denied"})
        refused = hermes(place, "login", "web", code=3, BROWSER=browser)
        assert "MCP server web cannot do this: signing in failed" in refused and "access_denied" in refused


@pytest.mark.thorough
async def test_sessions_are_listed_searched_read_and_prompted_by_another_agent(place: Path) -> None:
    asked: list[str] = []

    async def allow(context: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={"allow": len(asked) == 1})

    script = (
        "script = by_step([call('write_file', path='../a.txt', content='x'), say('The tide is high.'), "
        "call('write_file', path='../b.txt', content='x'), say('Not allowed.')])"
    )
    with ServerProcess(script, place) as model:
        parameters = StdioServerParameters(
            command=HERMES[0],
            args=[*HERMES[1:], "mcp", "serve"],
            env=environment(place / "home", model.base_url),
            cwd=place / "work",
        )
        async with Client(stdio_client(parameters), mode="legacy", elicitation_callback=allow) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            assert names == ["list_sessions", "search_sessions", "read_session", "prompt"]
            first = await called(client, "prompt", text="How is the tide?")
            assert (first["outcome"], first["text"]) == ("done", "The tide is high.")
            assert (place / "a.txt").read_text() == "x" and "write_file wants to" in asked[0]
            second = await called(client, "prompt", text="Tidy up.", session=first["session"])
            assert second["session"] == first["session"] and not (place / "b.txt").exists()
            assert len(asked) == 2
            listed = await called(client, "list_sessions")
            assert [each["session"] for each in listed["sessions"]] == [first["session"]]
            read = await called(client, "read_session", session=first["session"])
            assert "How is the tide?" in [each["text"] for each in read["messages"]]
            found = await called(client, "search_sessions", query="tide")
            assert {each["session"] for each in found["hits"]} == {first["session"]}
            wrong = await client.call_tool("read_session", {"session": "nobody"})
            assert wrong.is_error and "nobody" in str(wrong.content)


async def called(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer.content
    data = answer.structured_content
    assert data is not None
    return data
