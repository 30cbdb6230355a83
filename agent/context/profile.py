"""What a model is given besides the conversation: prompt, tools, examples, guards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agent.messages import Message
from agent.model.protocol import ToolSpec

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
    tool_descriptions: Mapping[str, str] = field(default_factory=dict)
    """Descriptions that replace the tools' own, by tool name."""
    tool_parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Parameter schemas that replace the tools' own, by tool name; each takes a part of theirs."""
    context_files: bool = True
    """Whether SOUL.md and the project's file are added to the prompt."""
    examples: tuple[Message, ...] = ()
    """Worked examples, placed between system prompt and conversation."""
    result_limit: int = 100_000
    """Characters of a tool result that stay in the conversation."""
    max_output: int | None = None
    """Upper limit of tokens for one reply where the configuration sets none."""
    temperature: float | None = None
    """Sampling temperature where the configuration sets none."""
    guard: Guard | None = None

    def offer(self, tools: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
        """The tools as this profile shows them, in the profile's order where it names its tools."""
        if self.tools is not None:
            by_name = {tool.name: tool for tool in tools}
            tools = [by_name[name] for name in self.tools if name in by_name]
        return tuple(
            replace(
                tool,
                description=self.tool_descriptions.get(tool.name, tool.description),
                parameters=dict(self.tool_parameters.get(tool.name, tool.parameters)),
            )
            for tool in tools
        )


STANDARD = Profile(name="standard")
