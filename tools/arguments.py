"""Arguments of a call against the tool's JSON schema: checked, and gently repaired.

Models write `"5"` for 5, `"true"` for true, a JSON text where a list belongs,
and leave optional fields null. What has one sensible reading is repaired;
the rest is refused with a sentence that names the field.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tools.results import ToolError


def check_arguments(schema: Mapping[str, Any], arguments: Any) -> dict[str, Any]:
    """`arguments` with repairs and defaults applied. Raises `ToolError` naming the first wrong field.

    Covers the part of JSON schema that tool parameters use: type, properties,
    required, items, enum, default, minimum, maximum, maxItems, additionalProperties.
    """
    if not isinstance(arguments, dict):
        raise ToolError(f"The arguments must be a JSON object, not {_kind(arguments)}.")
    return _object(schema, arguments, "")


def _object(schema: Mapping[str, Any], value: dict[str, Any], where: str) -> dict[str, Any]:
    properties: Mapping[str, Any] = schema.get("properties", {})
    required = schema.get("required", ())
    clean: dict[str, Any] = {}
    for name, item in value.items():
        if name not in properties:
            if schema.get("additionalProperties", True) is False:
                known = ", ".join(properties)
                raise ToolError(f"Unknown parameter {where}{name}; this tool takes: {known}.")
            clean[name] = item
        elif item is None and name not in required:
            continue
        else:
            clean[name] = _value(properties[name], item, f"{where}{name}")
    for name, spec in properties.items():
        if name in clean:
            continue
        if name in required:
            raise ToolError(f"Missing parameter {where}{name}.")
        if "default" in spec:
            clean[name] = spec["default"]
    return clean


def _value(schema: Mapping[str, Any], value: Any, where: str) -> Any:
    kinds = schema.get("type", ())
    kinds = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    if kinds:
        for kind in kinds:
            fits, repaired = _coerce(kind, value)
            if fits:
                value = repaired
                break
        else:
            raise ToolError(f"Parameter {where} must be {' or '.join(kinds)}, not {_kind(value)}.")
    if "enum" in schema and value not in schema["enum"]:
        folded = {str(option).lower(): option for option in schema["enum"]}
        if str(value).lower() not in folded:
            options = ", ".join(str(option) for option in schema["enum"])
            raise ToolError(f"Parameter {where} must be one of {options}, not {value!r}.")
        value = folded[str(value).lower()]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        if "minimum" in schema and value < schema["minimum"]:
            raise ToolError(f"Parameter {where} must be at least {schema['minimum']}, not {value}.")
        if "maximum" in schema and value > schema["maximum"]:
            raise ToolError(f"Parameter {where} must be at most {schema['maximum']}, not {value}.")
    if isinstance(value, dict):
        return _object(schema, value, f"{where}.")
    if isinstance(value, list):
        if "maxItems" in schema and len(value) > schema["maxItems"]:
            raise ToolError(f"Parameter {where} takes at most {schema['maxItems']} items, not {len(value)}.")
        items = schema.get("items")
        if items:
            return [_value(items, item, f"{where}[{index}]") for index, item in enumerate(value)]
    return value


def _coerce(kind: str, value: Any) -> tuple[bool, Any]:
    """Whether `value` is, or plainly means, a `kind`, and the value as that kind."""
    text = value.strip() if isinstance(value, str) else ""
    match kind:
        case "string":
            if isinstance(value, str):
                return True, value
            plain_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            return plain_number, str(value)
        case "integer":
            if isinstance(value, bool):
                return False, value
            if isinstance(value, int):
                return True, value
            if isinstance(value, float) and value.is_integer():
                return True, int(value)
            digits = text.removeprefix("-")
            return (
                (True, int(text))
                if digits.isascii() and digits.isdigit() and len(digits) < 19
                else (False, value)
            )
        case "number":
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return True, value
            try:
                return (True, float(text)) if text else (False, value)
            except ValueError:
                return False, value
        case "boolean":
            if isinstance(value, bool):
                return True, value
            folded = text.lower()
            return folded in ("true", "false"), folded == "true"
        case "null":
            return value is None, value
        case "array" | "object":
            wanted = list if kind == "array" else dict
            if isinstance(value, wanted):
                return True, value
            if text.startswith("[" if kind == "array" else "{"):
                try:
                    parsed = json.loads(text)
                except (ValueError, RecursionError):
                    return False, value
                return isinstance(parsed, wanted), parsed
            return False, value
        case _:
            return True, value


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
