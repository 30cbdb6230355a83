"""Starts real MCP servers cold in the default sandbox, lists and calls them, and starts them again:
`python -m tests.mcp_servers [NAME …] [--cache DIR] [--write]`. Each row says that it works, or why not.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

from tools.text.words import plural

TABLE = Path(__file__).parent / "servers.yaml"
DOCS = Path(__file__).parents[2] / "docs/mcp.md"
START, END = "<!-- servers: begin -->", "<!-- servers: end -->"
KINDS = {"npm": "npm", "pypi": "PyPI"}
LONGEST = 300
"""Seconds of one command: the first may install a server of a thousand packages."""


MENDS = {
    "writable": re.compile(r"`hermes mcp add --writable (\S+)`"),
    "connect_timeout": re.compile(r"`connect_timeout: (\d+)`"),
    "pin": re.compile(r"`--with '(\S+<\d+)'`"),
}
"""What the sentence of a failed start says would help."""


def main() -> int:
    table = yaml.safe_load(TABLE.read_text("utf-8"))
    every = {
        name: {**entry, "kind": kind} for kind, entries in table.items() for name, entry in entries.items()
    }
    parser = argparse.ArgumentParser(prog="python -m tests.mcp_servers", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(every))
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache/hermes-mcp-servers")
    parser.add_argument("--write", action="store_true", help="write the rows into docs/mcp.md")
    args = parser.parse_args()
    rows: dict[str, str] = {}
    for name in args.names or every:
        entry = every[name]
        args.cache.mkdir(parents=True, exist_ok=True)
        # Not below /tmp, of which each server has its own.
        with tempfile.TemporaryDirectory(prefix="mcp-servers-", dir=args.cache) as folder:
            try:
                version, command = _command(name, entry, args.cache)
                works, words = _try(name, entry, command, Path(folder))
            except subprocess.CalledProcessError as error:
                version, works = "", False
                words = f"could not be had: {error.stderr.strip().splitlines()[-1][:160]}"
        outcome = "works" if works else "fails"
        print(f"{name:20} {version:12} {outcome}  {words}", flush=True)
        words = words.replace("|", "\\|")
        rows[entry["package"]] = (
            f"| `{entry['package']}` | {KINDS[entry['kind']]} | {version} | {outcome} | {words} |"
        )
    print(f"{sum('| works |' in row for row in rows.values())} of {len(rows)} work")
    if args.write:
        before, _, rest = DOCS.read_text("utf-8").partition(START)
        known, _, after = rest.partition(END)
        rows = {row.split("`")[1]: row for row in known.splitlines() if "`" in row} | rows
        packages = [entry["package"] for entry in every.values()]
        head = "| Package | From | Version | Outcome | What was seen |\n|---|---|---|---|---|"
        table = "\n".join(rows[each] for each in packages if each in rows)
        DOCS.write_text(f"{before}{START}\n{head}\n{table}\n{END}{after}", "utf-8")
    return 0


def _command(name: str, entry: dict[str, Any], cache: Path) -> tuple[str, list[str]]:
    """Return the newest version of a server, and its command; what comes from PyPI is installed first.

    Raises `CalledProcessError`.
    """
    more = [str(each) for each in entry.get("args", ())]
    options: dict[str, Any] = {"check": True, "capture_output": True, "text": True}
    package = entry["package"]
    if entry["kind"] == "npm":
        version = subprocess.run(["npm", "view", package, "version"], **options).stdout.strip()
        return version, ["npx", "-y", f"{package}@{version}", *more]
    place = cache / name
    if not (place / "bin/pip").exists():
        subprocess.run([sys.executable, "-m", "venv", place], **options)
    subprocess.run([place / "bin/pip", "install", "-qU", package], **options)
    ask = f"import importlib.metadata as m; print(m.version({package!r}))"
    version = subprocess.run([place / "bin/python", "-c", ask], **options).stdout.strip()
    return version, [str(place / "bin" / entry.get("program", package)), *more]


def _try(name: str, entry: dict[str, Any], command: list[str], folder: Path) -> tuple[bool, str]:
    """Add, list, call and start a server again, after a refusal with what its sentence says helps; return
    whether all went well, and what was seen.
    """
    work, person, home = folder / "work", folder / "person", folder / "home"
    work.mkdir()
    person.mkdir()
    subprocess.run(["git", "init", "-q", work], check=True)
    environ = {**os.environ, "HOME": str(person), "HERMES_HOME": str(home)}
    before = _tree(work) | _tree(person)

    def hermes(*words: str) -> tuple[int, str]:
        argv = [str(Path(sys.executable).parent / "hermes"), *words]
        options: dict[str, Any] = {"cwd": work, "env": environ, "capture_output": True, "text": True}
        try:
            done = subprocess.run(argv, timeout=LONGEST, **options)
        except subprocess.TimeoutExpired:
            return 1, f"no answer within {LONGEST} s"
        said = done.stdout if done.returncode == 0 else done.stderr or done.stdout
        return done.returncode, said.strip()

    def short(said: str) -> str:
        for place, shown in ((work, "."), (person, "~"), (home, "~/.hermes"), (folder.parent, "…")):
            said = said.replace(str(place), shown)
        return " ".join(said.replace("./", "").split())

    began, done = time.monotonic(), dict[str, str]()
    code, said = hermes("mcp", "add", name, "--json", "--", *command)
    while code and (found := {kind: each[1] for kind, mend in MENDS.items() if (each := mend.search(said))}):
        kind, value = found.popitem()
        if done.get(kind) == value:
            break
        done[kind] = value
        if kind == "pin":
            subprocess.run([Path(command[0]).parent / "pip", "install", "-q", value], check=True)
        else:
            hermes("config", "set", f"mcp_servers.{name}.{kind}", value)
        if kind == "writable":
            Path(value).mkdir(exist_ok=True)
        code, said = hermes("mcp", "probe", name, "--json")
    needed = [short(f"`{value}`" if kind == "pin" else f"`{kind}: {value}`") for kind, value in done.items()]
    cold = time.monotonic() - began
    if code:
        why = re.sub(r".*The MCP server \S+ cannot do this: ", "", short(said.splitlines()[-1]))
        seen = [*(f"needs {each}" for each in needed), why[:300]]
    else:
        tools = json.loads(said)["tools"]
        seen = [plural(len(tools), "tool"), f"first start {cold:.0f} s"]
        seen += [f"needs {each}" for each in needed]
        if call := entry.get("call"):
            failed, said = hermes("mcp", "call", name, call, "--args", json.dumps(entry.get("with", {})))
            seen.append(f"{call}: {short(said)[:60]}" if failed else "called")
        code, said = hermes("mcp", "probe", name, "--json")
        seen.append(f"a second start failed: {short(said)[:200]}" if code else "")
    new = sorted((_tree(work) | _tree(person)) - before)
    if given := done.get("writable"):
        new = [each for each in new if not each.startswith(given)]
    seen.append(f"left behind: {short(', '.join(new[:3]))}" if new else "")
    return not code, "; ".join(filter(None, seen))


def _tree(place: Path) -> set[str]:
    """Return what lies in a folder, with itself: paths with the sizes of files."""
    found = [place, *place.rglob("*")]
    return {f"{each} {'' if each.is_dir() else each.lstat().st_size}".rstrip() for each in found}


if __name__ == "__main__":
    sys.exit(main())
