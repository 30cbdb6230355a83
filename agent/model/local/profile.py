"""The profile of small local models: few tools, few words, worked examples, a guard against guessing.

The wording was chosen by experiment (docs/local-model.md); change it only together with the figures there.
The whole prompt stays under 600 tokens, so that the first step on two cores does not take minutes.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from agent.core.messages import Message, ToolCall
from agent.model.protocol import Profile

_PROMPT = """\
You are Hermes, a small language model on the user's computer, working in the folder {workspace}.
You know nothing about the user's files until you look with a tool. Never guess what a file or a \
command says: use a tool, read its result, then answer from the result.
When the user asks for more than one thing, do the first, then call the next tool.
Greetings, thanks, arithmetic and general knowledge need no tool: use final_answer at once."""


def _parameters(**properties: str) -> dict[str, Any]:
    """Return a schema of required parameters; `properties` gives their types by name."""
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
    Message("user", "What is the tallest mountain on Earth?"),
    Message("assistant", "The tallest mountain on Earth is Mount Everest."),
    Message("user", "Set the colour in theme.yaml to blue."),
    _call(2, "read_file", path="theme.yaml"),
    _result(2, content="1|colour: red"),
    _call(3, "terminal", command="sed -i 's/red/blue/' theme.yaml && cat theme.yaml"),
    _result(3, output="colour: blue", exit_code=0),
    Message("assistant", "The colour in theme.yaml is blue now."),
)

NUDGE = "Do not guess: look with a tool first, then answer. My request was: {request}"
_REQUEST_LIMIT = 1_000
"""The number of characters of the request that are examined and repeated to the model."""

_THINGS = (
    r"(?:files?|folders?|director(?:y|ies)|paths?|commands?|scripts?|lines?|code|codebase|project|repo(?:sitory)?"
    r"|branch(?:es)?|commits?|functions?|class(?:es)?|tests?|logs?|disk|process(?:es)?|packages?|installed)"
)
_EXTENSIONS = (
    r"(?:py|ipynb|jsx?|tsx?|json|ya?ml|toml|ini|cfg|conf|env|txt|md|rst|csv|tsv|log|sh|bash|html?|css|xml|sql"
    r"|c|h|cpp|hpp|rs|go|java|kt|rb|php|lua|lock|pdf|png|jpe?g|gif|svg|zip|gz|tar|db|sqlite|gguf)"
)
_PLAINLY_LOCAL = re.compile(
    rf"(?<![\w@])[\w-]+\.{_EXTENSIONS}\b"  # a file name
    r"|(?:^|\s)(?:~|\.{1,2})?/[\w.-]+"  # a path
    rf"|\b(?:the|this|my|our|these|those|current|every|each|all)\s+(?:[\w-]+\s+){{0,2}}{_THINGS}\b"
    r"|\b(?:in|of)\s+here\b|\bon\s+this\s+(?:machine|computer|system)\b",
    re.IGNORECASE,
)
_NAMES_A_THING = re.compile(rf"\b{_THINGS}\b", re.IGNORECASE)
_ASKS_FOR_KNOWLEDGE = re.compile(
    r"\s*(?:please\s+|can you\s+|could you\s+)?(?:what(?:'s|\s+is|\s+are)\s+an?\b|what\s+does\s.*\bmean\b"
    r"|explain\b|define\b|describe\s+an?\b|how\s+(?:do|does|can|would|should)\b|why\b|who\b|when\b|tell\s+me\s+about\b"
    r"|what(?:'s|\s+is)\s+the\s+difference\b)",
    re.IGNORECASE,
)


def guard(user_text: str, calls_made: int, _answer: str) -> str | None:
    """Return a message that makes the model look first, if the request is about the user's files or machine.

    Return None if the model has already made a call. Questions of general knowledge ("what is a class?")
    pass, unless they name a file or refer to one.
    """
    text = user_text[:_REQUEST_LIMIT]
    if calls_made or not _about_the_machine(text):
        return None
    return NUDGE.format(request=text)


def _about_the_machine(text: str) -> bool:
    if _PLAINLY_LOCAL.search(text):
        return True
    return bool(_NAMES_A_THING.search(text)) and not _ASKS_FOR_KNOWLEDGE.match(text)


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


_CPUS = Path("/sys/devices/system/cpu")
_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_MEMORY = Path("/proc/meminfo")


def physical_cores(cpus: Path = _CPUS, quota: Path = _QUOTA) -> int:
    """Return the number of cores that this process may use, counting hyper-threads once; at least 1.

    More threads slow llama.cpp down. A container's CPU quota is respected.
    """
    if sys.platform != "linux":
        return max(1, os.cpu_count() or 1)
    allowed = os.sched_getaffinity(0)
    siblings = {
        _read(cpus / f"cpu{number}/topology/thread_siblings_list") or str(number) for number in allowed
    }
    limit, _, period = _read(quota).partition(" ")
    share = int(limit) / int(period) if limit.isdigit() and period.isdigit() and int(period) else len(allowed)
    return max(1, min(len(siblings), round(share)))


def free_cores(cores: int, load: float | None = None) -> int:
    """Return how many of `cores` are not in use by other programs; at least 1. `load` is the load average.

    Two threads on two shared cores wait for each other at every layer: measured four times slower than one
    thread (docs/local-model.md).
    """
    if load is None:
        try:
            load = os.getloadavg()[0]
        except OSError:
            return cores
    return max(1, cores - round(load))


def free_memory(table: Path = _MEMORY) -> int | None:
    """Return the number of bytes that can be used without swapping; None if unknown."""
    for line in _read(table).splitlines():
        name, _, rest = line.partition(":")
        number = rest.split()[:1]
        if name == "MemAvailable" and number and number[0].isdigit():
            return int(number[0]) * 1024
    return None


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace").strip()
    except OSError:
        return ""
