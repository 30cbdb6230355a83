"""Commands inside the sandbox: what works outside of it works the same inside."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import tools.files.read_file_tool
import tools.files.search_tool
import tools.files.write_file_tool  # noqa: F401 registers
from agent.core.home import Home
from agent.safety.sandbox.boundary import (
    BoundaryFolders,
    CommandReading,
    NetworkMode,
    NetworkWish,
    SessionBoundary,
)
from tests.agent.safety.sandbox.kinds import KINDS, WITH_NAMESPACES
from tests.support.tool_context import deny_all
from tests.tools.terminal.conftest import Task, processes_with, until
from tools.services.actions import ReadPath, RunCommand
from tools.terminal.terminals import Terminals

Open = Callable[..., Task]


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def boxed(tmp_path: Path, terminals: Callable[..., Terminals], kind: str) -> Open:
    """Opens a task whose commands run inside."""

    def open_task(network: NetworkMode = "off", reaches: Callable[[str, Path], bool] | None = None) -> Task:
        workspace = tmp_path / "work space"
        workspace.mkdir(exist_ok=True)
        task = Task(workspace, Terminals())
        home = Home(tmp_path / "home")
        home.root.mkdir(exist_ok=True)
        boundary = SessionBoundary(
            KINDS[kind],
            BoundaryFolders(workspace, tmp_path / "private", home, readable=[task.context.scratch]),
            network=network,
            reads=CommandReading(lambda command, cwd: NetworkWish(reaches is None or reaches(command, cwd))),
        )
        made = terminals({**os.environ, "NVM_OWN": "value one"})
        made.boundary = boundary
        task.context.terminals = made
        return task

    return open_task


@pytest.fixture
def task(boxed: Open) -> Task:
    return boxed()


@pytest.mark.sample(1)
async def test_folder_variables_functions_and_options_outlive_a_call(task: Task):
    await task.run(
        "mkdir sub; cd sub; export A=1; b() { echo function; }; alias c='echo alias'; set -o pipefail"
    )
    shown = await task.output('echo "$PWD $A $NVM_OWN"; b; c; set -o | grep -c "pipefail.*on"')
    assert shown == f"{task.workspace}/sub 1 value one\nfunction\nalias\n1\n"


@pytest.mark.sample(1)
async def test_files_of_the_private_folder_outlive_a_call(task: Task):
    await task.run('echo kept > "$TMPDIR/file"')
    assert await task.output('cat "$TMPDIR/file"') == "kept\n"


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("command", "code"), [("exit 3", 3), ("kill -9 $$", 137), ("no_such_command_at_all", 127), ("false", 1)]
)
async def test_exit_codes_come_through(task: Task, command: str, code: int):
    assert (await task.run(command))["exit_code"] == code


@pytest.mark.sample(1)
async def test_a_command_out_of_time_is_killed_with_all_it_started(task: Task):
    result = await task.run("echo before; setsid sleep 5321.5 & sleep 5321.5", timeout=3)
    assert (result["exit_code"], result["output"]) == (124, "before\n")
    assert processes_with("5321.5") == []


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "command",
    [
        "sleep 6777.5",
        "(setsid sh -c 'sleep 6777.5 & sleep 6777.5' &) ; sleep 6777.5",
        "while :; do sleep 6777.5 & sleep 0.005; done",
    ],
)
async def test_an_interrupted_command_leaves_nobody_behind(task: Task, command: str):
    running = asyncio.create_task(task.run(command))
    await until(lambda: processes_with("6777.5"))
    await asyncio.sleep(0.1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert processes_with("6777.5") == []
    assert await task.output("echo usable") == "usable\n"


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", list(WITH_NAMESPACES))
async def test_not_even_who_hides_all_its_traces_is_left_behind(task: Task):
    hidden = "env -i setsid sh -c 'trap \"\" TERM; sleep 6778.5; sleep 6778.5' & sleep 6778.5"
    running = asyncio.create_task(task.run(hidden))
    await until(lambda: len(processes_with("sleep\x006778.5")) > 1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert processes_with("6778.5") == []


@pytest.mark.sample(1)
async def test_a_process_left_running_is_named_and_dies_with_the_engine(task: Task):
    # Only once it has become what it is to be has it the name that is told.
    result = await task.run(
        "setsid sleep 6888.5 >/dev/null 2>&1 & until [ $(cat /proc/$!/comm) = sleep ]; do :; done; "
        "echo started"
    )
    assert result["output"] == "started\n"
    (pid,) = processes_with("sleep\x006888.5")
    assert f"sleep ({pid})" in result["note"] and "bwrap" not in result["note"]
    await task.context.terminals.aclose()
    assert processes_with("6888.5") == []


@pytest.mark.sample(1)
async def test_a_server_in_the_background_is_read_watched_and_stopped(task: Task):
    started = await task.run("echo ready; exec sleep 6999.5", background=True, watch_patterns=["ready"])
    await task.poll_until(started["session_id"], "ready")
    await until(lambda: any("ready" in notice for notice in task.context.notices))
    await task.process("kill", started["session_id"])
    assert processes_with("6999.5") == []


@pytest.mark.sample(2)
async def test_a_background_process_reads_what_is_typed(task: Task):
    started = await task.run("read line; echo got $line", background=True)
    await task.process("submit", started["session_id"], data="words")
    await task.poll_until(started["session_id"], "got words")


@pytest.mark.sample(1)
async def test_a_terminal_is_the_controlling_one(task: Task):
    shown = await task.output("stty size; [ -t 0 ] && echo tty; echo through >/dev/tty; echo $TERM", pty=True)
    assert shown.split("\n") == ["40 120", "tty", "through", "xterm-256color"]


@pytest.mark.sample(1)
async def test_a_typed_interrupt_reaches_the_program_on_a_terminal(task: Task):
    started = await task.run(
        "trap 'echo caught; exit 0' INT; echo ready; sleep 6111.5", background=True, pty=True
    )
    await task.poll_until(started["session_id"], "ready")
    await task.process("write", started["session_id"], data="\x03")
    await task.poll_until(started["session_id"], "caught")


@pytest.mark.thorough
async def test_output_kept_on_disk_can_be_read_by_the_next_command(task: Task):
    result = await task.run("seq 1 100000")
    assert await task.output(f"tail -1 '{result['full_output']}'") == "100000\n"


@pytest.mark.sample(2)
async def test_what_was_refused_is_named_with_the_way_out(task: Task):
    result = await task.run("touch /usr/beyond")
    assert result["exit_code"] != 0 and not Path("/usr/beyond").exists()
    assert "beyond" in result["note"] and "outside=true" in result["note"]


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("ssh-keygen -y -f ~/.ssh/id_ed25519", ".ssh"),
        ("cat ~/.npmrc", ".npmrc"),
        ("cat $HOME/.aws/credentials; true", ".aws"),
        ("echo 'error: gpg failed to sign the data'; false", ".gnupg"),
        ("echo 'gpg: signing failed: No secret key' >&2; true", ".gnupg"),
        ("echo 'npm error code ENEEDAUTH'; exit 1", ".npmrc"),
        (
            "echo \"fatal: could not read Username for 'https://x': terminal prompts disabled\"; exit 128",
            ".netrc",
        ),
        ("mkdir -p /usr/cache/new; true", "/usr/cache"),
        ("echo \"ENOENT: no such file or directory, mkdir '/opt/never/_cacache'\"; exit 254", "/opt/never"),
    ],
)
async def test_what_is_hidden_or_read_only_is_said_to_be(
    boxed: Open, command: str, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    user = tmp_path / "user"
    for name in (".ssh/id_ed25519", ".npmrc", ".netrc", ".aws/credentials", ".gnupg/keys"):
        (user / name).parent.mkdir(parents=True, exist_ok=True)
        (user / name).write_text("SECRETWORD")
    monkeypatch.setenv("HOME", str(user))
    result = await boxed("on").run(command)
    assert named in result["note"] and "outside=true" in result["note"], result
    assert "SECRETWORD" not in str(result)


@pytest.mark.thorough
async def test_what_is_not_there_outside_either_is_not_called_hidden(
    boxed: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    for command in (
        "cat ~/.ssh/id_ed25519",
        "echo 'gpg: signing failed: No secret key'; exit 1",
        "echo 'read-only file system is what this line is about'",
        "cat ~/.npmrc",
    ):
        assert "hidden" not in (await boxed("on").run(command)).get("note", "")


@pytest.mark.sample(2)
async def test_the_network_is_off_and_it_is_said(task: Task):
    result = await task.run("exec 3<>/dev/tcp/192.0.2.1/80")
    assert result["exit_code"] != 0
    assert "The network is off" in result["note"] or "did not allow" in result["note"]


@pytest.mark.sample(1)
async def test_an_ordinary_failure_gets_no_advice(task: Task):
    assert "note" not in await task.run("cat missing; grep x missing; ls nowhere; exit 2")
    assert "note" not in await task.run("touch own; chmod 000 own; ./own; exit 1")


@pytest.mark.sample(1)
async def test_outside_asks_first_and_then_reaches_what_the_sandbox_refuses(task: Task, tmp_path: Path):
    await task.run("cd /; touch() { echo captured; }; export PATH=/nowhere")
    result = await task.run(f"touch '{tmp_path}/beyond'; pwd", outside=True)
    assert task.context.actions[-1] == RunCommand(
        tool="terminal", command=f"touch '{tmp_path}/beyond'; pwd", cwd=Path("/"), outside=True
    )
    assert result["output"] == "/\n" and (tmp_path / "beyond").exists()
    assert "captured" in await task.output("touch x"), "the shell inside continues as it was"


async def test_outside_does_not_happen_without_a_yes(task: Task, tmp_path: Path):
    task.context.verdict = deny_all
    result = await task.run(f"touch {tmp_path}/beyond", outside=True)
    assert result["status"] == "blocked" and not (tmp_path / "beyond").exists()


@pytest.mark.sample(1)
async def test_a_command_that_wants_the_network_asks_for_it(boxed: Open):
    task = boxed("ask", lambda command, cwd: "connect" in command)
    await task.run("true")
    await task.run("true connect")
    assert [action.network for action in task.context.actions if isinstance(action, RunCommand)] == [
        False,
        True,
    ]


@pytest.mark.sample(1)
async def test_what_a_command_leaves_as_state_is_not_followed_elsewhere(task: Task, tmp_path: Path):
    (tmp_path / "secret").write_text("hidden words")
    await task.run(
        f'target=$__hermes_target; rm -f "$target.cwd"; ln -sf {tmp_path}/secret "$target.cwd"; '
        'printf "\\n# complete\\n" >"$target"; trap - EXIT; kill -9 $$'
    )
    assert "hidden words" not in str(await task.run("pwd"))


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", list(WITH_NAMESPACES))
async def test_files_in_tmp_are_the_same_for_commands_and_file_tools(task: Task, tmp_path: Path):
    name = f"/tmp/hermes-{os.getpid()}"
    await task.run(f"echo from a command > {name}.a; ln -s /etc/hostname {name}.link")
    read = await task.tool("read_file", path=f"{name}.a")
    assert "from a command" in read["content"] and not Path(f"{name}.a").exists()
    found = await task.tool("search", pattern="from a command", path="/tmp")
    assert "hermes-" in str(found) and "private" not in str(found)
    written = await task.tool("write_file", path=f"{name}.b", content="from a tool\n")
    assert written["path"] == f"{name}.b" and not Path(f"{name}.b").exists()
    assert await task.output(f"cat {name}.b") == "from a tool\n"
    await task.tool("read_file", path=f"{name}.link")
    assert task.context.actions[-1] == ReadPath(tool="read_file", path=Path("/etc/hostname").resolve())


@pytest.mark.parametrize("kind", list(WITH_NAMESPACES))
async def test_a_file_that_only_the_machine_has_in_tmp_can_still_be_read(task: Task, tmp_path: Path):
    (tmp_path / "theirs.txt").write_text("of the person\n")
    assert tmp_path.is_relative_to("/tmp")
    read = await task.tool("read_file", path=str(tmp_path / "theirs.txt"))
    assert "of the person" in read["content"]
    (task.workspace / "ours.txt").write_text("of the workspace\n")
    assert "of the workspace" in (await task.tool("read_file", path=f"{task.workspace}/ours.txt"))["content"]
    assert "NUL" in (await task.tool("read_file", path="/tmp/a\0b"))["error"]
