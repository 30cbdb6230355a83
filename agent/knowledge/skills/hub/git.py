"""Git repositories, fetched by the git program without running anything that they configure.

Nothing is checked out: one commit is fetched into a bare repository, and the files are read from its objects.
So hooks, filters, attributes, links and submodules of a fetched repository have no effect. Its settings are
never read.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Literal, Protocol
from urllib.parse import urlsplit

from agent.knowledge.skills.hub.bundle import (
    SKILL_FILES,
    STRICT,
    FetchedSkill,
    HubError,
    HubMissingError,
    HubRefusedError,
    HubUnreachableError,
    Limits,
    SkillFile,
    SkillOffer,
    SourceKind,
    check_count,
    checked,
    matches,
    safe_path,
)
from agent.knowledge.skills.hub.http import check_address
from agent.knowledge.skills.skill import SkillFormatError, read
from agent.model.addresses import is_loopback
from agent.workspace.git import SYSTEM_PATH, git_environment
from tools.kit.children import kill_group
from tools.kit.private_folders import PrivateFolder
from tools.text.words import brief

MOST_SKILLS = 500
"""The maximum number of skills read in one tree."""
MOST_DESCRIBED = 120
"""The maximum number of skills in one tree whose descriptions are read for a search."""
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One entry of a tree: a file, or an object of another type."""

    path: str
    kind: Literal["file", "link", "submodule", "other"]
    size: int
    """The size in bytes; 0 if the tree does not give it."""
    id: str = ""
    """The key by which the tree finds the content."""
    executable: bool = False


class FileTree(Protocol):
    """The files of a source at one revision. Reading raises `HubError`."""

    @property
    def revision(self) -> str:
        """The commit, or another identifier of the whole content."""
        ...

    @property
    def entries(self) -> tuple[TreeEntry, ...]:
        """All files, in any order."""
        ...

    def read(self, wanted: Sequence[TreeEntry], limit: int) -> Mapping[str, bytes]:
        """Return the contents of files by path. Raises `HubRefusedError` for one over `limit` bytes."""
        ...


@dataclass(frozen=True, slots=True)
class TreeSkill:
    """A skill in a tree of files."""

    folder: str
    """The path of the folder; empty if the skill is the whole tree."""
    file: TreeEntry


def skills_in(entries: Iterable[TreeEntry], below: str = "") -> tuple[TreeSkill, ...]:
    """Return up to `MOST_SKILLS` folders with a SKILL.md below `below`, outside other skills, by path."""
    begin = f"{below}/" if below else ""
    found: dict[str, TreeSkill] = {}
    for entry in entries:
        path = PurePosixPath(entry.path)
        if entry.kind == "file" and path.name in SKILL_FILES and entry.path.startswith(begin):
            folder = "" if len(path.parts) == 1 else path.parent.as_posix()
            if folder not in found or path.name == SKILL_FILES[0]:
                found[folder] = TreeSkill(folder, entry)
    # A SKILL.md at the top of a tree describes the whole; skills below it can be chosen separately.
    outer = [
        skill
        for folder, skill in sorted(found.items())
        if not any(parent.as_posix() in found for parent in PurePosixPath(folder).parents)
    ]
    return tuple(outer[:MOST_SKILLS])


def pick(skills: Sequence[TreeSkill], wanted: str, where: str) -> TreeSkill:
    """Return the skill with this path or folder name. `where` names the source in errors. Raises
    `HubMissingError`.
    """
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
    """Return the files of the skill in `folder`. Sizes are checked first. Raises `HubRefusedError`."""
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
    """Return skills with their names and descriptions; an unreadable skill is named after its folder."""
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
    """Return name and description from a SKILL.md; for an unreadable one, the folder's name and no text."""
    try:
        fields = read(content.decode("utf-8")).fields
    except (UnicodeDecodeError, SkillFormatError):
        return brief(PurePosixPath(folder).name), ""
    return brief(fields["name"]), brief(fields["description"], 1_024)


