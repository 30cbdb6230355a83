"""One skill: a folder with a SKILL.md and what belongs to it."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from agent.knowledge.skills.frontmatter import SkillFormatError, loadable_name, read
from tools.text.safe_text import clean
from tools.text.words import one_line

Scope = Literal["project", "user", "plugin", "bundled"]
SCOPES: tuple[Scope, ...] = ("project", "user", "plugin", "bundled")
"""Nearest first."""

LARGEST = 1_000_000
"""Bytes of a SKILL.md that is read."""
LINKED_FOLDERS = ("references", "templates", "scripts", "assets")
"""Folders of a skill whose files are named to the model."""
MOST_FILES = 200
"""Linked files that are named."""

_PLATFORMS: Mapping[str, tuple[str, ...]] = {
    "linux": ("linux",),
    "darwin": ("macos", "darwin", "mac", "osx"),
    "win32": ("windows", "win32", "win"),
}


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill as it was read. Texts are cleaned of control bytes."""

    name: str
    description: str
    folder: Path
    scope: Scope
    category: str = ""
    """The folder it lies in below its root; empty if it lies there directly."""
    body: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def file(self) -> Path:
        """Its SKILL.md."""
        return skill_file(self.folder) or self.folder / "SKILL.md"

    @property
    def allowed_tools(self) -> tuple[str, ...] | None:
        """What `allowed-tools` lists, as written; None if it lists nothing."""
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
        """Environment variables it needs."""
        found: list[str] = []
        for entry in _listed(self._about("required_environment_variables", "required-environment-variables")):
            name = entry.get("name", "") if isinstance(entry, Mapping) else entry
            if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", str(name)):
                found.append(str(name))
        return tuple(dict.fromkeys(found))

    @property
    def platforms(self) -> tuple[str, ...]:
        """Systems it is for, such as `linux`; empty means all."""
        return tuple(
            str(each).strip().lower() for each in _listed(self._about("platforms")) if str(each).strip()
        )

    @property
    def tags(self) -> tuple[str, ...]:
        """What it is filed under."""
        return tuple(clean(str(each)) for each in _listed(self._about("tags")))

    def _about(self, *keys: str) -> Any:
        """A field at the top or under `metadata` (also `metadata.hermes`), where the format wants it."""
        metadata = self.fields.get("metadata")
        inner = metadata.get("hermes") if isinstance(metadata, Mapping) else None
        for place in (self.fields, metadata, inner):
            if isinstance(place, Mapping):
                for key in keys:
                    if key in place:
                        return place[key]
        return None


def _listed(value: Any) -> list[Any]:
    """A list, or a text of names parted by commas or spaces, as a list."""
    if isinstance(value, str):
        return [each for each in re.split(r"[\s,\[\]]+", value) if each]
    return list(value) if isinstance(value, list) else []


def for_platform(skill: Skill, platform: str = sys.platform) -> bool:
    """Whether a skill is for this system."""
    own = next((names for key, names in _PLATFORMS.items() if platform.startswith(key)), (platform,))
    return not skill.platforms or any(each in own for each in skill.platforms)


_TITLE = re.compile(r"[^\W_][\w .&'()-]{0,79}")
"""What some collections write for a name: words with blanks."""


def skill_name(folder: str) -> str:
    """What the SKILL.md of a folder is called, in either spelling; empty if it is no skill."""
    return next((name for name in ("SKILL.md", "skill.md") if os.path.lexists(f"{folder}/{name}")), "")


def skill_file(folder: Path) -> Path | None:
    """The SKILL.md of a folder, in either spelling; None if it is no skill."""
    name = skill_name(str(folder))
    return folder / name if name else None


def load(folder: Path, scope: Scope, category: str = "") -> Skill:
    """Read a skill. Raises `SkillFormatError` with one sentence on why it is none."""
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
                f"the name {clean(name)[:80]!r} is no name for a skill; use a-z, 0-9 and -"
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
    """A text file below `inside`. Raises `SkillFormatError`."""
    try:
        real = path.resolve(strict=True)
        if not real.is_relative_to(inside.resolve()):
            raise SkillFormatError(f"{path.name} leads out of the folder of the skill")
        file = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise SkillFormatError(f"{path.name} is no plain file")
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
    """Files of a skill by folder, as paths below the skill; links that lead out are left out."""
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
