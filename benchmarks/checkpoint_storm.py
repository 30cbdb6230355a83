"""`kill -9` at random moments of adding to and clearing the checkpoints: does what is left verify?

python benchmarks/checkpoint_storm.py [--kills 200] [--seed 1]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.checkpoint_storm import delays, kill_once


def main() -> int:
    parser = argparse.ArgumentParser(description="See the top of this file.")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        moments = enumerate(delays(args.kills, args.seed))
        kills = [kill_once(Path(name) / "checkpoints", args.seed + seed, delay) for seed, delay in moments]
    bad = [problem for kill in kills for problem in kill.problems]
    print(f"{len(kills)} kills in {time.monotonic() - began:.0f} s, {kills[-1].last if kills else 0} steps")
    print(f"stores that verified, with every acknowledged step: {sum(not k.problems for k in kills)}")
    for problem in bad[:10]:
        print(problem)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
