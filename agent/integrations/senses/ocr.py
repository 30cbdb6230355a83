"""Text in pictures, read on this machine by a process of its own."""

from __future__ import annotations

import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from agent.integrations.senses.children import command
from tools.kit.children import run_child
from tools.results import ToolError
from tools.text.safe_text import clean

SECONDS = 120.0
MOST_LINES = 400
_CHILD = Path(__file__).with_name("ocr_child.py")


@cache
def is_installed() -> bool:
    """Whether the text reader can be used. Imports nothing, looks once in a process."""
    return find_spec("rapidocr") is not None and find_spec("onnxruntime") is not None


async def read_text(data: bytes) -> list[str]:
    """The lines of text in a picture, from top to bottom, each with its place. Raises `ToolError`."""
    try:
        output = await run_child(
            command(_CHILD), data, seconds=SECONDS, env={"OMP_NUM_THREADS": "2", "PATH": "/usr/bin:/bin"}
        )
    except TimeoutError:
        raise ToolError(f"The text of the picture was not read within {SECONDS:g} s.") from None
    try:
        found = json.loads(output)
    except ValueError:
        raise ToolError(
            "The text of the picture could not be read; `hermes doctor` says what is missing."
        ) from None
    return [f"{clean(each['text'])}  @{','.join(map(str, each['box']))}" for each in found[:MOST_LINES]]
