"""Watch agents work, and be the person they work for: the real program on a scripted model.

    python benchmarks/agents_demonstration.py [--keep FOLDER]

Three agents are sent into copies of a small git repository, once you let them (`1`). `alt+2` leads to the
pane of agents. One fails; one waits to be told better (⏎ on its row, then write `Use Decimal, not float.`);
one goes on writing until it is stopped (`k` on its row, then `1`). When the session's own agent has
answered, `M` in the pane shows their copies one after the other: `a` merges what is chosen, and `alt+u`
undoes all of it. Nothing outside a folder of its own is touched.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support import command
from tests.support.demonstration import TASK, make_repository
from tests.support.model_process import ServerProcess

SCRIPT = f"""
import sys
sys.path.insert(0, {str(command.ROOT)!r})
from tests.support.demonstration import script as told
script = told("sleep 45; python3 -B -m unittest discover -s tests -t . 2>&1 | tail -n 3", 0.03, 1.5)
"""


def play(folder: Path) -> int:
    """Run the program on this terminal until the person leaves it; its exit code."""
    shop = folder / "shop"
    shop.mkdir(parents=True)
    make_repository(shop)
    with ServerProcess(SCRIPT, folder) as server:
        env = command.environment(folder / "home", server.base_url)
        env |= {name: os.environ[name] for name in ("TERM", "COLORTERM") if name in os.environ}
        return subprocess.call([*command.HERMES, "--approve", "all"], env=env, cwd=shop)


def main() -> int:
    parser = argparse.ArgumentParser(description="See the top of this file.")
    parser.add_argument("--keep", type=Path, help="a folder that is left behind, to look at afterwards")
    args = parser.parse_args()
    print(f"Write to the agent:  {TASK}\nThe rest is told in {Path(__file__).name}. ⏎ begins.")
    input()
    if args.keep is not None:
        return play(args.keep.resolve())
    with tempfile.TemporaryDirectory() as name:
        return play(Path(name).resolve())


if __name__ == "__main__":
    sys.exit(main())
