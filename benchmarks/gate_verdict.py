"""CPU time of the whole gate's verdict on shell commands, against one parse of the same text by tree-sitter.

Each command is judged by a gate without rules and by one with thirty rules, in a workspace on the disk.
No text is judged twice. Long texts have many shapes; `--size` says how long they are. Of several rounds the
quickest counts, as whatever else the machine does only adds to it.
Garbage is collected as in the application.

python benchmarks/gate_verdict.py [--rounds 5] [--size 10240] [--only WORD]
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from time import process_time

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from agent.core.home import Home
from agent.safety.gate import Gate
from agent.safety.permissions.policy import Permissions
from agent.safety.reader.tree import parse
from app.tui.startup.gc_scheduler import GcScheduler
from benchmarks.gate_shapes import shapes
from tools.services.actions import RunCommand

TYPICAL = (
    "git status --short",
    "rg -n 'def main' src | head -20",
    "cd web && npm run build 2>&1 | tail -5",
    'for f in src/*.py; do wc -l "$f"; done',
    "curl -fsSL https://example.org/install.sh | bash",
    "find . -name '*.pyc' -exec rm {} +",
    "git commit -m \"$(cat <<'END'\nSubject\n\nBody of the message.\nEND\n)\"",
    ".venv/bin/python -m pytest tests/agent -q -x",
    "sed -n 1,120p src/main.py",
    "ls -la && cat README.md",
    "sed -i 's/old/new/' src/*.py",
    "rm -rf build dist && python -m build",
)

RULES = """\
mode: normal
rules:
  terminal(git push *): ask
  terminal(git push --force *): deny
  terminal(git reset --hard *): ask
  terminal(npm publish *): deny
  terminal(npm run *): allow
  terminal(make *): allow
  terminal(docker *): ask
  terminal(kubectl *): ask
  terminal(terraform apply *): deny
  terminal(aws *): ask
  terminal(rm -r *): ask
  terminal(curl *): ask
  terminal(ssh *): ask
  terminal(sudo *): deny
  terminal(./deploy.sh): deny
  terminal(pytest *): allow
  read_file(**/.env): ask
  read_file(**/*.pem): deny
  read_file(~/notes/**): ask
  read_file(/etc/**): ask
  write_file(src/**): allow
  write_file(tests/**): allow
  write_file(migrations/**): ask
  write_file(**/package-lock.json): ask
  write_file(vendor/**): deny
  delete_file(docs/**): ask
  fetch(https://example.org/**): ask
  fetch(*.internal.example): deny
  browser.*: ask
  mcp(github/delete_*): deny
"""


def seconds(work: Callable[[], object], times: int) -> float:
    """The least CPU time of one run."""
    spent: list[float] = []
    for _ in range(times):
        start = process_time()
        work()
        spent.append(process_time() - start)
    return min(spent)


def _gates(folder: Path) -> tuple[Gate, Gate, Path]:
    """A gate without rules, one with thirty, and the workspace both look after."""
    workspace, own = folder / "home" / "project", folder / "home" / ".hermes"
    for each in (workspace / "src", workspace / "out", workspace / "web", own):
        each.mkdir(parents=True)
    (own / "permissions.yaml").write_text(RULES)
    old = time.time() - 3_600
    os.utime(own / "permissions.yaml", (old, old))
    home = Home(own)
    plain = Gate.for_home(home, workspace)
    ruled = Gate.for_home(home, workspace, permissions=Permissions(home, workspace))
    if ruled.policy.problems:
        raise SystemExit(f"the rules are not sound: {ruled.policy.problems}")
    return plain, ruled, workspace


_numbers = count()


def _verdict(gate: Gate, command: str, cwd: Path, times: int) -> float:
    """The least CPU time of one verdict. A comment makes each text one that was not read before."""
    texts = iter([f"# {next(_numbers)}\n{command}" for _ in range(times)])
    return seconds(
        lambda: gate.decide(RunCommand(tool="terminal", command=next(texts), cwd=cwd)),
        times,
    )


def _parsed(command: str) -> None:
    """One parse, which ends early when hardly anything is shell."""
    parse(command)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, default=10_240, help="characters of the long texts")
    parser.add_argument("--only", default="", help="a part of the names of the shapes that are measured")
    options = parser.parse_args()
    rounds: int = options.rounds
    GcScheduler().start()
    with tempfile.TemporaryDirectory() as folder:
        plain, ruled, workspace = _gates(Path(folder).resolve())
        time.sleep(2.5)  # the change time of the rules has to lie back
        ruled.policy  # noqa: B018 - read once
        print(f"{'':22}{'no rules':>12}{'30 rules':>12}{'parse':>12}{'ratio':>8}")

        def line(name: str, commands: tuple[str, ...], times: int) -> None:
            measured = [
                (
                    _verdict(plain, command, workspace, times),
                    _verdict(ruled, command, workspace, times),
                    seconds(lambda command=command: _parsed(command), times),
                )
                for command in commands
            ]
            a, b, c = (statistics.median(each) * 1e3 for each in zip(*measured, strict=True))
            print(f"{name:22}{a:9.3f} ms{b:9.3f} ms{c:9.3f} ms{b / c:8.1f}", flush=True)

        line("typical, median of 12", TYPICAL, 20 * rounds)
        for name, command in shapes(options.size).items():
            if options.only in name:
                line(name, (command,), rounds)


if __name__ == "__main__":
    main()
