"""Random trees of agents with random budgets, refusals, cut streams and kills: does every ceiling hold?

python benchmarks/subagent_runs.py [--runs 10000] [--seed 1] [--minutes 30]

Ends with status 1 if a ceiling was exceeded by one token, if tokens were given
out that no account paid, if the roll-up is more than 0.1 % off the server's own
count, if the store's record of requests says anything else, if an agent was
left running, one that failed reads as completed, or the queue was not kept in
order. Runs in pieces, each with a `--seed` far from the others', add up.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.agent_storm import Findings, storm

SESSION = 100
"""Runs of one session."""


def main() -> int:
    parser = argparse.ArgumentParser(description="See the top of this file.")
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=30, help="no new session begins after that")
    args = parser.parse_args()
    began = time.monotonic()
    total = Findings()
    session, bad = 0, 0
    while total.runs < args.runs and time.monotonic() - began < args.minutes * 60:
        count = min(SESSION, args.runs - total.runs)
        with tempfile.TemporaryDirectory() as name:
            found = asyncio.run(storm(Path(name), count, args.seed + session))
        bad += not found.is_good
        add(total, found)
        session += 1
    print(f"{total.runs} runs, {total.agents} agents, {total.requests} requests", end=" ")
    print(f"in {time.monotonic() - began:.0f} s ({session} sessions)")
    print(f"refused {total.refused}, cut {total.cut}, killed {total.killed}; {dict(total.outcomes)}")
    print(f"tokens above a ceiling {total.over_ceiling}, given out and not paid {total.unaccounted}")
    print(f"roll-up {total.counted:,} tokens, server's count {total.served:,}")
    print(f"tokens by which the store's record is off {total.misrecorded}")
    print(f"left running {total.left_running}, falsely completed {total.false_completed}", end=", ")
    print(f"out of order {total.out_of_order}")
    return 1 if bad else 0


def add(total: Findings, found: Findings) -> None:
    for name, value in vars(found).items():
        known = getattr(total, name)
        if isinstance(known, Counter):
            known.update(value)
        else:
            setattr(total, name, known + value)


if __name__ == "__main__":
    sys.exit(main())
