"""The names of all settings: which keys exist, accepted values, and suggestions for unknown keys.

A key has its parts joined by dots (`terminal.timeout`). Names chosen by the user are in the middle
(`providers.NAME.models.MODEL.context_window`) and may contain dots themselves.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from agent.core.config.problem import Path, dotted_key, short_text
from agent.core.config.schema import Settings, SettingsSection
from agent.errors import ConfigError

_LONGEST_NAME = 64
"""The longest key that gets a suggestion; comparing a longer one would be slow and useless."""


def section_of(annotation: Any) -> type[SettingsSection] | None:
    """Return `annotation` if it is a section class, else None."""
    return annotation if isinstance(annotation, type) and issubclass(annotation, SettingsSection) else None


def entry_of(annotation: Any) -> Any:
    """Return the value type of a `dict[…, …]` annotation; None if it is not a mapping."""
    return get_args(annotation)[1] if get_origin(annotation) is dict else None


def holds_keys(annotation: Any) -> bool:
    """Return whether the annotation is a section or a mapping of names to sections."""
    return section_of(annotation) is not None or section_of(entry_of(annotation)) is not None


def field_at(path: Path) -> FieldInfo | None:
    """Return the setting at `path`; None for the name of an entry with a section, and for an unknown path."""
    annotation: Any = Settings
    found: FieldInfo | None = None
    for part in path:
        if section := section_of(annotation):
            found = section.model_fields.get(str(part))
            if found is None:
                return None
            annotation = found.annotation
        elif (entry := entry_of(annotation)) is not None:
            annotation = entry
            found = None if section_of(entry) else found
        else:
            return None
    return found


def type_at(path: Path) -> Any:
    """Return the type of the section or setting at `path`; None for an invalid path."""
    annotation: Any = Settings
    for part in path:
        if section := section_of(annotation):
            field = section.model_fields.get(str(part))
            annotation = field.annotation if field else None
        else:
            annotation = entry_of(annotation)
        if annotation is None:
            return None
    return annotation


def split(key: str) -> tuple[str, ...]:
    """Return the path of a dotted key. Raises `ConfigError`, with the nearest known key, if there is none."""
    parts = tuple(key.split("."))
    path = _fit(parts, Settings)
    if path is None:
        guess = (
            f"; did you mean `{near}`?" if (near := nearest(parts)) else "; `hermes config show` lists all."
        )
        raise ConfigError(f"There is no setting `{short_text(key)}`{guess}")
    return path


def _fit(parts: tuple[str, ...], annotation: Any) -> tuple[str, ...] | None:
    """Regroup the dotted `parts` into a path that names a setting or section; None if that is impossible.

    Names chosen by the user get as few dots as possible.
    """
    if not parts:
        return ()
    if section := section_of(annotation):
        field = section.model_fields.get(parts[0])
        rest = _fit(parts[1:], field.annotation) if field else None
        return None if rest is None else (parts[0], *rest)
    entry = entry_of(annotation)
    if entry is None:
        return None
    lengths = range(1, len(parts) + 1) if section_of(entry) else (len(parts),)
    for length in lengths:
        name, rest = ".".join(parts[:length]), _fit(parts[length:], entry)
        if name and name.strip(".") == name and rest is not None:
            return (name, *rest)
    return None


def hint(path: Path) -> str:
    """Return a suggestion of the key most similar to the unknown `path`, or a full stop if none is."""
    found = nearest(path)
    return f"; did you mean `{found}`?" if found else "."


def nearest(path: Path) -> str | None:
    """Return the known key most similar to the unknown `path`, dotted, from the same section if possible;
    None if no key is similar.
    """
    if not path or len(str(path[-1])) > _LONGEST_NAME:
        return None
    for depth in range(len(path) - 1, -1, -1):
        section = section_of(type_at(path[:depth]))
        if section is not None:
            break
    else:
        return None
    name = str(path[depth])
    if name in section.model_fields:
        return None
    if close := difflib.get_close_matches(name, section.model_fields, 1, 0.6):
        return dotted_key((*path[:depth], close[0]))
    by_name = {pattern.rsplit(".", 1)[-1]: pattern for pattern, _ in reversed(list(settings()))}
    close = difflib.get_close_matches(str(path[-1]), by_name, 1, 0.75)
    return by_name[close[0]] if close else None


def settings(section: type[SettingsSection] = Settings, prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Yield every setting as (dotted key, field), in schema order; `NAME` stands for a user-chosen name."""
    for name, field in section.model_fields.items():
        key = prefix + name
        if inner := section_of(field.annotation):
            yield from settings(inner, f"{key}.")
        elif inner := section_of(entry_of(field.annotation)):
            yield from settings(inner, f"{key}.NAME.")
        else:
            yield key, field


def is_nullable(field: FieldInfo) -> bool:
    """Return whether a setting accepts `null`."""
    return NoneType in get_args(field.annotation)


def accepted_values(field: FieldInfo) -> str:
    """Return the accepted values of a setting in words, such as `a whole number, at least 1`."""
    if isinstance(field.json_schema_extra, dict) and isinstance(
        said := field.json_schema_extra.get("takes"), str
    ):
        return said
    kinds = [kind for kind in get_args(field.annotation) if kind is not NoneType]
    nullable = get_origin(field.annotation) in (Union, UnionType) and len(kinds) == 1
    words = _words(kinds[0] if nullable else field.annotation)
    limits = [text for item in field.metadata if (text := _limit(item))]
    return ", ".join([words, *limits, *(["or nothing"] if nullable else [])])


_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false", NoneType: "nothing"}


def _words(annotation: Any) -> str:
    if annotation in _WORDS:
        return _WORDS[annotation]
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return "one of " + ", ".join(f"`{item}`" for item in inner)
    if origin in (Union, UnionType):
        return " or ".join(_words(item) for item in inner)
    if origin is list:
        return "a list of texts" if inner == (str,) else f"a list, each {_words(inner[0])}"
    return "texts by name" if inner == (str, str) else "a section"


def _limit(constraint: Any) -> str:
    """Return a description of one constraint in pydantic's metadata; an empty string for an unknown one."""
    for name, words in (("ge", "at least"), ("gt", "above"), ("le", "at most"), ("lt", "below")):
        number = getattr(constraint, name, None)
        if number is not None:
            return f"{words} {number:,}" if isinstance(number, int) else f"{words} {number}"
    return ""


def is_secret(path: Path) -> bool:
    """Return whether values at `path` must not be shown on the screen."""
    return "headers" in path[:-1] or (bool(path) and path[-1] == "headers")


def takes_list(annotation: Any) -> bool:
    """Return whether a setting of this type is a list."""
    return get_origin(annotation) is list
