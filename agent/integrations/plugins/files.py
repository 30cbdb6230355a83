"""The files of a plugin, its manifest, and the capabilities it requests.

Files outside its folder are never read.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from agent.core.config.hook_list import HOOK_EVENTS, HookEvent
from agent.core.net.hosts import entry
from agent.errors import ConfigError, ExitCode, HermesError
from tools.kit.files import NotAFileError, read_bytes
from tools.kit.lazy_pattern import lazy_pattern
from tools.text.words import brief


class PluginError(ConfigError):
    """The error that a plugin cannot be used as requested. The message is one sentence with cause and fix."""


class PluginFailedError(HermesError):
    """The failure of a running plugin: it hung, crashed, sent too much or gave an invalid answer.

    The message names the plugin.
    """

    exit_code = ExitCode.FAILED


@dataclass(frozen=True, slots=True)
class SkippedPart:
    """A part of a plugin that is not used, and the reason as a clause."""

    part: str
    """Its file, followed by the entry if only that is meant."""
    reason: str


LARGEST = 1_000_000
"""The maximum size in bytes of a file that is read as part of the plugin's description."""
MOST_FILES = 5_000
MOST_BYTES = 50_000_000
"""The maximum size in bytes of all files of a plugin together."""
_PASSED_OVER = frozenset({".git", "__pycache__", ".DS_Store"})
"""Names that are not part of a plugin: nothing in them is run, because compiled files are not read."""


class OutsideError(Exception):
    """A path leads out of the plugin's folder. The message is a clause."""


def inside(root: Path, path: Path) -> Path:
    """Return `path` with links resolved.

    Raises `OutsideError` if it leads out of `root`, which is already resolved.
    """
    try:
        real = Path(os.path.realpath(path))
    except (OSError, ValueError) as error:
        raise OutsideError("it cannot be followed") from error
    if not real.is_relative_to(root):
        raise OutsideError("it leads out of the plugin")
    if _PASSED_OVER.intersection(real.relative_to(root).parts):
        raise OutsideError("it leads to what is not part of the plugin")
    return real


def read_part(root: Path, name: str, limit: int = LARGEST) -> bytes | None:
    """Return the content of a file of the plugin; None if it does not exist.

    Raises `OutsideError` if it leads out of the plugin, and `OSError` with a reason if it cannot be read.
    """
    path = root / name
    if not os.path.lexists(path):
        return None
    real = inside(root, path)
    try:
        return read_bytes(real, limit)[0]
    except NotAFileError as error:
        raise OSError(errno.EINVAL, "it is not a plain file") from error
    except FileNotFoundError as error:
        raise OSError(errno.ENOENT, "it is a link that leads nowhere") from error
    except OSError as error:
        reason = f"it is larger than {limit:,} bytes" if error.errno == errno.EFBIG else error.strerror
        raise OSError(error.errno, reason or "it cannot be read") from error


@dataclass(frozen=True, slots=True)
class PluginFile:
    """One file or link of a plugin."""

    content: bytes
    """The content of the file, or the target of the link."""
    kind: bytes
    """`file`, `program`, `special`, `outside`, or `link` and the resolved target."""

    @property
    def digest(self) -> str:
        """The hash that an approval refers to."""
        return hashlib.sha256(self.kind + self.content).hexdigest()


def hashes(root: Path, below: Path | None = None) -> dict[str, str]:
    """Return the hash of each file by its path relative to `root`; with `below`, only of files in that
    folder.

    For a link, its target's path is hashed; a file inside the plugin is hashed under its own path as well.
    Raises `PluginError` if a file cannot be read.
    """
    return {name: file.digest for name, file in read_files(root, below)}


def read_files(root: Path, below: Path | None = None) -> Iterator[tuple[str, PluginFile]]:
    """Yield each file with its path relative to `root`. Raises `PluginError` as `hashes` does."""
    total = 0
    for found, path in enumerate(walk(below or root)):
        name = path.relative_to(root).as_posix()
        try:
            file = read_file(root, path)
        except OSError as error:
            raise PluginError(
                f"{brief(path, 300)} cannot be read: {error.strerror or error}; fix or remove it."
            ) from None
        total += len(file.content)
        if found >= MOST_FILES or total > MOST_BYTES:
            most = f"{MOST_FILES:,} files or {MOST_BYTES // 1_000_000} MB"
            raise PluginError(f"The plugin in {brief(root, 300)} has more than {most}; make it smaller.")
        yield name, file


