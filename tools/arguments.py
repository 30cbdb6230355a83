"""Validation of call arguments against the tool's JSON schema, with repair of common mistakes.

Models write `"5"` for 5, `"true"` for true, a JSON text instead of a list, one item instead of a list of
items, `oldString` for `old_string`, and null for optional fields. A value with one sensible reading is
repaired; any other is refused with a sentence that names the field.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Mapping
from typing import Any

from tools.results import ToolError

SHOWN = 80
"""Characters of a wrong value that an error message repeats."""

WIDEST = 2**63
"""Integers at or beyond this have no meaning for any tool, and can be too long to print."""

ITEM_FIELDS = ("label", "description", "text", "title", "value", "name")
"""Fields with the text if a model writes an object for one item of a list of texts."""


def check_arguments(schema: Mapping[str, Any], arguments: Any) -> dict[str, Any]:
    """Return `arguments` with repairs and defaults applied. Raises `ToolError` naming the first wrong field.

    Covers the part of JSON schema that tool parameters use: type, properties, required, items, enum, default,
    minimum, maximum, minLength, maxLength, minItems, maxItems, additionalProperties. The given arguments are
    not changed.
    """
    if not isinstance(arguments, dict):
        raise ToolError(f"The arguments must be a JSON object, not {_kind(arguments)}.")
    return _object(schema, arguments, "")


def _object(schema: Mapping[str, Any], value: dict[str, Any], where: str) -> dict[str, Any]:
    properties: Mapping[str, Any] = schema.get("properties", {})
    required = schema.get("required", ())
    clean: dict[str, Any] = {}
    for name, item in _rename_keys(properties, value).items():
        if name not in properties:
            if schema.get("additionalProperties", True) is False:
                known = ", ".join(properties) or "no parameters"
                raise ToolError(
                    f"Unknown parameter {where}{_describe_value(name)}; this tool takes: {known}."
                )
            clean[name] = item
        elif name not in required and _left_out(properties[name], item):
            continue
        else:
            clean[name] = _value(properties[name], item, f"{where}{name}")
    for name, spec in properties.items():
        if name in clean:
            continue
        if name in required:
            raise ToolError(f"Missing parameter {where}{name}.")
        if "default" in spec:
            clean[name] = copy.deepcopy(spec["default"])
    return clean


def _rename_keys(properties: Mapping[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    """Return `value` with keys renamed to parameters that differ only in case, `-` or `_`."""
    unknown = [name for name in value if name not in properties]
    if not unknown:
        return value
    folded = {_fold_name(name): name for name in properties if name not in value}
    renames = {name: folded[_fold_name(name)] for name in unknown if _fold_name(name) in folded}
    return {renames.get(name, name): item for name, item in value.items()}


def _fold_name(name: str) -> str:
    return name.replace("-", "").replace("_", "").lower()


def _left_out(schema: Mapping[str, Any], item: Any) -> bool:
    """Return whether an optional parameter counts as unset.

    It does if it is null, or if it is an empty text and the schema allows no text.
    """
    kinds = _kinds(schema)
    if item is None:
        return "null" not in kinds
    blank = isinstance(item, str) and not item.strip()
    return blank and (
        ("enum" in schema and item not in schema["enum"]) or (kinds != () and "string" not in kinds)
    )


def _value(schema: Mapping[str, Any], value: Any, where: str) -> Any:
    kinds = _kinds(schema)
    if kinds:
        for kind in kinds:
            fits, repaired = _coerce(kind, value)
            if not fits and kind == "array":
                fits, repaired = _wrap_value(schema, value)
            if fits:
                value = repaired
                break
        else:
            raise ToolError(
                f"Parameter {where} must be {' or '.join(map(_article, kinds))}, not {_kind(value)}."
            )
    if "enum" in schema:
        value = _option(schema["enum"], value, where)
    _check_size(schema, value, where)
    if isinstance(value, dict):
        return _object(schema, value, f"{where}.")
    if isinstance(value, list):
        items = schema.get("items")
        if items:
            return [_item(items, item, f"{where}[{index}]") for index, item in enumerate(value)]
    return value


def _item(schema: Mapping[str, Any], value: Any, where: str) -> Any:
    if isinstance(value, dict) and _kinds(schema) == ("string",):
        texts = [
            value[name] for name in ITEM_FIELDS if isinstance(value.get(name), str) and value[name].strip()
        ]
        if texts:
            value = texts[0]
    return _value(schema, value, where)


def _wrap_value(schema: Mapping[str, Any], value: Any) -> tuple[bool, Any]:
    """Put a single item into a list if the schema requires a list; return whether that was done, and the
    list.
    """
    wanted = _kinds(schema.get("items", {}))
    if isinstance(value, dict) and "object" in wanted:
        return True, [value]
    if isinstance(value, str) and "string" in wanted and value.strip():
        return True, [value]
    return False, value


def _option(options: list[Any], value: Any, where: str) -> Any:
    for option in options:
        if type(option) is type(value) and option == value:
            return option
    folded = {str(option).lower(): option for option in options}
    wanted = value.strip().lower() if isinstance(value, str) else _describe_value(value).lower()
    if wanted not in folded:
        listed = ", ".join(str(option) for option in options)
        raise ToolError(f"Parameter {where} must be one of {listed}, not {_describe_value(value)}.")
    return folded[wanted]


def _check_size(schema: Mapping[str, Any], value: Any, where: str) -> None:
    if isinstance(value, bool):
        return
    if isinstance(value, (int, float)):
        if "minimum" in schema and value < schema["minimum"]:
            raise ToolError(f"Parameter {where} must be at least {schema['minimum']}, not {value}.")
        if "maximum" in schema and value > schema["maximum"]:
            raise ToolError(f"Parameter {where} must be at most {schema['maximum']}, not {value}.")
    elif isinstance(value, (str, list)):
        least, most, unit = (
            ("minLength", "maxLength", "characters")
            if isinstance(value, str)
            else ("minItems", "maxItems", "items")
        )
        if least in schema and len(value) < schema[least]:
            raise ToolError(f"Parameter {where} needs at least {schema[least]} {unit}, not {len(value)}.")
        if most in schema and len(value) > schema[most]:
            raise ToolError(f"Parameter {where} takes at most {schema[most]} {unit}, not {len(value)}.")


def _coerce(kind: str, value: Any) -> tuple[bool, Any]:
    """Convert `value` to the JSON type `kind`; return whether that was possible, and the converted value."""
    text = value.strip() if isinstance(value, str) else ""
    match kind:
        case "string":
            if isinstance(value, str):
                return True, value
            return (True, str(value)) if _is_number(value) else (False, value)
        case "integer":
            return _integer(value, text)
        case "number":
            if isinstance(value, str):
                try:
                    value = float(text)
                except ValueError:
                    return False, value
            return _is_number(value), value
        case "boolean":
            return _boolean(value, text.lower())
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
                return (True, parsed) if isinstance(parsed, wanted) else (False, value)
            return False, value
        case _:
            return True, value


def _integer(value: Any, text: str) -> tuple[bool, Any]:
    if text and len(text) < 25 and text.isascii():
        try:
            value = int(text)
        except ValueError:
            try:
                value = float(text)
            except ValueError:
                return False, value
    if not _is_number(value) or value != int(value) or not -WIDEST < value < WIDEST:
        return False, value
    return True, int(value)


def _boolean(value: Any, text: str) -> tuple[bool, Any]:
    if isinstance(value, bool):
        return True, value
    if text in ("true", "yes", "on", "1") or (_is_number(value) and value == 1):
        return True, True
    if text in ("false", "no", "off", "0") or (_is_number(value) and value == 0):
        return True, False
    return False, value


def _is_number(value: Any) -> bool:
    """Return whether `value` is a finite number that is not too large to be converted; booleans do not
    count.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return -WIDEST < value < WIDEST if isinstance(value, int) else math.isfinite(value)


def _kinds(schema: Mapping[str, Any]) -> tuple[str, ...]:
    kinds = schema.get("type", ())
    return (kinds,) if isinstance(kinds, str) else tuple(kinds)


def _article(kind: str) -> str:
    named = {"string": "a text", "array": "a list", "object": "an object", "integer": "an integer"}
    return named.get(kind, "null" if kind == "null" else f"a {kind}")


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", bool: "a boolean", type(None): "null"}
    if isinstance(value, str):
        return f"the text {_describe_value(value)}"
    return names.get(type(value)) or f"the number {_describe_value(value)}"


def _describe_value(value: Any) -> str:
    """Return `value` for an error message, as one short printable line."""
    if isinstance(value, int) and not -WIDEST < value < WIDEST:
        return "an enormous number"
    text = value if isinstance(value, str) and value.isprintable() and value.isidentifier() else repr(value)
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"
