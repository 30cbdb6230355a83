"""Trees of files, as repositories and folders have them, and the skills in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal, Protocol

from agent.knowledge.skills.frontmatter import SkillFormatError, read
from agent.knowledge.skills.hub.bundle import (
    SKILL_FILES,
    STRICT,
    Limits,
    SkillFile,
    check_count,
    checked,
    safe_path,
)
from agent.knowledge.skills.hub.problems import HubError, HubMissingError, HubRefusedError
from agent.knowledge.skills.hub.source import FetchedSkill, SkillOffer, SourceKind, matches
from tools.text.words import brief

MOST_SKILLS = 500
"""Skills of one tree that are looked at."""
MOST_DESCRIBED = 120
"""Skills of one tree whose descriptions are read for a search."""
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One file of a tree, or what stands in its place."""

    path: str
    kind: Literal["file", "link", "submodule", "other"]
    size: int
    """Bytes, as far as the tree says."""
    id: str = ""
    """How the tree finds its content."""
    executable: bool = False


class FileTree(Protocol):
    """Files at one revision. Reading raises `HubError`."""

    @property
    def revision(self) -> str:
        """A commit, or another mark of the whole content."""
        ...

    @property
    def entries(self) -> tuple[TreeEntry, ...]:
        """All files, in any order."""
        ...

    def read(self, wanted: Sequence[TreeEntry], limit: int) -> Mapping[str, bytes]:
        """The contents of files by path, each at most `limit` bytes long."""
        ...


@dataclass(frozen=True, slots=True)
class TreeSkill:
    """A skill in a tree."""

    folder: str
    """Empty if it is the whole tree."""
    file: TreeEntry


def skills_in(entries: Iterable[TreeEntry], below: str = "") -> tuple[TreeSkill, ...]:
    """Folders with a SKILL.md, in the order of their paths; those inside of another skill do not count."""
    begin = f"{below}/" if below else ""
    found: dict[str, TreeSkill] = {}
    for entry in entries:
        path = PurePosixPath(entry.path)
        if entry.kind == "file" and path.name in SKILL_FILES and entry.path.startswith(begin):
            folder = "" if len(path.parts) == 1 else path.parent.as_posix()
            if folder not in found or path.name == SKILL_FILES[0]:
                found[folder] = TreeSkill(folder, entry)
    # A SKILL.md at the top of a tree tells of the whole; what lies below it is chosen by itself too.
    outer = [
        skill
        for folder, skill in sorted(found.items())
        if not any(parent.as_posix() in found for parent in PurePosixPath(folder).parents)
    ]
    return tuple(outer[:MOST_SKILLS])


def pick(skills: Sequence[TreeSkill], wanted: str, where: str) -> TreeSkill:
    """The skill that a path or the name of its folder means. Raises `HubMissingError`."""
    parts = wanted.strip("/").split("/")
    wanted = "/".join(parts[:-1] if parts[-1] in SKILL_FILES else parts)
    found = [skill for skill in skills if skill.folder == wanted]
    if not found and wanted:
        found = [skill for skill in skills if f"/{skill.folder}".endswith(f"/{wanted}")]
    if not found and not wanted and len(skills) == 1:
        found = [skills[0]]
    if len(found) == 1:
        return found[0]
    names = ", ".join(brief(skill.folder or ".") for skill in (found or skills)[:12])
    if not skills:
        raise HubMissingError(f"There is no skill in {brief(where)}: no folder with a SKILL.md.")
    if found:
        raise HubMissingError(f"{brief(wanted)!r} in {brief(where)} means several skills: {names}.")
    what = f"no skill {brief(wanted)!r}" if wanted else f"{len(skills)} skills, so name one"
    raise HubMissingError(f"In {brief(where)} there is {what}; it has {names}.")


def bundle(tree: FileTree, folder: str, limits: Limits = STRICT) -> tuple[SkillFile, ...]:
    """The files of the skill in `folder`. Sizes are judged before anything is read."""
    begin = f"{folder}/" if folder else ""
    chosen: list[TreeEntry] = []
    total = 0
    for entry in tree.entries:
        if not entry.path.startswith(begin):
            continue
        name = entry.path.removeprefix(begin)
        if entry.kind != "file":
            what = {"link": "a link", "submodule": "a submodule"}.get(entry.kind, "no plain file")
            raise HubRefusedError(f"{brief(name)} in the skill is {what}, which is not taken.")
        safe_path(name)
        total += entry.size
        chosen.append(entry)
        check_count(len(chosen), total, entry.size, name, limits)
    contents = tree.read(chosen, limits.each)
    return checked(
        (
            SkillFile(entry.path.removeprefix(begin), contents[entry.path], executable=entry.executable)
            for entry in chosen
        ),
        limits,
    )


