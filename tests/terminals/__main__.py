"""Runs Hermes in terminals and multiplexers of PyPI, npm and Debian, and prints a table of what arrived:
`python -m tests.terminals [--only NAME,…] [--trials NAME,…] [--pictures DIR] [--write]`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from tests.support.command import ROOT
from tests.support.model_process import ServerProcess
from tests.terminals.adapters import HERE, Inside, Library, Wayland, Window, install, missing
from tests.terminals.trials import ORDER, SCRIPT, Trials

KINDS = {"library": Library, "inside": Inside, "window": Window, "wayland": Wayland}
BROKEN = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from app.tui.commands.actions import CommandActions
CommandActions.fold = lambda self, _argument: 1 / 0
from hermes_launcher import main
sys.exit(main())
"""
"""Hermes with a fault of ours in one command, to see a crash."""
PAGE = ROOT / "docs/terminals.md"
START, END = "<!-- terminals: begin -->", "<!-- terminals: end -->"


def main() -> int:
    rows: list[dict[str, Any]] = yaml.safe_load((HERE / "terminals.yaml").read_text("utf-8"))
    parser = argparse.ArgumentParser(prog="python -m tests.terminals", description=__doc__)
    parser.add_argument("--only", default="", help="; ".join(row["name"] for row in rows))
    parser.add_argument("--trials", default=",".join(ORDER))
    parser.add_argument("--pictures", type=Path, help="folder for pictures of windows")
    parser.add_argument("--results", type=Path, default=Path("build/terminals/results.json"))
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache/hermes-terminals")
    parser.add_argument(
        "--jobs", type=int, default=3, help="how many terminals at once; most of it is waiting"
    )
    parser.add_argument("--write", action="store_true", help="write the table into docs/terminals.md")
    args = parser.parse_args()
    chosen = [row for row in rows if not args.only or row["name"] in args.only.split(";")]
    install([*chosen, {"package": "@xterm/headless@6.0.0", "from": "npm"}], args.cache)
    results = json.loads(args.results.read_text("utf-8")) if args.results.exists() else {}

    def run(row: dict[str, Any]) -> None:
        why, outcome = missing(row), results.get(row["name"], {})
        new = {} if why else _run(row, args.trials.split(","), args.cache, args.pictures)
        results[row["name"]] = {"start": (False, why)} if why else {**outcome, **new}
        args.results.parent.mkdir(parents=True, exist_ok=True)
        args.results.write_text(json.dumps(results, ensure_ascii=False, indent=1), "utf-8")

    with ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(run, chosen))
    if args.write:
        before, _, rest = PAGE.read_text("utf-8").partition(START)
        table = _table(rows, results)
        PAGE.write_text(f"{before}{START}\n{table}\n{END}{rest.partition(END)[2]}", "utf-8")
    bad = sum(not good for row in chosen for good, _ in results[row["name"]].values())
    print(f"{len(chosen)} terminals, {bad} trials that did not go well")
    return 0


def _run(
    row: dict[str, Any], names: list[str], cache: Path, pictures: Path | None
) -> dict[str, tuple[bool, str]]:
    """Run the trials in one terminal; what each gave."""
    outcome = dict[str, tuple[bool, str]]()
    with tempfile.TemporaryDirectory(prefix="terminals-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "work").mkdir()
        (folder / "home").mkdir(mode=0o700)
        (folder / "screens").mkdir(mode=0o700)
        (folder / "broken.py").write_text(BROKEN, "utf-8")
        start = folder / "work/hermes"
        start.write_text(
            f'#!/bin/sh\necho $$ > {folder}/pid\nexec {sys.executable} -I {folder}/broken.py "$@"\n', "utf-8"
        )
        start.chmod(0o755)
        with ServerProcess(SCRIPT, folder) as server:
            environ = {key: os.environ[key] for key in ("PATH",)} | {
                "LANG": "C.UTF-8", "TERM": "xterm-256color", "HOME": str(folder),
                "HERMES_HOME": str(folder / "home"),
                "OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "test-key", "HERMES_MODEL": "scripted",
            }  # fmt: skip
            try:
                with KINDS[row["kind"]](row, environ, folder / "work", cache) as adapter:
                    trials = Trials(adapter, server)
                    for trial in names:
                        began = time.monotonic()
                        try:
                            outcome[trial] = getattr(trials, trial)()
                        except (OSError, ValueError, RuntimeError, TimeoutError) as error:
                            outcome[trial] = False, f"{type(error).__name__}: {error}"[:200]
                        good, words = outcome[trial]
                        print(f"{row['name']:24} {trial:9} {'✓' if good else '✗'} {words} "
                              f"({time.monotonic() - began:.0f} s)", flush=True)  # fmt: skip
                        if not good and (shown := adapter.rows()):
                            print("\n".join(f"    | {each}" for each in shown if each.strip())[:4000])
                        if pictures and isinstance(adapter, Window) and trial in ("texts", "suspend"):
                            pictures.mkdir(parents=True, exist_ok=True)
                            adapter.picture(
                                pictures / f"{''.join(filter(str.isalnum, row['name']))}-{trial}.png"
                            )
            except (OSError, RuntimeError) as error:
                outcome["start"] = False, f"the terminal did not start: {error}"
                print(f"{row['name']:24} {outcome['start'][1]}", flush=True)
            _end_programs(folder)
    return outcome


def _end_programs(folder: Path) -> None:
    """Kill what was started from a folder and outlived its terminal, such as the shell of a window."""
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.fsencode(folder) in (place / "cmdline").read_bytes():
                os.kill(int(place.name), signal.SIGKILL)


def _table(rows: list[dict[str, Any]], results: dict[str, dict[str, tuple[bool, str]]]) -> str:
    """Return the table as Markdown."""
    lines = [f"| Terminal | {' | '.join(ORDER)} |", "|---" * (len(ORDER) + 1) + "|"]
    for row in rows:
        got = results.get(row["name"], {})
        cells = [
            f"{'' if good else '✗ '}{words}".replace("|", "\\|")
            for good, words in (got.get(each, (True, "–")) for each in ORDER)
        ]
        lines.append(f"| {row['name']} ({row['from']}) | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
