"""Hangs, interruptions, swarms and orphans: nothing of a script is left."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from tests.tools.code.conftest import Scripts, living, until
from tools.code.data import Clock

ROOT = Path(__file__).resolve().parents[3]


async def test_a_script_that_hangs_is_stopped_and_its_output_kept(scripts: Scripts, late: Path) -> None:
    script = "print('begun')\nopen('late', 'w')\nwhile True: pass"
    outcome = await scripts.run(script, limits={"seconds": 90.5})
    assert (outcome.status, outcome.stdout) == ("timeout", "begun\n")
    assert outcome.message == "The script was stopped after 90.5 s."


async def test_a_script_that_will_not_stop_is_killed(scripts: Scripts, late: Path) -> None:
    outcome = await scripts.run(
        """
        import signal, time
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("deaf")
        open("late", "w")
        while True: time.sleep(1)
        """,
        limits={"grace": 0.2},
    )
    assert (outcome.status, outcome.exit_code, outcome.stdout) == ("timeout", 137, "deaf\n")


async def test_a_script_may_clean_up_when_it_is_stopped(scripts: Scripts, late: Path) -> None:
    outcome = await scripts.run(
        """
        import signal, sys, time
        signal.signal(signal.SIGTERM, lambda *_: (print("tidied"), sys.exit(1)))
        open("late", "w")
        time.sleep(60)
        """,
        limits={"grace": 60},
    )
    assert (outcome.status, outcome.stdout) == ("timeout", "tidied\n")


async def test_code_that_never_lets_go_of_the_interpreter_is_stopped(scripts: Scripts) -> None:
    script = "import re\nre.match(r'(a+)+$', 'a' * 60 + 'b')"
    outcome = await scripts.run(script, limits={"seconds": 0.4})
    assert outcome.status == "timeout"


async def test_time_spent_waiting_for_a_person_does_not_count(scripts: Scripts, late: Path) -> None:
    clock = Clock()

    async def ask(arguments: dict[str, Any]) -> str:
        with clock.paused():
            late.touch()
            await asyncio.sleep(0.3)
        return '{"ok": true}'

    scripts.answers["terminal"] = ask
    script = "from hermes_tools import terminal\nprint(terminal('x'))"
    outcome = await scripts.run(script, clock=clock, limits={"seconds": 600})
    assert outcome.status == "ok"
    assert outcome.duration < 600


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", ["stop", "cancel", "timeout"])
async def test_the_call_under_way_is_stopped_before_the_child(scripts: Scripts, late: Path, how: str) -> None:
    order: list[str] = []
    stop = asyncio.Event()
    started = asyncio.Event()

    async def endless(arguments: dict[str, Any]) -> str:
        started.set()
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            order.append("child lives" if living("NVM_STOP_TEST=" + how) else "child is gone")
            raise
        return "{}"

    scripts.answers["terminal"] = endless
    script = "from hermes_tools import terminal\nterminal('x')"
    environ = {**os.environ, "NVM_STOP_TEST": how}
    run = asyncio.ensure_future(scripts.run(script, stop=stop, environ=environ))
    await started.wait()
    if how == "stop":
        stop.set()
    elif how == "timeout":
        late.touch()
    else:
        run.cancel()
    if how == "cancel":
        with pytest.raises(asyncio.CancelledError):
            await run
    else:
        outcome = await run
        assert outcome.status == {"stop": "interrupted", "timeout": "timeout"}[how]
        assert [record.ok for record in outcome.calls] == [False]
    assert order == ["child lives"]
    assert living("NVM_STOP_TEST=" + how) == []
    assert scripts.progress[-1].running == ()


@pytest.mark.sample(1)
@pytest.mark.parametrize("escape", ["start_new_session=True", "start_new_session=False", "env={}"])
async def test_nothing_a_script_has_started_outlives_it(scripts: Scripts, escape: str) -> None:
    marker = f"31{os.getpid()}"
    outcome = await scripts.run(
        f"""
        import subprocess
        subprocess.Popen(["/bin/sleep", "{marker}"], {escape})
        print("started")
        """
    )
    assert outcome.stdout == "started\n"
    assert living(f"/bin/sleep\0{marker}") == []


@pytest.mark.parametrize("others", [0, 60], ids=["alone", "while others end"])
async def test_a_swarm_of_processes_is_ended(scripts: Scripts, others: int) -> None:
    marker = f"HERMES_SWARM={os.getpid()}"
    environ = {**os.environ, "HERMES_SWARM": str(os.getpid())}
    begun = f"for i in $(seq {others}); do sleep 600 >&- & echo $!; done; echo; wait"
    with subprocess.Popen(["sh", "-c", begun], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(line) for line in iter(parent.stdout.readline, "\n")]
        outcome = await scripts.run(
            f"""
            import os, time
            for pid in {pids}:
                os.kill(pid, 9)
            for _ in range(60):
                if os.fork() == 0:
                    time.sleep(60)
                    os._exit(0)
            time.sleep(60)
            """,
            environ=environ,
            limits={"processes": 40, "seconds": 30, "grace": 0.2},
        )
    # The system refuses the forks of an ordinary user; root, who has no limits, is watched.
    assert outcome.status in ("crashed", "error")
    assert "processes" in outcome.message or "BlockingIOError" in outcome.stderr
    assert living(marker) == []


async def test_memory_is_limited(scripts: Scripts) -> None:
    outcome = await scripts.run("x = bytearray(400_000_000)", limits={"memory": 200_000_000})
    assert outcome.status == "error"
    assert "MemoryError" in outcome.stderr


PARENT = """
import asyncio, sys
sys.path.insert(0, {root!r})
from pathlib import Path
from tools.code.data import CodeJob
from tools.code.runner import CodeRunner

