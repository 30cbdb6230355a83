"""Pictures decoded in a separate process, so that a malicious picture cannot harm this one."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tools.kit.children import run_child
from tools.results import ToolError
from tools.senses.pictures import CELL, FitPicture, Form, Thumbnail

SECONDS = 40.0
"""The time limit in seconds for one picture."""
_CHILD = Path(__file__).with_name("picture_child.py")
_START = "import runpy, sys; sys.path[:] = {path!r}; runpy.run_path({child!r}, run_name='__main__')"


async def fit_apart(data: bytes) -> FitPicture:
    """Run `pictures.fit` in a separate process and return its result. Raises `ToolError`."""
    told, made = await _read(b"fit\n", data)
    width, height = told["original"]
    return FitPicture(
        made, told["media_type"], told["width"], told["height"], (width, height), told["frames"]
    )


async def thumbnail(
    data: bytes, columns: int, rows: int, form: Form = "blocks", cell: tuple[int, int] = CELL
) -> Thumbnail:
    """Run `pictures.draw_thumbnail` in a separate process and return its result. Raises `ToolError`."""
    told, made = await _read(f"draw {columns} {rows} {form} {cell[0]} {cell[1]}\n".encode(), data)
    return Thumbnail(told["columns"], told["rows"], made, told["form"])


async def _read(order: bytes, data: bytes) -> tuple[dict[str, Any], bytes]:
    try:
        output = await run_child(
            [sys.executable, "-I", "-c", _START.format(path=sys.path, child=str(_CHILD))],
            order + data,
            seconds=SECONDS,
            env={"PATH": "/usr/bin:/bin"},
            cwd="/",
        )
    except TimeoutError:
        raise ToolError(f"The picture was not read within {SECONDS:g} s; scale it down.") from None
    head, _, made = output.partition(b"\n")
    try:
        told = json.loads(head)
    except ValueError:
        raise ToolError("The picture ended the process that read it; it is damaged.") from None
    if problem := told.get("problem"):
        raise ToolError(str(problem))
    return told, made
