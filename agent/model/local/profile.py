"""How to speak to a small model: few tools, few words, worked examples, a guard against guessing.

The wording was chosen by trial (docs/local-model.md); change it only together with
the figures there. The whole prompt stays under 600 tokens, so that the first step
on two cores does not take minutes.
"""

from __future__ import annotations

import json
import re
from typing import Any

from agent.context.profile import Profile
from agent.messages import Message, ToolCall

_PROMPT = """\
You are Hermes, a small language model on the user's computer, working in the folder {workspace}.
You know nothing about the user's files until you look with a tool. Never guess what a file or a \
command says: use a tool, read its result, then answer from the result.
When the user asks for more than one thing, do the first, then call the next tool.
Greetings, thanks, arithmetic and general knowledge need no tool: use final_answer at once."""


def _parameters(**properties: str) -> dict[str, Any]:
    """A flat schema; all parameters are texts and required."""
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(properties),
    }


def _call(number: int, name: str, **arguments: str) -> Message:
    return Message("assistant", "", tool_calls=(ToolCall(f"example_{number}", name, json.dumps(arguments)),))


def _result(number: int, **fields: object) -> Message:
    return Message("tool", json.dumps(fields), call_id=f"example_{number}")


_EXAMPLES = (
    Message("user", "How big is the file movie.mp4?"),
    _call(1, "terminal", command="du -h movie.mp4"),
    _result(1, output="1.4G\tmovie.mp4", exit_code=0),
    Message("assistant", "movie.mp4 is 1.4 GB."),
    Message("user", "Who was Mozart?"),
    Message("assistant", "Mozart was an Austrian composer of the 18th century."),
    Message("user", "Set the colour in theme.yaml to blue."),
    _call(2, "read_file", path="theme.yaml"),
    _result(2, content="1|colour: red"),
    _call(3, "terminal", command="sed -i 's/red/blue/' theme.yaml && cat theme.yaml"),
    _result(3, output="colour: blue", exit_code=0),
    Message("assistant", "The colour in theme.yaml is blue now."),
)

_REQUEST_LIMIT = 1_000
_ABOUT_THE_MACHINE = re.compile(
    r"\b(files?|folders?|director(?:y|ies)|paths?|commands?|scripts?|lines?|code|branch|commits?|repo(?:sitory)?"
    r"|run|execute|installed?|disk|process(?:es)?|functions?|class(?:es)?|tests?|logs?|edit|delete|rename)\b"
    r"|(?<![\w.])[\w-]+\.[a-z][a-z0-9]{0,4}\b|(?:^|\s)[~.]?/\w",
    re.IGNORECASE,
)

NUDGE = "Do not guess: look with a tool first, then answer. My request was: {request}"


def guard(user_text: str, calls_made: int, _answer: str) -> str | None:
    """A nudge when the user speaks of files, commands or code and the model looked at nothing."""
    if calls_made == 0 and _ABOUT_THE_MACHINE.search(user_text):
        return NUDGE.format(request=user_text[:_REQUEST_LIMIT])
    return None


LOCAL = Profile(
    name="local",
    system_prompt=_PROMPT,
    tools=("terminal", "read_file", "write_file", "search"),
    tool_descriptions={
        "terminal": "run a shell command: ls, wc, git, python, sed, rm, ...",
        "read_file": "show the content of one text file",
        "write_file": "create a file with this content",
        "search": "find which files contain a text",
    },
    tool_parameters={
        "terminal": _parameters(command="string"),
        "read_file": _parameters(path="string"),
        "write_file": _parameters(path="string", content="string"),
        "search": _parameters(pattern="string"),
    },
    context_files=False,
    examples=_EXAMPLES,
    result_limit=4_000,
    max_output=1_024,
    temperature=0.0,
    guard=guard,
)
