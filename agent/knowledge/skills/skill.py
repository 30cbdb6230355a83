"""One skill: a folder with a SKILL.md, the fields of its frontmatter, and the trust in its source."""

from __future__ import annotations

import os
import re
import stat
import sys
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from agent.knowledge.skills.scanner import Verdict
from tools.kit.lazy_pattern import lazy_pattern
from tools.kit.yaml_text import (
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    YamlError,
    YamlForm,
    YamlSyntaxError,
    compose_yaml,
    load_yaml,
)
from tools.text.safe_text import clean
from tools.text.words import one_line

NAME_LENGTH = 64
DESCRIPTION_LENGTH = 1_024
COMPATIBILITY_LENGTH = 500
FIELDS = frozenset({"name", "description", "license", "allowed-tools", "metadata", "compatibility"})

DEEPEST = 20
"""The maximum nesting depth of the YAML that is read."""

_LOOSE_NAME = lazy_pattern(r"[a-z0-9][a-z0-9._-]*")
_FENCE = lazy_pattern(r"^---[ \t]*$", re.MULTILINE)
_LINE = lazy_pattern(r"^([A-Za-z_][\w-]*)[ \t]*:(?:[ \t]+(.*)|)$")
_KEY = lazy_pattern(r"^([A-Za-z_][\w-]*):[ \t]+(.*)$")


class SkillFormatError(ValueError):
    """A SKILL.md that cannot be read as a skill. The message is one sentence."""


class _BrokenYamlError(SkillFormatError):
    """The frontmatter is not YAML."""


@dataclass(frozen=True, slots=True)
class Frontmatter:
    """The frontmatter and the body of a SKILL.md."""

    fields: Mapping[str, Any]
    body: str
    warnings: tuple[str, ...] = field(default=())
    """Descriptions of mistakes that were tolerated."""


def read(text: str) -> Frontmatter:
    """Parse a SKILL.md leniently. Raises `SkillFormatError` if name or description is missing."""
    warnings: list[str] = []
    if text.startswith("\ufeff"):
        text = text.removeprefix("\ufeff")
        warnings.append("the file begins with a byte-order mark")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    head, body = _split_document(text, warnings)
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
    """Return the fields in the frontmatter. Raises `SkillFormatError` without a name or description."""
    fields = _lenient(head, warnings)
    for key in ("name", "description"):
        value = fields.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool):
            fields[key] = str(value)
        elif not isinstance(value, str) or not value.strip():
            raise SkillFormatError(f"the field {key} is missing or empty")
    return fields


def _split_document(text: str, warnings: list[str]) -> tuple[str, str]:
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
    """Return the fields, quoting values if the YAML is invalid otherwise. Raises `SkillFormatError`."""
    try:
        data = _load(head)
    except YamlSyntaxError as fault:
        try:
            data = _load("\n".join(_quoted(line) for line in head.split("\n")))
        except YamlSyntaxError:
            raise _BrokenYamlError(f"the YAML cannot be read: {_cause(fault)}") from None
        warnings.append("a value with special characters is not quoted")
    if not isinstance(data, dict):
        raise SkillFormatError("the YAML at the start is not a mapping of fields")
    return {str(key): value for key, value in data.items()}


_OTHER_BREAKS = {ord(each): " " for each in "\x85\u2028\u2029"}
"""Line breaks of YAML 1.1 that are plain characters in YAML 1.2; a space replaces them."""


_FORM = YamlForm("a skill", depth=DEEPEST, aliases=False, text_only=True)
_STRICT = replace(_FORM, anchors=False, tags=False, flow=False)


def _load(head: str, form: YamlForm = _FORM) -> Any:
    """Parse the frontmatter. Raises `YamlSyntaxError` for invalid YAML, otherwise `SkillFormatError`."""
    try:
        return load_yaml(head.translate(_OTHER_BREAKS), form)
    except YamlSyntaxError:
        raise
    except YamlError as fault:
        raise SkillFormatError(f"the YAML cannot be used: {_cause(fault)}") from None


def _single_lines(head: str) -> dict[str, Any]:
    """Return the fields of broken frontmatter that are plain lines, with their continuation lines. Pure."""
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
    # What is not plain text there, such as an open list, was not understood.
    return {key: value for key, value in fields.items() if value and value[0] not in "[{&*!|>%@`-"}


def _quoted(line: str) -> str:
    match = _KEY.match(line)
    if match is None or match[2][:1] in ("'", '"', "|", ">", "[", "{") or not match[2].strip():
        return line
    escaped = match[2].strip().replace("'", "''")
    return f"{match[1]}: '{escaped}'"


def _cause(fault: YamlError) -> str:
    return f"{fault.message} (line {fault.line})" if fault.line else fault.message


def validate(text: str, folder: str | None) -> tuple[str, ...]:
    """Return why a SKILL.md is invalid, one sentence for each mistake; `folder` is the name of its folder."""
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
    """Return the fields, parsed as strictly as the reference does. Raises `SkillFormatError`."""
    try:
        data = _load(head, _STRICT)
        _refuse_unclear(compose_yaml(head.translate(_OTHER_BREAKS), _STRICT))
    except YamlError as fault:
        raise SkillFormatError(f"the YAML cannot be read: {_cause(fault)}") from None
    if not isinstance(data, dict):
        raise SkillFormatError("the YAML at the start is not a mapping of fields")
    return data


