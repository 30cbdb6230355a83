"""The JSON of an answer, and whether it holds to a schema."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from agent.automation.checks.pattern import found

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

_FENCE = re.compile(r"```(?:json)?\s*\n(.*?)\n```", re.DOTALL)


def json_in(answer: str) -> Any:
    """The JSON of an answer: all of it, or its last fenced block. Raises `ValueError`."""
    fenced = _FENCE.findall(answer)
    return json.loads(fenced[-1] if fenced else answer)


def holds(schema: Any, answer: str) -> tuple[bool | None, str]:
    """Whether the JSON of an answer holds to a schema, and why not; None: the schema is wrong.

    Raises `PatternError` for a pattern of the schema that cannot be searched for.
    """
    from jsonschema import SchemaError
    from jsonschema.exceptions import best_match
    from jsonschema.validators import validator_for
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    try:
        value = json_in(answer)
    except (ValueError, RecursionError):
        return False, "the answer is no JSON"
    try:
        kind = _bounded(validator_for(schema))
        kind.check_schema(schema)
        # With a registry of its own, so that nothing is fetched for a `$ref`.
        fault = best_match(kind(schema, registry=Registry()).iter_errors(value))
    except SchemaError as error:
        return None, f"the schema is wrong: {error.message[:200]}"
    except Unresolvable as error:
        return None, f"the schema is wrong: {str(error)[:200]}"
    except RecursionError:
        return None, "the schema is wrong: it is nested too deeply, or refers to itself"
    return (True, "") if fault is None else (False, fault.message[:200])


@cache
def _bounded(kind: type[Validator]) -> Any:
    """A version of JSON Schema whose patterns are searched for with a time limit."""
    from jsonschema.validators import extend

    return extend(
        kind,
        {
            "pattern": _pattern,
            "patternProperties": _pattern_properties,
            "additionalProperties": _additional_properties,
        },
    )


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if isinstance(instance, str) and not found(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(
    validator: Any, patterns: Mapping[str, Any], instance: Any, schema: Any
) -> Iterator[Any]:
    if isinstance(instance, dict):
        for pattern, within in patterns.items():
            for name, value in instance.items():
                if found(pattern, name):
                    yield from validator.descend(value, within, path=name, schema_path=pattern)


def _additional_properties(validator: Any, within: Any, instance: Any, schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if not isinstance(instance, dict):
        return
    named, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name, value in instance.items():
        if name in named or any(found(pattern, name) for pattern in patterns):
            continue
        if isinstance(within, Mapping):
            yield from validator.descend(value, within, path=name)
        elif not within:
            yield ValidationError(f"the property {name!r} is not allowed")
