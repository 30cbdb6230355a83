"""Publishing a skill after its checks: as an archive, as a folder, or on a branch of a repository."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import tarfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.knowledge.skills.hub import bundle, git
from agent.knowledge.skills.hub.bundle import (
    HubError,
    HubMissingError,
    HubRefusedError,
    SkillFile,
    checked,
    hashes_of,
    skill_text,
    tree_digest,
)
from agent.knowledge.skills.hub.sources.packages import SCHEMA
from agent.knowledge.skills.scanner import SkillScan, scan_folder
from agent.knowledge.skills.skill import Skill, SkillFormatError, load, validate
from tools.kit.files import write_atomically
from tools.kit.private_folders import PrivateFolder
from tools.text.redact import redact
from tools.text.words import brief

_EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The fixed file time in archives, so that they do not reveal local times; the earliest that zip allows."""
_AUTHOR = re.compile(r"[^<>\n\0]{1,200} <[^<>\s\0]{1,200}>")
_BRANCH = re.compile(r"(?!.*(?:\.\.|//|\.lock(?:/|$)|/$|\.$))[A-Za-z0-9][A-Za-z0-9._/-]{0,199}")


@dataclass(frozen=True, slots=True)
class PublishedSkill:
    """The result of publishing."""

    name: str
    place: str
    """A path, or an address with a branch."""
    digest: str
    """SHA-256 of the archive, or of all files together."""
    commit: str = ""


def skill_at(folder: Path) -> Skill:
    """Return the skill in a folder. Raises `HubError`."""
    try:
        return load(folder.resolve(), "user")
    except (SkillFormatError, OSError, RuntimeError, ValueError) as error:
        raise HubError(f"{brief(folder, 200)} is not a skill: {brief(error, 200).rstrip('.')}.") from None


def check_publishable(skill: Skill, *, force: bool = False) -> tuple[tuple[SkillFile, ...], SkillScan]:
    """Return the files of a skill for publication. Raises `HubRefusedError` for forbidden content.

    The skill must have a valid format, keep the limits for skills from outside and contain no secret. The
    scanner must find it safe; `force` also accepts the verdict `caution`.
    """
    files = checked(bundle.read_files(skill.folder))
    problems = validate(skill_text(files), skill.folder.name)
    if problems:
        raise HubRefusedError(
            f"{skill.name} does not pass the validator of the format: {brief(problems[0], 200)}"
        )
    for file in files:
        text = file.content.decode("utf-8", "replace")
        if redact(text) != text:
            raise HubRefusedError(f"{brief(file.path)} of {skill.name} seems to hold a secret; take it out.")
    scan = scan_folder(skill.folder)
    if scan.verdict == "dangerous" or (scan.verdict == "caution" and not force):
        mend = "" if scan.verdict == "dangerous" else ", or give --force if it is harmless"
        raise HubRefusedError(
            f"The scan calls {skill.name} {scan.verdict} ({scan.findings[0].rule} in "
            f"{scan.findings[0].file}); fix that{mend}."
        )
    return files, scan


def publish_archive(skill: Skill, files: Sequence[SkillFile], target: Path) -> PublishedSkill:
    """Write a new reproducible `.tar.gz` or `.zip`; return the result. Raises `HubError`."""
    if target.name.endswith((".tar.gz", ".tgz")):
        data = _tar(files)
    elif target.suffix == ".zip":
        data = _zip(files)
    else:
        raise HubError(f"{brief(target.name)} ends with neither .tar.gz nor .zip.")
    try:
        if target.exists():
            raise HubError(f"{target} is there already; name another file.")
        write_atomically(target, data)
    except OSError as error:
        raise HubError(f"{target} cannot be written: {error.strerror or error}.") from None
    return PublishedSkill(skill.name, str(target), hashlib.sha256(data).hexdigest())


def index_entry(skill: Skill, published: PublishedSkill) -> dict[str, Any]:
    """Return the index of a site that offers this one archive (Agent Skills Discovery 0.2)."""
    entry = {
        "name": skill.name,
        "type": "archive",
        "description": skill.description,
        "url": Path(published.place).name,
        "digest": f"sha256:{published.digest}",
    }
    return {"$schema": SCHEMA, "skills": [entry]}