def _refuse_unclear(node: Node | None) -> None:
    """Raise `SkillFormatError` for duplicate keys and for sibling mappings with different indentation."""
    if isinstance(node, MappingNode):
        keys = [key.value for key, _ in node.value if isinstance(key, ScalarNode)]
        doubled = sorted({key for key in keys if keys.count(key) > 1})
        if doubled:
            raise SkillFormatError(f"the YAML gives {doubled[0]} twice")
        inner = [value for _, value in node.value if isinstance(value, MappingNode)]
        if len({value.start_mark.column for value in inner}) > 1:
            raise SkillFormatError("the YAML indents mappings of one level differently")
        for _, value in node.value:
            _refuse_unclear(value)
    elif isinstance(node, SequenceNode):
        for value in node.value:
            _refuse_unclear(value)


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
    """Return whether a name can be loaded. It must be a safe path component; the format is stricter."""
    folded = unicodedata.normalize("NFKC", name)
    if not 0 < len(folded) <= NAME_LENGTH:
        return False
    if _LOOSE_NAME.fullmatch(folded):
        return True
    return folded == folded.lower() and all(letter.isalnum() or letter == "-" for letter in folded)


Scope = Literal["project", "user", "plugin", "bundled"]
SCOPES: tuple[Scope, ...] = ("project", "user", "plugin", "bundled")
"""All scopes, nearest first."""

LARGEST = 1_000_000
"""The size limit in bytes of a SKILL.md."""
LINKED_FOLDERS = ("references", "templates", "scripts", "assets")
"""Subfolders of a skill whose files are listed for the model."""
MOST_FILES = 200
"""The maximum number of linked files listed."""

_PLATFORMS: Mapping[str, tuple[str, ...]] = {
    "linux": ("linux",),
    "darwin": ("macos", "darwin", "mac", "osx"),
    "win32": ("windows", "win32", "win"),
}


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill as read from disk. Control characters are removed from its texts."""

    name: str
    description: str
    folder: Path
    scope: Scope
    category: str = ""
    """The folder below its root; empty if it is directly in the root."""
    body: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def file(self) -> Path:
        """The path of the SKILL.md."""
        return skill_file(self.folder) or self.folder / "SKILL.md"

    @property
    def allowed_tools(self) -> tuple[str, ...] | None:
        """The entries of `allowed-tools`, as written; None if there are none."""
        value = self.fields.get("allowed-tools")
        if isinstance(value, str):
            names = tuple(each for each in re.split(r"[\s,]+(?![^(]*\))", value.strip()) if each)
        elif isinstance(value, list):
            names = tuple(str(each).strip() for each in value if str(each).strip())
        else:
            return None
        return names or None

    @property
    def required_variables(self) -> tuple[str, ...]:
        """The names of the required environment variables."""
        found: list[str] = []
        for entry in _as_list(
            self._about("required_environment_variables", "required-environment-variables")
        ):
            name = entry.get("name", "") if isinstance(entry, Mapping) else entry
            if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", str(name)):
                found.append(str(name))
        return tuple(dict.fromkeys(found))

    @property
    def platforms(self) -> tuple[str, ...]:
        """The supported systems, such as `linux`; empty means all."""
        return tuple(
            str(each).strip().lower() for each in _as_list(self._about("platforms")) if str(each).strip()
        )

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of the skill."""
        return tuple(clean(str(each)) for each in _as_list(self._about("tags")))

    def _about(self, *keys: str) -> Any:
        """Return a field from the top level, or from `metadata` or `metadata.hermes`; None if missing."""
        metadata = self.fields.get("metadata")
        inner = metadata.get("hermes") if isinstance(metadata, Mapping) else None
        for place in (self.fields, metadata, inner):
            if isinstance(place, Mapping):
                for key in keys:
                    if key in place:
                        return place[key]
        return None


def _as_list(value: Any) -> list[Any]:
    """Return a list unchanged; split a text at commas and spaces; return an empty list for other values."""
    if isinstance(value, str):
        return [each for each in re.split(r"[\s,\[\]]+", value) if each]
    return list(value) if isinstance(value, list) else []


def for_platform(skill: Skill, platform: str = sys.platform) -> bool:
    """Return whether a skill supports this system."""
    own = next((names for key, names in _PLATFORMS.items() if platform.startswith(key)), (platform,))
    return not skill.platforms or any(each in own for each in skill.platforms)


_TITLE = lazy_pattern(r"[^\W_][\w .&'()-]{0,79}")
"""The form of names with spaces, as some collections write them."""


def skill_name(folder: str) -> str:
    """Return the name of a folder's SKILL.md, in either spelling; empty if it is not a skill."""
    return next((name for name in ("SKILL.md", "skill.md") if os.path.lexists(f"{folder}/{name}")), "")


