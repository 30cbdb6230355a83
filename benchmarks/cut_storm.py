"""Every fault of the test server cut at every n-th byte, each followed by a turn that must succeed.

python benchmarks/cut_storm.py [--step 7] [--how fin]
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.cuts import Broken, cut, positions, survives
from tests.support.engines import bench
from tests.support.faults import FAULTS

TURNS_PER_SESSION = 200


async def storm(step: int, how: str, folder: Path) -> tuple[int, list[str]]:
    """Number of cuts tried, and what went wrong."""
    cases = [(name, at) for name in FAULTS if "stall" not in name for at in positions(step, 2_500)]
    wrong: list[str] = []
    script = Broken()
    async with bench(folder, script) as b:
        b.config("model: {retries: 0, stall_timeout: 0.5}\n")
        for start in range(0, len(cases), TURNS_PER_SESSION):
            async with b.engine() as engine:
                for name, at in cases[start : start + TURNS_PER_SESSION]:
                    problem = await survives(b, engine, script, cut(name, at, how))  # type: ignore[arg-type]
                    if problem:
                        wrong.append(f"{name} at {at}: {problem}")
            b.events.clear()
            b.server.requests.clear()
    return len(cases), wrong


def main() -> int:
    parser = argparse.ArgumentParser(description="See the top of this file.")
    parser.add_argument("--step", type=int, default=7)
    parser.add_argument("--how", choices=("fin", "rst", "clean"), default="fin")
    args = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        count, wrong = asyncio.run(storm(args.step, args.how, Path(name)))
    print(
        f"{count} cuts in {time.monotonic() - began:.0f} s, {len(wrong)} left a session that does not go on"
    )
    for line in wrong[:20]:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
