"""Scripts of the model through the whole engine: every row of the table of errors, and what is seen of it."""

from __future__ import annotations

import asyncio
import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from agent.events import ApprovalAsked, Decision, Event, ToolFinished, ToolProgressed, ToolStarted
from tests.support.engines import Bench, bench
from tests.support.replies import by_step, call, say

NOTES = "".join(f"{'TODO' if line % 4 == 0 else 'done'} line {line}\n" for line in range(100))


async def result_of(
    folder: Path, code: str, *, config: str = "", **arguments: Any
) -> tuple[Bench, dict[str, Any]]:
    """Run one script as the model's only call; what the model got back."""
    async with bench(folder, by_step([call("execute_code", code=code, **arguments), say("done")])) as b:
        if config:
            b.config(config)
        (b.workspace / "notes.txt").write_text(NOTES)
        assert (await b.turn("go")).outcome == "done"
        assert not b.server.refusals
        return b, json.loads(b.server.requests[1].messages[-1]["content"])


@pytest.mark.thorough
async def test_a_script_calls_tools_and_only_what_it_prints_comes_back(tmp_path: Path) -> None:
    code = """
from hermes_tools import read_file, terminal
found = [line for line in read_file("notes.txt")["content"].splitlines() if "TODO" in line]
print(len(found), terminal("wc -l < notes.txt")["output"].strip())
"""
    b, result = await result_of(tmp_path, code)
    assert result["status"] == "success"
    assert result["output"] == "25 100\n"
    assert result["tool_calls_made"] == 2
    assert result["errors"] == "" and "error" not in result
    assert 0 < result["duration_seconds"] < 60
    assert "done line" not in json.dumps(b.server.requests[1].messages)


@pytest.mark.thorough
async def test_a_syntax_error_comes_back_with_its_line(tmp_path: Path) -> None:
    _, result = await result_of(tmp_path, "x = 1\nif x\n    pass\n")
    assert result["status"] == "error" and result["error"]
    assert "SyntaxError" in result["errors"] and "line 2" in result["errors"]


async def test_an_exception_comes_back_with_what_was_printed_before(tmp_path: Path) -> None:
    _, result = await result_of(tmp_path, "print('before')\nraise KeyError('gone')\n")
    assert result["status"] == "error"
    assert result["output"] == "before\n"
    assert "KeyError: 'gone'" in result["errors"] and "line 2" in result["errors"]


@pytest.mark.thorough
async def test_a_failing_tool_is_a_result_the_script_can_go_on_from(tmp_path: Path) -> None:
    code = "from hermes_tools import read_file\nprint('error' in read_file('no such file'))\n"
    _, result = await result_of(tmp_path, code)
    assert (result["status"], result["output"]) == ("success", "True\n")


@pytest.mark.thorough
async def test_an_unknown_tool_is_told_which_there_are(tmp_path: Path) -> None:
    code = "import hermes_tools\nprint(hermes_tools.frobnicate()['error'])\n"
    _, result = await result_of(tmp_path, code)
    assert "Unknown tool: frobnicate. Available: " in result["output"] + result["errors"]
    assert "read_file" in result["output"] + result["errors"]


@pytest.mark.thorough
async def test_an_excluded_tool_is_told_to_be_called_normally(tmp_path: Path) -> None:
    code = "import hermes_tools\nprint(hermes_tools.clarify(question='x')['error'])\n"
    _, result = await result_of(tmp_path, code)
    assert (
        "Tool 'clarify' is not available in execute_code. Use it as a normal tool call instead."
        in result["output"] + result["errors"]
    )


@pytest.mark.thorough
async def test_a_script_that_hangs_is_stopped_with_what_it_printed(tmp_path: Path) -> None:
    code = "print('so far', flush=True)\nwhile True:\n    pass\n"
    _, result = await result_of(tmp_path, code, config="code:\n  timeout: 1\n")
    assert result["status"] == "timeout" and "1" in result["error"]
    assert result["output"] == "so far\n"


@pytest.mark.thorough
async def test_a_script_whose_process_dies_leaves_what_it_printed(tmp_path: Path) -> None:
    code = "import os, signal\nprint('so far', flush=True)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    _, result = await result_of(tmp_path, code)
    assert result["status"] != "success" and result["error"]
    assert result["output"] == "so far\n"


@pytest.mark.thorough
async def test_one_slow_call_is_fine_within_the_time_of_the_script(tmp_path: Path) -> None:
    code = "from hermes_tools import terminal\nprint(terminal('sleep 1; echo slow')['output'])\n"
    _, result = await result_of(tmp_path, code, config="code:\n  timeout: 20\n")
    assert (result["status"], result["output"].strip()) == ("success", "slow")


