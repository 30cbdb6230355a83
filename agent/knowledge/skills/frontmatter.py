"""The head of a SKILL.md: read leniently, validated strictly.

Reading takes what other agents wrote (a byte-order mark, CRLF, further keys, values
with a colon that YAML would refuse) and says what it forgave. Validation follows the
reference validator of the format (skills-ref 0.1.1), whose YAML knows only block
mappings and text: what passes here passes there.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

NAME_LENGTH = 64
DESCRIPTION_LENGTH = 1_024
COMPATIBILITY_LENGTH = 500
FIELDS = frozenset({"name", "description", "license", "allowed-tools", "metadata", "compatibility"})

DEEPEST = 20
"""Levels of nesting that are read."""

_LOOSE_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
_FENCE = re.compile(r"^---[ \t]*$", re.MULTILINE)
_LINE = re.compile(r"^([A-Za-z_][\w-]*)[ \t]*:(?:[ \t]+(.*)|)$")
_KEY = re.compile(r"^([A-Za-z_][\w-]*):[ \t]+(.*)$")


class SkillFormatError(ValueError):
    """A SKILL.md that cannot be read as a skill. The message is one sentence."""


class _BrokenYamlError(SkillFormatError):
    """The head is not YAML."""


@dataclass(frozen=True, slots=True)
class Frontmatter:
    """The head and the body of a SKILL.md."""

    fields: Mapping[str, Any]
    body: str
    warnings: tuple[str, ...] = field(default=())
    """What had to be forgiven to read it."""


def read(text: str) -> Frontmatter:
    """Head and body, leniently. Raises `SkillFormatError` without a head that has name and description."""
    warnings: list[str] = []
    if text.startswith("\ufeff"):
        text = text.removeprefix("\ufeff")
        warnings.append("the file begins with a byte-order mark")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    head, body = _parted(text, warnings)
    try:
        fields = _fields(head, warnings)
    except SkillFormatError as error:
        # The reference ends the head at the first hyphens anywhere; what it can read is read here too.
        parts = text.split("---", 2)
        try:
            if len(parts) < 3 or parts[1] == head:
                raise
            fields = _fields(parts[1], warnings)
            body = parts[2].strip()
        except SkillFormatError:
            # Other agents read a broken head line by line, and most have a name and a description.
            fields = _single_lines(head) if isinstance(error, _BrokenYamlError) else {}
            if not {"name", "description"} <= fields.keys():
                raise error from None
            warnings.append(f"only the plain lines of its head are used: {error}")
    unknown = sorted(str(key) for key in fields.keys() - FIELDS)
    if unknown:
        warnings.append(f"unknown fields: {', '.join(unknown[:8])}")
    return Frontmatter(fields, body, tuple(warnings))


def _fields(head: str, warnings: list[str]) -> dict[str, Any]:
    """The mapping in the head, which has a name and a description."""
    fields = _lenient(head, warnings)
    for key in ("name", "description"):
        value = fields.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            fields[key] = str(value)
        elif not isinstance(value, str) or not value.strip():
            raise SkillFormatError(f"the field {key} is missing or empty")
    return fields


def _parted(text: str, warnings: list[str]) -> tuple[str, str]:
    if not text.startswith("---"):
        raise SkillFormatError("SKILL.md must begin with YAML between two lines of ---")
    fences = _FENCE.finditer(text)
    first = next(fences, None)
    last = next(fences, None)
    if first is not None and first.start() == 0 and last is not None:
        return text[first.end() : last.start()], text[last.end() :].strip()
    parts = text.split("---", 2)
    if len(parts) < 3:
        raise SkillFormatError("the YAML at the start is not closed by a line of ---")
    warnings.append("the lines of --- around the YAML hold more than that")
    return parts[1], parts[2].strip()


def _lenient(head: str, warnings: list[str]) -> dict[str, Any]:
    """The mapping in the head; single lines that YAML refuses are quoted and tried again."""
    try:
        data = _load(head)
    except yaml.YAMLError as error:
        try:
            data = _load("\n".join(_quoted(line) for line in head.split("\n")))
        except yaml.YAMLError:
            raise _BrokenYamlError(f"the YAML cannot be read: {_cause(error)}") from None
        warnings.append("a value with special characters is not quoted")
    if not isinstance(data, dict):
        raise SkillFormatError("the YAML at the start is no mapping of fields")
    return {str(key): value for key, value in data.items()}


_OTHER_BREAKS = {ord(each): " " for each in "\x85\u2028\u2029"}
"""Breaks of a line in YAML 1.1, plain characters in the 1.2 of the reference; a blank says the same."""


def _load(head: str) -> Any:
    head = head.translate(_OTHER_BREAKS)
    for depth in _depths(head):
        if depth > DEEPEST:
            raise SkillFormatError(f"the YAML is nested more than {DEEPEST} levels deep")
    try:
        return yaml.load(head, Loader=_TextLoader)
    except (RecursionError, ValueError) as error:
        raise yaml.YAMLError(str(error)) from error


def _depths(head: str) -> Iterator[int]:
    depth = 0
    for event in yaml.parse(head, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise SkillFormatError("the YAML uses an alias, which a skill must not")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            yield depth
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


class _TextLoader(yaml.SafeLoader):
    """YAML whose scalars are text: `1.10`, `yes` and dates stay what was written."""


_TextLoader.yaml_implicit_resolvers = {}


def _single_lines(head: str) -> dict[str, Any]:
    """The fields of a broken head that are plain lines, with the lines that go on below them. Pure."""
    fields: dict[str, Any] = {}
    last = ""
    for line in head.split("\n"):
        if (match := _LINE.match(line)) is not None:
            last, value = match[1], (match[2] or "").strip()
            if last in fields:
                last = ""
                continue
            quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
            fields[last] = value[1:-1] if quoted else "" if value.rstrip("+-") in ("|", ">") else value
        elif _LINE.match(line.strip()):
            last = ""
        elif last and line[:1] in (" ", "\t") and line.strip():
            fields[last] = f"{fields[last]} {line.strip()}".strip()
        else:
            last = ""
    # What is no plain text there, such as an open list, was not understood.
    return {key: value for key, value in fields.items() if value and value[0] not in "[{&*!|>%@`-"}


def _quoted(line: str) -> str:
    match = _KEY.match(line)
    if match is None or match[2][:1] in ("'", '"', "|", ">", "[", "{") or not match[2].strip():
        return line
    escaped = match[2].strip().replace("'", "''")
    return f"{match[1]}: '{escaped}'"


def _cause(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "it is no YAML"
    return f"{problem} (line {mark.line + 1})" if mark is not None else str(problem)


def validate(text: str, folder: str | None) -> tuple[str, ...]:
    """What keeps a SKILL.md from being valid, a sentence each; `folder` is the name of its folder."""
    if not text.startswith("---"):
        return ("SKILL.md must start with YAML frontmatter (---).",)
    # The reference parts at the first three hyphens anywhere; a head that holds some is cut there.
    parts = text.split("---", 2)
    if len(parts) < 3:
        return ("SKILL.md frontmatter is not closed with ---.",)
    try:
        strict = _strict(parts[1])
    except SkillFormatError as error:
        return (f"{str(error)[0].upper()}{str(error)[1:]}.",)
    return tuple(_problems(strict, folder))


def _strict(head: str) -> dict[str, Any]:
    """The mapping as the reference reads it: block style, no aliases, tags or doubled keys."""
    head = head.translate(_OTHER_BREAKS)
    try:
        for event in yaml.parse(head, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
                raise SkillFormatError("the YAML uses an anchor or alias")
            if isinstance(event, yaml.CollectionStartEvent) and event.flow_style:
                raise SkillFormatError("the YAML uses flow style ({…} or […]); write one entry per line")
            if getattr(event, "tag", None):
                raise SkillFormatError("the YAML uses a tag")
        node = yaml.compose(head, Loader=_TextLoader)
        _refuse_unclear(node, 0)
        data = yaml.load(head, Loader=_TextLoader)
    except yaml.YAMLError as error:
        raise SkillFormatError(f"the YAML cannot be read: {_cause(error)}") from None
    except RecursionError:
        raise SkillFormatError("the YAML is nested too deep") from None
    if not isinstance(data, dict):
        raise SkillFormatError("the YAML at the start is no mapping of fields")
    return data


def _refuse_unclear(node: yaml.Node | None, depth: int) -> None:
    """Raise for keys given twice, and for mappings side by side that are not equally far to the right."""
    if depth > DEEPEST:
        raise SkillFormatError(f"the YAML is nested more than {DEEPEST} levels deep")
    if isinstance(node, yaml.MappingNode):
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        doubled = sorted({key for key in keys if keys.count(key) > 1})
        if doubled:
            raise SkillFormatError(f"the YAML gives {doubled[0]} twice")
        inner = [value for _, value in node.value if isinstance(value, yaml.MappingNode)]
        if len({value.start_mark.column for value in inner}) > 1:
            raise SkillFormatError("the YAML indents mappings of one level differently")
        for _, value in node.value:
            _refuse_unclear(value, depth + 1)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _refuse_unclear(value, depth + 1)


def _problems(fields: Mapping[str, Any], folder: str | None) -> Iterator[str]:
    unknown = sorted(fields.keys() - FIELDS - ({"<<"} if isinstance(fields.get("<<"), Mapping) else set()))
    if unknown:
        yield f"Unexpected fields: {', '.join(unknown)}; only {', '.join(sorted(FIELDS))} are allowed."
    yield from _name_problems(fields.get("name"), folder)
    description = fields.get("description")
    if not isinstance(description, str) or not description.strip():
        yield "The field description must be a text that is not empty."
    elif len(description) > DESCRIPTION_LENGTH:
        yield f"The description has {len(description):,} characters; {DESCRIPTION_LENGTH:,} are allowed."
    if "compatibility" in fields:
        compatibility = fields["compatibility"]
        if not isinstance(compatibility, str):
            yield "The field compatibility must be a text."
        elif len(compatibility) > COMPATIBILITY_LENGTH:
            most = COMPATIBILITY_LENGTH
            yield f"The field compatibility has {len(compatibility)} characters; {most} are allowed."


def _name_problems(name: Any, folder: str | None) -> Iterator[str]:
    if not isinstance(name, str) or not name.strip():
        yield "The field name must be a text that is not empty."
        return
    name = unicodedata.normalize("NFKC", name.strip())
    if len(name) > NAME_LENGTH:
        yield f"The name has {len(name)} characters; {NAME_LENGTH} are allowed."
    if name != name.lower():
        yield f"The name {name!r} must be lowercase."
    if name.startswith("-") or name.endswith("-"):
        yield "The name must not begin or end with a hyphen."
    if "--" in name:
        yield "The name must not hold two hyphens in a row."
    if not all(letter.isalnum() or letter == "-" for letter in name):
        yield f"The name {name!r} may hold only letters, digits and hyphens."
    if folder is not None and unicodedata.normalize("NFKC", folder) != name:
        yield f"The folder {folder!r} must have the name of the skill, {name!r}."


def loadable_name(name: str) -> bool:
    """Whether a name can be loaded: wider than the format, and still one safe path component."""
    folded = unicodedata.normalize("NFKC", name)
    if not 0 < len(folded) <= NAME_LENGTH:
        return False
    if _LOOSE_NAME.fullmatch(folded):
        return True
    return folded == folded.lower() and all(letter.isalnum() or letter == "-" for letter in folded)