def digest(parts: Mapping[str, str]) -> str:
    """Return one hash for all files, computed from the result of `hashes`."""
    total = hashlib.sha256()
    for name in sorted(parts):
        total.update(f"{name}\0{parts[name]}\n".encode("utf-8", "surrogateescape"))
    return total.hexdigest()


def walk(root: Path) -> Iterator[Path]:
    """Yield all files and links of a plugin in order. Links to folders are not followed."""

    def fail(error: OSError) -> None:
        raise PluginError(f"{brief(error.filename, 300)} cannot be read: {error.strerror}; fix it.")

    for parent, below, files in os.walk(root, onerror=fail):
        below[:] = sorted(name for name in below if name not in _PASSED_OVER)
        links = [name for name in below if Path(parent, name).is_symlink()]
        for name in sorted([*files, *links]):
            if name not in _PASSED_OVER:
                yield Path(parent, name)


def read_file(root: Path, path: Path) -> PluginFile:
    """Return one file or link of the plugin in `root`. Raises `OSError`."""
    if path.is_symlink():
        target = os.fsencode(path.readlink())
        try:
            real = inside(root, path)
        except OutsideError:
            return PluginFile(target, b"outside\0")
        # What a folder's link leads to is hashed where it lies.
        return PluginFile(target, b"link\0" + os.fsencode(real.relative_to(root)))
    try:
        content, status = read_bytes(Path(os.path.realpath(path)), MOST_BYTES)
    except NotAFileError:
        return PluginFile(b"", b"special\0")
    return PluginFile(content, b"program\0" if status.st_mode & stat.S_IXUSR else b"file\0")


FILE = "plugin.json"
SCHEMA = "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"
NAMESPACE = "dev.hermes-tui"
"""The extension namespace of Hermes: the folder of a plugin with files that only Hermes reads."""
LONGEST_NAME = 64

_TEXTS = ("version", "description", "homepage", "repository", "license")
_FIELDS = frozenset({"$schema", "name", "author", "keywords", "extensions", *_TEXTS})
_AUTHOR = frozenset({"name", "email", "url"})
_NAME = lazy_pattern(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of `plugin.json`."""

    name: str
    version: str = ""
    description: str = ""
    skipped: tuple[SkippedPart, ...] = ()
    """Fields that are not used."""


def is_name(text: object) -> bool:
    """Return whether a text can be the name of a plugin."""
    return (
        isinstance(text, str)
        and len(text) <= LONGEST_NAME
        and _NAME.fullmatch(text) is not None
        and "--" not in text
        and ".." not in text
    )


def read_object(content: bytes) -> dict[str, Any]:
    """Parse the JSON object in a file. Raises `ValueError`, whose text gives the problem as a clause."""
    try:
        data = json.loads(content.decode("utf-8"))
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON (line {error.lineno}: {error.msg})") from None
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON that can be read") from None
    if not isinstance(data, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 - the caller knows one kind
    return data


def manifest_of(content: bytes) -> Manifest:
    """Return a manifest. Raises `PluginError`, which names the invalid field.

    Unknown fields, and `extensions` that is not an object, are reported and ignored, as the format requires.
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
            f"{FILE}: the field name is not a plugin name; use 1 to {LONGEST_NAME} of a-z, 0-9, - and ., "
            "a letter or digit at both ends, no -- and no two dots in a row."
        )
    for key in _TEXTS:
        if key in data and not isinstance(data[key], str):
            raise PluginError(f"{FILE}: the field {key} is not text.")
    _check_author(data)
    keywords = data.get("keywords", [])
    if not isinstance(keywords, list) or not all(isinstance(each, str) for each in keywords):
        raise PluginError(f"{FILE}: the field keywords is not a list of texts.")
    skipped = [
        SkippedPart(f"{FILE}: {brief(key)}", "the format does not know this field")
        for key in data
        if key not in _FIELDS
    ]
    extensions = data.get("extensions", {})
    if not isinstance(extensions, dict):
        skipped.append(SkippedPart(f"{FILE}: extensions", "it is not an object"))
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
        raise PluginError(f"{FILE}: the field author is not an object.")
    for key, value in author.items():
        if key not in _AUTHOR or not isinstance(value, str):
            raise PluginError(f"{FILE}: author.{brief(key)} is not name, email or url with a text.")


