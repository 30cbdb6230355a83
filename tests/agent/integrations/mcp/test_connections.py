"""Connections to servers that do as they should, and to such that do not."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent.integrations.mcp.host.connection import ServerConnection
from agent.integrations.mcp.host.results import CallFaultError
from agent.integrations.mcp.host.stdio import ErrorOutput, error_line, own_places
from agent.integrations.mcp.launch import ServerLaunch
from tests.support import fault_proxy
from tests.support.fault_proxy import FAULTS

PLAIN = Path(__file__).parents[3] / "support" / "plain_server.py"


@dataclass
class Heard:
    """What a server told and asked."""

    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    asked: list[tuple[str, Any]] = field(default_factory=list)

    def named(self, event: str) -> list[dict[str, Any]]:
        return [fields for name, fields in self.events if name == event]


def launch(folder: Path, way: str, **more: Any) -> ServerLaunch:
    fields: dict[str, Any] = {
        "name": "plain",
        "transport": "stdio",
        "folder": str(folder / "place"),
        "tokens": str(folder / "tokens.json"),
        "files": str(folder / "files"),
        "command": (sys.executable, "-IS", str(PLAIN), way),
        "env": {"PATH": os.environ["PATH"], "ANSWER": "42"},
        "roots": (str(folder),),
        **more,
    }
    return ServerLaunch(**fields)


@asynccontextmanager
async def connected(
    folder: Path, way: str, answer: Callable[[str, Any], Any] = lambda _kind, _params: {}, **more: Any
) -> AsyncIterator[tuple[ServerConnection, Heard]]:
    heard = Heard()

    async def ask(kind: str, params: Any) -> Any:
        heard.asked.append((kind, params))
        return answer(kind, params)

    connection = ServerConnection(launch(folder, way, **more), lambda *event: heard.events.append(event), ask)
    try:
        await asyncio.wait_for(connection.open(), 10)
        yield connection, heard
    finally:
        await connection.close()


async def test_a_server_is_listed_called_read_and_ended(tmp_path: Path) -> None:
    async with connected(tmp_path, "good") as (connection, _):
        offer = await connection.list()
        assert [tool["name"] for tool in offer["tools"]] == ["echo"]
        assert [prompt["name"] for prompt in offer["prompts"]] == ["greet"]
        assert await connection.call_tool(1, "echo", {"text": "hé"}) == {"content": "hé"}
        assert (await connection.read_resource("note://1"))[
            "content"
        ] == "[resource note://1]\nwhat note://1 says"
        prompt = await connection.get_prompt("greet", {"who": "Ada"})
        assert prompt["messages"] == [{"role": "user", "content": "Greet Ada."}]


@pytest.mark.parametrize(
    ("way", "clause"),
    [("dies", "it ended with code 3 (no licence found)")],
)
async def test_a_server_that_does_not_start_says_why(tmp_path: Path, way: str, clause: str) -> None:
    with pytest.raises(CallFaultError) as raised:
        async with connected(tmp_path, way):
            pass
    assert str(raised.value) == clause and raised.value.gone


@pytest.mark.parametrize(
    ("source", "pin"),
    [
        ("from mcp.server import gone", "mcp<2"),
        ("from mcp.server.lowlevel import Server; Server('x').list_resources()", "mcp<2"),
        ("import json; json.gone", "json<VERSION"),
    ],
)
async def test_a_server_with_a_library_that_is_too_new_is_told_how_to_pin_it(
    tmp_path: Path, source: str, pin: str
) -> None:
    with pytest.raises(CallFaultError, match=f"may be too new for it: with uvx, `--with '{pin}'` pins one"):
        async with connected(tmp_path, "", command=(sys.executable, "-c", source)):
            pass


async def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CallFaultError, match="no program 'no-such-program'; install it"):
        async with connected(tmp_path, "", command=("no-such-program",)):
            pass


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("way", "clause"),
    [
        ("huge", "it sent a message of more than 16 MB"),
        ("cut", "it ended with code 9 (out of memory)"),
    ],
)
async def test_a_server_that_goes_during_a_call_ends_that_call(tmp_path: Path, way: str, clause: str) -> None:
    async with connected(tmp_path, way) as (connection, heard):
        with pytest.raises(CallFaultError):
            await asyncio.wait_for(connection.call_tool(1, "echo", {}), 30)
        async with asyncio.timeout(30):
            while not heard.named("gone"):
                await asyncio.sleep(0.01)
        assert heard.named("gone") == [{"reason": clause}]
        with pytest.raises(CallFaultError, match="it") as raised:
            await connection.call_tool(2, "echo", {})
        assert raised.value.gone


@pytest.mark.sample(2)
@pytest.mark.parametrize("way", ["wrong-ids", "garbage", "floods", "control"])
async def test_what_is_no_answer_to_a_call_is_passed_over(tmp_path: Path, way: str) -> None:
    async with connected(tmp_path, way) as (connection, heard):
        assert await asyncio.wait_for(connection.call_tool(1, "echo", {"text": "hi"}), 30) == {
            "content": "hi"
        }
        assert heard.named("gone") == []
        log = tmp_path / "place.log"
        assert not log.exists() or log.stat().st_size <= 1_000_000


@pytest.mark.parametrize(
    ("way", "result"),
    [("failing", {"error": "There is no such thing."})],
)
async def test_a_tool_that_fails_says_so(tmp_path: Path, way: str, result: dict[str, Any]) -> None:
    async with connected(tmp_path, way) as (connection, _):
        assert await connection.call_tool(1, "echo", {}) == result


async def test_an_answer_of_a_wrong_shape_is_a_fault_and_no_more(tmp_path: Path) -> None:
    async with connected(tmp_path, "shape") as (connection, _):
        with pytest.raises(CallFaultError, match="not a valid answer"):
            await connection.call_tool(1, "echo", {})
        assert (await connection.list())["tools"]


ODD = {
    "no content": ({}, {}),
    "content that is nothing": (
        {"content": None, "isError": True},
        {"error": "The tool failed and did not say why."},
    ),
    "only data": ({"structuredContent": {"n": 1}}, {"data": {"n": 1}}),
    "data that is a list": ({"content": [], "structuredContent": [1, 2]}, {"data": {"result": [1, 2]}}),
    "a text instead of parts": ({"content": "plain"}, {"content": "plain"}),
    "a part instead of parts": ({"content": {"type": "text", "text": "one"}}, {"content": "one"}),
    "the result of an old protocol": ({"toolResult": "old"}, {"content": "old"}),
    "a text without a kind": ({"content": [{"text": "a"}, "b"]}, {"content": "a\nb"}),
    "a part of an unknown kind": (
        {"content": [{"type": "text", "text": "a"}, {"type": "widget", "x": 1}]},
        {"content": 'a\n{"type": "widget", "x": 1}'},
    ),
    "odd annotations": (
        {"content": [{"type": "text", "text": "a", "annotations": {"audience": ["all"]}}]},
        {"content": "a"},
    ),
    "control bytes": (
        {"content": [{"type": "text", "text": "\x1b[31mred\x1b[0m\x07 \x1b]52;c;aGk=\x07x"}]},
        {"content": "red x"},
    ),
    "control bytes in data": (
        {"content": [], "structuredContent": {"a\x1b[1m": ["\x9b31mred", {"b": "\x1b]0;t\x07"}]}},
        {"data": {"a": ["red", {"b": ""}]}},
    ),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize(("answer", "result"), ODD.values(), ids=ODD)
async def test_a_result_is_read_as_far_as_possible_and_without_control_bytes(
    tmp_path: Path, answer: dict[str, Any], result: dict[str, Any]
) -> None:
    command = (sys.executable, "-IS", str(PLAIN), "odd-result", json.dumps(answer))
    async with connected(tmp_path, "", command=command) as (connection, _):
        assert await connection.call_tool(1, "echo", {}) == result


NODE = """node:internal/modules/cjs/loader:1215
  throw err;
  ^

