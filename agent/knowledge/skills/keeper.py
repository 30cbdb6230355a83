"""The skills of one agent: their use by its tools and messages, and their changes."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.core.home import PRIVATE_FILE, Home, from_home, private_folder
from agent.events import Event, Noticed
from agent.knowledge.skills.catalog import (
    SkillCatalog,
    SkillOriginals,
    SkillSet,
    digest_of,
    missing_variables,
)
from agent.knowledge.skills.scanner import SkillFinding, scan_text
from agent.knowledge.skills.skill import (
    LINKED_FOLDERS,
    NAME_LENGTH,
    Skill,
    linked_files,
    skill_file,
    validate,
)
from agent.knowledge.skills.viewing import (
    CapabilitiesInForce,
    capabilities,
    file_of,
    inside,
    instructions,
    list_skills,
    one,
    with_folder,
)
from tools.files.diffs import diff_texts
from tools.files.hunk_application import replace_text
from tools.files.planning import new_text
from tools.files.text_files import decode
from tools.kit.files import read_bytes, write_atomically
from tools.kit.lazy_pattern import lazy_pattern
from tools.results import ToolError
from tools.services.actions import Action, DeletePath, WritePath
from tools.services.skill_keeper import SkillChange, SkillDraft, SkillKeeper
from tools.text.safe_text import clean

LARGEST_INSTRUCTIONS = 100_000
"""The size limit in characters of a written SKILL.md."""
LARGEST_FILE = 1_048_576
"""The size limit in bytes of another written file."""
_MOST_BYTES = 20_000_000
_TEXT = "SKILL.md"


@dataclass(frozen=True, slots=True)
class SkillWrite:
    """File contents before and after a change, by absolute path; None means that the file does not exist."""

    folder: Path
    before: Mapping[Path, bytes | None]
    after: Mapping[Path, bytes | None]
    executable: frozenset[Path] = frozenset()
    removes: bool = False
    """Whether the whole folder is removed."""
    original: str = ""
    """The digest of the bundled skill that this write copies into the home; empty if it copies none."""

    def paths(self) -> tuple[Path, ...]:
        """Return the files to change, in order."""
        return tuple(path for path in sorted(self.after) if self.after[path] != self.before.get(path))


def draft_change(change: SkillChange, found: SkillSet, home: Home) -> SkillDraft:
    """Return a prepared change, without writing anything. Reads files. Raises `ToolError`."""
    write = _new(change, found, home) if change.act == "create" else _changed(change, found, home)
    if not write.paths():
        raise ToolError("That is what the skill says already; there is nothing to change.")
    problems = _problems(write) - _problems_before(write)
    if problems:
        raise ToolError(f"Not saved: {' '.join(sorted(problems))}")
    severe, others = _scanned(write)
    diff, added, removed = _compare_content(write)
    return SkillDraft(
        change=change,
        folder=from_home(write.folder),
        diff=diff,
        added=added,
        removed=removed,
        danger=severe,
        findings=others,
        plan=write,
    )


def carried_out(write: SkillWrite) -> None:
    """Write a prepared change, each file atomically. Raises `ToolError`, also if a file was changed since."""
    for path, content in write.before.items():
        if _content(path) != content:
            raise ToolError(f"{path.name} was changed meanwhile; look at the skill again.")
    try:
        for path in write.paths():
            content = write.after[path]
            if content is None:
                path.unlink(missing_ok=True)
            else:
                private_folder(path.parent)
                mode = 0o700 if path in write.executable else PRIVATE_FILE
                write_atomically(path, content, mode, follow_links=False)
        if write.removes:
            shutil.rmtree(write.folder)
        else:
            _without_empty(write.folder)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ToolError(f"{from_home(write.folder)} cannot be written: {reason}.") from error


def folders_of(write: SkillWrite) -> tuple[Path, ...]:
    """Return the folders that a change leaves without files and so removes, outermost first."""
    gone = {path for path, content in write.after.items() if content is None}
    folders = {parent for path in gone for parent in path.parents if parent.is_relative_to(write.folder)}
    return tuple(sorted(folder for folder in folders if _all_gone(folder, gone)))


def _all_gone(folder: Path, gone: set[Path]) -> bool:
    files = [Path(parent, name) for parent, _, names in os.walk(folder) for name in names]
    return all(file in gone for file in files)


# Which files, and what happens to them


def _new(change: SkillChange, found: SkillSet, home: Home) -> SkillWrite:
    name = _checked_name(change.name)
    own = _own(found, name, home)
    if own is not None:
        raise ToolError(f"There is a skill {name} already; use edit or patch.", path=from_home(own.folder))
    category = "" if not change.category else _checked_category(change.category)
    folder = home.skills / category / name if category else home.skills / name
    if os.path.lexists(folder):
        raise ToolError(f"{from_home(folder)} is there already, and is not a skill; choose another name.")
    path = folder / _TEXT
    return SkillWrite(folder, {path: None}, {path: _instructions(change.content)})


def _changed(change: SkillChange, found: SkillSet, home: Home) -> SkillWrite:
    skill = _own(found, change.name, home)
    copied: dict[Path, bytes | None] = {}
    executable: frozenset[Path] = frozenset()
    original = ""
    if skill is None:
        skill, folder, copied, executable = _copy_of(change, found, home)
        original = digest_of(skill.folder)
    else:
        _refuse_installed(skill, home)
        folder = skill.folder
    source = skill.folder
    main = (skill_file(source) or source / _TEXT).name
    if change.act == "delete":
        before = {path: _content(path) for path in _files(folder)}
        return SkillWrite(folder, before, dict.fromkeys(before), removes=True)
    file = change.file or main
    if change.act in ("write_file", "remove_file") and (file == main or not change.file):
        raise ToolError(
            f"{file or 'file_path'} is not a file beside SKILL.md; use edit, patch or delete for that."
        )
    relative = inside(folder, file)
    if file != main and file.split("/")[0] not in LINKED_FOLDERS:
        raise ToolError(
            f"{clean(file)[:200]} must lie below {', '.join(f'{each}/' for each in LINKED_FOLDERS)}."
        )
    _refuse_links(folder, relative)
    was = copied.get(relative) if copied else _content(relative)
    match change.act:
        case "edit":
            now: bytes | None = _instructions(change.content)
        case "write_file":
            now = _file(change.content)
        case "remove_file":
            if was is None:
                raise ToolError(f"There is no file {clean(file)[:200]} in {skill.name}.")
            now = None
        case _:
            if was is None:
                raise ToolError(f"There is no file {clean(file)[:200]} in {skill.name}.")
            text = replace_text(
                decode(was), change.old, change.new, everywhere=change.everywhere, name=file
            ).file
            now = text.encode()
    before: dict[Path, bytes | None] = dict.fromkeys(copied) if copied else {relative: was}
    before.setdefault(relative, None)
    return SkillWrite(folder, before, copied | {relative: now}, executable, original=original)


def _copy_of(
    change: SkillChange, found: SkillSet, home: Home
) -> tuple[Skill, Path, dict[Path, bytes | None], frozenset[Path]]:
    """Return a bundled skill, the folder for its copy, the copy's contents by path, and its executable files.
    Raises `ToolError`.
    """
    every = (*found.skills, *(each.skill for each in found.off), *found.shadowed)
    named = [each for each in every if each.name == change.name]
    skill = next((each for each in named if each.scope == "bundled"), None)
    if skill is None and named:
        raise ToolError(
            f"{change.name} is in {from_home(named[0].folder)}, where it belongs to others; change its "
            "files there with patch, or create one with another name."
        )
    if skill is None:
        raise ToolError(f"There is no skill {clean(change.name)[:60]!r}; use create for a new one.")
    if change.act == "delete":
        raise ToolError(
            f"{skill.name} ships with Hermes; the user can switch it off in /skills, or with the setting "
            "skills.disabled."
        )
    folder = home.skills / skill.category / skill.name if skill.category else home.skills / skill.name
    if os.path.lexists(folder):
        raise ToolError(
            f"{from_home(folder)} is there already, and is not a skill; ask the user to look at it."
        )
    copies = {folder / path.relative_to(skill.folder): path for path in _files(skill.folder)}
    executable = frozenset(to for to, path in copies.items() if os.access(path, os.X_OK))
    return skill, folder, {to: _content(path) for to, path in copies.items()}, executable


def _own(found: SkillSet, name: str, home: Home) -> Skill | None:
    """Return the skill with that name in the Hermes home; None if there is none."""
    root = home.skills.resolve()
    every = (*found.skills, *(each.skill for each in found.off), *found.shadowed)
    return next(
        (each for each in every if each.name == name and each.folder.resolve().is_relative_to(root)), None
    )


def _refuse_installed(skill: Skill, home: Home) -> None:
    """Raise `ToolError` if a skill was installed from outside: only updates and the user may change it."""
    from agent.knowledge.skills.hub.lock import LockFile

    lock = LockFile(home)
    installed = lock.read().values()
    if any(lock.place(each).resolve() == skill.folder.resolve() for each in installed):
        raise ToolError(
            f"{skill.name} was installed from elsewhere and is not changed here; create one with another "
            f"name, or have the user run `hermes skills update {skill.name}` or `remove`.",
            status="blocked",
        )


def _checked_name(name: str) -> str:
    if not name or len(name) > NAME_LENGTH or "/" in name or name.startswith("."):
        raise ToolError(f"{clean(name)[:80]!r} is not a name for a skill; use a-z, 0-9 and single hyphens.")
    return name


def _checked_category(category: str) -> str:
    parts = category.strip("/").split("/")
    if len(parts) > 2 or not all(part.replace("-", "").isalnum() and part.isascii() for part in parts):
        raise ToolError(
            f"{clean(category)[:80]!r} is not a category; use one or two words of a-z, 0-9 and hyphens."
        )
    return "/".join(parts).lower()


def _instructions(text: str) -> bytes:
    if len(text) > LARGEST_INSTRUCTIONS:
        raise ToolError(
            f"SKILL.md would have {len(text):,} characters; {LARGEST_INSTRUCTIONS:,} are allowed. Move parts "
            "of it to references/."
        )
    return new_text(text if text.endswith("\n") else f"{text}\n").encode()


def _file(text: str) -> bytes:
    content = new_text(text).encode()
    if len(content) > LARGEST_FILE:
        raise ToolError(f"The file would have {len(content):,} bytes; {LARGEST_FILE:,} are allowed.")
    return content


# What is there


def _content(path: Path) -> bytes | None:
    """Return the bytes of a file; None if there is none. Raises `ToolError`."""
    try:
        return read_bytes(path, _MOST_BYTES)[0]
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ToolError(f"{path.name} cannot be read: {(error.strerror or str(error)).lower()}.") from error


def _files(folder: Path) -> list[Path]:
    """Return the plain files of a skill; links and `__pycache__` are skipped."""
    found = [
        Path(parent, name)
        for parent, below, names in os.walk(folder)
        if not below.sort()
        for name in sorted(names)
        if "__pycache__" not in parent
    ]
    return [path for path in found if path.is_file() and not path.is_symlink()]


def _refuse_links(folder: Path, path: Path) -> None:
    below = [path, *(parent for parent in path.parents if parent.is_relative_to(folder))]
    if any(each.is_symlink() for each in below):
        raise ToolError(f"{path.name} is, or is behind, a link; links of skills are not written through.")


def _without_empty(folder: Path) -> None:
    for parent, _, _ in os.walk(folder, topdown=False):
        if parent != str(folder) and not os.listdir(parent):  # noqa: PTH208 - names only
            Path(parent).rmdir()


# What it comes to


def _problems(write: SkillWrite) -> set[str]:
    if write.removes:
        return set()
    main = next((path for path in write.after if path.parent == write.folder), None)
    content = write.after[main] if main is not None else None
    if content is None:
        return set()
    return set(validate(content.decode("utf-8", "replace"), write.folder.name))


def _problems_before(write: SkillWrite) -> set[str]:
    main = next((path for path in write.before if path.parent == write.folder), None)
    content = write.before[main] if main is not None else None
    return set() if content is None else set(validate(content.decode("utf-8", "replace"), write.folder.name))


def _scanned(write: SkillWrite) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the critical findings of the scanner that are new, and the other new ones, as sentences.

    Findings that the text had before the change are left out.
    """
    severe: dict[str, None] = {}
    others: dict[str, None] = {}
    for path in write.paths():
        content = write.after[path]
        if content is None:
            continue
        name = path.relative_to(write.folder).as_posix()
        known = {_key(each) for each in _findings(write.before.get(path), name)}
        for each in _findings(content, name):
            if _key(each) not in known:
                target = severe if each.severity == "critical" else others
                target[f"{each.file}:{each.line}: {each.why} ({each.rule})"] = None
    return tuple(severe), tuple(others)


