"""Which actions step over the boundary: a person is asked for each of them, whatever the rules say."""

from __future__ import annotations

from tools.actions import Action, RunCommand


def steps_over(action: Action) -> str | None:
    """How the action leaves the sandbox, as a clause for a person; None if it stays inside."""
    if not isinstance(action, RunCommand):
        return None
    if action.outside:
        return "runs outside the sandbox, with all your rights"
    if action.network:
        return "runs in the sandbox with the network on"
    return None
