"""The reference of all settings, made from the schema. A test keeps docs/settings.md in step with it."""

from __future__ import annotations

import json

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from agent.core.config import setting_names
from agent.core.config.environment import OVERRIDES
from agent.core.config.problem import dotted

BEGIN = "<!-- settings: made by agent.core.config.reference -->"
END = "<!-- settings end -->"


def table() -> str:
    """Every setting as a row of a markdown table: key, what it takes, default, meaning."""
    rows = ["| Key | Takes | Default | Meaning |", "| --- | --- | --- | --- |"]
    for key, field in setting_names.settings():
        cells = (f"`{key}`", setting_names.takes(field), default(field), field.description or "")
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows)


def overrides() -> str:
    """The variables that override settings, as a markdown table."""
    rows = [f"| `{variable}` | `{dotted(path)}` |" for variable, path in OVERRIDES.items()]
    return "\n".join(["| Variable | Overrides |", "| --- | --- |", *rows])


def default(field: FieldInfo) -> str:
    """The default of a setting as it would be written, or `required`."""
    if field.default is PydanticUndefined:
        return "required"
    if field.default in (None, "", [], {}):
        return "empty" if field.default is not None else "unset"
    return f"`{json.dumps(field.default, ensure_ascii=False)}`".replace('"', "")


def block() -> str:
    """What stands between the two marks in docs/settings.md, marks included."""
    return f"{BEGIN}\n{table()}\n\n{overrides()}\n{END}"


def renew(text: str) -> str:
    """`text` of that page with its block made anew. Raises `ValueError` when the marks are missing."""
    start, end = text.index(BEGIN), text.index(END) + len(END)
    return text[:start] + block() + text[end:]
