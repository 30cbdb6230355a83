"""Running the suite: dialogues with two clients, then generated exchanges, held against the schema.

`python -m tests.acp_suite` tries Hermes, with a model of its own. `--agent COMMAND` tries any other agent,
with generated exchanges and those dialogues that need no certain model.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.acp_suite import generated, play_python
from tests.acp_suite.scripts import SCRIPTS, script
from tests.acp_suite.wire_check import OFFICIAL, WireCheck
from tests.conformance import packages
from tests.support.command import HERMES, environment
from tests.support.model_server import ModelServer

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build" / "acp"
SDK = ("@agentclientprotocol/sdk@2.4.0", "zod@4")
SERVER = HERE.parent / "support" / "plain_server.py"
WITHOUT_MODEL = ("error", "list", "folder that is none", "nothing runs")
"""Words of names of dialogues that any agent can be tried with."""
SETTINGS = "sandbox:\n  mode: 'off'\nagent:\n  max_turns: 20\n"


def main(given: Sequence[str]) -> int:
    """Run what is asked for; 0 if all of it holds."""
    args = _arguments().parse_args(given)
    check = WireCheck(args.schema)
    with tempfile.TemporaryDirectory(prefix="acp-suite-") as folder:
        wrong = asyncio.run(_run(args, check, Path(folder)))
    print(f"{check.lines} lines of the agent were held against the schema; {len(check.wrong)} do not hold.")
    print("  " + ", ".join(f"{name} {count}" for name, count in check.kinds.most_common()))
    for each in [*wrong, *check.wrong[:20]]:
        print(f"  wrong: {each}")
    return 1 if wrong or check.wrong else 0


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.acp_suite", description=__doc__)
    parser.add_argument("--agent", metavar="COMMAND", default="", help="the agent to try, instead of Hermes")
    parser.add_argument("--exchanges", type=int, default=10_000, metavar="N", help="generated exchanges")
    parser.add_argument("--seed", type=int, default=1, help="decides which")
    parser.add_argument("--clients", default="python,node", help="which clients play dialogues; empty: none")
    parser.add_argument("--only", default="", metavar="WORDS", help="dialogues whose names hold these words")
    parser.add_argument("--schema", type=Path, default=OFFICIAL, help="another copy of the schema")
    return parser


async def _run(args: argparse.Namespace, check: WireCheck, folder: Path) -> list[str]:
    home = folder / "home"
    home.mkdir(mode=0o700)
    (home / "config.yaml").write_text(SETTINGS, "utf-8")
    async with ModelServer(script) as model:
        command: Sequence[str] = shlex.split(args.agent) if args.agent else [*HERMES, "acp"]
        environ = dict(os.environ) if args.agent else environment(home, model.base_url)
        wrong: list[str] = []
        for client in filter(None, args.clients.split(",")):
            wrong += await _dialogues(client, args, command, environ, folder, check)
        if args.exchanges:
            words = ("Say hello.",) if args.agent else tuple(name for name in SCRIPTS if name != "sleep")
            done, failed = await generated.exchange(
                command, environ, folder / "generated", args.exchanges, args.seed, words, check
            )
            told = ", ".join(f"{name} {count}" for name, count in done.most_common())
            print(f"{sum(done.values())} generated exchanges with seed {args.seed}: {told}", flush=True)
            wrong += failed
    return wrong


async def _dialogues(
    client: str,
    args: argparse.Namespace,
    command: Sequence[str],
    environ: Mapping[str, str],
    folder: Path,
    check: WireCheck,
) -> list[str]:
    """Play all dialogues with a client; what went wrong, a sentence each."""
    every = json.loads((HERE / "dialogues.json").read_text("utf-8"))
    every = [each for each in every if args.only in each["name"]]
    if args.agent:
        every = [each for each in every if any(word in each["name"] for word in WITHOUT_MODEL)]
    found: dict[str, str] = {}
    for kind in ("plain", "rich"):
        some = [each for each in every if each["client"] == kind]
        if not some:
            continue
        log = folder / f"{client}-{kind}.log"
        teed = [sys.executable, str(HERE / "tee.py"), str(log), *command]
        server = {"name": "suite", "command": sys.executable, "args": [str(SERVER)], "env": []}
        works = folder / "work"
        if client == "python":
            found |= await play_python.play(teed, environ, works, kind, some, server)
        else:
            found |= await asyncio.to_thread(_node, teed, environ, works, kind, some, server)
        for line in log.read_bytes().split(b"\n"):
            if line:
                (check.sent if line[:1] == b">" else check.heard)(line[1:])
    failed = {name: why for name, why in found.items() if why}
    print(f"{client}: {len(found) - len(failed)} of {len(found)} dialogues hold.", flush=True)
    return [f"{client}: {name}: {why}" for name, why in failed.items()]


def _node(
    command: Sequence[str],
    environ: Mapping[str, str],
    folder: Path,
    kind: str,
    dialogues: Sequence[Any],
    server: Mapping[str, Any],
) -> dict[str, str]:
    node = packages.node()
    fetched_client(node)
    given = {"command": command, "environ": dict(environ), "folder": str(folder), "kind": kind}
    player = BUILD / "play_node.mjs"
    player.write_bytes((HERE / "play_node.mjs").read_bytes())
    done = subprocess.run(
        [str(node), str(player)],
        input=json.dumps({**given, "dialogues": dialogues, "server": server}),
        cwd=BUILD,
        capture_output=True,
        text=True,
        timeout=1_800,
        check=False,
    )
    if done.returncode != 0:
        return {f"all dialogues of {kind}": f"Node ended with {done.returncode}: {done.stderr[-1_500:]}"}
    return json.loads(done.stdout.strip().splitlines()[-1])


def fetched_client(node: Path) -> None:
    """The npm client, fetched once; nothing of it is run for that."""
    if (BUILD / "node_modules" / "@agentclientprotocol" / "sdk").exists():
        return
    BUILD.mkdir(parents=True, exist_ok=True)
    npm = node.parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    install = [str(node), str(npm), "install", "--ignore-scripts", "--no-audit", "--no-fund", *SDK]
    subprocess.run(install, cwd=BUILD, env=packages.environment(), check=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
