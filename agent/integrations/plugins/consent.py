"""Consent to plugins, by the hash of their files, with what each registered then. Touches the disk."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.core.home import PRIVATE_FILE, private_folder
from agent.errors import ConfigError
from agent.integrations.plugins.agreed_files import AgreedFile, AgreedFiles
from agent.integrations.plugins.files import digest
from agent.integrations.plugins.registrations import Registrations
from tools.kit.files import lock_file, open_lock, read_owned, write_atomically

LARGEST = 20_000_000
"""Bytes of the file that are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginConsent:
    """What a person agreed to."""

    name: str
    files: Mapping[str, str] = field(default_factory=dict)
    """What stood for each file then."""
    in_process: bool = False
    """Whether it may run within Hermes, without a boundary."""
    unconfined: bool = False
    """Whether its process may run where the machine offers no boundary."""
    registered: Registrations = Registrations()  # noqa: RUF009 - frozen
    """What its code registered when the person agreed."""

    @property
    def digest(self) -> str:
        """One hash of all files."""
        return digest(self.files)

    def to_json(self) -> dict[str, Any]:
        """Its form in the file."""
        return {
            "name": self.name,
            "files": dict(self.files),
            "in_process": self.in_process,
            "unconfined": self.unconfined,
            "registered": self.registered.to_json(),
        }

    @classmethod
    def of(cls, data: Any) -> PluginConsent:
        """Read its form in the file. Raises `ValueError`, `KeyError` or `TypeError` for what is none."""
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


class ConsentFile:
    """Consents by the folder of the plugin. A file that cannot be believed agrees to nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.texts = AgreedFiles(path.with_name("plugin-texts"))
        """The files of plugins as they were agreed to."""

    def read(self) -> dict[str, PluginConsent]:
        """All consents by folder."""
        content = read_owned(self._path, LARGEST)
        try:
            entries = json.loads(content)["plugins"].items() if content is not None else ()
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return {}
        found: dict[str, PluginConsent] = {}
        for folder, entry in entries:
            with suppress(ValueError, KeyError, TypeError, AttributeError):
                found[folder] = PluginConsent.of(entry)
        return found

    def agree(
        self, folder: Path, consent: PluginConsent, files: Mapping[str, AgreedFile] | None = None
    ) -> None:
        """Agree to the plugin in a folder as it is. Raises `ConfigError`.

        `files` are kept, so that the lines that change later can be shown.
        """
        with self._locked():
            if files is not None:
                self.texts.keep(consent.digest, files)
            self._write(self.read() | {str(folder): consent})

    def withdraw(self, folder: Path) -> bool:
        """Agree no longer; False if there was no consent. Raises `ConfigError`."""
        with self._locked():
            known = self.read()
            if known.pop(str(folder), None) is None:
                return False
            self._write(known)
        return True

    def _write(self, consents: Mapping[str, PluginConsent]) -> None:
        entries = {folder: each.to_json() for folder, each in sorted(consents.items())}
        text = json.dumps({"version": 1, "plugins": entries}, indent=1)
        try:
            write_atomically(self._path, text.encode(), PRIVATE_FILE, follow_links=False)
        except OSError as error:
            raise ConfigError(f"Cannot write {self._path}: {error.strerror or error}.") from error
        self.texts.keep_only(each.digest for each in consents.values())

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Held by one process at a time."""
        private_folder(self._path.parent)
        path = self._path.with_name(f".{self._path.name}.lock")
        try:
            lock = open_lock(path)
        except OSError as error:
            raise ConfigError(f"Cannot write {path}: {error.strerror or error}.") from error
        try:
            lock_file(lock)
            yield
        finally:
            os.close(lock)
