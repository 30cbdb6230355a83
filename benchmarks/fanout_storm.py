"""`kill -9` at random moments of fan-outs: copies, agents of agents, agents in the background.

    python benchmarks/fanout_storm.py [--kills 200] [--seed 1] [--minutes 8]

After each kill the session is opened again and looked at. It may be killed up to four times more while
it goes on; then everything goes on to its end. Ends with status 1 if a session does not resume, an
agent that was cut off is not listed as interrupted or does not come to its end (what hangs for two
minutes is told with what it waits for), an answer that was stored is asked for again, a copy is not
found, a process is left running, or the store or what it says was spent is not as it should be. Runs
in pieces, each with a `--seed` far from the others', add up.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.fanout_storm import Kill, Moment, fan_out, whole_run

MORE = 4
"""Kills of one session beyond the first, at most."""


async def storm(kills: int, seed: int, minutes: float, workers: int) -> list[tuple[int, Kill]]:
    """Sessions that were killed `kills` times in all, by their seeds."""
    began, chance = time.monotonic(), random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        length = await whole_run(Path(name))
    print(f"an undisturbed fan-out takes {length} requests", flush=True)
    done: list[tuple[int, Kill]] = []
    next_seed = seed

    async def work() -> None:
        nonlocal next_seed
        while sum(kill.kills for _, kill in done) < kills and time.monotonic() - began < minutes * 60:
            number, next_seed = next_seed, next_seed + 1
            moments = [Moment(chance.randint(0, length), chance.uniform(0, 0.2))]
            for _ in range(chance.randint(0, MORE)):
                moments.append(Moment(chance.randint(0, length // 3), chance.uniform(0, 0.2)))
            with tempfile.TemporaryDirectory() as name:
                kill = await fan_out(Path(name), number, moments)
            done.append((number, kill))
            for problem in kill.problems:
                print(f"seed {number}: {problem}", flush=True)

    await asyncio.gather(*(work() for _ in range(workers)))
    return done


def main() -> int:
    parser = argparse.ArgumentParser(description="See the top of this file.")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=8, help="no new session begins after that")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    began = time.monotonic()
    done = asyncio.run(storm(args.kills, args.seed, args.minutes, args.workers))
    kills = [kill for _, kill in done]
    print(f"{sum(kill.kills for kill in kills)} kills in {len(kills)} sessions", end=", ")
    print(f"{sum(kill.requests for kill in kills)} requests, in {time.monotonic() - began:.0f} s")
    print(f"agents cut off and gone on {sum(kill.cut_off for kill in kills)}", end=", ")
    print(f"copies found again {sum(kill.copies for kill in kills)}")
    bad = sum(bool(kill.problems) for kill in kills)
    print(f"sessions with anything that is not as it should be: {bad}")
    return 1 if bad or not kills else 0


if __name__ == "__main__":
    sys.exit(main())