def skill_file(folder: Path) -> Path | None:
    """Return the SKILL.md of a folder, in either spelling; None if it is not a skill."""
    name = skill_name(str(folder))
    return folder / name if name else None


def load(folder: Path, scope: Scope, category: str = "") -> Skill:
    """Return the skill in a folder. Raises `SkillFormatError` with one sentence."""
    path = skill_file(folder)
    if path is None:
        raise SkillFormatError("there is no SKILL.md")
    text = read_text(path, folder)
    head = read(text)
    name = str(head.fields["name"]).strip()
    warnings = list(head.warnings)
    if not loadable_name(name):
        if not (_TITLE.fullmatch(name) and loadable_name(folder.name)):
            raise SkillFormatError(
                f"the name {clean(name)[:80]!r} is not a name for a skill; use a-z, 0-9 and -"
            )
        warnings.append(f"the name {name!r} is a title, so the name of the folder is used")
        name = folder.name
    elif name != folder.name:
        warnings.append(f"the name {name} differs from the folder {clean(folder.name)}")
    description = one_line(str(head.fields["description"]))
    if len(description) > 1_024:
        warnings.append(f"the description has {len(description):,} characters; 1,024 are allowed")
    return Skill(name, description, folder, scope, category, clean(head.body), head.fields, tuple(warnings))


def read_text(path: Path, inside: Path, limit: int = LARGEST) -> str:
    """Return the text of a file below `inside`, at most `limit` bytes long. Raises `SkillFormatError`."""
    try:
        real = path.resolve(strict=True)
        if not real.is_relative_to(inside.resolve()):
            raise SkillFormatError(f"{path.name} leads out of the folder of the skill")
        file = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise SkillFormatError(f"{path.name} is not a plain file")
            with os.fdopen(file, "rb", closefd=False) as opened:
                content = opened.read(limit + 1)
        finally:
            os.close(file)
    except (OSError, RuntimeError, ValueError) as error:
        if isinstance(error, SkillFormatError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise SkillFormatError(f"{path.name} cannot be read: {reason}") from None
    if len(content) > limit:
        raise SkillFormatError(f"{path.name} is larger than {limit:,} bytes")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise SkillFormatError(f"{path.name} is not UTF-8 text") from None


def linked_files(folder: Path) -> dict[str, tuple[str, ...]]:
    """Return the files in a skill's `LINKED_FOLDERS` by folder, as relative paths, at most `MOST_FILES`.

    Links that lead out of the skill are left out.
    """
    found: dict[str, tuple[str, ...]] = {}
    root = folder.resolve()
    count = 0
    for name in LINKED_FOLDERS:
        paths: list[str] = []
        for parent, folders, files in os.walk(folder / name):
            folders.sort()
            for file in sorted(files):
                path = Path(parent, file)
                if count < MOST_FILES and path.resolve().is_relative_to(root):
                    paths.append(path.relative_to(folder).as_posix())
                    count += 1
        if paths:
            found[name] = tuple(paths)
    return found


Trust = Literal["builtin", "trusted", "community", "agent"]
Decision = Literal["yes", "no", "ask"]

TRUSTED = frozenset({"openai/skills", "anthropics/skills", "huggingface/skills", "nvidia/skills"})
"""Repositories whose owners take responsibility for the content, in lower case."""

POLICY: dict[Trust, dict[Verdict, Decision]] = {
    "builtin": {"safe": "yes", "caution": "yes", "dangerous": "yes"},
    "trusted": {"safe": "yes", "caution": "yes", "dangerous": "no"},
    "community": {"safe": "yes", "caution": "no", "dangerous": "no"},
    "agent": {"safe": "yes", "caution": "yes", "dangerous": "ask"},
}


def trust_of(source: str) -> Trust:
    """Return the trust in a source.

    The source may be `official`, `agent`, `owner/repository[/path]`, an address or a folder.
    """
    name = source.strip()
    lower = name.lower()
    if lower in ("official", "builtin", "bundled") or lower.startswith(("official/", "builtin/")):
        return "builtin"
    if lower in ("agent", "agent-created", "agent-made"):
        return "agent"
    for prefix in ("github:", "skills-sh/", "https://github.com/", "http://github.com/", "github.com/"):
        if lower.startswith(prefix):
            lower = lower.removeprefix(prefix)
            break
    else:
        if "://" in lower or lower.startswith(("/", ".", "~")):
            return "community"
    parts = lower.split("/")
    if any(part in ("", ".", "..") for part in parts[:-1]):
        return "community"
    repository = "/".join(parts[:2]).removesuffix(".git")
    return "trusted" if repository in TRUSTED else "community"


def decide(trust: Trust, verdict: Verdict, *, force: bool = False) -> Decision:
    """Return whether a skill may be installed: `yes`, `no`, or `ask` the user.

    `force` overrides the verdict `caution`; it overrides `dangerous` only for skills made by the agent.
    """
    decision = POLICY[trust][verdict]
    if not force or decision == "yes":
        return decision
    return "yes" if verdict != "dangerous" or trust == "agent" else decision
