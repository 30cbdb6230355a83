"""The `clarify` tool: asks the user. The answer carries its kind, so silence is never taken for consent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.context import Asker, ToolContext
from tools.registry import Arguments, registry, tool_schema
from tools.results import Display, ToolError, error_text
from tools.text.safe_text import clean

MAX_CHOICES = 6
MAX_QUESTION = 4_000
"""The length limit of a question in characters."""

ADVICE: Mapping[str, str] = {
    "declined": (
        "The question was not answered: the user declined it, or nobody is there to answer. "
        "This is not a choice for any option; take the most careful course, or stop and say what you need."
    ),
    "expired": (
        "Nobody answered in time. This is not a choice for any option; "
        "take the most careful course, or stop and say what you need."
    ),
    "cancelled": "The question was withdrawn before it was answered. Stop here.",
}


async def clarify(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    """Ask the user one question and return the outcome. Raises `ToolError` for an empty question."""
    question = clean(arguments["question"]).strip()
    if not question:
        raise ToolError("The question is empty; say what you want to know.")
    choices = tuple(dict.fromkeys(text for choice in arguments["choices"] if (text := clean(choice).strip())))
    freetext = arguments["allow_freetext"] or not choices
    answer = await context.service(Asker).ask(question, choices, freetext)
    outcome = answer.outcome
    if outcome != "answered":
        return {"question": question, "outcome": outcome, "answer": None, "hint": ADVICE[outcome]}
    return {"question": question, "outcome": outcome, "answer": clean(answer.text)}


def _describe(arguments: Arguments, result: Mapping[str, Any] | None) -> Display:
    question = clean(" ".join(str(arguments.get("question", "")).split()))
    if result is None or result.get("error"):
        return Display("ask", question, error_text(result))
    answered = result.get("outcome") == "answered"
    return Display("ask", question, str(result["answer"]) if answered else str(result.get("outcome", "")))


registry.register(
    name="clarify",
    toolset="clarify",
    schema=tool_schema(
        (
            "Ask the user one question and wait, when a decision is really theirs: the request can be read "
            "in ways that lead to different work, or a choice is hard to undo. Not for what you can find "
            "out, nor for permissions: those are asked for you. Offer short choices, the best first. Unless "
            "the outcome is answered, nothing was chosen."
        ),
        "question",
        question={"type": "string", "maxLength": MAX_QUESTION},
        choices={
            "type": "array",
            "items": {"type": "string"},
            "maxItems": MAX_CHOICES,
            "default": [],
        },
        allow_freetext={
            "type": "boolean",
            "default": True,
        },
    ),
    handler=clarify,
    describe=_describe,
    place=40,
    bundles=("default", "safe"),
    traits=("asks_person",),
)