Error: DATABASE_URL is not set
    at Object.<anonymous> (/srv/server.mjs:1:7)
    at Module._compile (node:internal/modules/cjs/loader:1554:14)

Node.js v20.20.2
"""
PYTHON = """Traceback (most recent call last):
  File "server.py", line 1, in <module>
    import nothing
ValueError: first

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "server.py", line 4, in <module>
ModuleNotFoundError: No module named 'nothing'
"""
USAGE = "Error: no token given\n\nUsage: server [options]\n" + "  --option  what it does\n" * 20
SAID = {
    NODE: "Error: DATABASE_URL is not set",
    PYTHON: "ModuleNotFoundError: No module named 'nothing'",
    USAGE: "Error: no token given",
    "TypeError [ERR_INVALID]: bad value\n    at x\n": "TypeError [ERR_INVALID]: bad value",
    "error[E0432]: unresolved import\n --> src/main.rs\n": "error[E0432]: unresolved import",
    "starting\nFATAL: no database\nbye\n": "FATAL: no database",
    "Errors may follow\nall went well\n": "",
    "": "",
}


@pytest.mark.parametrize(("said", "reason"), SAID.items())
def test_the_line_that_names_an_error_is_found(said: str, reason: str) -> None:
    assert error_line(said.splitlines()) == reason


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ('Server error: [\n  {\n    "message": "URL is empty",\n    "path": [\n      "url"\n    ]\n  }\n]\n',
         "Server error: URL is empty"),
        ("npm notice\n╔════╗\nall the same\n╚════╝\nnpm notice\n", "all the same"),
    ],
)  # fmt: skip
def test_a_reason_over_several_lines_is_told_in_one(said: str, reason: str, tmp_path: Path) -> None:
    complaints = ErrorOutput(tmp_path / "log")
    complaints.take(said.encode())
    assert complaints.words() == reason


async def test_a_server_that_names_no_error_is_quoted_with_its_log(tmp_path: Path) -> None:
    said = "import sys; sys.stderr.write('loading\\nbusy\\nleaving\\nnpm notice new\\n'); sys.exit(2)"
    with pytest.raises(CallFaultError) as raised:
        async with connected(tmp_path, "", command=(sys.executable, "-IS", "-c", said)):
            pass
    assert str(raised.value).startswith("it ended with code 2 (loading … leaving; all of it is in ")


async def test_a_call_that_is_cancelled_leaves_the_server_usable(tmp_path: Path) -> None:
    async with connected(tmp_path, "mute") as (connection, _):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(connection.call_tool(1, "echo", {}), 0.1)
        assert (await connection.list())["tools"]


async def test_a_long_text_and_pictures_lie_in_private_files(tmp_path: Path) -> None:
    async with connected(tmp_path, "long") as (connection, _):
        result = await connection.call_tool(1, "echo", {})
    path = Path(result["full_result"])
    assert path.read_text() == "y" * 150_000 and path.stat().st_mode & 0o777 == 0o600
    assert len(result["content"]) < 2_000
    async with connected(tmp_path, "image") as (connection, _):
        result = await connection.call_tool(1, "echo", {})
    good, bad = result["images"]
    assert Path(good["path"]).read_bytes() == b"\x89PNG\r\n\x1a\n" and good["type"] == "image/png"
    assert "left out" in bad["problem"]
    assert result["content"] == "[resource note://1]\na note"
    assert result["links"] == [{"uri": "note://2", "name": "another"}]
    assert result["data"] == {"count": 4}


async def test_progress_and_log_of_a_server_are_heard(tmp_path: Path) -> None:
    async with connected(tmp_path, "progress") as (connection, heard):
        assert await connection.call_tool(7, "echo", {"text": "hi"}) == {"content": "hi"}
        assert {"call": 7, "text": "2/2 part 2\n"} in heard.named("progress")
        assert heard.named("log")[0]["level"] == "warning"


@pytest.mark.parametrize(
    ("way", "kind", "answer", "said"),
    [
        (
            "elicits",
            "elicit",
            {"action": "accept", "content": {"name": "Bo"}},
            {"action": "accept", "content": {"name": "Bo"}},
        ),
        (
            "samples",
            "sample",
            {"role": "assistant", "content": {"type": "text", "text": "hello"}, "model": "m"},
            {"role": "assistant", "content": {"type": "text", "text": "hello"}, "model": "m"},
        ),
    ],
)
async def test_what_a_server_asks_is_answered(
    tmp_path: Path, way: str, kind: str, answer: dict[str, Any], said: dict[str, Any]
) -> None:
    async with connected(tmp_path, way, lambda _kind, _params: answer) as (connection, heard):
        assert json.loads((await connection.call_tool(1, "echo", {}))["content"]) == said
        assert [each for each, _ in heard.asked] == [kind]


@pytest.mark.parametrize(("action", "said"), [("accept", "opened"), ("decline", "nobody did that")])
async def test_a_call_that_wants_an_address_opened_first_is_made_once_more(
    tmp_path: Path, action: str, said: str
) -> None:
    async with connected(tmp_path, "address-first", lambda *_: {"action": action}) as (connection, heard):
        try:
            result = str(await connection.call_tool(1, "echo", {"text": "x"}))
        except CallFaultError as fault:
            result = str(fault)
        assert said in result
        assert [params["url"] for _, params in heard.asked] == ["https://example.com/a"]


async def test_a_tool_that_runs_as_a_task_is_waited_for(tmp_path: Path) -> None:
    async with connected(tmp_path, "as-task") as (connection, heard):
        await connection.list()
        assert await connection.call_tool(3, "echo", {"text": "x"}) == {"content": "done at last"}
        assert {"call": 3, "text": "1 half done\n"} in heard.named("progress")


async def test_a_server_is_told_of_the_workspace_and_gets_no_other_variables(tmp_path: Path) -> None:
    async with connected(tmp_path, "roots") as (connection, _):
        said = json.loads((await connection.call_tool(1, "echo", {}))["content"])
        assert said == {"roots": [{"uri": tmp_path.as_uri()}]}
    async with connected(tmp_path, "environment") as (connection, _):
        seen = json.loads((await connection.call_tool(1, "echo", {}))["content"])
    own = {"LC_CTYPE", *own_places(tmp_path / "place")}
    assert set(seen) - own == {"PATH", "ANSWER"}
    assert seen["XDG_CACHE_HOME"].startswith(str(tmp_path / "place"))


async def test_a_schema_is_read_as_far_as_it_goes_else_marked(tmp_path: Path) -> None:
    async with connected(tmp_path, "schemas") as (connection, _):
        tools = (await connection.list())["tools"]
    marked = {tool["name"]: tool.get("hermes.fault", "") for tool in tools}
    assert [name for name, why in marked.items() if not why] == ["good", "wrong", "list", "none", "nothing"]
    assert "its schema cannot be read (5 is not of type 'object')" in marked["odd"]
    assert "its inputSchema.type is wrong" in marked["text"]
    # As the server listed it, so that a change of it is seen.
    assert tools[1]["inputSchema"] == {"type": "object", "properties": {"a": {"type": 5}}}


async def test_what_a_server_started_ends_with_it(tmp_path: Path) -> None:
    script = "import os,sys,subprocess,runpy; p=subprocess.Popen(['sleep','600']); "
    script += f"open({str(tmp_path / 'pid')!r},'w').write(str(p.pid)); sys.argv=['x','good']; "
    script += f"runpy.run_path({str(PLAIN)!r}, run_name='__main__')"
    async with connected(tmp_path, "", command=(sys.executable, "-IS", "-c", script)):
        number = int((tmp_path / "pid").read_text())
    until = time.monotonic() + 20
    while time.monotonic() < until and _lives(number):
        await asyncio.sleep(0.02)
    assert not _lives(number)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("fault", "at"),
    [*((each, 8) for each in FAULTS if each != "delay"), ("cut", 2), ("kill", 2), ("half", 2)],
)
async def test_a_fault_on_the_way_ends_a_call_in_one_clause(tmp_path: Path, fault: str, at: int) -> None:
    control = tmp_path / "control"
    control.write_text(f"{fault} {at}")
    program = (sys.executable, "-IS", fault_proxy.__file__, str(control))
    server = (sys.executable, "-IS", str(PLAIN), "good")
    result = ""
    try:
        async with asyncio.timeout(20), connected(tmp_path, "", command=(*program, *server)) as (there, _):
            await asyncio.wait_for(there.list(), 3)
            result = (await asyncio.wait_for(there.call_tool(1, "echo", {"text": "hi"}), 2))["content"]
    except CallFaultError as error:
        assert "\n" not in str(error) and str(error)
    except TimeoutError:
        assert fault == "garbage"  # what was lost is missed by the time limit alone
    else:
        assert result == "hi"


def _lives(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
