"""The layer about the use of tools; only available tools are named."""

from __future__ import annotations

from collections.abc import Iterator

from agent.knowledge.context.layer import Facts, Layer, Part

TOOLS = """\
# Tools
- Calls that do not need each other's results go into one message; reading calls then run side by side."""

TOOL_HINTS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("patch", "write_file"),
        "Change existing files with patch; write_file is for new files and full rewrites.",
    ),
    (("session_search",), "When the user refers to earlier work, look it up with session_search."),
)
"""Pairs of the tools that must all be available and the sentence that the prompt then contains."""


def _parts(facts: Facts) -> Iterator[Part]:
    if not facts.tools:
        return
    hints = [
        f"- {sentence}" for needed, sentence in TOOL_HINTS if all(name in facts.tools for name in needed)
    ]
    yield Part("Use of tools", "\n".join([TOOLS, *hints]))


LAYER = Layer("tool_use", 30, _parts)
