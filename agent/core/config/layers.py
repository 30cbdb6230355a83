"""Merging of settings from several layers, and validation of the result.

A wrong entry is removed from its layer, so that the layer below applies; everything else remains in force.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pydantic import create_model

from agent.core.config import setting_names
from agent.core.config.document import SettingsDocument
from agent.core.config.problem import Path, SettingPlace, SettingProblem, dotted_key, short_text
from agent.core.config.schema import STRICTEST, Settings, SettingsSection
from tools.text.words import plural

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

MAX_PROBLEMS = 50
"""The number of problems reported one by one; a file with more is probably not a settings file."""


@dataclass(frozen=True, slots=True)
class SettingsLayer:
    """Settings from one source: a file, or the environment. Later layers override earlier ones."""

    origin: str
    document: SettingsDocument = field(default_factory=SettingsDocument)


@dataclass(frozen=True, slots=True)
class SettingSource:
    """The source of a setting's value. `place` is None if its position is unknown, as in the environment."""

    origin: str
    place: SettingPlace | None = None

    def __str__(self) -> str:
        return f"{self.origin} line {self.place.line}" if self.place else self.origin


@dataclass(frozen=True, slots=True)
class MergedSettings:
    """The result of `merge_layers`. `sources` holds only settings that some layer sets."""

    settings: Settings
    problems: tuple[SettingProblem, ...]
    sources: Mapping[Path, SettingSource]


def merge_layers(layers: Sequence[SettingsLayer]) -> MergedSettings:
    """Merge `layers` and validate the result. Never raises: wrong entries are left out and reported."""
    from pydantic import ValidationError

    trees = [_without_empty_sections(layer.document.data, Settings) for layer in layers]
    problems: list[SettingProblem] = []
    while True:
        merged: dict[str, Any] = {}
        for tree in trees:
            merged = _merge(merged, tree)
        try:
            settings = _validate(merged)
            break
        except ValidationError as error:
            before = len(problems)
            for detail in error.errors(include_url=False, include_context=True):
                _reject(detail, layers, trees, problems)
            if len(problems) == before:
                message = "the settings contradict each other; none of them is used."
                return MergedSettings(
                    Settings(), (*_cap_problems(problems), SettingProblem(layers[-1].origin, message)), {}
                )
    sources = {
        path: SettingSource(layer.origin, layer.document.keys.get(path))
        for layer, tree in zip(layers, trees, strict=True)
        for path in leaves(tree)
    }
    return MergedSettings(settings, tuple(_cap_problems(problems)), sources)


def _validate(merged: dict[str, Any]) -> Settings:
    """Return validated settings; raises `ValidationError`.

    Only the sections that are given are validated: preparing them all adds 40 ms to every start.
    """
    given = _given_sections(frozenset(merged).intersection(Settings.model_fields))
    values = given.model_validate(merged, strict=True)
    return Settings.model_construct(values.model_fields_set, **vars(values))


@lru_cache
def _given_sections(names: frozenset[str]) -> type[SettingsSection]:
    """Return a model with only the named fields of `Settings`."""
    fields: dict[str, Any] = {
        name: (each.annotation, each) for name, each in Settings.model_fields.items() if name in names
    }
    return create_model(Settings.__name__, __base__=SettingsSection, **fields)


def leaves(data: Mapping[str, Any], prefix: Path = ()) -> list[Path]:
    """Return the paths of all values that are not sections, in order; an empty section has no path."""
    found: list[Path] = []
    for key, value in data.items():
        path = (*prefix, key)
        found += leaves(value, path) if isinstance(value, dict) else [path]
    return found


def lookup(data: Any, path: Path) -> Any:
    """Return the value at `path`. Raises `KeyError` when there is none."""
    for part in path:
        if not isinstance(data, dict) or part not in data:
            raise KeyError(dotted_key(path))
        data = data[part]
    return data


def _merge(lower: dict[str, Any], upper: dict[str, Any]) -> dict[str, Any]:
    merged = dict(lower)
    for key, value in upper.items():
        below = merged.get(key)
        merged[key] = _merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value
    return merged


def _without_empty_sections(data: dict[str, Any], annotation: Any) -> dict[str, Any]:
    """Return a copy without empty sections, such as a `terminal:` whose lines are all commented out."""
    kept: dict[str, Any] = {}
    section, entry = setting_names.section_of(annotation), setting_names.entry_of(annotation)
    for key, value in data.items():
        inner = entry
        if section is not None:
            known = section.model_fields.get(key)
            inner = known.annotation if known else None
        if value is None and (setting_names.holds_keys(inner) or setting_names.entry_of(inner) is not None):
            continue
        kept[key] = _without_empty_sections(value, inner) if isinstance(value, dict) else value
    return kept


