"""A year of 200 jobs in fast time: eight processes race on one store, are killed, the clock jumps by a day.

python benchmarks/schedule_year.py [--jobs 200] [--kills 50] [--processes 8] [--days 366] [--seed 1] …
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import fields
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.schedule_year import Plan, simulate


def main() -> int:
    parser = argparse.ArgumentParser(description="See the top of this file.")
    for each in fields(Plan):
        parser.add_argument(f"--{each.name}", type=int, default=each.default)
    plan = Plan(**vars(parser.parse_args()))
    with tempfile.TemporaryDirectory() as folder:
        found = simulate(Path(folder), plan)
    print(
        f"{plan.jobs} jobs, {plan.days} days, {plan.processes} processes, {found.kills} kills, "
        f"{plan.jumps} jumps, {found.steps} moments in {found.seconds:.0f} s"
    )
    print(
        f"{found.runs} due times: {found.done} done, {found.skipped} skipped by policy, "
        f"{found.interrupted} interrupted, {found.cuts} gone on with after a cut"
    )
    print(f"{len(found.wrong)} wrong")
    for each in found.wrong[:20]:
        print(each)
    return 1 if found.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
