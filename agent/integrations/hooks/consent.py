"""Consent to hooks, by the hash of what they run. Touches the disk."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agent.core.config.hook_list import Hook
from agent.core.home import PRIVATE_FILE, private_folder
from agent.core.owned_file import read_owned
from agent.errors import ConfigError
from tools.files.atomic import write_atomically

LARGEST = 1_000_000
"""Bytes of the file that are read."""


class HookConsent:
    """The file of digests. One that cannot be believed agrees to nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def agreed(self) -> frozenset[str]:
        """The digests of all hooks that were agreed to."""
        kept = self._kept()
        lists = [kept.get("hooks"), *self._projects().values()]
        return frozenset(each for of in lists if isinstance(of, list) for each in of if isinstance(each, str))

    def _projects(self) -> dict[str, list[str]]:
        """The digests of the hooks of projects, by folder."""
        found = self._kept().get("projects")
        return found if isinstance(found, dict) else {}

    def _kept(self) -> dict[str, Any]:
        """What the file says; nothing where it cannot be believed."""
        content = read_owned(self._path, LARGEST)
        try:
            found = json.loads(content) if content is not None else {}
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def agree(self, hooks: Iterable[Hook]) -> None:
        """Agree to exactly these hooks, those of other projects apart.

        What was agreed to before and is not among them no longer counts. Raises `ConfigError`.
        """
        hooks = list(hooks)
        projects = self._projects()
        for root in {hook.project for hook in hooks if hook.project}:
            projects[root] = sorted({hook.digest for hook in hooks if hook.project == root})
        own = sorted({hook.digest for hook in hooks if not hook.project})
        text = json.dumps({"version": 1, "hooks": own, "projects": projects}, indent=1)
        try:
            private_folder(self._path.parent)
            write_atomically(self._path, text.encode(), PRIVATE_FILE, follow_links=False)
        except OSError as error:
            raise ConfigError(f"Cannot write {self._path}: {error.strerror or error}.") from error