def _findings(content: bytes | None, name: str) -> Iterator[SkillFinding]:
    if content is not None:
        yield from scan_text(content.decode("utf-8", "replace"), name).findings


def _key(finding: SkillFinding) -> tuple[str, str]:
    return finding.rule, finding.excerpt


def _compare_content(write: SkillWrite) -> tuple[str, int, int]:
    texts: list[str] = []
    added = removed = 0
    for path in write.paths():
        name = path.relative_to(write.folder.parent).as_posix()
        old, new = write.before.get(path), write.after[path]
        diff = diff_texts(
            "" if old is None else decode(old).text,
            "" if new is None else decode(new).text,
            "/dev/null" if old is None else f"a/{name}",
            "/dev/null" if new is None else f"b/{name}",
        )
        texts.append(diff.text)
        added, removed = added + diff.added, removed + diff.removed
    return "".join(texts), added, removed


log = logging.getLogger(__name__)

_CALLED = lazy_pattern(r"/([^\s/]+)(?:\s+(.*))?", re.DOTALL)
ARGUMENTS = "$ARGUMENTS"
"""The placeholder in a skill for the words after `/name`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSkills:
    """The skills that an agent can use, and the restrictions of those in use."""

    catalog: SkillCatalog
    environ: Mapping[str, str]
    """The user's variables, including those of `.env`."""
    passed: tuple[str, ...]
    """Names of variables that commands receive."""
    tools: Collection[str]
    """The names of all tools."""
    in_force: CapabilitiesInForce
    writing: Callable[[str, Action], Awaitable[None]]
    """Called with the call and what will be written, so that it can be undone."""
    emit: Callable[[Event], None]

    def of_call(self, call: str) -> SkillsOfCall:
        """Return an object through which one call uses these skills."""
        return SkillsOfCall(self, call)

    async def expand_command(self, text: str) -> str:
        """Return the instructions of the skill in a message that begins with `/name`; empty if it is not a
        skill.
        """
        match = _CALLED.match(text.strip())
        if match is None:
            return ""
        found = await asyncio.to_thread(self.catalog.load)
        skill = found.get(match[1])
        if skill is None:
            return ""
        self.enter(skill)
        return await asyncio.to_thread(self._instructions, skill, (match[2] or "").strip())

    def enter(self, skill: Skill) -> tuple[str, ...] | None:
        """Apply the restrictions of a skill from now on; return the tools that it allows (None: all)."""
        found = capabilities(skill, self.tools, self.catalog.workspace, self.catalog.user)
        if found is not None and skill.name not in self.in_force.names and found.unknown:
            named = ", ".join(found.unknown[:8])
            text = (
                f"The skill {skill.name} allows tools that Hermes does not have, which is ignored: {named}."
            )
            self.emit(Noticed(kind="info", text=text))
        self.in_force.enter(found)
        return None if found is None else tuple(sorted(found.tools))

    def _instructions(self, skill: Skill, arguments: str) -> str:
        body = with_folder(skill.body, skill.folder)
        if ARGUMENTS in body:
            body = body.replace(ARGUMENTS, arguments)
        lines = [f"[The user runs the skill {skill.name}. Follow it. Its folder is {skill.folder}.]", body]
        files = [path for paths in linked_files(skill.folder).values() for path in paths]
        if files:
            lines.append(f"[Files of the skill: {', '.join(files[:50])}]")
        if missing := missing_variables(skill, self.environ):
            lines.append(f"[Not set in the environment, and needed: {', '.join(missing)}. Tell the user.]")
        if self.in_force.names:
            lines.append(f"[Until the next message of the user: {self._allowance_text()}]")
        lines.append(f"[What the user wrote behind its name: {arguments or 'nothing'}]")
        return "\n\n".join(lines)

    def _allowance_text(self) -> str:
        return f"only the tools that {', '.join(self.in_force.names)} allows can be called."


