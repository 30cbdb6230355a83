"""The layer about the machine and environment of the agent."""

from __future__ import annotations

from collections.abc import Iterator

from agent.knowledge.context.layer import Facts, Layer, Part
from tools.text.words import one_line


def _parts(facts: Facts) -> Iterator[Part]:
    branch = f"\nGit branch when the session began: {one_line(facts.branch)}" if facts.branch else ""
    workspace, system = one_line(facts.workspace), one_line(facts.platform)
    yield Part("Environment", f"# Environment\nWorkspace: {workspace}\nSystem: {system}{branch}")


LAYER = Layer("runtime", 90, _parts)
