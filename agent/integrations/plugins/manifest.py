"""`plugin.json` of Agent Plugins 1.0.0: who a plugin is. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from agent.integrations.plugins.problem import PluginError, SkippedPart
from tools.text.words import brief

FILE = "plugin.json"
SCHEMA = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"
NAMESPACE = "dev.hermes-tui"
"""Our own extension namespace: the folder of a plugin that holds what only Hermes reads."""
LONGEST_NAME = 64

_TEXTS = ("version", "description", "homepage", "repository", "license")
_FIELDS = frozenset({"$schema", "name", "author", "keywords", "extensions", *_TEXTS})
_AUTHOR = frozenset({"name", "email", "url"})
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Manifest:
    """What `plugin.json` says."""

    name: str
    version: str = ""
    description: str = ""
    skipped: tuple[SkippedPart, ...] = ()
    """Fields that are not read."""


def is_name(text: object) -> bool:
    """Whether a text can be the name of a plugin."""
    return (
        isinstance(text, str)
        and len(text) <= LONGEST_NAME
        and _NAME.fullmatch(text) is not None
        and "--" not in text
        and ".." not in text
    )


def read_object(content: bytes) -> dict[str, Any]:
    """The JSON object in a file. Raises `ValueError` with a clause that says what is wrong."""
    try:
        data = json.loads(content.decode("utf-8"))
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is no JSON (line {error.lineno}: {error.msg})") from None
    except (ValueError, RecursionError):
        raise ValueError("it is no JSON that can be read") from None
    if not isinstance(data, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004 - the caller knows one kind
    return data


def parse(content: bytes) -> Manifest:
    """Read a manifest. Raises `PluginError` naming the field that is wrong.

    Unknown fields, and `extensions` that is no object, are named and ignored, as the format wants.
    """
    try:
        data = read_object(content)
    except ValueError as error:
        raise PluginError(f"{FILE} cannot be used: {error}.") from None
    schema = data.get("$schema")
    if not isinstance(schema, str) or not schema:
        raise PluginError(f"{FILE}: the field $schema is missing; it has to be {SCHEMA}.")
    if schema != SCHEMA:
        raise PluginError(
            f"{FILE} is written for {brief(schema, 120)}, which is not supported; it has to be {SCHEMA}."
        )
    if not is_name(data.get("name")):
        raise PluginError(
            f"{FILE}: the field name is no name for a plugin; use 1 to {LONGEST_NAME} of a-z, 0-9, - and ., "
            "a letter or digit at both ends, no -- and no two dots in a row."
        )
    for key in _TEXTS:
        if key in data and not isinstance(data[key], str):
            raise PluginError(f"{FILE}: the field {key} is no text.")
    _check_author(data)
    keywords = data.get("keywords", [])
    if not isinstance(keywords, list) or not all(isinstance(each, str) for each in keywords):
        raise PluginError(f"{FILE}: the field keywords is no list of texts.")
    skipped = [
        SkippedPart(f"{FILE}: {brief(key)}", "the format does not know this field")
        for key in data
        if key not in _FIELDS
    ]
    extensions = data.get("extensions", {})
    if not isinstance(extensions, dict):
        skipped.append(SkippedPart(f"{FILE}: extensions", "it is no object"))
    elif NAMESPACE in extensions:
        reason = f"Hermes reads the folder {NAMESPACE} instead"
        skipped.append(SkippedPart(f"{FILE}: extensions.{NAMESPACE}", reason))
    return Manifest(
        data["name"],
        brief(data.get("version", "")),
        brief(data.get("description", ""), 1_000),
        tuple(skipped),
    )


def _check_author(data: dict[str, Any]) -> None:
    if "author" not in data:
        return
    author = data["author"]
    if not isinstance(author, dict):
        raise PluginError(f"{FILE}: the field author is no object.")
    for key, value in author.items():
        if key not in _AUTHOR or not isinstance(value, str):
            raise PluginError(f"{FILE}: author.{brief(key)} is not name, email or url with a text.")