@dataclass(frozen=True, slots=True)
class TreeSource:
    """The skills of one tree of files: the `SkillSource` for repositories and folders."""

    name: str
    kind: SourceKind
    address: str
    tree: FileTree
    below: str = ""
    """The folder of the tree in which skills are searched; empty for all."""
    repository: str = ""
    """`owner/repository` if that names the responsible owner."""

    def search(self, query: str, limit: int) -> tuple[SkillOffer, ...]:
        """Return skills whose path, name or description contains all words, the best matches first."""
        skills = skills_in(self.tree.entries, self.below)
        known = described(self.tree, skills[:MOST_DESCRIBED], STRICT.each)
        found = [
            (matches(query, name, description, skill.folder), self._offer(skill, name, description))
            for skill, name, description in known
        ]
        ranked = sorted((each for each in found if each[0]), key=lambda each: (-each[0], each[1].item))
        return tuple(offer for _, offer in ranked[:limit])

    def inspect(self, item: str, version: str = "") -> SkillOffer:
        """Return the offer of the skill with this path or folder name. Raises `HubMissingError`."""
        skill = self._pick(item)
        return self._offer(skill, *head_of(self._text(skill), skill.folder))

    def fetch(self, item: str, version: str = "", limits: Limits = STRICT) -> FetchedSkill:
        """Return the skill's files. Raises `HubMissingError`, or `HubRefusedError` for unusable ones."""
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
    """Return an outside document's relative folder without `./`; empty for the root. Raises `HubError`."""
    if not isinstance(path, str):
        raise HubError(f"{what} is not a path.")
    plain = path.strip().removeprefix("./").strip("/")
    return safe_path(plain) if plain not in ("", ".") else ""


PROTOCOLS = ("https", "http", "ssh", "file")
"""Protocols that git may use; each call allows only the one of its address."""
SECONDS = 180.0
LARGEST = 300_000_000
"""The size limit of a fetched repository on disk, in bytes."""
_MOST_OUTPUT = 64_000_000
_POLL = 0.05

_REF = re.compile(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._/+-]{0,199}")
_SHORT_SSH = re.compile(r"([\w.-]+@)?([\w.-]+):(?!//)(.+)")
_KEPT = ("SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH", "LANG", "TMPDIR")
_SETTINGS = (
    *("core.hooksPath=/dev/null", "core.fsmonitor=false", "core.symlinks=false", "core.askPass=false"),
    *("core.attributesFile=/dev/null", "core.pager=cat", "credential.helper=", "http.followRedirects=false"),
    *("protocol.allow=never", "submodule.recurse=false", "fetch.recurseSubmodules=false", "gc.auto=0"),
    *("maintenance.auto=false", "transfer.fsckObjects=true", "fetch.fsck.zeroPaddedFilemode=ignore"),
    *("gpg.program=false", "commit.gpgSign=false", "uploadpack.packObjectsHook=", "core.quotePath=false"),
    *("init.templateDir=", "fetch.unpackLimit=1", "http.maxRequests=2", "push.recurseSubmodules=no"),
)


class _NotShallowError(HubError):
    """The server only serves plain files, so a shallow fetch is impossible."""


@dataclass(frozen=True, slots=True)
class GitPlace:
    """The address of a repository for git, with a revision and a folder."""

    url: str
    protocol: str
    ref: str = ""
    folder: str = ""


def place(address: str, base: Path) -> GitPlace:
    """Parse `[git+]URL[@ref][#folder]`; a relative path counts from `base`.

    Raises `HubRefusedError` for an unsupported protocol or address, `HubError` for an impossible ref.
    """
    text, _, folder = address.removeprefix("git+").partition("#")
    ref = ""
    end = text.rfind(".git@")
    if end >= 0:
        text, ref = text[: end + 4], text[end + 5 :]
    if ref and not _REF.fullmatch(ref):
        raise HubError(f"{brief(ref)!r} is not a name of a branch, tag or commit.")
    helper, sign, _ = text.partition("::")
    if sign and helper.isalnum():
        raise HubRefusedError(f"git over {brief(helper)!r} is not spoken here; use https or ssh.")
    if any(ord(each) < 33 or ord(each) == 127 for each in text) or text.startswith("-"):
        raise HubRefusedError(f"{brief(text, 160)!r} is not an address of a repository.")
    if "://" not in text:
        short = _SHORT_SSH.fullmatch(text)
        if short is not None and not text.startswith(("/", ".", "~")):
            if short[2].startswith("-") or (short[1] or "").startswith("-"):
                raise HubRefusedError(f"{brief(text, 160)!r} is not an address of a repository.")
            return GitPlace(f"ssh://{short[1] or ''}{short[2]}/{short[3].lstrip('/')}", "ssh", ref, folder)
        try:
            path = Path(os.path.realpath(base / Path(text).expanduser()))
        except (RuntimeError, ValueError):
            raise HubError(f"{brief(text, 160)!r} is not a path of a repository.") from None
        return GitPlace(f"file://{path}", "file", ref, folder)
    protocol = text.partition("://")[0].lower()
    if protocol not in PROTOCOLS:
        raise HubRefusedError(f"git over {brief(protocol)!r} is not spoken here; use https or ssh.")
    if protocol in ("http", "https"):
        check_address(text)
    if protocol == "ssh" and not _has_plain_host(text):
        raise HubRefusedError(f"{brief(text, 160)!r} is not an address of a repository.")
    return GitPlace(text, protocol, ref, folder)


