"""Memory of an idle session of `hermes serve`: (PSS with ten open sessions − with one) / 9.

    python benchmarks/service_memory.py [--json]

Target: under 5 MB. Each session has had one turn. PSS is what the system counts for the process.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.support.model_process import ServerProcess
from tests.support.service import Service

SESSIONS = 10
TARGET = 5.0
"""MB."""


def pss(pid: int) -> float:
    """Memory of a process in MB."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1_000
    raise RuntimeError("the system does not tell the memory of a process")


def measured() -> tuple[float, float]:
    """MB with one session and with ten."""
    with tempfile.TemporaryDirectory(prefix="hermes-bench-") as name:
        folder = Path(name)
        script = 'script = lambda request: say("Done. " * 50)'
        with ServerProcess(script, folder) as model, Service(folder / "home", model.base_url) as service:
            head = service.device("approve")
            found: list[float] = []
            for number in range(SESSIONS):
                work = folder / f"work{number}"
                work.mkdir()
                session = head.session(work)
                head.say(session, "Begin.")
                head.until(session, "turn_ended")
                if number in (0, SESSIONS - 1):
                    time.sleep(3)
                    found.append(pss(service.pid))
    return found[0], found[1]


def main() -> int:
    """Print the figure; 1 if it misses its target."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    one, ten = measured()
    each = (ten - one) / (SESSIONS - 1)
    if args.json:
        print(json.dumps({"one": one, "ten": ten, "each": each, "target": TARGET}))
    else:
        print(f"one session {one:.1f} MB, ten {ten:.1f} MB: {each:.2f} MB each (target {TARGET:.0f} MB)")
    return int(each > TARGET)


if __name__ == "__main__":
    sys.exit(main())
