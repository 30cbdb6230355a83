"""Actions that step over the boundary or widen it: a person is asked for them, whatever the rules say."""

from __future__ import annotations

from tools.services.actions import Action, RunCommand


def steps_over(action: Action) -> str | None:
    """How the action leaves the sandbox, as a clause for a person; None if it stays inside.

    Each time is asked for: what was allowed before does not count.
    """
    if isinstance(action, RunCommand) and action.outside:
        because = f": {action.because}" if action.because else ""
        return f"runs outside the sandbox, with all your rights{because}"
    return None


def widens(action: Action) -> str | None:
    """What the action is given inside that the sandbox keeps back otherwise, as a clause; None if nothing.

    It may be allowed for more than once.
    """
    if isinstance(action, RunCommand) and action.network and not action.outside:
        return "runs in the sandbox with the network on"
    return None
