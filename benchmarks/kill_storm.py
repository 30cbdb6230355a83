"""`kill -9` at random moments of a twelve-step task: what was acknowledged, what is left, does it finish?

python benchmarks/kill_storm.py [--kills 300] [--seed 1]
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.kill_storm import SCRIPT, Kill, kill_and_resume, whole_run
from tests.support.model_process import ServerProcess


def main() -> int:
    parser = argparse.ArgumentParser(description="See the top of this file.")
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    chance = random.Random(args.seed)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name, ServerProcess(SCRIPT, Path(name)) as server:
        root = Path(name)
        (root / "whole").mkdir()
        length = whole_run(root / "whole", server.base_url)
        # Most kills hit the task, one in ten the start of the program.
        delays = [
            -chance.uniform(0, 2) if number % 10 == 0 else chance.uniform(0, length)
            for number in range(args.kills)
        ]

        def one(number: int) -> Kill:
            folder = root / str(number)
            folder.mkdir()
            return kill_and_resume(folder, server.base_url, delays[number])

        with ThreadPoolExecutor(args.workers) as pool:
            kills = list(pool.map(one, range(args.kills)))
    print(f"undisturbed run {length:.1f} s; {len(kills)} kills in {time.monotonic() - began:.0f} s")
    told, lost = sum(kill.acknowledged for kill in kills), sum(kill.lost for kill in kills)
    print(f"acknowledged messages {told}, lost {lost}")
    print(f"integrity ok {sum(kill.integrity == 'ok' for kill in kills)} of {len(kills)}")
    print(f"resumed and finished {sum(kill.finished for kill in kills)} of {len(kills)}")
    print(f"kills that interrupted a call {sum(kill.interrupted_calls > 0 for kill in kills)}")
    failures = [kill for kill in kills if kill.lost or kill.integrity != "ok" or not kill.finished]
    for kill in failures[:10]:
        print(kill)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