@dataclass(frozen=True, slots=True)
class SkillsOfCall(SkillKeeper):
    """The skills of an agent as one call uses them (`tools.services.skill_keeper.SkillKeeper`)."""

    skills: SessionSkills
    call: str

    async def list(self, category: str) -> Mapping[str, Any]:
        return list_skills(await asyncio.to_thread(self.skills.catalog.load), category)

    async def view(self, name: str, file: str) -> Mapping[str, Any]:
        skills = self.skills
        skill = one(await asyncio.to_thread(skills.catalog.load), name)
        if file:
            result = await asyncio.to_thread(file_of, skill, file)
        else:
            result = await asyncio.to_thread(instructions, skill, skills.environ, skills.passed)
        allowed = skills.enter(skill)
        if allowed is not None:
            result["allowed_tools"] = list(allowed)
            result["until"] = "Until the next message of the user only these tools can be called."
        return result

    async def draft(self, change: SkillChange) -> SkillDraft:
        catalog = self.skills.catalog
        found = await asyncio.to_thread(catalog.load)
        return await asyncio.to_thread(draft_change, change, found, catalog.home)

    async def carry_out(self, draft: SkillDraft) -> Mapping[str, Any]:
        write = draft.plan
        if not isinstance(write, SkillWrite):
            raise ToolError("This change was not worked out here; ask for it again.")
        await self._announce(write)
        await asyncio.to_thread(carried_out, write)
        if write.original:
            await asyncio.to_thread(self._remember, write)
        return {
            "name": draft.change.name,
            "path": draft.folder,
            "message": await asyncio.to_thread(self._change_result, draft.change, write),
        }

    def _remember(self, write: SkillWrite) -> None:
        try:
            SkillOriginals(self.skills.catalog.home).remember(write.folder, write.original)
        except OSError:
            log.warning("what %s was copied from cannot be written down", write.folder, exc_info=True)

    def _change_result(self, change: SkillChange, write: SkillWrite) -> str:
        """Return the answer to the model about a finished change."""
        if write.removes:
            return "Deleted. The list in the prompt follows from the next session on."
        off = next(
            (each for each in self.skills.catalog.load().off if each.skill.folder == write.folder), None
        )
        if off is not None:
            return f"Saved, but the skill is not used: {off.reason}. Tell the user."
        what = "names it" if change.act == "create" else "follows"
        return f"Saved. The list in the prompt {what} from the next session on; skill_view shows it now."

    async def _announce(self, write: SkillWrite) -> None:
        """Report each file that is about to change, by its path without links."""
        folders = await asyncio.to_thread(folders_of, write)
        root = await asyncio.to_thread(self.skills.catalog.home.skills.resolve)
        for path in write.paths():
            target = root / path.relative_to(self.skills.catalog.home.skills)
            gone = write.after[path] is None
            action = DeletePath if gone else WritePath
            await self.skills.writing(self.call, action(tool="skill_manage", path=target))
        for folder in folders:
            target = root / folder.relative_to(self.skills.catalog.home.skills)
            await self.skills.writing(self.call, DeletePath(tool="skill_manage", path=target))
