"""Changes of model and wire format in mid-loop, against strict servers of the three formats.

Twenty conversations with fifty changes each, drawn from seeds: models, thinking, images, stopped answers,
compactions, processes that take a session up anew. Counted are the requests that a server refuses, breaks of
a prefix that nobody declared, and how many of the prefixes that could be read from a cache a mark covers.

    python benchmarks/format_switches.py [CONVERSATIONS] [CHANGES]
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.switching import Walk


async def main(conversations: int, changes: int) -> None:
    """Walk through all of them and print the figures."""
    requests = switches = refused = undeclared = prefixes = hits = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(conversations):
            place = Path(folder) / str(seed)
            place.mkdir()
            walk = Walk(place, seed)
            await walk.run(changes)
            requests += walk.requests
            switches += walk.switches
            refused += len(walk.refusals)
            undeclared += len(walk.undeclared())
            prefixes += walk.messages.prefixes
            hits += walk.messages.hits
    print(f"changes of model or format: {switches:,} in {requests:,} requests")
    print(f"refused: {refused}, undeclared breaks of a prefix: {undeclared}")
    print(f"prefixes covered by a cache mark: {hits:,} of {prefixes:,} ({hits / prefixes:.1%})")


if __name__ == "__main__":
    given = [int(each) for each in sys.argv[1:]]
    asyncio.run(main(*(given or [20]), *([50] if len(given) < 2 else [])))
