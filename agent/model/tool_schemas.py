"""JSON schemas of tools in a form that models accept: contradictions fixed, or only the simplest keywords.

Tool servers offer schemas that providers refuse: arrays without items, missing required parameters, dangling
references. A fix never excludes a value that the tool would have accepted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

DEEPEST = 24
"""The number of levels of a schema that are kept."""

_TYPES = {
    "int": "integer",
    "long": "integer",
    "float": "number",
    "double": "number",
    "str": "string",
    "text": "string",
    "bool": "boolean",
    "list": "array",
    "tuple": "array",
    "dict": "object",
    "map": "object",
}
_KNOWN = ("string", "number", "integer", "boolean", "array", "object", "null")
_BRANCHES = ("anyOf", "oneOf", "allOf")
_PLAIN = ("type", "description", "properties", "required", "items", "enum")
_TEXTS = ("title", "description", "format", "pattern", "$id", "$schema", "$anchor", "$comment")
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_COUNTS = (
    *("minLength", "maxLength", "minItems", "maxItems", "minContains", "maxContains"),
    *("minProperties", "maxProperties"),
)
_SWITCHES = ("uniqueItems", "deprecated", "readOnly", "writeOnly")


def sound(schema: Any) -> dict[str, Any]:
    """Return an object schema without contradictions; equal to the given one if it has none."""
    root = schema if isinstance(schema, Mapping) else {}
    made = _sound(root, root, 0)
    flat = _flatten(made, root)
    kind = flat.get("type")
    if kind != "object":
        flat = {"type": "object", **{name: value for name, value in flat.items() if name != "type"}}
    flat.setdefault("properties", {})
    return _prune_required(flat)


def plain(schema: Any) -> dict[str, Any]:
    """Return the schema with only types, descriptions, properties, required names, items and enumerations."""
    root = sound(schema)
    made = _simple(root, root, 0)
    return {"type": "object", "properties": {}, **made}


def is_plain(schema: Any) -> bool:
    """Return whether `plain` would leave a schema unchanged."""
    return json.dumps(plain(schema), sort_keys=True) == json.dumps(schema, sort_keys=True)


def _sound(part: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> dict[str, Any]:
    if depth > DEEPEST:
        return {}
    made: dict[str, Any] = {}
    for name, value in part.items():
        if name == "$ref":
            if isinstance(value, str) and _target(value, root) is not None:
                made[name] = value
        elif name == "type":
            if (kind := _type(value)) is not None:
                made[name] = kind
        elif name in ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas"):
            if isinstance(value, Mapping):
                made[name] = {str(key): _any(each, root, depth + 1) for key, each in value.items()}
        elif name in (*_BRANCHES, "prefixItems"):
            named = [{"type": "null"} if each == {"type": None} else each for each in _list(value)]
            if branches := [_any(each, root, depth + 1) for each in named]:
                made[name] = branches
        elif name == "items":
            made[name] = _items(value, root, depth + 1)
        elif name in ("not", "additionalProperties", "if", "then", "else", "contains", "propertyNames"):
            made[name] = _any(value, root, depth + 1)
        elif name == "enum":
            if _list(value):
                made[name] = value
        elif name == "required":
            if isinstance(value, list):
                texts = [each for each in value if isinstance(each, str)]
                if texts or not value:
                    made[name] = texts
        elif _is_of_its_kind(name, value):
            made[name] = value
    kinds = made.get("type")
    words = made.get("enum")
    if kinds == "array" and words and not any(isinstance(each, list) for each in words):
        del made["enum"]
        made["items"] = {"enum": words, **(made["items"] if isinstance(made.get("items"), dict) else {})}
    if "array" in (kinds if isinstance(kinds, list) else [kinds]) and not made.keys() & {
        "items",
        "prefixItems",
    }:
        made["items"] = {}
    return _prune_required(made) if depth else made


def _is_of_its_kind(name: str, value: Any) -> bool:
    """Return whether the value of a keyword has the required type; True for unknown keywords."""
    if name in _TEXTS:
        return isinstance(value, str)
    if name in _SWITCHES:
        return isinstance(value, bool)
    if name in _COUNTS:
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if name in _NUMBERS:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return is_number and (name != "multipleOf" or value > 0)
    return True


def _any(value: Any, root: Mapping[str, Any], depth: int) -> Any:
    """Return a subschema in valid form. True and false are valid; the name of a type stands for that type."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and (kind := _type(value)) is not None:
        value = {"type": kind}
    return _sound(value, root, depth) if isinstance(value, Mapping) else {}


def _items(value: Any, root: Mapping[str, Any], depth: int) -> Any:
    """Return the schema for the items of an array. A list of schemas, one per position, becomes `anyOf`."""
    if not isinstance(value, list):
        return _any(value, root, depth)
    kinds = [_any(each, root, depth) for each in value]
    different = [each for at, each in enumerate(kinds) if each not in kinds[:at]]
    return different[0] if len(different) == 1 else ({"anyOf": different} if different else {})


