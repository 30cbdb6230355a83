"""`kill -9` at a random moment of the twelve-step task, and what is left of it."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from tests.support import command
from tests.support.project import ANSWER, TASK, is_mended, make_project

SCRIPT = f"""
import sys
from dataclasses import replace
sys.path.insert(0, {str(command.ROOT)!r})
from tests.support.project import ANSWER, next_step

def script(request):
    step = next_step(request.messages)
    reply = say(ANSWER) if step is None else call(step[0], **step[1])
    return replace(reply, delay=0.03, pace=0.004)
"""
"""Source for `tests.support.model_process.ServerProcess`."""

ACKNOWLEDGED = ("user_message", "assistant_message", "tool_finished")


@dataclass(frozen=True, slots=True)
class Kill:
    """One killed run and its resumption."""

    delay: float
    acknowledged: int
    """Messages the process had told of when it died."""
    lost: int
    """How many of them are not in the store."""
    integrity: str
    finished: bool
    """Whether the resumed session came to the right end (the run's own end counts if it was not reached)."""
    interrupted_calls: int


def whole_run(folder: Path, base_url: str) -> float:
    """Seconds of the task in one undisturbed run; raises if it is not done at its end."""
    project, env = _fresh(folder, base_url)
    process = _start(project, env)
    head = _first_line(process)
    began = time.monotonic()
    output, _ = process.communicate()
    if process.returncode or not is_mended(project):
        raise RuntimeError(f"the undisturbed task failed: {(head + output)[-800:]!r}")
    return time.monotonic() - began


def kill_and_resume(folder: Path, base_url: str, delay: float) -> Kill:
    """Start the task, kill it, look at the store, resume and let it finish.

    `delay` is in seconds from the first event on; a negative one counts from the start of the process.
    """
    project, env = _fresh(folder, base_url)
    process = _start(project, env)
    output = b"" if delay < 0 else _first_line(process)
    try:
        rest, _ = process.communicate(timeout=abs(delay))
    except subprocess.TimeoutExpired:
        os.kill(process.pid, signal.SIGKILL)
        rest, _ = process.communicate()
    output += rest
    text = output.decode("utf-8", "replace")
    seen = command.events(text[: text.rfind("\n") + 1])
    told = [event["node"] for event in seen if event["type"] in ACKNOWLEDGED]
    session = next((event["session"] for event in seen if event["type"] == "session_opened"), None)
    lost, integrity, interrupted = _look(Path(env["HERMES_HOME"]) / "state.db", told)
    again = ["--resume", session] if session else []
    ended = command.run(*again, "-p", TASK, "--json", "--approve", "all", env=env, cwd=project)
    after = command.events(ended.stdout)
    finished = (
        bool(after) and after[-1].get("text") == ANSWER and is_mended(project) and ended.returncode == 0
    )
    more, integrity_after, interrupted = _look(Path(env["HERMES_HOME"]) / "state.db", told)
    worst = integrity if integrity != "ok" else integrity_after
    return Kill(delay, len(told), lost + more, worst, finished, interrupted)


def _start(project: Path, env: dict[str, str]) -> subprocess.Popen[bytes]:
    arguments = [*command.HERMES, "-p", TASK, "--json", "--approve", "all"]
    return subprocess.Popen(
        arguments, env=env, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0
    )


def _first_line(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    return process.stdout.readline()


def _fresh(folder: Path, base_url: str) -> tuple[Path, dict[str, str]]:
    project = make_project(folder / "project")
    return project, command.environment(folder / "home", base_url)


def _look(database: Path, told: list[int]) -> tuple[int, str, int]:
    """Told nodes that are missing, the integrity check, and the number of interrupted calls."""
    if not database.exists():
        return len(told), "ok", 0
    connection = sqlite3.connect(database, timeout=30)
    try:
        known = {row[0] for row in connection.execute("SELECT id FROM nodes")}
        integrity = connection.execute("PRAGMA integrity_check").fetchone()[0]
        query = "SELECT count(*) FROM calls WHERE state = 'interrupted'"
        interrupted = connection.execute(query).fetchone()[0]
    except sqlite3.OperationalError:
        # Killed before the first table was there.
        return len(told), "ok", 0
    finally:
        connection.close()
    return len(set(told) - known), integrity, interrupted
