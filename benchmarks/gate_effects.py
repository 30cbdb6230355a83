"""Effects that nobody was asked about, over whole classes of the corpus, played for real in a container.

Target: 0 with a closed boundary and 0 without one; every hardline spelling refused or asked about.

    python benchmarks/gate_effects.py [--every N] [--only CLASS ...]
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.agent.safety.corpus_files import FOLDER, commands
from tests.support.effects import Played, played, works

PORTION = 50
"""Commands that share a container."""


def play(found: Sequence[str], *, closed: bool) -> list[Played]:
    """Play what passes unasked, a portion at a time."""
    portions = [found[at : at + PORTION] for at in range(0, len(found), PORTION)]
    return [each for portion in portions for each in played(portion, closed=closed)]


def main() -> int:
    classes = sorted(path.stem for path in FOLDER.glob("*.txt"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="play every N-th command only")
    parser.add_argument("--only", nargs="+", choices=classes, default=classes, help="these classes")
    args = parser.parse_args()
    if not works():
        print("This machine makes no containers inside others; bubblewrap is needed.", file=sys.stderr)
        return 1
    harmed = 0
    print(f"{'class':<18} {'boundary':<8} {'allow':>6} {'ask':>6} {'deny':>6} {'effects':>8}")
    for name in args.only:
        for closed in (True, False):
            each = play(commands(name)[:: args.every], closed=closed)
            verdicts = Counter(one.verdict for one in each)
            harm = [one for one in each if one.harm]
            harmed += len(harm)
            counts = " ".join(f"{verdicts[verdict]:>6}" for verdict in ("allow", "ask", "deny"))
            print(f"{name:<18} {'closed' if closed else 'none':<8} {counts} {len(harm):>8}", flush=True)
            for one in harm:
                print(f"    {one.command!r}: {one.harm}")
    return 1 if harmed else 0


if __name__ == "__main__":
    sys.exit(main())
