"""Project settings: read only after the folder is trusted, and never able to loosen a safety setting.

Trust is bound to the content of every file under `.hermes` that would be read. When one of them changes,
appears or disappears, the folder is untrusted again.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from agent.core.config import setting_names, settings_file
from agent.core.config.document import SettingsDocument
from agent.core.config.layers import leaves, lookup
from agent.core.config.problem import Path as KeyPath
from agent.core.config.problem import SettingProblem, dotted_key, short_text
from agent.core.config.settings_file import UnreadableSettingsError
from agent.core.consents import write_private
from agent.core.home import Home

FOLDER = ".hermes"
READ_FILES = ("config.yaml", "permissions.yaml")
"""Files in a project's `.hermes` folder that Hermes reads; trust covers all of them."""
AGENTS = "agents"
"""The folder in `.hermes` whose `*.md` files define the project's agents; trust covers these too."""
MOST_AGENTS = 64
"""The number of agent files that are read from one folder, the first ones by name."""
LARGEST_AGENT = 64_000
"""The size in bytes of the largest agent file that is read."""

TrustKind = Literal["folders", "skills"]
"""Parts of a project that are trusted separately: its settings with its agents, and its skills."""
_KINDS: tuple[TrustKind, ...] = ("folders", "skills")

ALLOWED: tuple[KeyPath, ...] = (
    ("model",),
    ("agent",),
    ("context",),
    ("tools",),
    ("terminal", "timeout"),
    ("terminal", "max_timeout"),
)
"""Settings that a trusted project may set. All others, including future ones, are reserved to the user: a
project cannot decide about approvals, addresses and keys of providers, variables or files of the user.
"""


@dataclass(frozen=True, slots=True)
class ProjectSettings:
    """The settings files of a project. They are read only once, so that what is used is what was hashed."""

    root: Path
    """The folder that holds `.hermes`, as a path without symbolic links."""
    contents: dict[str, bytes]
    """The files found, by name."""
    digest: str
    """The SHA-256 over names and contents."""
    refused: dict[str, str] = field(default_factory=dict)
    """The agent files that are not read, by name, with the reason for each."""

    @property
    def config(self) -> bytes | None:
        """Return the bytes of the project's `config.yaml`; None if it has none."""
        return self.contents.get("config.yaml")

    @property
    def permissions(self) -> bytes | None:
        """Return the bytes of the project's `permissions.yaml`; None if it has none."""
        return self.contents.get("permissions.yaml")

    @property
    def agents(self) -> dict[str, bytes]:
        """Return the bytes of the project's agent files, by file name."""
        begin = f"{AGENTS}/"
        return {
            name.removeprefix(begin): content
            for name, content in self.contents.items()
            if name.startswith(begin)
        }


def project_root(workspace: Path) -> Path:
    """Return the folder whose `.hermes` is used: the root of the git tree around `workspace`, or `workspace`.

    It is found by looking for `.git`; git is not run, because a repository could make it run programs.
    """
    resolved = Path(os.path.realpath(workspace))
    for folder in (resolved, *resolved.parents):
        if os.path.lexists(folder / ".git"):
            return folder
    return resolved


def read_project(home: Home, workspace: Path) -> ProjectSettings | None:
    """Read the settings of the project around `workspace`; None when it has none.

    Raises `UnreadableSettingsError` when a file cannot be read or is outside the project.
    """
    root = project_root(workspace)
    folder = root / FOLDER
    if os.path.realpath(folder) == os.path.realpath(home.root) or not os.path.lexists(folder):
        return None
    contents: dict[str, bytes] = {}
    for name in READ_FILES:
        target = Path(os.path.realpath(folder / name))
        if not target.is_relative_to(root):
            raise UnreadableSettingsError(f"{FOLDER}/{name} leads out of the project, so it is not read")
        content = settings_file.read_file(target, follow=False)
        if content is not None:
            contents[name] = content
        elif (folder / name).is_symlink():
            raise UnreadableSettingsError(f"{FOLDER}/{name} is a link that leads nowhere")
    agents, refused = read_agents(folder / AGENTS, root)
    contents |= {f"{AGENTS}/{name}": content for name, content in agents.items()}
    return ProjectSettings(root, contents, _digest(contents), refused) if contents or refused else None


def watched_paths(root: Path) -> list[Path]:
    """Return all paths where a change may end the trust in the project at `root`."""
    folder = root / FOLDER
    agents = folder / AGENTS
    return [*(folder / name for name in READ_FILES), agents, *(agents / name for name in _names(agents))]


def read_agents(folder: Path, inside: Path) -> tuple[dict[str, bytes], dict[str, str]]:
    """Return the `*.md` files of a folder, and the reasons why others are not read, both by file name.

    Only the first `MOST_AGENTS` are considered. `inside` is the resolved folder that no link may leave.
    """
    contents: dict[str, bytes] = {}
    refused: dict[str, str] = {}
    for name in _names(folder):
        content, reason = read_agent(folder / name, inside)
        if reason:
            refused[name] = reason
        else:
            contents[name] = content
    return contents, refused


