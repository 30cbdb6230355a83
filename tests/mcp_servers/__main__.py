"""Starts real MCP servers cold in the default sandbox, lists and calls them, and starts them again:
`python -m tests.mcp_servers [NAME …] [--cache DIR]`. Each row says that it works, or why not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from tools.text.words import plural

TABLE = Path(__file__).parent / "servers.yaml"
LONGEST = 240
"""Seconds of one command: the first may install a server of a thousand packages."""


def main() -> int:
    table = yaml.safe_load(TABLE.read_text("utf-8"))
    every = {
        name: {**entry, "kind": kind} for kind, entries in table.items() for name, entry in entries.items()
    }
    parser = argparse.ArgumentParser(prog="python -m tests.mcp_servers", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(every))
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache/hermes-mcp-servers")
    args = parser.parse_args()
    good = 0
    chosen = args.names or list(every)
    for name in chosen:
        args.cache.mkdir(parents=True, exist_ok=True)
        # Not below /tmp, of which each server has its own.
        with tempfile.TemporaryDirectory(prefix="mcp-servers-", dir=args.cache) as folder:
            try:
                command = _command(name, every[name], args.cache)
            except subprocess.CalledProcessError as error:
                print(
                    f"{name:20} could not be had: {error.stderr.strip().splitlines()[-1][:160]}", flush=True
                )
                continue
            works, words = _try(name, every[name], command, Path(folder))
            good += works
            print(f"{name:20} {'works' if works else 'fails'}  {words}", flush=True)
    print(f"{good} of {len(chosen)} work")
    return 0


def _command(name: str, entry: dict[str, Any], cache: Path) -> list[str]:
    """Return the command that starts a server; what comes from PyPI is installed first."""
    more = [str(each) for each in entry.get("args", ())]
    if entry["kind"] == "npm":
        return ["npx", "-y", entry["package"], *more]
    place = cache / name
    if not (place / "bin/pip").exists():
        subprocess.run([sys.executable, "-m", "venv", place], check=True, capture_output=True, text=True)
    install = [place / "bin/pip", "install", "-q", entry["package"]]
    subprocess.run(install, check=True, capture_output=True, text=True)
    return [str(place / "bin" / entry.get("program", entry["package"])), *more]


def _try(name: str, entry: dict[str, Any], command: list[str], folder: Path) -> tuple[bool, str]:
    """Add, list, call and start a server again; return whether all went well, and what was seen."""
    work, person = folder / "work", folder / "person"
    work.mkdir()
    person.mkdir()
    subprocess.run(["git", "init", "-q", work], check=True)
    environ = {**os.environ, "HOME": str(person), "HERMES_HOME": str(folder / "home")}
    before = {place: _tree(place) for place in (work, person)}

    def hermes(*words: str) -> tuple[int, str]:
        argv = [str(Path(sys.executable).parent / "hermes"), "mcp", *words]
        try:
            done = subprocess.run(
                argv,
                cwd=work,
                env=environ,
                capture_output=True,
                text=True,
                timeout=LONGEST,
            )
        except subprocess.TimeoutExpired:
            return 1, f"no answer within {LONGEST} s"
        return done.returncode, (done.stdout if done.returncode == 0 else done.stderr or done.stdout).strip()

    began = time.monotonic()
    code, said = hermes("add", name, "--json", "--", *command)
    cold = time.monotonic() - began

    def leftovers() -> list[str]:
        new = [each for place, known in before.items() for each in sorted(_tree(place) - known)]
        return [f"left behind: {', '.join(new[:3])}"] if new else []

    if code:
        return False, "; ".join([said.splitlines()[-1][:400], *leftovers()])
    tools = json.loads(said)["tools"]
    words = [plural(len(tools), "tool"), f"cold {cold:.0f} s"]
    if call := entry.get("call"):
        code, said = hermes("call", name, call, "--args", json.dumps(entry.get("with", {})))
        words.append(f"{call}: {' '.join(said.split())[:60]}")
    again, why = hermes("probe", name, "--json")
    if again:
        return False, f"a second start failed: {why[:200]}"
    return True, "; ".join([*words, *leftovers()])


def _tree(place: Path) -> set[str]:
    """Return what lies in a folder: paths with the sizes of files."""
    return {
        f"{each.relative_to(place.parent)} {'' if each.is_dir() else each.lstat().st_size}".rstrip()
        for each in place.rglob("*")
    }


if __name__ == "__main__":
    sys.exit(main())
