"""What a model is given besides the conversation: prompt, tools, examples, guards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agent.messages import Message

Guard = Callable[[str, int, str], str | None]
"""(user's text, calls made this turn, the answer) -> a nudge that sends the model back to work, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How the engine speaks to one class of models."""

    name: str
    system_prompt: str | None = None
    """Replaces the standard system prompt; None keeps it. May use `{workspace}` and `{date}`."""
    tools: tuple[str, ...] | None = None
    """The only tools on offer; None = as configured."""
    context_files: bool = True
    """Whether SOUL.md and the project's file are added to the prompt."""
    examples: tuple[Message, ...] = ()
    """Worked examples, placed between system prompt and conversation."""
    result_limit: int = 100_000
    """Characters of a tool result that stay in the conversation."""
    guard: Guard | None = None


STANDARD = Profile(name="standard")
