"""The reference of all settings, generated from the schema. A test compares `docs/settings.md` with it."""

from __future__ import annotations

import json
import re
from collections import Counter

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from agent.core.config import setting_names
from agent.core.config.environment import OVERRIDES
from agent.core.config.problem import dotted_key

BEGIN = "<!-- settings: made by agent.core.config.reference -->"
END = "<!-- settings end -->"


def table() -> str:
    """Return all settings as a Markdown table: key, accepted values, default, meaning."""
    rows = [
        (key, (setting_names.accepted_values(field), default(field), field.description or ""))
        for key, field in setting_names.settings()
    ]
    counts = Counter((_for_all_messengers(key), cells) for key, cells in rows)
    merged = dict.fromkeys(
        (shared if counts[shared, cells] > 1 else key, cells)
        for key, cells in rows
        for shared in [_for_all_messengers(key)]
    )
    lines = ["| Key | Takes | Default | Meaning |", "| --- | --- | --- | --- |"]
    for key, cells in merged:
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in (f"`{key}`", *cells)) + " |")
    return "\n".join(lines)


def _for_all_messengers(key: str) -> str:
    """Return `gateways.MESSENGER.home` for `gateways.telegram.home`; other keys unchanged."""
    return re.sub(r"^gateways\.\w+", "gateways.MESSENGER", key)


def overrides() -> str:
    """Return the variables that override settings, as a Markdown table."""
    rows = [f"| `{variable}` | `{dotted_key(path)}` |" for variable, path in OVERRIDES.items()]
    return "\n".join(["| Variable | Overrides |", "| --- | --- |", *rows])


def default(field: FieldInfo) -> str:
    """Return a setting's default for the reference: a value, `required`, `empty` or `unset`."""
    if field.default is PydanticUndefined:
        return "required"
    if field.default in (None, "", [], {}):
        return "empty" if field.default is not None else "unset"
    return f"`{json.dumps(field.default, ensure_ascii=False)}`".replace('"', "")


def block() -> str:
    """Return the generated part of `docs/settings.md`, from its begin marker to its end marker."""
    return f"{BEGIN}\n{table()}\n\n{overrides()}\n{END}"


def renew(text: str) -> str:
    """Return the page `text` with its generated block renewed. Raises `ValueError` if a marker is missing."""
    start, end = text.index(BEGIN), text.index(END) + len(END)
    return text[:start] + block() + text[end:]
