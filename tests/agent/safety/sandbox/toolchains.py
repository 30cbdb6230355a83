"""Everyday work with package managers, compilers and git, done inside each boundary and without one.

    python -m tests.agent.safety.sandbox.toolchains     # writes the table of docs/sandbox.md

Programs that the machine does not have are looked for in the folders of `TOOLCHAINS` too.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from agent.safety.permissions.policy import AgentFolders, Decider
from agent.safety.places import Places
from agent.safety.sandbox.caches import WorkspaceCaches
from agent.safety.sandbox.opening import NoSandbox
from tests.agent.safety.sandbox.cell import Cell, room
from tests.agent.safety.sandbox.kinds import KINDS
from tools.services.actions import RunCommand
from tools.services.sandbox import Sandbox

PAGE = Path(__file__).parents[4] / "docs" / "sandbox.md"
BEGIN, END = "<!-- toolchains -->\n", "<!-- end of toolchains -->\n"
COLUMNS: dict[str, Sandbox | None] = {
    "bubblewrap": KINDS.get("bubblewrap"),
    "Landlock alone": KINDS.get("landlock-alone"),
    "neither": NoSandbox(),
}
WORKS, FAILS, NOT_TRIED = "works", "fails", "not tried"

CREDENTIALS = {
    ".npmrc": "//registry.example.org/:_authToken=SECRETWORD\n",
    ".m2/settings.xml": "<settings><!-- SECRETWORD --></settings>\n",
}
for _name in (
    ".yarnrc.yml", ".pypirc", ".cargo/credentials.toml", ".gradle/gradle.properties", ".curlrc", ".wgetrc",
    ".git-credentials", ".config/git/credentials", ".bundle/config", ".gem/credentials",
):  # fmt: skip
    CREDENTIALS[_name] = "# SECRETWORD\n"
"""Files below the home folder that hold logins: the programs have to do without."""


@dataclass(frozen=True)
class Workflow:
    """One piece of work: `given` is there before, `command` is what the agent runs."""

    name: str
    needs: str
    given: str
    command: str


WORKFLOWS = tuple(
    Workflow(**each) for each in yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
)


class _Environment:
    """Variables for one try, taken back after it."""

    def __init__(self) -> None:
        self._before = dict(os.environ)

    def setenv(self, name: str, value: str) -> None:
        os.environ[name] = value

    def restore(self) -> None:
        os.environ.clear()
        os.environ.update(self._before)


@contextmanager
def tried(workflow: Workflow, sandbox: Sandbox):
    """The end of a workflow in a new project: code and output; and the project."""
    environment = _Environment()
    person = Path(pwd.getpwuid(os.getuid()).pw_dir)  # HOME is a folder of the tests
    folders = os.environ.get("TOOLCHAINS", "")
    try:
        with room() as root:
            for name, folder in (("RUSTUP_HOME", ".rustup"), ("PYENV_ROOT", ".pyenv")):
                if (person / folder).is_dir():
                    os.environ.setdefault(name, str(person / folder))
            os.environ["PATH"] += f":{folders}" if folders else ""
            cell = Cell(sandbox, root, environment)
            for name, content in CREDENTIALS.items():
                (cell.user / name).parent.mkdir(parents=True, exist_ok=True)
                (cell.user / name).write_text(content)
            os.environ["MAVEN_OPTS"] = f"-Duser.home={cell.user}"  # Java asks the system, not HOME.
            if (person / ".m2/repository").is_dir():
                subprocess.run(["cp", "-rs", person / ".m2/repository", cell.user / ".m2"], check=True)
            given = ["bash", "-ec", workflow.given]
            subprocess.run(given, cwd=cell.workspace, check=True, capture_output=True)
            caches = cell.user / ".hermes/cache/sandbox"
            cell.boundary._caches = (
                None
                if sandbox.name == "none"
                else WorkspaceCaches(caches, cell.workspace, os.environ, cell.user)
            )
            cell.boundary.prepare()
            ended = cell.shell(workflow.command)
            looked = cell.shell(f"cd ~; cat .ssh/id_ed25519 .netrc {' '.join(CREDENTIALS)}")
            yield ended, looked.output, cell
    finally:
        environment.restore()


def missing(workflow: Workflow) -> list[str]:
    """The programs that this machine lacks for it."""
    path = f"{os.environ['PATH']}:{os.environ.get('TOOLCHAINS', '')}"
    needs = [Path(each).expanduser() for each in workflow.needs.split()]
    return [str(each) for each in needs if not (each.is_dir() or shutil.which(each, path=path))]


def asks(workflow: Workflow, cell: Cell) -> tuple[str, ...]:
    """Why the gate would ask before the command, inside a closed boundary."""
    decider = Decider(
        AgentFolders(cell.workspace), Places(home=str(cell.user), guarded=(), secret=(), other_homes=()),
        mode="normal", chosen=None, permissions=None, coverage=cell.boundary.coverage(steps=True),
    )  # fmt: skip
    action = RunCommand(tool="terminal", command=workflow.command, cwd=cell.workspace)
    verdict, _ = decider.decide(action, lambda _: None)
    return verdict.reasons if verdict.kind != "allow" else ()


def outcome(workflow: Workflow, sandbox: Sandbox | None) -> tuple[str, str]:
    """How a workflow went, and what it printed where it failed."""
    if sandbox is None or missing(workflow):
        return NOT_TRIED, ""
    with tried(workflow, sandbox) as (ended, read, cell):
        if sandbox.name != "none" and any(word in read for word in ("SECRETWORD", "PRIVATE KEY")):
            return FAILS, "a secret can be read"
        if sandbox.name == "bubblewrap" and (why := asks(workflow, cell)):
            return "asks", "; ".join(why)
        return (WORKS if ended.code == 0 else FAILS), ended.output


def table(names: str = "") -> str:
    """The table of the docs."""
    rows = [f"| Workflow | {' | '.join(COLUMNS)} |", f"|---|{'---|' * len(COLUMNS)}"]
    for workflow in WORKFLOWS:
        if names not in workflow.name:
            continue
        cells = []
        for column, sandbox in COLUMNS.items():
            how, said = outcome(workflow, sandbox)
            cells.append(how)
            if how not in (WORKS, NOT_TRIED):
                print(f"{workflow.name} · {column}: {how}\n{said[-1500:]}", file=sys.stderr)
        rows.append(f"| {workflow.name} | {' | '.join(cells)} |")
        print(rows[-1], flush=True)
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    made = table(*sys.argv[1:])
    if not sys.argv[1:]:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(before + BEGIN + made + END + rest.partition(END)[2])
