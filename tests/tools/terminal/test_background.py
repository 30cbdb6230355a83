"""Background processes: started, read, typed into, waited for, killed, announced."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.support.tool_context import deny_kinds
from tests.tools.terminal.conftest import Task, processes_with, until
from tools.registry import registry
from tools.services.actions import RunCommand, SendInput
from tools.terminal import terminals

ECHO = 'echo ready; while read -r line; do echo "got $line"; [ "$line" = quit ] && exit 3; done; echo end'


async def test_a_background_process_is_read_typed_into_and_waited_for(task: Task):
    started = await task.run(ECHO, background=True)
    assert started["session_id"].startswith("proc_") and started["exit_code"] == 0
    id = started["session_id"]
    assert await task.poll_until(id, "ready\n") == "ready\n"
    assert (await task.process("submit", id, data="hello"))["sent"] == 6
    assert await task.poll_until(id, "hello\n") == "got hello\n"
    await task.process("write", id, data="two\nqu")
    await task.process("submit", id, data="it")
    ended = await task.process("wait", id)
    assert (ended["status"], ended["exit_code"], ended["output"]) == ("exited", 3, "got two\ngot quit\n")
    assert (await task.process("poll", id))["output"] == ""
    log = await task.process("log", id)
    assert log["output"] == "ready\ngot hello\ngot two\ngot quit\n"
    assert (log["total_lines"], log["showing"]) == (4, "1-4")
    assert started["pid"] == ended["pid"] and ended["uptime_seconds"] >= 0
    typed = [action for action in task.context.actions if isinstance(action, SendInput)]
    assert [action.data for action in typed] == ["hello\n", "two\nqu", "it\n"]
    assert {action.process for action in typed} == {id}
    assert {action.program for action in typed} == {ECHO}
    assert [action.typed for action in typed] == ["", "", "qu"]
    assert task.context.notices == []


async def test_a_background_process_begins_with_the_state_of_the_task_and_leaves_none(task: Task):
    await task.run("cd /usr; V=kept; f() { echo f; }; alias g='echo alias'")
    started = await task.run("pwd; echo $V; f; g; V=changed; cd /; sleep 0.01", background=True)
    assert (await task.process("wait", started["session_id"]))["output"] == "/usr\nkept\nf\nalias\n"
    assert await task.output("pwd; echo $V") == "/usr\nkept\n"
    assert await task.output("ls", workdir=str(task.context.scratch / "shell")) != ""
    assert [path.name for path in task.context.scratch.rglob("*") if path.is_file()] == ["state"]


async def test_the_workdir_of_a_background_process_is_its_own(task: Task):
    started = await task.run("pwd", background=True, workdir="/usr")
    assert (await task.process("wait", started["session_id"]))["output"] == "/usr\n"
    assert await task.output("pwd") == f"{task.workspace}\n"


async def test_closing_the_input_ends_what_reads_it(task: Task):
    for pty in (False, True):
        started = await task.run(ECHO, background=True, pty=pty)
        await task.poll_until(started["session_id"], "ready")
        assert (await task.process("close", started["session_id"]))["closed"] == "stdin"
        ended = await task.process("wait", started["session_id"])
        assert ended["output"].endswith("end\n") and ended["exit_code"] == 0


async def test_typing_where_nobody_reads_is_an_error(task: Task):
    started = await task.run("exec <&-; echo closed; sleep 60", background=True)
    id = started["session_id"]
    await task.poll_until(id, "closed")
    assert "closed its input" in (await task.process("submit", id, data="x"))["error"]
    await task.process("close", id)
    assert "is closed" in (await task.process("submit", id, data="x"))["error"]
    await task.process("kill", id)
    assert "already ended" in (await task.process("submit", id, data="x"))["error"]
    assert "already ended" in (await task.process("close", id))["error"]


async def test_input_that_is_not_taken_is_given_up(task: Task, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tools.terminal.local._WRITE_PATIENCE", 0.05)
    started = await task.run("sleep 60", background=True)
    result = await task.process("write", started["session_id"], data="x" * 1_000_000)
    assert "does not read its input" in result["error"]


async def test_much_input_arrives_whole(task: Task):
    started = await task.run("wc -c", background=True)
    await task.process("write", started["session_id"], data="x" * 1_000_000)
    await task.process("close", started["session_id"])
    assert (await task.process("wait", started["session_id"]))["output"] == "1000000\n"


async def test_the_gate_decides_about_input(task: Task):
    started = await task.run(ECHO, background=True)
    await task.poll_until(started["session_id"], "ready")
    task.context.verdict = deny_kinds(SendInput)
    result = await task.process("submit", started["session_id"], data="quit")
    assert result["status"] == "blocked"
    assert (await task.process("poll", started["session_id"]))["status"] == "running"
    started = task.context.actions[0]
    assert isinstance(started, RunCommand) and started.background


async def test_killing_takes_the_whole_tree(task: Task):
    started = await task.run(
        "setsid sleep 6666.5 & (sleep 6666.5 &) ; trap '' TERM; sleep 6666.5", background=True
    )
    await until(lambda: len(processes_with("6666.5")) == 3)
    killed = await task.process("kill", started["session_id"])
    assert killed["status"] == "killed" and killed["exit_code"] in (137, 143)
    assert processes_with("6666.5") == []
    assert (await task.process("kill", started["session_id"]))["status"] == "already_exited"


async def test_waiting_ends_with_the_time_and_is_clamped(tmp_path: Path, terminals):
    task = Task(tmp_path, terminals(), options={"terminal.max_timeout": 3})
    started = await task.run("echo working; sleep 60", background=True)
    result = await task.process("wait", started["session_id"], timeout=9)
    assert result["status"] == "timeout" and result["output"] == "working\n"
    assert "limited to 3 seconds" in result["timeout_note"]


async def test_waiting_can_be_interrupted_and_the_process_goes_on(task: Task):
    started = await task.run("sleep 6667.5", background=True)
    waiting = asyncio.create_task(task.process("wait", started["session_id"]))
    await asyncio.sleep(0.05)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (await task.process("poll", started["session_id"]))["status"] == "running"


async def test_unknown_and_missing_ids_are_answered_with_the_known_ones(task: Task):
    missing = await task.process("poll", "proc_none")
    assert missing["status"] == "not_found" and "Known: none" in missing["error"]
    started = await task.run("true", background=True)
    assert started["session_id"] in (await task.process("kill", "proc_none"))["error"]
    assert started["session_id"] in (await task.process("poll"))["error"]
    assert "needs data" in (await task.process("write", started["session_id"]))["error"]
    assert "must be one of" in (await task.process("explode", started["session_id"]))["error"]


async def test_processes_belong_to_their_task(tmp_path: Path, terminals):
    shared = terminals()
    one, two = Task(tmp_path, shared, "one"), Task(tmp_path, shared, "two")
    started = await one.run("sleep 60", background=True)
    assert (await two.process("poll", started["session_id"]))["status"] == "not_found"
    assert (await two.process("list"))["processes"] == []
    (listed,) = (await one.process("list"))["processes"]
    assert (
        listed["command"] == "sleep 60" and listed["status"] == "running" and listed["pid"] == started["pid"]
    )
    assert shared.running_count() == 1


async def test_an_unfinished_line_is_visible_and_secrets_in_it_are_masked(task: Task):
    started = await task.run("printf 'done\\nPassword for password=hunter2'; sleep 60", background=True)
    seen = await task.poll_until(started["session_id"], "redacted")
    assert seen.endswith("Password for password=…redacted")


@pytest.mark.thorough
async def test_only_the_newest_output_is_kept_and_the_loss_is_named(task: Task):
    started = await task.run("seq 1 100000", background=True)
    await until(lambda: not task.context.terminals.running_count())
    result = await task.process("poll", started["session_id"])
    total = len("".join(f"{number}\n" for number in range(1, 100_001)))
    lost = int(result["note"].split()[0].replace(",", ""))
    assert 0 <= total - lost - 200_000 + 10 <= 10
    assert len(result["output"]) <= 50_000 and result["output"].endswith("99999\n100000\n")
    log = await task.process("log", started["session_id"])
    assert log["total_lines"] == 100_000 and log["showing"] == "99801-100000"
    assert log["output"] == "".join(f"{number}\n" for number in range(99_801, 100_001))
    some = await task.process("log", started["session_id"], offset=99_990, limit=3)
    assert (some["output"], some["showing"]) == ("99990\n99991\n99992\n", "99990-99992")
    gone = await task.process("log", started["session_id"], offset=1, limit=2)
    assert int(gone["showing"].split("-")[0]) > 60_000
    assert (await task.process("log", started["session_id"], offset=100_001))["showing"] == "none"


async def test_the_end_is_announced_when_asked_for(task: Task):
    started = await task.run("echo x; exit 4", background=True, notify_on_complete=True)
    await until(lambda: task.context.notices)
    assert task.context.notices == [f"{started['session_id']} has ended with exit code 4: echo x; exit 4"]
    killed = await task.run("sleep 60", background=True, notify_on_complete=True)
    await task.process("kill", killed["session_id"])
    await asyncio.sleep(0.05)
    assert len(task.context.notices) == 1


async def test_watched_lines_are_announced(task: Task):
    started = await task.run(
        "echo starting; echo 'Server listening on 8080 [ok]'; sleep 60",
        background=True,
        watch_patterns=["[ok", r"listening on \d+"],
    )
    await until(lambda: task.context.notices)
    assert task.context.notices == [f"{started['session_id']}: Server listening on 8080 [ok]"]


async def test_a_dangerous_watch_pattern_starts_nothing(task: Task):
    result = await task.run("echo x", background=True, watch_patterns=["(a+)+$"])
    assert "repeats too much" in result["error"]
    assert (await task.process("list"))["processes"] == []


async def test_finished_processes_make_room_and_running_ones_do_not(
    task: Task, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(terminals, "MAX_PROCESSES", 3)
    ids = [
        (await task.run(command, background=True))["session_id"] for command in ("sleep 60", "true", "true")
    ]
    await until(lambda: task.context.terminals.running_count() == 1)
    newest = [(await task.run("sleep 60", background=True))["session_id"] for _ in range(2)]
    listed = [one["session_id"] for one in (await task.process("list"))["processes"]]
    assert listed == [ids[0], *newest]
    assert "3 processes are running" in (await task.run("sleep 60", background=True))["error"]


@pytest.mark.thorough
async def test_a_terminal_program_is_driven_by_keys_and_shows_its_screen(task: Task):
    started = await task.run("python3 -q -i -c 'pass'", background=True, pty=True)
    id = started["session_id"]
    await task.poll_until(id, ">>>")
    await task.process("submit", id, data="print(6 * 7)")
    await task.poll_until(id, "42\n")
    assert ">>> print(6 * 7)\n42\n>>>" in (await task.process("poll", id))["screen"]
    await task.process("write", id, data="\x04")
    assert (await task.process("wait", id))["exit_code"] == 0


async def test_the_engine_takes_all_processes_with_it(task: Task):
    await task.run("sleep 6668.5 & setsid sleep 6668.5 & wait", background=True)
    await task.run("trap '' TERM; sleep 6668.5", background=True, pty=True)
    await until(lambda: len(processes_with("6668.5")) == 3)
    await task.context.terminals.aclose()
    assert processes_with("6668.5") == []
    assert (await task.process("list"))["processes"] == []
    assert await task.output("echo usable again") == "usable again\n"


async def test_many_processes_beside_each_other_keep_their_output_apart(task: Task):
    started = await asyncio.gather(
        *(task.run(f"seq {n} {n + 2000}", background=True) for n in range(0, 160, 10))
    )
    ended = await asyncio.gather(*(task.process("wait", one["session_id"]) for one in started))
    assert [one["output"].split("\n")[0] for one in ended] == [str(n) for n in range(0, 160, 10)]
    assert all(one["output"].count("\n") == 2001 for one in ended)


def test_actions_are_displayed_in_one_clean_line():
    entry = registry.get("process")
    assert entry is not None and entry.describe is not None
    shown = entry.describe({"action": "poll", "session_id": "proc_1"}, None)
    assert (shown.verb, shown.subject, shown.summary) == ("poll", "proc_1", "")
    ended = {"session_id": "proc_1", "status": "exited", "exit_code": 0, "output": "x\n"}
    shown = entry.describe({"action": "wait", "session_id": "proc_1"}, ended)
    assert shown.summary == "exited · exit 0" and shown.detail is not None
    listed = {"processes": [{"status": "running"}, {"status": "exited"}]}
    assert entry.describe({"action": "list"}, listed).summary == "1 of 2 running"
    assert entry.describe({"action": "poll"}, {"error": "no\x1b[0m"}).summary == "no"
