"""Commands that run to their end: output, exit codes, time limits, interrupts, what is left behind."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import pytest

from tests.support.tool_context import deny_all
from tests.tools.terminal.conftest import Task, processes_with, until
from tools.registry import registry
from tools.services.actions import RunCommand
from tools.terminal import output


async def test_output_and_errors_come_in_order_and_clean(task: Task):
    result = await task.run(
        "echo one; echo two >&2; printf '\\e[31mred\\e[0m\\rR\\n\\e]52;c;aGk=\\a'; printf 'a\\0b\\xff\\n'"
    )
    assert result == {"output": "one\ntwo\nRed\nab\ufffd\n", "exit_code": 0}


async def test_no_editor_opens_whatever_git_is_set_to(task: Task):
    await task.run(
        "git init -q . && git config core.editor 'sleep 600; false' && git config user.name n"
        " && git config user.email e && echo 1 > f && git add f && git commit -qm one"
        " && echo 2 > f && git add f"
    )
    assert "empty commit message" in await task.output("git commit 2>&1")
    assert await task.output("git commit -q --amend && git log --format=%s") == "one\n"
    assert "problem with the editor" in await task.output(
        "echo 3 > f; git commit -qam two; git rebase -i HEAD~1 2>&1"
    )
    assert await task.output("git log --format=%s; git status --short") == "two\none\n"


async def test_secrets_in_output_are_masked(tmp_path: Path, terminals):
    task = Task(tmp_path, terminals({**os.environ, "VENDOR_API_KEY": "0a1b2c3d4e5f"}))
    shown = await task.output("echo 0a1b2c3d4e5f; echo password=hunter2; echo ghp_$(printf 'a1%.0s' {1..18})")
    assert shown == "[VENDOR_API_KEY redacted]\npassword=…redacted\nghp_…redacted\n"


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("command", "code", "meaning"),
    [
        ("true", 0, None),
        ("exit 3", 3, None),
        ("grep zzz /dev/null", 1, "no line matched; that is not an error"),
        ("echo a | /bin/grep -q b", 1, "no line matched; that is not an error"),
        ("diff <(echo a) <(echo b) >/dev/null", 1, "the inputs differ; that is not an error"),
        ("test -e /nowhere", 1, "the condition is false; that is not an error"),
        ("no_such_command_at_all", 127, "the command was not found"),
        ("/etc/passwd", 126, "the command was found but could not be executed (not executable, or a folder)"),
        ("sh -c 'kill -SEGV $$'", 139, "ended by signal 11 (SIGSEGV)"),
        ("kill -9 $$", 137, "ended by signal 9 (SIGKILL)"),
    ],
)
async def test_exit_codes_are_told_with_their_meaning(
    task: Task, command: str, code: int, meaning: str | None
):
    result = await task.run(command)
    assert result["exit_code"] == code
    assert result.get("exit_code_meaning") == meaning


async def test_input_is_empty_so_nothing_can_hang_on_it(task: Task):
    assert await task.output("cat; read x; echo \"got=$x\"; python3 -c 'input()' 2>&1 | tail -1") == (
        "got=\nEOFError: EOF when reading a line\n"
    )


async def test_long_output_is_cut_in_the_middle_and_kept_whole_in_a_private_file(task: Task):
    result = await task.run("seq 1 100000; printf last")
    text = result["output"]
    assert len(text) <= 50_000
    assert text.startswith("1\n2\n3\n") and text.endswith("\n99999\n100000\nlast")
    head, _, tail = text.partition("[… ")
    assert 0.38 < len(head) / len(text) < 0.42
    whole = "".join(f"{number}\n" for number in range(1, 100_001)) + "last"
    left, total = (int(word.replace(",", "")) for word in (tail.split()[0], tail.split()[2]))
    marker_length = len(text) - (total - left)
    assert total == len(whole) and 40 < marker_length < 60
    kept = Path(result["full_output"])
    assert kept.read_text() == whole
    assert kept.is_relative_to(task.context.scratch)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


async def test_output_at_the_limit_is_not_cut(task: Task):
    result = await task.run("head -c 50000 /dev/zero | tr '\\0' x")
    assert result["output"] == "x" * 50_000
    assert "full_output" not in result


def resident() -> int:
    """Bytes of memory this process has in use."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.thorough