@pytest.mark.thorough
async def test_a_large_response_reaches_the_script_whole_and_the_model_only_as_printed(
    tmp_path: Path,
) -> None:
    code = """
from hermes_tools import terminal
text = terminal("head -c 45000 /dev/zero | tr '\\\\0' x")["output"]
print(len(text))
"""
    _, result = await result_of(tmp_path, code)
    assert (result["status"], result["output"]) == ("success", "45000\n")


@pytest.mark.thorough
async def test_a_script_that_prints_too_much_is_cut(tmp_path: Path) -> None:
    _, result = await result_of(tmp_path, "for n in range(40_000): print('line', n)\n")
    assert result["status"] == "success"
    assert len(result["output"]) < 52_000 and "truncated" in result["output"]


@pytest.mark.thorough
async def test_calls_beyond_the_limit_are_refused(tmp_path: Path) -> None:
    code = """
from hermes_tools import read_file
results = [read_file("notes.txt", offset=n + 1, limit=1) for n in range(5)]
print(sum("error" in result for result in results))
"""
    _, result = await result_of(tmp_path, code, config="code:\n  max_calls: 3\n")
    assert result["tool_calls_made"] == 3
    assert "limit" in result["output"] + result["errors"] or result["output"] == "2\n"


@pytest.mark.thorough
async def test_a_command_of_a_script_runs_in_the_foreground(tmp_path: Path) -> None:
    code = """
import hermes_tools
result = hermes_tools.terminal("echo here", background=True, pty=True)
print(result["output"].strip(), "session_id" in result)
"""
    _, result = await result_of(tmp_path, code)
    assert result["output"] == "here False\n"


@pytest.mark.thorough
async def test_state_of_tools_lasts_and_that_of_scripts_does_not(tmp_path: Path) -> None:
    first = "from hermes_tools import terminal\nterminal('mkdir -p sub && cd sub')\nkept = 1\n"
    second = (
        "from hermes_tools import terminal\n"
        "print(terminal('pwd')['output'].strip())\nprint('kept' in globals())\n"
    )
    steps = [call("execute_code", code=first), call("execute_code", code=second), say("done")]
    async with bench(tmp_path, by_step(steps)) as b:
        await b.turn("go")
        result = json.loads(b.server.requests[2].messages[-1]["content"])
        assert result["output"] == f"{b.workspace}/sub\nFalse\n"


@pytest.mark.thorough
async def test_a_named_interpreter_keeps_its_variables(tmp_path: Path) -> None:
    steps = [
        call("execute_code", code="kept = 41", session="work"),
        call("execute_code", code="print(kept + 1)", session="work"),
        call("execute_code", code="print('kept' in globals())", session="work", reset=True),
        say("done"),
    ]
    async with bench(tmp_path, by_step(steps)) as b:
        await b.turn("go")
        outputs = [json.loads(request.messages[-1]["content"])["output"] for request in b.server.requests[2:]]
        assert outputs == ["42\n", "False\n"]


async def until(b: Bench, kind: type[Event]) -> Any:
    while not b.seen(kind):
        await asyncio.sleep(0.01)
    return b.seen(kind)[-1]


@pytest.mark.thorough
async def test_an_interrupt_ends_the_script_and_the_call_it_waits_for(tmp_path: Path) -> None:
    code = "from hermes_tools import terminal\nterminal('echo $$ > pid; sleep 300')\n"
    async with bench(tmp_path, by_step([call("execute_code", code=code), say("x")])) as b:
        async with b.engine() as engine:
            running = asyncio.create_task(engine.run("go"))
            while not (b.workspace / "pid").exists() or not (b.workspace / "pid").read_text():
                await asyncio.sleep(0.01)
            engine.interrupt()
            assert (await running).outcome == "interrupted"
            outer = [event for event in b.seen(ToolFinished) if not event.parent]
            inner = [event for event in b.seen(ToolFinished) if event.parent]
            assert [event.outcome for event in (*outer, *inner)] == ["interrupted", "interrupted"]
            assert json.loads(outer[0].result)["status"] == "interrupted"
        assert not _alive(b.workspace)


