"""The instruction with which a model drafts AGENTS.md, or proposes improvements to it."""

from __future__ import annotations

from pathlib import Path

NAME = "AGENTS.md"
"""The file in which a project tells agents how to work in it."""

_LOOK = (
    "Look at this project first: its layout, its manifests, its tests and its documentation. "
    "State only what you have seen in the files, and run nothing that changes them. "
)
_HOLDS = (
    "It should hold what an agent needs and cannot see at once: what the project is, in two sentences; the "
    "commands to install, run, test and check it; where things live; conventions that the code follows; and "
    "what must not be touched. Leave out what any project has in common, keep it below 80 lines."
)
DRAFT = f"{_LOOK}Then write {NAME} in the root of the project. {_HOLDS}"
IMPROVE = (
    f"{_LOOK}Then read {NAME} and compare it with the project. {_HOLDS} "
    f"Propose improvements as a short list, each with its reason: what is wrong, missing or superfluous. "
    f"Change {NAME} only after I agreed."
)


def drafting_instruction(workspace: Path) -> str:
    """Return the message for `/init`: to draft the file, or improve an existing one. Reads the disk."""
    return IMPROVE if (workspace / NAME).exists() else DRAFT