MOST = 64
"""The maximum number of entries read of one list."""
TOOL_NAME = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_VARIABLE = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_]*")
_NEVER_PASSED = lazy_pattern(
    r"(?i)LD_.*|DYLD_.*|PYTHON.*|BASH_ENV|ENV|HOME|PATH|TMPDIR|PLUGIN_ROOT|PLUGIN_DATA"
)
"""Variables that decide what code runs, or that the plugin's process is given anyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredCapabilities:
    """The capabilities that a plugin declares."""

    tools: tuple[str, ...] = ()
    """Names of tools it registers."""
    read: tuple[str, ...] = ()
    """Files and folders it reads: absolute, with `~`, or relative to the workspace."""
    write: tuple[str, ...] = ()
    """Files and folders it changes."""
    hosts: tuple[str, ...] = ()
    """Hosts it connects to, as in `sandbox.hosts`."""
    events: tuple[HookEvent, ...] = ()
    """The events for which it has hooks."""
    env: tuple[str, ...] = ()
    """The user's environment variables that it is given."""

    def lines(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield title and values of each declared capability, in the words shown when the user is asked."""
        for title, values in (
            ("adds tools", self.tools),
            ("reads", self.read),
            ("changes", self.write),
            ("reaches", self.hosts),
            ("hears of", self.events),
            ("is given the variables", self.env),
        ):
            if values:
                yield title, values

    def to_json(self) -> dict[str, Any]:
        """Return the form used in `plugin.yaml`."""
        return {
            "tools": list(self.tools),
            "paths": {"read": list(self.read), "write": list(self.write)},
            "hosts": list(self.hosts),
            "events": list(self.events),
            "env": list(self.env),
        }


def capabilities_of(given: Any, origin: str) -> tuple[DeclaredCapabilities, tuple[SkippedPart, ...]]:
    """Return the capabilities in the `plugin.yaml` called `origin`.

    The second value lists the invalid entries, which are not granted.
    """
    if given is None:
        return DeclaredCapabilities(), ()
    if not isinstance(given, Mapping):
        return DeclaredCapabilities(), (SkippedPart(f"{origin}: capabilities", "it is not a mapping"),)
    reader = _Reader(origin)
    paths = given.get("paths")
    if paths is not None and not isinstance(paths, Mapping):
        reader.skip("paths", "it is not a mapping with read and write")
        paths = None
    paths = paths or {}
    found = DeclaredCapabilities(
        tools=reader.read_list("tools", given.get("tools"), _tool),
        read=reader.read_list("paths.read", paths.get("read"), _path),
        write=reader.read_list("paths.write", paths.get("write"), _path),
        hosts=reader.read_list("hosts", given.get("hosts"), _host),
        events=cast("tuple[HookEvent, ...]", reader.read_list("events", given.get("events"), _event)),
        env=reader.read_list("env", given.get("env"), _variable),
    )
    for key in given.keys() - {"tools", "paths", "hosts", "events", "env"}:
        reader.skip(brief(key), "there is no such capability")
    for key in paths.keys() - {"read", "write"}:
        reader.skip(f"paths.{brief(key)}", "there is no such capability")
    return found, tuple(reader.skipped)


class _Reader:
    def __init__(self, origin: str) -> None:
        self._origin = origin
        self.skipped: list[SkippedPart] = []

    def skip(self, key: str, reason: str) -> None:
        self.skipped.append(SkippedPart(f"{self._origin}: capabilities.{key}", reason))

    def read_list(self, key: str, given: Any, check: Callable[[str], str]) -> tuple[str, ...]:
        """Return the valid entries of a list.

        `check` returns what is wrong with an entry as a clause, or an empty text.
        """
        if given is None:
            return ()
        if not isinstance(given, list):
            self.skip(key, "it is not a list")
            return ()
        if len(given) > MOST:
            self.skip(key, f"it has more than {MOST} entries; those behind are not read")
        found: list[str] = []
        for each in given[:MOST]:
            wrong = check(each) if isinstance(each, str) else "it is not text"
            if wrong:
                self.skip(f"{key}: {brief(each)}", wrong)
            elif each not in found:
                found.append(each)
        return tuple(found)


def _tool(text: str) -> str:
    return "" if TOOL_NAME.fullmatch(text) else "that is not a valid tool name; use letters, digits, _ and -"


def _path(text: str) -> str:
    if not text.strip() or "\0" in text or not text.isprintable():
        return "it is not a path"
    if re.search(r"[*?\[]", text):
        return "patterns are not read; name the folder"
    return ""


def _host(text: str) -> str:
    try:
        entry(text)
    except ValueError as error:
        return f"it {error}"
    return ""


def _event(text: str) -> str:
    return "" if text in HOOK_EVENTS else f"there is no such event; there are {', '.join(HOOK_EVENTS)}"


def _variable(text: str) -> str:
    if not _VARIABLE.fullmatch(text):
        return "that is not a valid variable name"
    return "it is not for plugins to choose" if _NEVER_PASSED.fullmatch(text) else ""