async def serve(tool, arguments):
    return "{{}}"

async def main():
    job = CodeJob(script={script!r}, folder=Path({folder!r}), session={session!r})
    await CodeRunner().run(job, serve)

asyncio.run(main())
"""


@pytest.mark.thorough
@pytest.mark.parametrize("session", [None, "kernel"])
def test_a_child_dies_with_its_parent_even_deep_inside_the_interpreter(
    tmp_path: Path, session: str | None
) -> None:
    script = textwrap.dedent(
        """
        import os, re, signal
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGIO):
            signal.signal(number, signal.SIG_IGN)
        open("pid", "w").write(str(os.getpid()))
        re.match(r"(a+)+$", "a" * 80 + "b")
        """
    )
    text = PARENT.format(root=str(ROOT), script=script, folder=str(tmp_path), session=session)
    parent = subprocess.Popen([sys.executable, "-c", text])
    pid_file = tmp_path / "pid"
    while not (pid_file.exists() and pid_file.read_text()):
        time.sleep(0.01)
    child = int(pid_file.read_text())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    while Path(f"/proc/{child}").exists():
        state = Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()[0]
        if state in "ZX":
            break
        time.sleep(0.01)


async def test_a_script_without_its_agent_gets_an_error(scripts: Scripts) -> None:
    async def hang_up(arguments: dict[str, Any]) -> str:
        for connection in list(server.connections):
            connection.hang_up()
        return "{}"

    original = scripts.runner._child

    async def child(job: Any, recipe: Any) -> Any:
        nonlocal server
        made, warm = await original(job, recipe)
        server = made.server
        return made, warm

    server: Any = None
    scripts.runner._child = child
    scripts.answers["read_file"] = hang_up
    outcome = await scripts.run("from hermes_tools import read_file\nread_file('a')")
    assert outcome.status == "error"
    assert "RuntimeError: The agent process disconnected" in outcome.stderr


async def test_no_folder_is_left(scripts: Scripts) -> None:
    out = await scripts.output("import hermes_tools; print(hermes_tools.__file__)")
    module = Path(out.strip())
    await until(lambda: not module.parent.exists())