async def test_a_hundred_megabytes_take_little_memory_and_the_file_is_capped(
    task: Task, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(output, "SPOOL_BYTES", 4_000_000)
    await task.run("seq 1 100000")
    before = most = resident()
    running = asyncio.create_task(
        task.run("yes 'a line of text, forty characters long..' | head -c 100000000; echo; echo END")
    )
    while not running.done():
        most = max(most, resident())
        await asyncio.sleep(0.01)
    result = await running
    assert most - before < 20_000_000
    assert result["exit_code"] == 0
    assert len(result["output"]) <= 50_000
    assert result["output"].endswith("\nEND\n")
    assert 4_000_000 <= Path(result["full_output"]).stat().st_size < 4_100_000
    assert "only the first 4 MB" in result["note"]


async def test_live_output_is_shown_while_the_command_runs(task: Task):
    running = asyncio.create_task(task.run("echo first; printf 'half a line'; sleep 60"))
    await until(lambda: "half a line" in "".join(task.context.progressed))
    assert task.context.progressed[-1] == "first\nhalf a line"
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_command_out_of_time_is_killed_and_what_it_printed_stays(task: Task):
    result = await task.run("echo before; sleep 4321.5 & sleep 4321.5", timeout=3)
    assert result["exit_code"] == 124
    assert result["output"] == "before\n"
    assert "Stopped after 3 s" in result["note"]
    assert processes_with("4321.5") == []


async def test_a_timeout_above_the_limit_is_refused_with_advice(task: Task):
    result = await task.run("true", timeout=601)
    assert "601" in result["error"] and "600" in result["error"] and "background=true" in result["error"]
    assert task.context.actions == []


async def test_limits_come_from_the_settings(tmp_path: Path, terminals):
    task = Task(tmp_path, terminals(), options={"terminal.timeout": 1, "terminal.max_timeout": 2})
    assert (await task.run("sleep 60"))["exit_code"] == 124
    assert "limit of 2" in (await task.run("true", timeout=3))["error"]


KILLED = [
    "sleep 7777.{n}",
    "sleep 7777.{n} & wait",
    "setsid sleep 7777.{n} & sleep 7777.{n}",
    "(setsid sh -c 'sleep 7777.{n} & sleep 7777.{n}' &) ; sleep 7777.{n}",
    "setsid setsid sh -c 'trap \"\" TERM HUP INT; sleep 7777.{n}; sleep 7777.{n}' & sleep 7777.{n}",
    "trap '' TERM INT; sleep 7777.{n}; sleep 7777.{n}",
    "env -i sh -c 'sleep 7777.{n} & sleep 7777.{n}'",
    "set -m; sleep 7777.{n} & sleep 7777.{n} & wait",
    "sh -c 'kill -STOP $$; sleep 7777.{n}' 7777.{n}",
    "nohup sleep 7777.{n} >/dev/null 2>&1 & disown; sleep 7777.{n}",
    "while :; do sleep 7777.{n} & sleep 0.005; done",
]


@pytest.mark.sample(1)
@pytest.mark.parametrize("number", range(len(KILLED)), ids=[one[:30] for one in KILLED])
async def test_an_interrupted_command_leaves_nobody_behind(task: Task, number: int):
    marker = f"7777.{number}"
    running = asyncio.create_task(task.run(KILLED[number].format(n=number)))
    await until(lambda: processes_with(marker))
    await asyncio.sleep(0.1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert processes_with(marker) == []
    assert await task.output("echo usable") == "usable\n"


async def test_a_second_interrupt_does_not_stop_the_cleaning_up(task: Task):
    running = asyncio.create_task(task.run("trap '' TERM; sleep 7778.5; sleep 7778.5"))
    await until(lambda: processes_with("7778.5"))
    running.cancel()
    await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert processes_with("7778.5") == []


async def test_an_interrupt_while_waiting_for_the_turn_starts_nothing(task: Task):
    first = asyncio.create_task(task.run("sleep 7779.5"))
    await until(lambda: processes_with("7779.5"))
    second = asyncio.create_task(task.run("touch started"))
    await asyncio.sleep(0.05)
    second.cancel()
    first.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    assert not (task.workspace / "started").exists()


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "command",
    [
        "sleep 8888.5 & echo started",
        "nohup sleep 8888.5 >/dev/null 2>&1 & echo started",
        "setsid sleep 8888.5 >/dev/null 2>&1 & echo started",
    ],
)
async def test_a_process_left_running_is_named_with_advice_and_dies_with_the_engine(task: Task, command: str):
    result = await task.run(command)
    assert result["output"] == "started\n"
    assert result["exit_code"] == 0
    # While a process becomes another program it has no command line.
    await until(lambda: processes_with("8888.5"))
    (pid,) = processes_with("8888.5")
    assert f"({pid})" in result["note"] and "background=true" in result["note"]
    await task.context.terminals.aclose()
    assert processes_with("8888.5") == []


async def test_a_process_left_running_can_go_on_writing(task: Task):
    await task.run("(sleep 0.2; seq 1 50000; echo done >finished) & true")
    await until((task.workspace / "finished").exists)


async def test_nothing_is_said_about_jobs_that_have_ended(task: Task):
    assert "note" not in await task.run("sleep 0.01 & wait; true && true 2>&1")


async def test_output_that_comes_after_the_shell_ended_is_still_read(
    task: Task, monkeypatch: pytest.MonkeyPatch
):
    # However busy the machine is, the late output comes before the patience ends.
    monkeypatch.setattr("tools.terminal.backend._QUIET", 20.0)
    monkeypatch.setattr("tools.terminal.backend._DRAIN", 20.0)
    assert await task.output("echo a > >(sleep 0.02; cat)") == "a\n"


async def test_the_gate_is_asked_first_with_the_whole_truth(task: Task):
    command = "touch ran\n# second line"
    await task.run(command, workdir="/usr/../tmp", pty=True)
    assert task.context.actions == [
        RunCommand(tool="terminal", command=command, cwd=Path("/tmp").resolve(), pty=True)
    ]
    task.context.verdict = deny_all
    result = await task.run("touch ran")
    assert result["status"] == "blocked" and "Not allowed" in result["error"]
    assert (await task.run("touch ran", background=True))["status"] == "blocked"
    assert not (task.workspace / "ran").exists()
    assert (await task.process("list"))["processes"] == []


async def test_a_folder_that_vanishes_while_the_gate_asks_is_an_error(task: Task):
    (task.workspace / "sub").mkdir()
    task.context.on_permit = lambda action: (task.workspace / "sub").rmdir()
    result = await task.run("true", workdir="sub")
    assert "could not be started" in result["error"] and "No such file" in result["error"]


@pytest.mark.parametrize("command", ["", "  \n"])
async def test_an_empty_command_is_refused(task: Task, command: str):
    assert "empty" in (await task.run(command))["error"]


async def test_a_command_that_no_shell_could_take_is_refused(task: Task):
    assert "NUL" in (await task.run("echo a\0b"))["error"]
    assert "surrogate" in (await task.run("echo \ud800"))["error"]


async def test_a_terminal_shows_what_a_person_would_see(task: Task):
    shown = await task.output(
        "tty | sed 's/[0-9]*$//'; stty size; [ -t 0 ] && [ -t 1 ] && echo tty; echo $TERM;"
        "printf 'one\\rtwo\\n\\033[7;10Hthere\\n'; printf '\\033[31mred\\033[0m\\n'",
        pty=True,
    )
    lines = shown.split("\n")
    assert lines[:2] == ["/dev/pts/", "40 120"]
    assert lines[-5:] == ["xterm-256color", "two", "", " " * 9 + "there", "red"]


async def test_a_terminal_keeps_what_scrolled_off_the_screen(task: Task):
    assert await task.output("seq 1 300", pty=True) == "\n".join(str(number) for number in range(1, 301))


async def test_a_terminal_survives_output_its_emulator_does_not_know(task: Task):
    odd = "printf '\\033[>4;2m\\033[?1;2c\\033[38:2::1:2:3mok\\033P+q\\033\\\\\\033[=5u\\n'"
    shown = await task.output(f"{odd}; head -c 20000 /dev/urandom; printf '\\033c\\nend\\n'", pty=True)
    assert "end" in shown


@pytest.mark.thorough
async def test_a_terminal_with_very_much_output_is_cut_like_any_other(task: Task):
    result = await task.run("seq 1 200000", pty=True)
    assert len(result["output"]) <= 50_000
    assert result["output"].rstrip().endswith("200000")
    assert Path(result["full_output"]).stat().st_size > 1_000_000


async def test_a_terminal_can_be_timed_out_and_interrupted(task: Task):
    assert (await task.run("echo asking; read answer", pty=True, timeout=3))["output"].startswith("asking")
    running = asyncio.create_task(task.run("sleep 7780.5", pty=True))
    await until(lambda: processes_with("7780.5"))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert processes_with("7780.5") == []


async def test_ctrl_c_reaches_a_program_on_a_terminal(task: Task):
    started = await task.run(
        "trap 'echo interrupted; exit 3' INT; echo ready; read x", background=True, pty=True
    )
    await task.poll_until(started["session_id"], "ready")
    await task.process("write", started["session_id"], data="\x03")
    ended = await task.process("wait", started["session_id"])
    assert ended["exit_code"] == 3 and "interrupted" in ended["output"]


@pytest.mark.thorough
async def test_descriptors_are_not_leaked(task: Task):
    await task.run("true")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        await task.run("echo x; false")
        await task.run("echo x", pty=True)
        started = await task.run("cat", background=True)
        await task.process("kill", started["session_id"])
    await until(lambda: len(os.listdir("/proc/self/fd")) <= before)


async def test_a_command_inherits_no_descriptor_of_ours(task: Task):
    assert await task.output("ls /proc/self/fd | wc -l") == "4\n"


def displayed(arguments: dict, result: dict | None):
    entry = registry.get("terminal")
    assert entry is not None and entry.describe is not None
    return entry.describe(arguments, result)


def test_a_call_is_displayed_in_one_clean_line():
    assert displayed({"command": "ls -la"}, None).subject == "ls -la"
    assert displayed({"command": "\n echo \x1b[31ma\n\necho b"}, None).subject == "echo a…"
    assert len(displayed({"command": "x" * 500}, None).subject) == 101
    shown = displayed({"command": "ls"}, {"output": "a\nb\n", "exit_code": 0})
    assert (shown.verb, shown.summary) == ("run", "exit 0 · 2 lines")
    assert displayed({"command": "ls"}, {"output": "a", "exit_code": 2}).summary == "exit 2 · 1 line"
    assert displayed({"command": "ls"}, {"output": "", "exit_code": 124}).summary == "timed out · 0 lines"
    assert displayed({"command": "ls"}, {"error": "bad\x1b[0m"}).summary == "bad"
    started = {"output": "Started.", "exit_code": 0, "session_id": "proc_1", "pid": 1}
    assert displayed({"command": "ls"}, started).summary == "in the background as proc_1"


def test_schemas_are_small_and_name_only_what_is_offered():
    import json

    both = registry.definitions(["terminal", "process"])
    assert len(json.dumps(both)) < 3_500
    (alone,) = registry.definitions(["terminal"])
    assert "background" not in json.dumps(alone) and "process" not in alone["description"]
    assert set(alone["parameters"]["properties"]) == {"command", "timeout", "workdir", "pty", "outside"}
