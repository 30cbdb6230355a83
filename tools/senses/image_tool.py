"""The tool `image_generate`: generates or changes a picture."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tools.context import ToolContext
from tools.registry import Arguments, registry, tool_schema
from tools.results import Display, ToolError, error_text
from tools.senses.keeping import keep, read_file
from tools.senses.pictures import LARGEST_FILE
from tools.senses.reading_apart import fit_apart
from tools.senses.services import PictureRequest, Senses, until_ready
from tools.text.safe_text import clean

NAME = "image_generate"
LONGEST = 4_000
"""The character limit of a description."""
MOST_LIKE = 4
"""The maximum number of pictures to start from."""


async def image_generate(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    """Handle a call of the tool `image_generate`."""
    prompt = str(arguments["prompt"]).strip()
    if not prompt or len(prompt) > LONGEST:
        raise ToolError(f"Describe the picture in 1 to {LONGEST:,} characters.")
    like = [str(each) for each in arguments.get("images") or ()]
    if len(like) > MOST_LIKE:
        raise ToolError(f"At most {MOST_LIKE} pictures can be started from.")
    pictures = []
    for path in like:
        data, _ = await read_file(context, NAME, path, LARGEST_FILE)
        pictures.append((await fit_apart(data)).data)
    drawing = PictureRequest(
        prompt=prompt,
        shape=str(arguments.get("aspect_ratio") or "square"),
        like=tuple(pictures),
        seed=arguments.get("seed"),
    )
    made = await context.service(Senses).generate(drawing, context.permit, context.progress)
    name = await keep(context, NAME, made, str(arguments.get("path") or ""), "images", prompt)
    result: dict[str, Any] = {"image": name, "by": made.by, "bytes": len(made.data), "prompt": prompt}
    if made.note:
        result["note"] = made.note
    if made.cost is not None:
        result["cost_usd"] = made.cost
    if made.seed is not None:
        result["seed"] = made.seed
    return result


def describe(arguments: Arguments, result: Mapping[str, Any] | None) -> Display:
    """Return a display such as `draw a red bicycle · images/a-red-bicycle.png, gpt-image-1`."""
    subject = clean(" ".join(str(arguments.get("prompt", "")).split()))[:80]
    if result is None or result.get("error"):
        return Display("draw", subject, error_text(result))
    made = clean(str(result.get("image", "")))
    return Display("draw", subject, f"{made}, {clean(str(result.get('by', '')))}", picture=made)


registry.register(
    name=NAME,
    toolset="image_gen",
    schema=tool_schema(
        "Draw a picture from a description, or change pictures; the result is a file.",
        "prompt",
        prompt={"type": "string"},
        aspect_ratio={"type": "string", "enum": ["square", "landscape", "portrait"]},
        images={
            "type": "array",
            "items": {"type": "string"},
            "description": "Paths of pictures to start from.",
        },
        seed={"type": "integer"},
        path={
            "type": "string",
            "description": "Where to keep it; else in images/.",
        },
    ),
    handler=image_generate,
    check_fn=until_ready,
    describe=describe,
    place=81,
    bundles=("default",),
)