def _has_plain_host(address: str) -> bool:
    """Return whether the host of an address cannot be taken for an option of a program."""
    try:
        parts = urlsplit(address)
        return (
            bool(parts.hostname) and not parts.netloc.startswith("-") and not parts.hostname.startswith("-")
        )
    except ValueError:
        return False


@dataclass(frozen=True)
class GitTree:
    """The files of one commit in a bare repository of Hermes."""

    store: Path
    revision: str
    entries: tuple[TreeEntry, ...]

    def read(self, wanted: Sequence[TreeEntry], limit: int) -> Mapping[str, bytes]:
        """Return the contents of files by path. Raises `HubRefusedError` for one over `limit` bytes."""
        for entry in wanted:
            if entry.size > limit:
                raise HubRefusedError(f"{brief(entry.path)} is larger than {limit:,} bytes.")
        names = "".join(f"{entry.id}\n" for entry in wanted).encode()
        output = run_git(self.store, "cat-file", "--batch", input=names)
        found: dict[str, bytes] = {}
        at = 0
        for entry in wanted:
            end = output.find(b"\n", at)
            words = output[at:end].split()
            if len(words) != 3 or words[1] != b"blob" or not words[2].isdigit():
                raise HubError(f"{brief(entry.path)} is missing in what git fetched.")
            size = int(words[2])
            found[entry.path] = output[end + 1 : end + 1 + size]
            at = end + 2 + size
        return found


@contextmanager
def fetched(where: GitPlace, version: str = "", seconds: float = SECONDS) -> Iterator[GitTree]:
    """Fetch one commit into a temporary repository, removed after the block. Raises `HubError`."""
    with PrivateFolder("git") as folder:
        store = folder / "store"
        yield fetch_into(store, where, version, seconds)


def fetch_into(store: Path, where: GitPlace, version: str = "", seconds: float = SECONDS) -> GitTree:
    """Fetch one commit into the new bare repository `store`; return its files. Raises `HubError`."""
    ref = version or where.ref or "HEAD"
    if not _REF.fullmatch(ref):
        raise HubError(f"{brief(ref)!r} is not a name of a branch, tag or commit.")
    run_git(store.parent, "init", "--quiet", "--bare", str(store))
    head = ("fetch", "--quiet", "--no-tags", "--no-recurse-submodules")
    tail = ("--", where.url, ref)
    try:
        run_git(store, *head, "--depth=1", *tail, allowed=where, seconds=seconds, watched=store)
    except _NotShallowError:
        run_git(store, *head, *tail, allowed=where, seconds=seconds, watched=store)
    revision = run_git(store, "rev-parse", "--verify", "FETCH_HEAD^{commit}").decode().strip()
    listed = run_git(store, "ls-tree", "-r", "-z", "--long", "--full-tree", revision)
    return GitTree(store, revision, tuple(_entries(listed)))


def _entries(listed: bytes) -> Iterator[TreeEntry]:
    for row in listed.split(b"\0"):
        head, _, path = row.partition(b"\t")
        if not path:
            continue
        mode, kind, digest, size = head.split()
        name = path.decode("utf-8", "surrogateescape")
        count = int(size) if size.isdigit() else 0
        if kind == b"commit":
            yield TreeEntry(name, "submodule", 0)
        elif mode == b"120000":
            yield TreeEntry(name, "link", count)
        elif kind == b"blob":
            yield TreeEntry(name, "file", count, digest.decode(), executable=mode == b"100755")
        else:
            yield TreeEntry(name, "other", count)


