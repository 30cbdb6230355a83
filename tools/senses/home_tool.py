"""The tool `homeassistant`: controls the devices of a home."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tools.context import ToolContext
from tools.registry import Arguments, registry, tool_schema
from tools.results import Display, TextDetail, error_text
from tools.senses.services import Senses, until_ready
from tools.text.safe_text import clean


async def homeassistant(arguments: Arguments, context: ToolContext) -> dict[str, Any]:
    """Handle a call of the tool `homeassistant`."""
    return dict(await context.service(Senses).home(arguments, context.permit))


def describe(arguments: Arguments, result: Mapping[str, Any] | None) -> Display:
    """Return a display such as `home call light.turn_on light.kitchen · done`."""
    parts = (arguments.get("action"), arguments.get("service"), arguments.get("entity"))
    subject = clean(" ".join(str(part) for part in parts if part)) or clean(str(arguments.get("domain", "")))
    if result is None or result.get("error"):
        return Display("home", subject, error_text(result))
    count = result.get("count")
    summary = f"{count} found" if isinstance(count, int) else clean(str(result.get("state", "done")))
    return Display(
        "home", subject, summary, TextDetail(json.dumps(result, ensure_ascii=False, indent=2)[:20_000])
    )


registry.register(
    name="homeassistant",
    toolset="homeassistant",
    schema=tool_schema(
        (
            "Devices of the home: list entities, read one's state, list services, or call a service "
            "(such as light.turn_on), which asks."
        ),
        "action",
        action={"type": "string", "enum": ["list", "state", "services", "call"]},
        domain={"type": "string", "description": "Only this domain, such as light."},
        entity={"type": "string", "description": "Such as light.kitchen."},
        service={"type": "string", "description": "Such as light.turn_on (call)."},
        data={"type": "object", "description": "Further data of the call."},
    ),
    handler=homeassistant,
    check_fn=until_ready,
    describe=describe,
    place=84,
    bundles=("default",),
)
