"""The note that a branch which is left hands to the one that goes on. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from agent.core.store.nodes import Node, first_line
from agent.workspace.checkpoints.entries import PathChange

ASKED, FILES, SAID = 10, 20, 1_500
"""Messages, files and characters of the last answer that a note names at most."""


def carried_over(branch: str, nodes: Sequence[Node], changes: Sequence[PathChange]) -> str:
    """A note for the model: what was asked, which files changed, how the last answer read; or nothing."""
    asked = [node for node in nodes if node.kind == "user" and node.data.get("origin") != "engine"]
    said = [node for node in nodes if node.kind == "assistant" and node.content.strip()]
    if not asked and not said and not changes:
        return ""
    lines = [f"[Carried over from branch {branch}, which this conversation does not follow:"]
    lines += [f"- asked: {first_line(node.content)}" for node in asked[-ASKED:]]
    lines += [f"- {_what(change)} {change.path}" for change in changes[:FILES]]
    if len(changes) > FILES:
        lines.append(f"- and {len(changes) - FILES:,} more files")
    if said:
        text = said[-1].content.strip()
        lines.append(f"- its last answer: {text[:SAID]}{'…' if len(text) > SAID else ''}")
    return "\n".join(lines) + "]"


def _what(change: PathChange) -> str:
    if change.before is None:
        return "made"
    return "removed" if change.after is None else "changed"