def described(tree: FileTree, skills: Sequence[TreeSkill], limit: int) -> list[tuple[TreeSkill, str, str]]:
    """Skills with name and description; what cannot be read as a skill keeps the name of its folder."""
    small = [skill for skill in skills if skill.file.size <= limit]
    parts = [small[start : start + _AT_ONCE] for start in range(0, len(small), _AT_ONCE)]

    def heads(part: Sequence[TreeSkill]) -> Mapping[str, bytes]:
        try:
            return tree.read([skill.file for skill in part], limit)
        except HubMissingError:
            return {}

    texts: dict[str, bytes] = {}
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for part in pool.map(heads, parts):
            texts.update(part)
    return [(skill, *head_of(texts.get(skill.file.path, b""), skill.folder)) for skill in skills]


def head_of(content: bytes, folder: str) -> tuple[str, str]:
    """Name and description of a SKILL.md, cleaned."""
    try:
        fields = read(content.decode("utf-8")).fields
    except (UnicodeDecodeError, SkillFormatError):
        return brief(PurePosixPath(folder).name), ""
    return brief(fields["name"]), brief(fields["description"], 1_024)


@dataclass(frozen=True, slots=True)
class TreeSource:
    """The skills of one tree as a source: `SkillSource` for repositories and folders."""

    name: str
    kind: SourceKind
    address: str
    tree: FileTree
    below: str = ""
    """The folder of the tree that counts."""
    repository: str = ""
    """`owner/repository` where that says who answers for it."""

    def search(self, query: str, limit: int) -> tuple[SkillOffer, ...]:
        """Skills whose path, name or description holds all words."""
        skills = skills_in(self.tree.entries, self.below)
        known = described(self.tree, skills[:MOST_DESCRIBED], STRICT.each)
        found = [
            (matches(query, name, description, skill.folder), self._offer(skill, name, description))
            for skill, name, description in known
        ]
        ranked = sorted((each for each in found if each[0]), key=lambda each: (-each[0], each[1].item))
        return tuple(offer for _, offer in ranked[:limit])

    def inspect(self, item: str, version: str = "") -> SkillOffer:
        """The skill that a path or the name of its folder means."""
        skill = self._pick(item)
        return self._offer(skill, *head_of(self._text(skill), skill.folder))

    def fetch(self, item: str, version: str = "", limits: Limits = STRICT) -> FetchedSkill:
        """Its files."""
        skill = self._pick(item)
        files = bundle(self.tree, skill.folder, limits)
        content = next(file.content for file in files if file.path in SKILL_FILES)
        return FetchedSkill(self._offer(skill, *head_of(content, skill.folder)), files)

    def _pick(self, item: str) -> TreeSkill:
        skills = skills_in(self.tree.entries, self.below)
        try:
            return pick(skills, item, self.address)
        except HubMissingError:
            named = [
                skill
                for skill, name, _ in described(self.tree, skills[:MOST_DESCRIBED], STRICT.each)
                if item and name == item
            ]
            if len(named) == 1:
                return named[0]
            raise

    def _text(self, skill: TreeSkill) -> bytes:
        if skill.file.size > STRICT.each:
            raise HubRefusedError(f"{brief(skill.file.path)} is larger than {STRICT.each:,} bytes.")
        return self.tree.read([skill.file], STRICT.each)[skill.file.path]

    def _offer(self, skill: TreeSkill, name: str, description: str) -> SkillOffer:
        origin = f"{self.repository}/{skill.folder}".rstrip("/") if self.repository else ""
        return SkillOffer(
            source=self.name,
            kind=self.kind,
            item=skill.folder,
            name=name or brief(PurePosixPath(skill.folder).name) or self.name,
            description=description,
            version=self.tree.revision,
            address=self.address,
            origin=origin,
        )


def subfolder(path: object, what: str) -> str:
    """A relative folder named in a document from outside, without `./`; empty for the root itself."""
    if not isinstance(path, str):
        raise HubError(f"{what} is no path.")
    plain = path.strip().removeprefix("./").strip("/")
    return safe_path(plain) if plain not in ("", ".") else ""