def _reject(
    detail: ErrorDetails,
    layers: Sequence[SettingsLayer],
    trees: list[dict[str, Any]],
    problems: list[SettingProblem],
) -> None:
    """Remove the wrong entry from the topmost layer that has it, or make it strictest; add a problem."""
    path = _entry_of(detail["loc"])
    missing = detail["type"] == "missing"
    culprit = path[:-1] if missing else path
    for layer, tree in reversed(list(zip(layers, trees, strict=True))):
        try:
            value = lookup(tree, culprit)
        except KeyError:
            continue
        strictest = None if missing else _strictest(culprit)
        if strictest is not None and value != strictest:
            lookup(tree, culprit[:-1])[culprit[-1]] = strictest
        elif culprit:
            _drop(tree, culprit)
        place = _place(layer.document, culprit, detail["type"])
        name = dotted_key(culprit)
        told = len(problems) < MAX_PROBLEMS
        message = _message(detail, path, value) if told else ""
        if message and strictest is not None:
            message = f"{message.removesuffix('.')}; until then it is `{strictest}`."
        problems.append(SettingProblem(layer.origin, message, place, name))
        return


def _strictest(path: Path) -> str | None:
    """Return the strictest value of a security setting, used if its value is invalid; None for other
    settings.
    """
    field = setting_names.field_at(path)
    extra = getattr(field, "json_schema_extra", None)
    return extra.get(STRICTEST) if isinstance(extra, dict) else None


def _entry_of(location: tuple[int | str, ...]) -> Path:
    """Return the path of the setting that an error is about; for an item of a list, the path of the list."""
    path: Path = ()
    for part in location:
        if isinstance(part, int) or part == "[key]":
            break
        path = (*path, part)
    return path


def _drop(tree: dict[str, Any], path: Path) -> None:
    parent = lookup(tree, path[:-1])
    del parent[path[-1]]


def _place(document: SettingsDocument, path: Path, kind: str) -> SettingPlace | None:
    if kind in ("extra_forbidden", "missing"):
        return document.keys.get(path)
    return document.values.get(path) or document.keys.get(path)


def _message(detail: ErrorDetails, path: Path, value: Any) -> str:
    name = short_text(dotted_key(path))
    rest = detail["loc"][len(path) :]
    if "[key]" in rest:
        allowed = re.findall(r"'(\w+)'", detail.get("ctx", {}).get("expected", ""))
        near = get_close_matches(str(path[-1]), allowed, 1)
        guess = (
            f"did you mean `{dotted_key((*path[:-1], near[0]))}`?"
            if near
            else f"it takes {', '.join(allowed)}."
        )
        return f"unknown key `{name}`; {guess}"
    if len(rest) > 1 and isinstance(rest[0], int):
        inner = short_text(dotted_key(tuple(map(str, rest[1:]))))
        return f"`{name}`, entry {rest[0] + 1}, `{inner}`: {detail['msg'][:1].lower()}{detail['msg'][1:]}."
    if detail["type"] == "extra_forbidden":
        return f"unknown key `{name}`{setting_names.hint(path)}"
    if detail["type"] == "missing":
        return f"`{name}` is missing; `{short_text(dotted_key(path[:-1]))}` is left out without it."
    field_info = setting_names.field_at(path)
    if field_info is None or setting_names.holds_keys(setting_names.type_at(path)):
        return f"`{name}` is {_value_words(value)}; it takes a section of `key: value` lines below it."
    if setting_names.is_secret(path):
        return f"`{name}` is not text; put it in quotes."
    if setting_names.type_at(path) is str and isinstance(value, (bool, int, float)):
        return f"`{name}` is read as {_value_words(value)}; put the text in quotes."
    if detail["type"] == "string_pattern_mismatch":
        wanted = re.sub(r"\.$", "", field_info.description or "")
        return f"`{name}` does not have the right form; it takes: {wanted}."
    takes = "a list" if detail["type"] == "list_type" and len(path) > 1 else ""
    named = setting_names.accepted_values(field_info)
    said = f"`{name}` is {_value_words(value)}"
    if isinstance(value, list) and rest and isinstance(at := rest[0], int) and at < len(value):
        said = f"`{name}`, entry {at + 1}, is {_value_words(value[at])}"
    return f"{said}; it takes {takes if takes and named == 'a section' else named}."


def _value_words(value: Any) -> str:
    """Return a description of a value for an error message."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "a section"
    return f'"{short_text(value)}"' if isinstance(value, str) else short_text(repr(value))


def _cap_problems(problems: list[SettingProblem]) -> list[SettingProblem]:
    """Return the first `MAX_PROBLEMS` problems; if there are more, one entry gives the number left out."""
    if len(problems) <= MAX_PROBLEMS:
        return problems
    more = len(problems) - MAX_PROBLEMS
    told = problems[:MAX_PROBLEMS]
    return [*told, SettingProblem(told[-1].origin, f"{plural(more, 'more wrong entry')} left out.")]
