"""Measures Hermes beside other agents and prints the table.

    make bench-peers ARGS="--only start,task --peers codex,pi"

A program that cannot be had or does not do its part costs its own figures only; the reason stands below
the table.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.peers.catalogue import OURS, ROOT, Missing, Peer, Shelf, choose, read_peers
from benchmarks.peers.figures import Results, Value, reasons, table
from benchmarks.peers.measures import MEASURES, Log, Work
from benchmarks.peers.measures import choose as choose_measures
from benchmarks.peers.screen import Screen

PAGE = ROOT / "docs" / "developing" / "benchmarks.md"
BEGIN, END = "<!-- bench-peers: begin -->", "<!-- bench-peers: end -->"


@dataclass(slots=True)
class Comparison:
    """All measurements of one run."""

    shelf: Shelf
    log: Log
    ours: Peer
    results: Results
    patience: float = 1.0

    def run(self, name: str, peers: Sequence[Peer], rounds: int | None) -> None:
        """One measurement of every program, by turns; who goes first changes with each round."""
        measure = MEASURES[name]
        for number in range(rounds or measure.rounds):
            if not measure.paired:
                for peer in (self.ours, *peers):
                    self.results.add(peer.name, self.once(name, peer))
                continue
            for peer in peers:
                pair = (self.ours, peer) if number % 2 == 0 else (peer, self.ours)
                figures = {each.name: self.once(name, each) for each in pair}
                for each, values in figures.items():
                    self.results.add(each, values)
                self.results.pair(peer.name, figures[OURS], figures[peer.name])

    def once(self, name: str, peer: Peer) -> dict[str, Value]:
        """The figures of one measurement; none after it has failed, so that no round waits for it again."""
        if name in self.results.missing.get(peer.name, {}):
            return {}
        if reason := peer.lacks.get(name):
            self.results.fail(peer.name, name, reason)
            return {}
        figures: dict[str, Value] = {}
        began = time.monotonic()
        signal.alarm(int(MEASURES[name].limit * self.patience))
        try:
            with self.shelf.home(peer) as home:
                for more in MEASURES[name].run(Work(home, self.log)):
                    figures |= more
        except Exception as error:  # whatever a program does, the others are still measured
            self.results.fail(peer.name, name, str(error) or type(error).__name__)
        finally:
            signal.alarm(0)
        shown = ", ".join(
            f"{key} {value if isinstance(value, str) else f'{value:.3g}'}" for key, value in figures.items()
        )
        failed = self.results.missing.get(peer.name, {}).get(name, "")
        print(
            f"{name:7} {peer.name:12} {time.monotonic() - began:5.1f} s  {shown} {failed}",
            file=sys.stderr,
            flush=True,
        )
        return figures


def install(shelf: Shelf, peers: Sequence[Peer], results: Results) -> list[Peer]:
    """The programs that are there now; the reasons of the others are noted."""
    ready: list[Peer] = []
    for peer in peers:
        try:
            shelf.install(peer)
            ready.append(peer)
        except Missing as missing:
            results.fail(peer.name, "all", str(missing))
    return ready


def describe(peers: Sequence[Peer]) -> dict[str, Any]:
    """Machine, load and versions."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if "model name" in line
    ]
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": models[0] if models else platform.machine(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": {OURS: commit.stdout.strip()} | {peer.name: peer.version for peer in peers},
        "load_before": round(os.getloadavg()[0], 2),
    }


def report(results: Results, machine: Mapping[str, Any], names: Sequence[str], peers: Sequence[Peer]) -> str:
    """The table with machine, load and what could not be measured, as it stands in the docs."""
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    lines = [
        f"{machine['cores']} cores ({machine['processor']}), {machine['system']}, {machine['when'][:10]}; "
        f"load {machine['load_before']} before and {machine['load_after']} after. {versions}.",
        "",
        *table(results, names),
    ]
    if gaps := reasons(results):
        lines += ["", "Not measured:", "", *gaps]
    if notes := [f"- **{peer.name}**: {peer.note}." for peer in peers if peer.note]:
        lines += ["", *notes]
    return "\n".join(lines)


def write_docs(text: str, page: Path = PAGE) -> None:
    """Puts the report between its two marks. Raises `ValueError` if the page lacks them."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page.name} lacks the line {BEGIN} or {END}; add both where the table belongs")
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


def read_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parser = argparse.ArgumentParser(prog="make bench-peers ARGS=…", description="See the top of this file.")
    parser.add_argument(
        "--only", default="", help=f"measurements, with commas between: {', '.join(MEASURES)}"
    )
    parser.add_argument(
        "--peers", default="", help="programs, with commas between (default: all of peers.yaml)"
    )
    parser.add_argument("--rounds", type=int, help="rounds of each measurement instead of its own number")
    parser.add_argument(
        "--folder", type=Path, default=cache / "hermes" / "bench-peers", help="where programs are kept"
    )
    parser.add_argument(
        "--json", type=Path, help="where the figures go (default: figures.json in that folder)"
    )
    parser.add_argument(
        "--write-docs", action="store_true", help=f"put the table into {PAGE.relative_to(ROOT)}"
    )
    parser.add_argument(
        "--patience", type=float, default=1.0, help="factor of all limits, for a busy machine"
    )
    args = parser.parse_args(arguments)
    try:
        args.only = choose_measures(args.only)
        args.peers = choose(args.peers, read_peers())
    except ValueError as error:
        parser.error(str(error))
    return args


def too_late(*_: object) -> None:
    raise TimeoutError("took longer than its limit")


def main() -> None:
    args = read_arguments()
    args.folder.mkdir(parents=True, exist_ok=True)
    folder = args.folder.resolve()
    signal.signal(signal.SIGALRM, too_late)
    Screen.patience = args.patience
    results = Results()
    peers = install(Shelf(folder), args.peers, results)
    machine = describe(peers)
    log = folder / f"log-{os.getpid()}"
    log.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "benchmarks.peers.server", str(log)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        shelf = Shelf(folder, int(server.stdout.readline()))
        comparison = Comparison(shelf, Log(log), read_peers()[0], results, args.patience)
        for name in args.only:
            comparison.run(name, peers, args.rounds)
        server.terminate()
    shutil.rmtree(log)
    machine["load_after"] = round(os.getloadavg()[0], 2)
    names = [OURS, *(peer.name for peer in peers)]
    (args.json or folder / "figures.json").write_text(json.dumps(results.as_json(machine, names), indent=1))
    text = report(results, machine, names, peers)
    print(text)
    if args.write_docs:
        write_docs(text)


if __name__ == "__main__":
    main()
