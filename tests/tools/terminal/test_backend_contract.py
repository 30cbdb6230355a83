"""What every backend has to do, this machine included: real shells behind real client programs."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.tools.terminal.conftest import Task, processes_with, until
from tests.tools.terminal.far import KINDS, environment, far_task, place
from tools.terminal.terminals import Terminals


@pytest.fixture(params=["local", *KINDS])
async def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Task]:
    if request.param == "local":
        (tmp_path / "work space").mkdir()
        task = Task(tmp_path / "work space", Terminals(environment(tmp_path)))
    else:
        task = far_task(place(request.param, tmp_path), tmp_path)
    yield task
    await task.context.terminals.aclose()
    if request.param != "local":
        # The far side's own folder and the socket of the connection go too, once it has seen its input end.
        await until(lambda: not list(tmp_path.glob("hermes*")))


@pytest.mark.sample(2)
async def test_output_and_exit_code_come_back(anywhere: Task):
    result = await anywhere.run("echo out; echo err >&2; exit 3")
    assert (result["output"], result["exit_code"]) == ("out\nerr\n", 3)


@pytest.mark.sample(1)
async def test_folder_variables_functions_and_options_outlive_a_call(anywhere: Task):
    await anywhere.run("mkdir -p 'a b'; cd 'a b'; export X='1 2'; f() { echo f $X; }; set -u; alias g=f")
    assert await anywhere.output('pwd; f; g; echo "${-//[^u]/}"') == (
        f"{anywhere.workspace}/a b\nf 1 2\nf 1 2\nu\n"
    )


@pytest.mark.sample(1)
async def test_a_folder_named_for_one_call_is_left_again(anywhere: Task):
    assert await anywhere.output("pwd", workdir="/usr") == "/usr\n"
    assert await anywhere.output("pwd") == f"{anywhere.workspace}\n"


@pytest.mark.sample(1)
async def test_a_missing_folder_is_an_error_and_runs_nothing(anywhere: Task):
    result = await anywhere.run("touch ran", workdir="/no/such/folder")
    assert "folder" in result["error"]
    assert not (anywhere.workspace / "ran").exists()


@pytest.mark.sample(1)
async def test_a_shell_whose_folder_is_gone_begins_again_where_it_started(anywhere: Task):
    await anywhere.run("mkdir gone; cd gone; rmdir ../gone")
    await anywhere.run("true")
    assert await anywhere.output("pwd") == f"{anywhere.workspace}\n"


@pytest.mark.sample(1)
async def test_nasty_text_arrives_unchanged(anywhere: Task):
    nasty = "'\"`$(id)\\!\n\t*;&|~#é\u202e€ -n %s $HOME"
    (anywhere.workspace / "wanted").write_text(nasty)
    quoted = "'" + nasty.replace("'", "'\\''") + "'"
    assert await anywhere.output(f'X={quoted}; printf %s "$X" | cmp - wanted && echo same') == "same\n"
    assert await anywhere.output('printf %s "$X" | cmp - wanted && echo same') == "same\n"


@pytest.mark.sample(1)
async def test_a_command_larger_than_an_argument_runs(anywhere: Task):
    assert await anywhere.output(f"X={'x' * 300_000}; echo ${{#X}}") == "300000\n"


@pytest.mark.sample(1)
async def test_much_output_arrives_whole(anywhere: Task):
    assert (await anywhere.output("seq 1 200000 | tail -c 300000 | cksum")).endswith(" 300000\n")
    result = await anywhere.run("seq 1 100000; exit 4")
    assert (result["output"][-7:], result["exit_code"]) == ("100000\n", 4)


@pytest.mark.sample(1)
async def test_a_command_that_takes_too_long_is_stopped_with_all_it_started(anywhere: Task):
    result = await anywhere.run("setsid sleep 4711.25 & env -i sleep 4712.25 & sleep 4713.25", timeout=1)
    assert result["exit_code"] == 124
    assert [processes_with(f"471{n}.25") for n in (1, 2, 3)] == [[], [], []]


@pytest.mark.thorough
async def test_a_cancelled_command_leaves_nobody(anywhere: Task):
    running = asyncio.create_task(anywhere.run("sleep 4714.25 & trap '' TERM; sleep 4715.25"))
    await until(lambda: processes_with("4714.25") and processes_with("4715.25"))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert processes_with("4714.25") + processes_with("4715.25") == []
    assert await anywhere.output("echo on") == "on\n"


@pytest.mark.sample(1)
async def test_a_command_cancelled_at_any_moment_does_not_run_on(anywhere: Task):
    for delay in (0, 0.01, 0.03, 0.06):
        running = asyncio.create_task(anywhere.run("sleep 4716.25"))
        await asyncio.sleep(delay)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert await anywhere.output("echo on") == "on\n"
    assert processes_with("4716.25") == []


@pytest.mark.sample(1)
async def test_what_is_left_in_the_background_is_named_and_ends_with_the_session(anywhere: Task):
    result = await anywhere.run("sleep 4717.25 & echo left")
    assert (result["output"], "sleep (" in result["note"]) == ("left\n", True)
    assert processes_with("4717.25")
    await anywhere.context.terminals.aclose()
    assert processes_with("4717.25") == []


@pytest.mark.sample(1)
async def test_a_terminal_is_there_when_asked_for(anywhere: Task):
    await anywhere.run("X=kept")
    output = await anywhere.output("test -t 0 && test -t 1 && stty size; echo $X $TERM; X=new", pty=True)
    assert output.split() == ["40", "120", "kept", "xterm-256color"]
    assert await anywhere.output("echo $X; test -t 1 || echo none") == "new\nnone\n"


@pytest.mark.sample(2)
async def test_a_background_process_is_read_typed_into_and_ended(anywhere: Task):
    id = (await anywhere.run("while read -r line; do echo got $line; done; echo over", background=True))[
        "session_id"
    ]
    await anywhere.process("submit", id, data="one")
    await anywhere.poll_until(id, "got one")
    await anywhere.process("close", id)
    ended = await anywhere.process("wait", id, timeout=100)
    assert (ended["exit_code"], "over" in (await anywhere.process("log", id))["output"]) == (0, True)


@pytest.mark.sample(1)
async def test_a_background_process_on_a_terminal_takes_keys(anywhere: Task):
    id = (await anywhere.run("trap 'echo caught' INT; cat; echo after", background=True, pty=True))[
        "session_id"
    ]
    await anywhere.process("submit", id, data="typed")
    await anywhere.poll_until(id, "typed\ntyped")
    await anywhere.process("write", id, data="\x03")
    await anywhere.poll_until(id, "after")


@pytest.mark.sample(1)
async def test_a_killed_background_process_leaves_nobody(anywhere: Task):
    id = (await anywhere.run("sleep 4718.25 & setsid sleep 4719.25", background=True))["session_id"]
    await until(lambda: processes_with("4718.25") and processes_with("4719.25"))
    await anywhere.process("kill", id)
    assert processes_with("4718.25") + processes_with("4719.25") == []


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_a_hermes_that_dies_leaves_nothing_at_the_far_side(kind: str, tmp_path: Path):
    program = (
        "import asyncio, sys; from pathlib import Path\n"
        "from tests.tools.terminal.far import far_task, place\n"
        "root = Path(sys.argv[2]); task = far_task(place(sys.argv[1], root), root)\n"
        "asyncio.run(task.run('sleep 4720.25 & echo $$ >started; setsid sleep 4721.25'))\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program, kind, str(tmp_path)])
    try:
        while not (tmp_path / "work space/started").exists() or not processes_with("4721.25"):
            assert child.poll() is None
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
    while processes_with("4720.25") or processes_with("4721.25") or list(tmp_path.glob("hermes.*")):
        pass