def _tar(files: Sequence[SkillFile]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for file in files:
            member = tarfile.TarInfo(file.path)
            member.size, member.mode = len(file.content), 0o755 if file.executable else 0o644
            archive.addfile(member, io.BytesIO(file.content))
    return gzip.compress(stream.getvalue(), mtime=0)


def _zip(files: Sequence[SkillFile]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            member = zipfile.ZipInfo(file.path, _EARLIEST)
            member.compress_type = zipfile.ZIP_DEFLATED
            member.external_attr = (0o100755 if file.executable else 0o100644) << 16
            archive.writestr(member, file.content)
    return stream.getvalue()


def publish_folder(skill: Skill, files: Sequence[SkillFile], parent: Path) -> PublishedSkill:
    """Write the files into a new `parent/NAME`, for a pull request; return the result. Raises `HubError`."""
    target = parent / skill.folder.name
    if target.exists() or target.is_symlink():
        raise HubError(f"There is something at {target} already; move it away or name another folder.")
    bundle.write_files(target, files)
    for path in (target, *target.rglob("*")):  # what is handed on is not secret
        path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    return PublishedSkill(skill.name, str(target), tree_digest(hashes_of(files)))


def push(
    skill: Skill, files: Sequence[SkillFile], where: git.GitPlace, branch: str, author: str
) -> PublishedSkill:
    """Commit the files on top of the repository's newest commit, and push that as a branch. Raises
    `HubError`.

    Nothing is checked out, so no code of the repository runs here. The server refuses the push if the branch
    has advanced in the meantime.
    """
    if not _BRANCH.fullmatch(branch):
        raise HubError(f"{brief(branch)!r} is not a name of a branch.")
    if not _AUTHOR.fullmatch(author):
        raise HubError("The author is written as `Name <mail@example.org>`; give --author.")
    with PrivateFolder("git") as folder:
        store = folder / "store"
        try:
            tree = git.fetch_into(store, where)
        except HubMissingError:
            tree = None  # a repository without commits
        base = f"{where.folder.strip('/') or 'skills'}/{skill.folder.name}"
        index = {"GIT_INDEX_FILE": str(folder / "index")}
        rows: list[bytes] = []
        if tree is not None:
            git.run_git(store, "read-tree", tree.revision, environ=index)
            old = (entry.path for entry in tree.entries if f"{entry.path}/".startswith(f"{base}/"))
            rows += [b"0 %s\t%s\0" % (b"0" * 40, path.encode("utf-8", "surrogateescape")) for path in old]
        for file in files:
            digest = git.run_git(store, "hash-object", "-w", "--stdin", input=file.content).strip()
            mode = b"100755" if file.executable else b"100644"
            rows.append(b"%s %s\t%s\0" % (mode, digest, f"{base}/{file.path}".encode()))
        git.run_git(store, "update-index", "-z", "--index-info", input=b"".join(rows), environ=index)
        root = git.run_git(store, "write-tree", environ=index).decode().strip()
        name, _, mail = author.removesuffix(">").partition(" <")
        people = {
            f"GIT_{role}_{key}": value
            for role in ("AUTHOR", "COMMITTER")
            for key, value in (("NAME", name), ("EMAIL", mail))
        }
        parents = ["-p", tree.revision] if tree is not None else []
        message = f"Add the skill {skill.name}\n\n{skill.description}\n".encode()
        commit = (
            git.run_git(store, "commit-tree", root, *parents, input=message, environ=people).decode().strip()
        )
        refs = f"{commit}:refs/heads/{branch}"
        git.run_git(
            store, "push", "--quiet", "--no-verify", "--", where.url, refs, allowed=where, seconds=git.SECONDS
        )
    return PublishedSkill(skill.name, f"{where.url} ({branch})", tree_digest(hashes_of(files)), commit)


def index_text(skill: Skill, published: PublishedSkill) -> str:
    """Return `index_entry` as the text of a file."""
    return json.dumps(index_entry(skill, published), ensure_ascii=False, indent=2) + "\n"
