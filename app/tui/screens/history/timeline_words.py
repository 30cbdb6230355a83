"""The words of the timeline for a message and its files. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from agent.core.store.nodes import Node
from app.tui.screens.history.timeline_services import FileDifferenceRow
from app.tui.screens.sessions.sessions import age
from app.tui.screens.wording import line
from tools.text.safe_text import clean
from tools.text.words import plural
from widgets.timeline.paint import shown_path

KINDS = {
    "user": "You",
    "assistant": "Hermes",
    "notice": "Notice",
    "compaction": "Summary",
    "system": "Instructions",
}
MOST_CHARS = 200_000
"""Characters of a message that are shown beside the tree."""
SIGNS = {"added": ("A", "$added"), "changed": ("M", "$accent"), "deleted": ("D", "$removed")}
"""The sign of what happened to a file, and its colour."""


def about(node: Node, branches: Sequence[str], now: float) -> Content:
    """Who wrote a message, when, and on which branches."""
    who = KINDS.get(node.kind) or line(str(node.data.get("tool") or node.kind), 60)
    if node.kind == "user" and node.data.get("origin") == "engine":
        who = "Hermes to the model"
    ended = str(node.data.get("outcome") or "")
    parts = [age(now - node.created)]
    if ended and ended != "done":
        parts.insert(0, line(ended, 40))
    if branches:
        parts.append(line(", ".join(branches[:3]) + (" …" if len(branches) > 3 else ""), 120))
    return Content.assemble((who, "bold $accent"), (f" · {' · '.join(parts)}", "$text-muted"))


def message(node: Node) -> str:
    """The text of a message, or what stands for it where there is none."""
    text = clean(node.content[:MOST_CHARS]).strip("\n")
    calls = node.data.get("calls") or ()
    names = [line(str(call.get("name", "?")), 60) for call in calls if isinstance(call, dict)]
    if names:
        text += ("\n\n" if text else "") + "Calls " + ", ".join(names)
    if len(node.content) > MOST_CHARS:
        text += f"\n\n… {len(node.content) - MOST_CHARS:,} more characters; ⏎ opens all of them"
    return text or "No words."


def files(changes: Sequence[FileDifferenceRow], lines: int) -> Content:
    """The files a message changed, in at most so many lines."""
    if not changes:
        return Content("")
    shown = changes if len(changes) < lines else changes[: max(lines - 2, 0)]
    parts: list[Content] = [Content.assemble((f"± {plural(len(changes), 'file')}", "bold"))]
    parts += [file_line(change) for change in shown]
    if len(shown) < len(changes):
        parts.append(Content.assemble((f"… {plural(len(changes) - len(shown), 'more file')}", "$text-muted")))
    return Content("\n").join(parts)


def file_line(change: FileDifferenceRow) -> Content:
    """`M src/money.py  +6 −3`."""
    sign, color = SIGNS[change.kind]
    return Content.assemble(
        (sign, color),
        f" {shown_path(change.path)} ",
        (f" +{change.added:,}" if change.added else "", "$added"),
        (f" −{change.removed:,}" if change.removed else "", "$removed"),
        (f" · {line(change.note, 120)}" if change.note else "", "$text-muted"),
    )


def next_name(names: Sequence[str]) -> str:
    """A name for a new branch that is not taken."""
    number = 2
    while f"branch-{number}" in names:
        number += 1
    return f"branch-{number}"
