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
sys.path.insert(0, {str(command.ROOT)!r})
from tests.support.project import ANSWER, next_step

def script(request):
    step = next_step(request.messages)
    return say(ANSWER) if step is None else call(step[0], **step[1])
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
    """Seconds of one undisturbed run; raises if the task is not done at its end."""
    project, env = _fresh(folder, base_url)
    began = time.monotonic()
    done = command.run("-p", TASK, "--json", "--approve", "all", env=env, cwd=project)
    if done.returncode or not is_mended(project):
        raise RuntimeError(f"the undisturbed task failed: {done.stdout[-500:]} {done.stderr[-500:]}")
    return time.monotonic() - began


def kill_and_resume(folder: Path, base_url: str, delay: float) -> Kill:
    """Start the task, kill it after `delay` seconds, look at the store, resume and let it finish."""
    project, env = _fresh(folder, base_url)
    arguments = [*command.HERMES, "-p", TASK, "--json", "--approve", "all"]
    process = subprocess.Popen(
        arguments, env=env, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        output, _ = process.communicate(timeout=delay)
    except subprocess.TimeoutExpired:
        os.kill(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
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