def _prune_required(part: dict[str, Any]) -> dict[str, Any]:
    """Return the schema without those required parameters that it does not define."""
    required, properties = part.get("required"), part.get("properties")
    if isinstance(required, list) and isinstance(properties, Mapping):
        kept = [name for name in dict.fromkeys(required) if name in properties]
        if kept != required:
            part = {name: value for name, value in part.items() if name != "required"}
            if kept:
                part["required"] = kept
    return part


def _flatten(part: dict[str, Any], root: Mapping[str, Any], depth: int = 0) -> dict[str, Any]:
    """Return a schema without alternatives at its top; it has the parameters of all alternatives."""
    # A reference may lead back to itself.
    reference = part.get("$ref") if depth < 4 else None
    if not part.keys() & {*_BRANCHES, "not", "enum", "$ref", "if", "then", "else", "const"}:
        return part
    made = {
        name: value
        for name, value in part.items()
        if name not in (*_BRANCHES, "not", "enum", "$ref", "if", "then", "else", "const")
    }
    properties: dict[str, Any] = dict(part.get("properties") or {})
    required: list[str] = list(part.get("required") or [])
    sources = [("allOf", [_target(str(reference), root)])] if reference else []
    sources += [(name, part[name]) for name in _BRANCHES if name in part]
    sources += [("anyOf", [part[name], {}]) for name in ("then", "else") if name in part]
    for name, branches in sources:
        wanted: list[list[str]] = []
        for branch in branches:
            if isinstance(branch, Mapping):
                inner = _flatten(_sound(branch, root, 1), root, depth + 1)
                properties = {**(inner.get("properties") or {}), **properties}
                wanted.append(list(inner.get("required") or []))
        if name == "allOf":
            required += [each for some in wanted for each in some]
        elif wanted:
            required += [each for each in wanted[0] if all(each in some for some in wanted)]
    made["properties"] = properties
    if required:
        made["required"] = list(dict.fromkeys(required))
    return made


def _simple(part: Any, root: Mapping[str, Any], depth: int, seen: tuple[str, ...] = ()) -> dict[str, Any]:
    if not isinstance(part, Mapping) or depth > DEEPEST:
        return {"type": "string"}
    if isinstance(reference := part.get("$ref"), str):
        target = None if reference in seen else _target(reference, root)
        rest = {name: value for name, value in part.items() if name != "$ref"}
        return _simple({**(target or {"type": "object"}), **rest}, root, depth + 1, (*seen, reference))
    for name in _BRANCHES:
        if branches := [each for each in _list(part.get(name)) if isinstance(each, Mapping)]:
            rest = {key: value for key, value in part.items() if key != name}
            chosen = _join_branches(branches) if name == "allOf" else _choose(branches)
            return _simple({**chosen, **rest}, root, depth + 1, seen)
    made = {name: part[name] for name in _PLAIN if name in part}
    if "const" in part and "enum" not in made:
        made["enum"] = [part["const"]]
    kinds = made.get("type")
    if isinstance(kinds, list):
        made["type"] = next((each for each in kinds if each != "null"), "string")
    if "type" not in made:
        made["type"] = "object" if "properties" in made else "array" if "items" in made else "string"
    if not isinstance(made.get("description", ""), str):
        del made["description"]
    if made["type"] != "string" or not all(isinstance(each, str) and each for each in made.get("enum", ())):
        made.pop("enum", None)
    if made["type"] == "array":
        items = made.get("items") or next(iter(_list(part.get("prefixItems"))), None)
        made["items"] = _simple(items or {}, root, depth + 1, seen)
    else:
        made.pop("items", None)
    if made["type"] == "object":
        inner = made.get("properties") or {}
        made["properties"] = {name: _simple(each, root, depth + 1, seen) for name, each in inner.items()}
    else:
        made.pop("properties", None)
        made.pop("required", None)
    return made


def _join_branches(branches: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for branch in branches:
        properties = {**made.get("properties", {}), **(branch.get("properties") or {})}
        made = {**made, **branch, **({"properties": properties} if properties else {})}
    return made


def _choose(branches: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return one schema for several alternatives: their merged enumerations, or the first but null."""
    words = [
        word for each in branches for word in (each.get("enum") or [each.get("const")]) if word is not None
    ]
    if words and all(each.keys() & {"enum", "const"} for each in branches):
        return {"type": "string", "enum": list(dict.fromkeys(map(str, words)))}
    return next((each for each in branches if each.get("type") != "null"), branches[0])


def _type(value: Any) -> Any:
    """Return a JSON schema type, corrected if necessary; None if it is not valid."""
    if isinstance(value, list):
        kinds = [kind for each in value if (kind := _type("null" if each is None else each)) is not None]
        kinds = list(dict.fromkeys(kinds))
        return kinds if len(kinds) > 1 else (kinds[0] if kinds else None)
    if not isinstance(value, str):
        return None
    word = value if value in _KNOWN else _TYPES.get(value.strip().lower(), value.strip().lower())
    return word if word in _KNOWN else None


def _target(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the part of the schema to which a reference points; None if it is missing."""
    if not reference.startswith("#"):
        return None
    found: Any = root
    for step in filter(None, reference[1:].split("/")):
        step = step.replace("~1", "/").replace("~0", "~")
        found = found.get(step) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
