"""Approvals of plugins by the hash of their files, and copies of the approved files. Touches the disk."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agent.core.consents import ConsentFile
from agent.core.home import PRIVATE_FILE, private_folder
from agent.errors import ConfigError
from agent.integrations.plugins.files import PluginFile, digest
from agent.integrations.plugins.registrations import Registrations
from tools.kit.files import read_owned, write_atomically

LONGEST_TEXT = 256_000
"""The maximum size in bytes of a file whose text is stored."""
MOST_TEXT = 8_000_000
"""The maximum size in bytes of all stored texts of a plugin together."""
LARGEST = 20_000_000
"""The maximum size in bytes of a plugin's stored files, packed or unpacked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreedFile:
    """One file as it was when it was approved."""

    kind: str
    """The `kind` of the `PluginFile`, as text."""
    size: int
    """The size in bytes."""
    sha256: str
    """The SHA-256 of its bytes alone, as other programs compute it."""
    text: str | None = None
    """The text; None for the reason in `lacks`."""
    lacks: str = ""
    """The reason why its text is not stored."""

    @classmethod
    def of(cls, file: PluginFile, room: int = LONGEST_TEXT) -> AgreedFile:
        """Return the record of a file's current state.

        It includes the text if that has at most `room` bytes.
        """
        text, lacks = _text(file.content)
        if len(file.content) > room and text is not None:
            text, lacks = None, f"beyond the {MOST_TEXT // 1_000_000} MB of texts that are kept"
        return cls(
            kind=file.kind.decode("utf-8", "surrogateescape"),
            size=len(file.content),
            sha256=hashlib.sha256(file.content).hexdigest(),
            text=text,
            lacks=lacks,
        )

    def is_of(self, digest: str) -> bool:
        """Return whether the stored text has this hash."""
        kind = self.kind.encode("utf-8", "surrogateescape")
        return self.text is not None and PluginFile(self.text.encode(), kind).digest == digest


def _text(content: bytes) -> tuple[str | None, str]:
    """Return the text of a file unchanged, and an empty reason; or None and the reason for it."""
    if len(content) > LONGEST_TEXT:
        return None, f"more than {LONGEST_TEXT:,} bytes"
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return None, "no plain text"
    return (None, "no plain text") if "\0" in text else (text, "")


class AgreedFiles:
    """A folder with one packed file for each approved state of a plugin."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, digest: str, files: Mapping[str, AgreedFile]) -> None:
        """Store the files of the plugin with this hash. Raises `ConfigError`."""
        path = self._path(digest)
        packed = zlib.compress(json.dumps({name: asdict(file) for name, file in files.items()}).encode())
        try:
            private_folder(self._folder)
            write_atomically(path, packed, PRIVATE_FILE, follow_links=False)
        except OSError as error:
            raise ConfigError(f"Cannot write {path}: {error.strerror or error}.") from error

    def read(self, digest: str, hashes: Mapping[str, str]) -> dict[str, AgreedFile]:
        """Return the stored files of the plugin with this hash; empty if they cannot be read.

        Files whose text does not match the approved `hashes` are left out.
        """
        packed = read_owned(self._path(digest), LARGEST)
        if packed is None:
            return {}
        unpacking = zlib.decompressobj()
        try:
            found = json.loads(unpacking.decompress(packed, LARGEST)).items()
        except (zlib.error, ValueError, AttributeError, RecursionError):
            return {}
        kept: dict[str, AgreedFile] = {}
        for name, entry in found:
            with suppress(TypeError, ValueError):
                file = AgreedFile(**entry)
                if file.text is None or file.is_of(hashes.get(name, "")):
                    kept[name] = file
        return kept

    def delete_others(self, digests: Iterable[str]) -> None:
        """Delete the stored files of plugins whose hash is not in `digests`."""
        wanted = {self._path(each).name for each in digests}
        with suppress(OSError):
            for path in list(self._folder.iterdir()):
                if path.name not in wanted:
                    path.unlink(missing_ok=True)

    def _path(self, digest: str) -> Path:
        return self._folder / f"{digest}.json.z"


def agreed_files(files: Iterable[tuple[str, PluginFile]]) -> Iterator[tuple[str, AgreedFile]]:
    """Yield each file in the stored form. Texts are included until the size limit is reached."""
    room = MOST_TEXT
    for name, file in files:
        agreed = AgreedFile.of(file, room)
        room -= 0 if agreed.text is None else agreed.size
        yield name, agreed


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginConsent:
    """The user's approval of one plugin."""

    name: str
    files: Mapping[str, str] = field(default_factory=dict)
    """The hash of each approved file, by path."""
    in_process: bool = False
    """Whether it may run inside the process of Hermes, without a sandbox."""
    unconfined: bool = False
    """Whether its process may run if the machine has no sandbox."""
    registered: Registrations = Registrations()  # noqa: RUF009 - frozen
    """What its code registered when it was approved."""

    @property
    def digest(self) -> str:
        """One hash of all files."""
        return digest(self.files)

    def to_json(self) -> dict[str, Any]:
        """Return the form in which the approval is stored."""
        return {
            "name": self.name,
            "files": dict(self.files),
            "in_process": self.in_process,
            "unconfined": self.unconfined,
            "registered": self.registered.to_json(),
        }

    @classmethod
    def of(cls, data: Any) -> PluginConsent:
        """Return the approval in its stored form.

        Raises `ValueError`, `KeyError` or `TypeError` if it is invalid.
        """
        files = data["files"]
        if not all(isinstance(each, str) for pair in files.items() for each in pair):
            raise ValueError("no hashes")
        return cls(
            name=str(data["name"]),
            files=dict(files),
            in_process=data["in_process"] is True,
            unconfined=data["unconfined"] is True,
            registered=Registrations.of(data["registered"]),
        )


class PluginConsents(ConsentFile):
    """Approvals by the folder of the plugin."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.texts = AgreedFiles(path.with_name("plugin-texts"))
        """The files of plugins as they were when approved."""

    def read(self) -> dict[str, PluginConsent]:
        """Return all valid approvals by folder."""
        entries, found = self.data().get("plugins"), dict[str, PluginConsent]()
        for folder, entry in entries.items() if isinstance(entries, dict) else ():
            with suppress(ValueError, KeyError, TypeError, AttributeError):
                found[folder] = PluginConsent.of(entry)
        return found

    def agree(
        self, folder: Path, consent: PluginConsent, files: Mapping[str, AgreedFile] | None = None
    ) -> None:
        """Store the approval of the plugin in a folder. Raises `ConfigError`.

        `files` are stored too, so that later changes can be shown line by line.
        """
        with self.change() as data:
            if files is not None:
                self.texts.keep(consent.digest, files)
            self._write(data, self.read() | {str(folder): consent})

    def withdraw(self, folder: Path) -> bool:
        """Withdraw the approval of the plugin in a folder; return False if there is none.

        Raises `ConfigError`.
        """
        with self.change() as data:
            known = self.read()
            if known.pop(str(folder), None) is None:
                return False
            self._write(data, known)
        return True

    def _write(self, data: dict[str, Any], consents: Mapping[str, PluginConsent]) -> None:
        data["plugins"] = {folder: each.to_json() for folder, each in sorted(consents.items())}
        self.texts.delete_others(each.digest for each in consents.values())
