"""Learnings against traps: how often a model that always tries the naive call first runs into each for real.

Each world of `tests/support/learning_worlds.py` has a trap: a real command, or a call of a tool, that fails.
A scripted model makes it first in every play, written in ever other ways, and mends it when told. All plays
of a world share one home and nothing else; the folder is made anew each time. Then the same homes see calls
much like the traps that work, which should all run.

    python benchmarks/learnings.py [--plays 10] [--clean 500] [--worlds 22]
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.engines import bench
from tests.support.learning_worlds import WORLDS, World, clean_calls, play
from tests.support.replies import say

QUIET = "sandbox:\n  mode: 'off'\ncheckpoints:\n  enabled: false\n"
"""What is measured is what is learned, not where commands run."""
MOST_FALLS = 2
MOST_HELD = 0.01


@dataclass(frozen=True, slots=True)
class WorldFigures:
    """Of one world."""

    name: str
    falls: int
    """Plays in which the trap was run into for real."""
    unsolved: int
    clean: int
    """Calls that work, made after all plays."""
    held: int
    """How many of them were held back."""


async def measured(world: World, plays: int, clean: int, folder: Path) -> WorldFigures:
    """All plays of a world, then calls that work there."""
    folder = await asyncio.to_thread(folder.resolve)
    async with bench(folder, say("")) as b:
        b.config(QUIET)
        played = [await play(b, world, folder / "world", number) for number in range(plays)]
        made, held = await clean_calls(b, world, folder / "world", clean)
    falls, unsolved = sum(each.fell for each in played), sum(not each.solved for each in played)
    return WorldFigures(world.name, falls, unsolved, made, held)


async def run(plays: int, clean: int, worlds: int) -> list[WorldFigures]:
    """The figures of so many worlds; `clean` calls are shared out among them."""
    chosen = WORLDS[:worlds]
    each = -(-clean // len(chosen))
    found: list[WorldFigures] = []
    for world in chosen:
        with tempfile.TemporaryDirectory() as folder:
            found.append(await measured(world, plays, each, Path(folder)))
            print(f"  {world.name}: {found[-1].falls} of {plays} plays fell", flush=True)
    return found


def main() -> None:
    """Print the figures; the exit code says whether they meet the aim."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--plays", type=int, default=10)
    parser.add_argument("--clean", type=int, default=500, help="calls that work, over all worlds")
    parser.add_argument("--worlds", type=int, default=len(WORLDS))
    args = parser.parse_args()
    found = asyncio.run(run(args.plays, args.clean, args.worlds))
    worst, falls = max(each.falls for each in found), sum(each.falls for each in found)
    clean, held = sum(each.clean for each in found), sum(each.held for each in found)
    unsolved = sum(each.unsolved for each in found)
    print(
        f"{len(found)} worlds, {args.plays} plays each: {falls} real runs into a trap, at most {worst} in one"
    )
    print(f"not mended: {unsolved} of {len(found) * args.plays} plays")
    print(f"held back: {held} of {clean} clean calls ({held / clean:.1%})")
    sys.exit(worst > MOST_FALLS or held / clean > MOST_HELD or unsolved > 0)


if __name__ == "__main__":
    main()
