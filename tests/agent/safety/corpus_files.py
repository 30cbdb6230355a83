"""The commands in `corpus`, by class: one a line, or a JSON string where a command holds line feeds."""

from __future__ import annotations

import json
from pathlib import Path

from agent.safety.assessor import Assessor
from agent.safety.places import Places
from agent.safety.sandbox.boundary import NO_COVERAGE, BoundaryCoverage

FOLDER = Path(__file__).parent / "corpus"
HOME = "/home/ada"
OWN = f"{HOME}/.hermes"
WORKSPACE = Path("/home/ada/project")
PLACES = Places(
    home=HOME,
    guarded=(f"{OWN}/config.yaml", f"{OWN}/trust.json", f"{OWN}/permissions.yaml", f"{OWN}/grants.json"),
    secret=(f"{OWN}/.env", f"{OWN}/state.db"),
)
CLOSED = BoundaryCoverage(level="bubblewrap", network="filtered", guards_places=True)


def commands(name: str, folder: Path = FOLDER) -> list[str]:
    """The commands of one class."""
    lines = (folder / f"{name}.txt").read_text("utf-8").splitlines()
    return [_decoded(line) for line in lines if line.strip()]


def _decoded(line: str) -> str:
    if not line.startswith('"'):
        return line
    try:
        return str(json.loads(line))
    except ValueError:
        return line


def assessor(coverage: BoundaryCoverage = NO_COVERAGE) -> Assessor:
    """One that judges for the folders the commands are written for; by default without a boundary."""
    return Assessor(PLACES, WORKSPACE, coverage=coverage)