@pytest.mark.thorough
async def test_inner_calls_are_seen_under_their_script_and_kept_out_of_the_conversation(
    tmp_path: Path,
) -> None:
    code = "# count\nfrom hermes_tools import *\nread_file('notes.txt', limit=1)\nsearch('TODO')\n"
    b, _ = await result_of(tmp_path, code)
    started = [event for event in b.seen(ToolStarted) if event.parent]
    finished = [event for event in b.seen(ToolFinished) if event.parent]
    outer = next(event for event in b.seen(ToolFinished) if not event.parent)
    assert [event.tool for event in started] == [event.tool for event in finished] == ["read_file", "search"]
    assert {event.parent for event in started} == {outer.call}
    assert len({event.call for event in started}) == 2
    assert outer.display.verb == "code" and outer.display.subject == "count"
    assert "2 calls" in outer.display.summary
    progress = "".join(event.text for event in b.seen(ToolProgressed) if event.call == outer.call)
    assert "✓ 1/50 read_file" in progress and "✓ 2/50 search" in progress
    async with b.engine(resume_last=True) as engine:
        written = [node for node in engine.session.path if node.kind == "inner"]
        assert [node.data["tool"] for node in written] == ["read_file", "search"]
        assert all(node.data["parent"] == outer.call and node.data["outcome"] == "done" for node in written)
        await engine.run("and now")
        assert "TODO line 0" not in json.dumps(b.server.requests[-1].messages)


@pytest.mark.thorough
async def test_what_a_script_does_is_asked_for_like_any_other_call(tmp_path: Path) -> None:
    code = "from hermes_tools import terminal\nprint(terminal('rm -rf precious')['output'], 'gone on')\n"
    async with bench(tmp_path, by_step([call("execute_code", code=code), say("done")])) as b:
        b.config("sandbox:\n  mode: auto\n")
        (b.workspace / "precious").mkdir()
        async with b.engine(approve="careful", attended=True) as engine:
            running = asyncio.create_task(engine.run("go"))
            while True:
                asked = await until(b, ApprovalAsked)
                if "precious" in asked.headline and "hermes_tools" not in asked.headline:
                    break
                if not asked.reply.done():
                    asked.reply.set_result(Decision("once"))
                await asyncio.sleep(0.01)
            assert (b.workspace / "precious").exists()
            asked.reply.set_result(Decision("once"))
            await running
        result = json.loads(b.server.requests[1].messages[-1]["content"])
        assert result["status"] == "success" and "gone on" in result["output"]
        assert not (b.workspace / "precious").exists()


@pytest.mark.thorough
async def test_a_call_that_is_denied_is_an_error_in_the_script(tmp_path: Path) -> None:
    code = "from hermes_tools import terminal\nprint(terminal('rm -rf /')['status'])\n"
    _, result = await result_of(tmp_path, code)
    assert result["output"] == "blocked\n"


@pytest.mark.thorough
async def test_a_secret_a_call_brings_up_is_masked_before_the_script_prints_it(tmp_path: Path) -> None:
    token = "ghp_" + "a1B2" * 9
    code = f"from hermes_tools import terminal\nprint(terminal('echo {token}')['output'])\n"
    _, result = await result_of(tmp_path, code)
    assert token not in result["output"]


async def test_the_description_names_the_tools_on_offer_and_no_others(tmp_path: Path) -> None:
    async with bench(tmp_path, by_step([say("hi")])) as b:
        b.config("tools:\n  disabled: [patch]\n")
        await b.turn("go")
        tools = {tool["function"]["name"]: tool["function"] for tool in b.server.requests[0].body["tools"]}
        description = tools["execute_code"]["description"]
        functions = next(line for line in description.splitlines() if "hermes_tools: " in line)
        named = re.findall(r"(\w+)\(", functions)
        assert named == ["read_file", "search", "terminal", "web_extract", "web_search", "write_file"]
        assert "patch(" not in description and "memory(" not in description


@pytest.mark.thorough
async def test_a_killed_hermes_leaves_no_script_behind(tmp_path: Path) -> None:
    from tests.support import command
    from tests.support.model_process import ServerProcess

    work = tmp_path / "work"
    work.mkdir()
    code = "import os, time\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(300)\n"
    script = f"script = by_step([call('execute_code', code={code!r}), say('x')])"
    with ServerProcess(script, tmp_path) as server:
        process = await asyncio.create_subprocess_exec(
            *command.HERMES,
            *("-p", "go", "--approve", "all"),
            env=command.environment(tmp_path / "home", server.base_url),
            cwd=work,
            stdout=asyncio.subprocess.DEVNULL,
        )
        while not (work / "pid").exists() or not (work / "pid").read_text():
            await asyncio.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        await process.wait()
        while _alive(work):
            await asyncio.sleep(0.02)


def _alive(work: Path) -> bool:
    """Whether a process works in the folder; by that, not by number: a sandbox has numbers of its own."""
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                if (process / "cwd").readlink() == work:
                    return True
            except OSError:
                continue
    return False
