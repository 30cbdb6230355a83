"""A model's profile: prompt, tools, examples and guards beside the conversation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agent.core.messages import Message
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
    brief: bool = False
    """Whether the standard prompt is given in its short form."""
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

SMALL_WINDOW = 16_000
"""Tokens of a window below which a model is given the compact profile."""


def _flat(required: Sequence[str], **kinds: str) -> dict[str, Any]:
    """A schema of plain parameters."""
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in kinds.items()},
        "required": list(required),
    }


COMPACT = Profile(
    name="compact",
    tools=("terminal", "read_file", "write_file", "patch", "search", "todo_write", "recall_folded"),
    tool_descriptions={
        "terminal": "Run a shell command; folder and variables last between calls.",
        "read_file": "Show numbered lines of a text file.",
        "write_file": "Create a file, or write it anew.",
        "patch": "Replace one text in a file by another; the old text has to occur exactly once.",
        "search": "Find lines that match a pattern, or with target=files files by name.",
        "todo_write": "Write the whole task list; status: pending, in_progress, completed or cancelled.",
        "recall_folded": "Show a message that was folded or masked to make room, by its id.",
    },
    tool_parameters={
        "terminal": _flat(["command"], command="string", timeout="integer"),
        "read_file": _flat(["path"], path="string", offset="integer", limit="integer"),
        "write_file": _flat(["path", "content"], path="string", content="string"),
        "patch": {
            "type": "object",
            "properties": {
                "mode": {"type": "string", "enum": ["replace"]},
                **{name: {"type": "string"} for name in ("path", "old_string", "new_string")},
            },
            "required": ["mode", "path", "old_string", "new_string"],
        },
        "search": _flat(["pattern"], pattern="string", path="string", target="string"),
        "recall_folded": _flat([], id="integer", query="string", offset="integer"),
    },
    brief=True,
    result_limit=4_000,
    max_output=1_500,
)
"""For any model with a small window: few tools, few words, small results."""
