"""Consent to hooks, by the hash of what they run. Touches the disk."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agent.core.config.hook_list import Hook
from agent.core.home import PRIVATE_FILE, private_folder
from agent.errors import ConfigError
from tools.kit.files import read_owned, write_atomically

LARGEST = 1_000_000
"""Bytes of the file that are read."""


class HookConsent:
    """The file of digests. One that cannot be believed agrees to nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def agreed(self) -> frozenset[str]:
        """The digests of all hooks that were agreed to."""
        return frozenset(each for digests in self.by_project().values() for each in digests)

    def by_project(self) -> dict[str, frozenset[str]]:
        """The digests by the folder of the project; under the empty text those of the person's settings."""
        kept = self._kept()
        projects = kept.get("projects")
        lists = {**(projects if isinstance(projects, dict) else {}), "": kept.get("hooks")}
        return {
            root: frozenset(each for each in digests if isinstance(each, str))
            for root, digests in lists.items()
            if isinstance(digests, list)
        }

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
        agreed = self.by_project()
        for root in {"", *(hook.project for hook in hooks)}:
            agreed[root] = frozenset(hook.digest for hook in hooks if hook.project == root)
        self._write(agreed)

    def withdraw(self, digest: str) -> bool:
        """Agree to a hook no longer; False if there was no consent. Raises `ConfigError`."""
        if digest not in self.agreed():
            return False
        self._write({root: digests - {digest} for root, digests in self.by_project().items()})
        return True

    def _write(self, agreed: dict[str, frozenset[str]]) -> None:
        projects = {root: sorted(digests) for root, digests in agreed.items() if root and digests}
        own = sorted(agreed.get("", ()))
        text = json.dumps({"version": 1, "hooks": own, "projects": projects}, indent=1)
        try:
            private_folder(self._path.parent)
            write_atomically(self._path, text.encode(), PRIVATE_FILE, follow_links=False)
        except OSError as error:
            raise ConfigError(f"Cannot write {self._path}: {error.strerror or error}.") from error