def run_git(
    inside: Path,
    *arguments: str,
    allowed: GitPlace | None = None,
    seconds: float = 60.0,
    input: bytes = b"",
    watched: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> bytes:
    """Run git and return its output.

    Git may contact only the address in `allowed`. `watched` is a folder whose size is limited. Raises
    `HubMissingError` for a missing repository or revision, otherwise `HubError`.
    """
    program = shutil.which("git", path=SYSTEM_PATH)
    if program is None:
        raise HubError("Git is not installed; install it, or use another kind of source.")
    settings = [part for setting in _SETTINGS for part in ("-c", setting)]
    if allowed is not None:
        settings += ["-c", f"protocol.{allowed.protocol}.allow=always"]
    with (
        PrivateFolder("git-home") as home,
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as errors,
        tempfile.TemporaryFile() as given,
    ):
        given.write(input)
        given.seek(0)
        child = subprocess.Popen(
            [program, *settings, *arguments],
            cwd=inside,
            env=_environment(home, allowed) | dict(environ or {}),
            stdin=given,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        try:
            _wait(child, seconds, output, watched, allowed)
        finally:
            if child.poll() is None:
                kill_group(child.pid)
                child.wait()
        if child.returncode:
            errors.seek(0)
            raise _failure(allowed, errors.read(8_192).decode("utf-8", "replace"))
        output.seek(0)
        return output.read()


def _wait(
    child: subprocess.Popen[bytes],
    seconds: float,
    output: IO[bytes],
    watched: Path | None,
    allowed: GitPlace | None,
) -> None:
    deadline = time.monotonic() + seconds
    pause = 0.005
    while True:
        try:
            child.wait(pause)
            return
        except subprocess.TimeoutExpired:
            pause = min(pause * 2, _POLL)
        if time.monotonic() > deadline:
            where = brief(allowed.url, 160) if allowed is not None else "Git"
            raise HubUnreachableError(f"{where} did not deliver within {seconds:g} seconds; try again later.")
        if os.fstat(output.fileno()).st_size > _MOST_OUTPUT or (
            watched is not None and _bytes_below(watched) > LARGEST
        ):
            raise HubRefusedError(f"The repository is larger than {LARGEST:,} bytes, which is not taken.")


def _bytes_below(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_size
        except OSError:  # git has just moved it
            continue
    return total


def _environment(home: Path, allowed: GitPlace | None) -> dict[str, str]:
    child = git_environment(home) | {
        "SSH_ASKPASS": "false",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_ALLOW_PROTOCOL": allowed.protocol if allowed is not None else "none",
    }
    child |= {name: os.environ[name] for name in _KEPT if name in os.environ}
    if allowed is not None and allowed.protocol == "ssh":
        child["GIT_SSH_COMMAND"] = "ssh -oBatchMode=yes -oStrictHostKeyChecking=yes -oConnectTimeout=15"
        if agent := os.environ.get("SSH_AUTH_SOCK"):
            child["SSH_AUTH_SOCK"] = agent
    if allowed is not None and allowed.protocol in ("http", "https") and not is_loopback(allowed.url):
        child |= {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    return child


def _failure(allowed: GitPlace | None, said: str) -> HubError:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    told = (
        [line for line in lines if line.startswith(("fatal:", "error:"))] or lines or ["it does not say why"]
    )
    cause = brief(told[0].removeprefix("fatal:").removeprefix("error:").strip(), 200).rstrip(".")
    where = brief(allowed.url, 160) if allowed is not None else "the repository"
    text = said.lower()
    if "does not support shallow" in text:
        return _NotShallowError(f"{where} cannot serve a single commit.")
    if "redirect" in text:
        return HubRefusedError(f"{where} redirects elsewhere, which is not followed; name the other address.")
    if any(each in text for each in ("not found", "does not appear to be a git", "couldn't find remote ref")):
        return HubMissingError(f"Git finds nothing at {where}: {cause}.")
    if "not our ref" in text or "unadvertised object" in text:
        return HubMissingError(f"{where} does not serve that commit: {cause}.")
    if any(each in text for each in ("could not resolve", "failed to connect", "connection", "timed out")):
        return HubUnreachableError(f"{where} cannot be reached: {cause}.")
    return HubError(f"Git cannot fetch {where}: {cause}.")
