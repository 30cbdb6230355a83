"""The process that works on tasks: it reads assignments and writes results as lines of JSON.

The first input line holds the conditions of the run. The only argument is the file descriptor of a lock. The
process ends when its input ends, so it never outlives the process that started it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agent.automation.batch.attempt import AssignedTask, Conditions, ResultFolder, SharedStore, attempt
from agent.automation.batch.task import task_of
from agent.core.home import Home

LONGEST_LINE = 256 * 1024 * 1024


def main() -> None:
    """Serve assignments from standard input, then end the process. Other output goes to standard error."""
    # Held while this process runs; child processes do not inherit it.
    os.set_inheritable(int(sys.argv[1]), False)
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    code = 1
    try:
        asyncio.run(_serve(answers))
        code = 0
    except Exception:
        traceback.print_exc()
    # Not by returning: a session that was cut off while it was opened leaves a thread of its store, which
    # would keep the process, and with it the lock of the session.
    os._exit(code)


async def _serve(answers: Any) -> None:
    reader = asyncio.StreamReader(limit=LONGEST_LINE)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    conditions = conditions_of(json.loads(await reader.readline()))
    store = SharedStore(Home(conditions.folder.home).database)
    tasks: set[asyncio.Task[None]] = set()

    async def work(number: int, given: Mapping[str, Any]) -> None:
        try:
            result = await attempt(assignment_of(given), conditions, store)
            said = {"number": number, "result": result.to_json()}
        except Exception as error:  # the caller that waits has to hear of it
            traceback.print_exc()
            said = {"number": number, "fault": type(error).__name__}
        answers.write(json.dumps(said) + "\n")

    while line := await reader.readline():
        given = json.loads(line)
        task = asyncio.create_task(work(given["number"], given["assignment"]))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await store.aclose()


def conditions_json(conditions: Conditions) -> dict[str, Any]:
    """Return the conditions of a run as JSON data for another process."""
    return {
        "folder": str(conditions.folder.root),
        "settings": dict(conditions.settings),
        "environ": dict(conditions.environ),
        "approve": conditions.approve,
        "model": conditions.model,
        "judge": conditions.judge,
        "base": str(conditions.base),
    }


def conditions_of(given: Mapping[str, Any]) -> Conditions:
    """Return the conditions from the output of `conditions_json`."""
    folder, base = ResultFolder(Path(given["folder"])), Path(given["base"])
    return Conditions(**{**given, "folder": folder, "base": base})


def assignment_json(assignment: AssignedTask) -> dict[str, Any]:
    """Return an assignment as JSON data for another process."""
    return {
        **{k: v for k, v in asdict(assignment).items() if k != "task"},
        "task": dict(assignment.task.given),
    }


def assignment_of(given: Mapping[str, Any]) -> AssignedTask:
    """Return the assignment from the output of `assignment_json`."""
    return AssignedTask(**{**given, "task": task_of(given["task"]), "toolsets": tuple(given["toolsets"])})


if __name__ == "__main__":
    main()