def read_agent(path: Path, inside: Path) -> tuple[bytes, str]:
    """Return the bytes of one agent's file, and a reason if it is not read; one of the two is empty."""
    target = Path(os.path.realpath(path))
    if not target.is_relative_to(inside):
        return b"", f"it leads out of {inside}; put a copy of the file there"
    try:
        content = settings_file.read_file(target, follow=False)
    except UnreadableSettingsError as error:
        return b"", str(error)
    if content is None:
        return b"", "it is a link that leads nowhere; remove it" if path.is_symlink() else "it is not there"
    if len(content) > LARGEST_AGENT:
        return b"", f"it is larger than {LARGEST_AGENT // 1000} kB; shorten it"
    return content, ""


def _names(folder: Path) -> list[str]:
    """Return the first `MOST_AGENTS` sorted names of agent files in a folder; none if it cannot be read."""
    try:
        with os.scandir(folder) as found:
            names = (each.name for each in found if each.name.endswith(".md"))
            return heapq.nsmallest(MOST_AGENTS, names)
    except OSError:
        return []


def _digest(contents: dict[str, bytes]) -> str:
    total = hashlib.sha256()
    for name in sorted(contents):
        total.update(f"{name}\0{len(contents[name])}\0".encode("utf-8", "surrogateescape") + contents[name])
    return total.hexdigest()


def is_trusted(home: Home, project: ProjectSettings) -> bool:
    """Return whether exactly these contents are trusted; False also if the trust file cannot be relied on."""
    return trusted_digest(home, project.root) == project.digest


def trusted_digest(home: Home, root: Path, kind: TrustKind = "folders") -> str | None:
    """Return the digest of the contents trusted at `root`; None without trust or a usable trust file."""
    try:
        return digests(home)[kind].get(str(root))
    except UnreadableSettingsError:
        return None


def trust(home: Home, project: ProjectSettings) -> None:
    """Record that the user trusts these contents. Raises `ConfigError` if that cannot be stored."""
    trust_digest(home, project.root, project.digest)


def trust_digest(home: Home, root: Path, digest: str, kind: TrustKind = "folders") -> None:
    """Record that the user trusts contents with this digest. Raises `ConfigError` if that fails."""
    _change(home, root, digest, (kind,))


def untrust(home: Home, root: Path, kinds: Sequence[TrustKind] = _KINDS) -> bool:
    """Remove the trust in the project at `root`; return False if there was none. Raises `ConfigError`."""
    return _change(home, root, None, kinds)


def _change(home: Home, root: Path, digest: str | None, kinds: Sequence[TrustKind]) -> bool:
    try:
        trusted = digests(home)
    except UnreadableSettingsError:
        trusted = {kind: {} for kind in _KINDS}
    known = [trusted[kind].pop(str(root), None) for kind in kinds]
    if digest is not None:
        trusted |= {kind: trusted[kind] | {str(root): digest} for kind in kinds}
    is_known = any(each is not None for each in known)
    if is_known or digest is not None:
        write_private(home.trust, {"version": 1} | dict(trusted))
    return is_known


def digests(home: Home) -> dict[TrustKind, dict[str, str]]:
    """Return the digests of trusted contents, by kind and folder.

    Raises `UnreadableSettingsError` if the trust file is damaged or other users may have written it.
    """
    content = settings_file.read_file(home.trust, follow=False)
    if content is None:
        return {kind: {} for kind in _KINDS}
    status = home.trust.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise UnreadableSettingsError("others may write it")
    try:
        stored = json.loads(content)
        found: dict[TrustKind, dict[str, str]] = {"folders": dict(stored["folders"])}
        found["skills"] = dict(stored.get("skills", {}))
        if all(isinstance(digest, str) for each in found.values() for digest in each.values()):
            return found
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass
    raise UnreadableSettingsError("it is damaged")


def restrict(document: SettingsDocument, origin: str) -> SettingsDocument:
    """Return the project's settings without those reserved to the user; each of these becomes a problem.

    Hooks are left out without a problem: they are read separately, and each needs its own consent.
    """
    data: dict[str, Any] = {}
    problems = list(document.problems)
    for path in leaves(document.data):
        if path[:1] == ("hooks",):
            continue
        if _is_allowed(path) and not _names_weights(path, document.data):
            _copy_value(data, path, document.data)
        else:
            message = f"`{short_text(dotted_key(path))}` cannot be set by a project; it is left out."
            if setting_names.type_at(path) is None:
                message = f"unknown key `{short_text(dotted_key(path))}`{setting_names.hint(path)}"
            problems.append(SettingProblem(origin, message, document.keys.get(path), dotted_key(path)))
    return SettingsDocument(data, document.keys, document.values, tuple(problems))


def _is_allowed(path: KeyPath) -> bool:
    return any(path[: len(allowed)] == allowed for allowed in ALLOWED)


def _names_weights(path: KeyPath, data: dict[str, Any]) -> bool:
    """Return whether a setting names a local file of model weights. Parsing a project's weights would be a
    risk.
    """
    value = lookup(data, path)
    names = value if isinstance(value, list) else [value]
    return path[:1] == ("model",) and any(str(name).strip().startswith("local:") for name in names)


def _copy_value(data: dict[str, Any], path: KeyPath, source: dict[str, Any]) -> None:
    """Copy the value at `path` from `source` to `data`."""
    *sections, name = (str(part) for part in path)
    for section in sections:
        data = data.setdefault(section, {})
        source = source[section]
    data[name] = source[name]
