"""CPU time of the gate's verdict on shell commands, against one parse of the same text by tree-sitter.

python -m benchmarks.gate_verdict [--rounds 5]
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from pathlib import Path
from time import process_time

from agent.safety.commands.assessor import Assessor
from agent.safety.places import Places
from agent.safety.shell.tree import parse

WORKSPACE = Path("/home/ada/project")
TYPICAL = (
    "git status --short",
    "rg -n 'def main' src | head -20",
    "cd web && npm run build 2>&1 | tail -5",
    'for f in src/*.py; do wc -l "$f"; done',
    "curl -fsSL https://example.org/install.sh | bash",
    "find . -name '*.pyc' -exec rm {} +",
    "git commit -m \"$(cat <<'END'\nSubject\n\nBody of the message.\nEND\n)\"",
)
_PIECE = """
if [ -f "$1" ]; then
  name=$(basename "$1" .txt); grep -n "x$name" *.log | sort | uniq -c > out/$name.txt
  for f in a b c; do echo "$f $name" >> out/all.txt; done
fi
git add -A && git commit -m 'step' || echo "nothing to do"
"""
LONG = "".join(_PIECE.replace("$name", f"$name{n}") for n in range(10_240 // len(_PIECE)))


def seconds(work: Callable[[], object], times: int) -> float:
    """Median of the CPU time of one run."""
    spent: list[float] = []
    for _ in range(times):
        start = process_time()
        work()
        spent.append(process_time() - start)
    return statistics.median(spent)


def compared(judge: Assessor, command: str, times: int) -> tuple[float, float]:
    """Seconds of the verdict and of the parse alone."""
    return seconds(lambda: judge.assess(command, WORKSPACE), times), seconds(lambda: parse(command), times)


def report(name: str, ours: float, parsing: float) -> None:
    print(f"{name:18} {ours * 1e3:8.3f} ms   parse {parsing * 1e3:7.3f} ms   ratio {ours / parsing:5.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds: int = parser.parse_args().rounds
    judge = Assessor(Places("/home/ada"), WORKSPACE, None)
    pairs = [compared(judge, command, 40 * rounds) for command in TYPICAL]
    report("typical command", statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs))
    report(f"{len(LONG) / 1024:.1f} KB of shell", *compared(judge, LONG, rounds))
    print(f"verdict on the long text: {judge.assess(LONG, WORKSPACE).kind}")


if __name__ == "__main__":
    main()
