"""What jobs cost while nothing is due: requests and CPU of a week in fast time, CPU of a real runner.

200 jobs none of which is due, and a HEARTBEAT.md that was read before. The week looks at the clock each 15
seconds of its own time, as a runner does; a model server counts what it is asked. The real one is
`hermes cron run`, measured from its second minute on by the times of the kernel.
Targets: no request, and below 0.05 % of a core.

python benchmarks/schedule_idle.py [--seconds 600]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from agent.api.job_runs import open_runner
from agent.automation.schedule.book import JobBook
from agent.automation.schedule.heartbeat import FILE, Heartbeats
from agent.core.config.loader import load
from agent.core.home import Home
from agent.core.store.store import Store
from tests.support import command
from tests.support.model_process import ServerProcess

JOBS = 200
TICK = 15
WEEK = 7 * 86_400
SETTLE = 60
TARGET = 0.05
"""Percent of a core."""


async def idle_week(home: Home) -> tuple[int, float, int]:
    """Looks at the clock, seconds of CPU, and runs, of a week in which nothing is due."""
    settings = load(home, os.environ).settings
    now = [time.time()]

    def clock() -> float:
        return now[0]

    async with await Store.open(home.database) as store:
        book = JobBook(store.database, home.schedule)
        for number in range(JOBS):
            due = {
                "schedule": f"{number % 60} 3 1 1 *",
                "zone": "UTC",
                "prompt": "look",
                "name": f"j{number}",
            }
            await book.add(due)
        runner = open_runner(store.database, home, settings)
        runner.clock = clock
        beats = Heartbeats(store.database, home, settings.heartbeat, clock)
        runner.beat = beats.look
        # The first beat has a reason, as its file is new; its answer shows nothing.
        await runner.once()
        before, end, looks = time.process_time(), now[0] + WEEK, 0
        while now[0] < end:
            now[0] += TICK
            looks += 1
            await runner.once()
        return looks, time.process_time() - before, len(await book.runs(count=100))


def cpu(pid: int) -> float:
    """Seconds of CPU of a process and its threads."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((each / "schedstat").read_text().split()[0]) for each in threads) / 1e9


def main() -> int:
    parser = argparse.ArgumentParser(description="See the top of this file.")
    parser.add_argument("--seconds", type=float, default=600)
    args = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as name,
        ServerProcess("script = by_step([say('HEARTBEAT_OK')])", Path(name)) as server,
    ):
        home = Home(Path(name) / "home")
        home.root.mkdir()
        (home.root / FILE).write_text("Look after things.\n- 2099-01-01 call Ana\n")
        env = command.environment(home.root, server.base_url)
        os.environ |= env
        looks, used, runs = asyncio.run(idle_week(home))
        asked = len(server.requests())
        print(f"a week: {looks:,} looks, {used:.1f} s of CPU = {100 * used / WEEK:.4f} % of a core")
        print(f"{asked} request for the new {FILE}, {asked - 1} in the week; {runs} run")
        runner = subprocess.Popen([*command.HERMES, "cron", "run"], env=env, cwd=name)
        try:
            time.sleep(SETTLE)
            before, began = cpu(runner.pid), time.monotonic()
            time.sleep(args.seconds)
            share = 100 * (cpu(runner.pid) - before) / (time.monotonic() - began)
        finally:
            runner.terminate()
            runner.wait()
        print(f"hermes cron run, {JOBS} jobs, {args.seconds:.0f} s: {share:.4f} % of a core")
    return 0 if asked == 1 and share < TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
