"""Files that hold secrets or guard the system, and that tools leave alone.

This is a list of well-known places, a guard against accidents. The gate decides
everything else, and the sandbox is what confines commands.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any

from tools.results import ToolError

PROTECTED_OPTION = "files.protected"
"""Option of tools: further files or folders, as absolute paths, that may be neither read nor changed."""

_SECRET_NAMES = (
    ".env",
    ".env.*",
    ".env-*",
    ".env_*",
    ".envrc",
    ".netrc",
    "_netrc",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".git-credentials",
    ".vault-token",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ecdsa_sk",
    "id_ed25519",
    "id_ed25519_sk",
)
_PUBLIC_NAMES = (".env*.example", ".env*.sample", ".env*.template")

# Below a home folder. A pattern covers the place itself and everything in it.
_SECRET_IN_HOME = (
    ".ssh",
    ".aws",
    ".gnupg",
    ".kube",
    ".azure",
    ".docker/config.json",
    ".config/containers/auth.json",
    ".config/gh",
    ".config/gcloud",
    ".config/hub",
    ".config/op",
    ".config/doctl",
    ".config/rclone",
    ".config/git/credentials",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".terraform.d/credentials.tfrc.json",
    ".huggingface/token",
    ".cache/huggingface/token",
    ".m2/settings-security.xml",
    ".composer/auth.json",
    ".config/composer/auth.json",
    ".s3cfg",
    ".boto",
    ".password-store",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".mozilla/firefox",
    ".thunderbird",
    ".config/google-chrome*",
    ".config/chromium",
    ".config/BraveSoftware",
    ".config/microsoft-edge*",
    ".config/vivaldi*",
    ".config/opera*",
    "snap/firefox",
    "snap/chromium",
    "Library/Keychains",
    "Library/Cookies",
    "Library/Application Support/Firefox",
    "Library/Application Support/Google/Chrome*",
    "Library/Application Support/BraveSoftware",
    "Library/Application Support/Microsoft Edge*",
)
_READABLE_IN_HOME = (".ssh/config", ".ssh/known_hosts", ".ssh/*.pub")
_SECRET_IN_SYSTEM = (
    "/etc/shadow*",
    "/etc/gshadow*",
    "/etc/sudoers*",
    "/etc/ssh/*_key",
    "/etc/ssl/private",
    "/etc/krb5.keytab",
    "/run/secrets",
    "/var/run/secrets",
    "/etc/NetworkManager/system-connections",
)

_GUARDED_IN_HOME = (".config/systemd", "Library/LaunchAgents")
_GUARDED_IN_SYSTEM = (
    "/etc/passwd*",
    "/etc/group*",
    "/etc/pam.d",
    "/etc/ssh",
    "/etc/systemd",
    "/etc/ld.so.preload",
    "/etc/cron*",
    "/var/spool/cron",
    "/lib/systemd",
    "/usr/lib/systemd",
    "/run/systemd",
    "/boot",
    "/Library/LaunchDaemons",
    "/Library/LaunchAgents",
)


class Guard:
    """Which paths are off limits, for one set of options."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        protected = options.get(PROTECTED_OPTION, ())
        named = [form for text in protected for form in _both_forms(str(text))]
        self._protected = frozenset(named + list(_linked_stores()))

    def hides(self, path: Path) -> bool:
        """Whether the content of `path` (resolved) is kept from the model."""
        if self._is_protected(path) or _covered(path, _SECRET_IN_SYSTEM):
            return True
        below = _below_home(path)
        if below is not None and _matches_any(below, _SECRET_IN_HOME):
            return not _matches_any(below, _READABLE_IN_HOME)
        name = path.name.lower()
        return _any_name(name, _SECRET_NAMES) and not _any_name(name, _PUBLIC_NAMES)

    def check_read(self, path: Path, shown: str) -> None:
        """Raise `ToolError` if `path` may not be read."""
        if self.hides(path):
            raise ToolError(
                f"{shown} holds credentials and is not shown; ask the user for the one value you need."
            )

    def check_write(self, path: Path, shown: str) -> None:
        """Raise `ToolError` if `path` may not be created, changed or deleted."""
        below = _below_home(path)
        if self.hides(path) or (below is not None and _matches_any(below, (".ssh",))):
            raise ToolError(f"{shown} holds credentials and is not changed; ask the user to edit it.")
        if _covered(path, _GUARDED_IN_SYSTEM) or (
            below is not None and _matches_any(below, _GUARDED_IN_HOME)
        ):
            raise ToolError(f"{shown} guards the system and is not changed; ask the user to edit it.")

    def _is_protected(self, path: Path) -> bool:
        return bool(self._protected) and (
            str(path) in self._protected or any(str(parent) in self._protected for parent in path.parents)
        )


def _any_name(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _covered(path: Path, patterns: Iterable[str]) -> bool:
    """Whether one of the absolute patterns names `path` or a folder above it."""
    return _matches_any(str(path), patterns)


def _matches_any(text: str, patterns: Iterable[str]) -> bool:
    parts = text.split("/")
    for pattern in patterns:
        wanted = pattern.split("/")
        if len(parts) >= len(wanted) and all(
            fnmatchcase(part.lower(), piece.lower()) for part, piece in zip(parts, wanted, strict=False)
        ):
            return True
    return False


def _below_home(path: Path) -> str | None:
    """The part of `path` below some user's home folder, or None."""
    for home in _homes(os.environ.get("HOME", "")):
        if path.is_relative_to(home):
            return str(path.relative_to(home))
    parts = path.parts
    if len(parts) > 3 and parts[1] in ("home", "Users"):
        return "/".join(parts[3:])
    return None


@lru_cache(maxsize=8)
def _homes(home_variable: str) -> tuple[Path, ...]:
    homes = {Path("/root")}
    try:
        homes.update(_as_paths(pwd.getpwuid(os.getuid()).pw_dir))
    except KeyError:
        pass
    if home_variable:
        homes.update(_as_paths(home_variable))
    return tuple(sorted(home for home in homes if home != Path("/")))


def _linked_stores() -> Iterable[str]:
    """Where the stores of the user really are, if a link stands in their usual place."""
    for home in _homes(os.environ.get("HOME", "")):
        for store in _SECRET_IN_HOME:
            usual = str(home / store)
            if "*" not in store and (real := os.path.realpath(usual)) != usual:
                yield real


def _as_paths(text: str) -> Iterable[Path]:
    return (Path(form) for form in _both_forms(text))


def _both_forms(text: str) -> tuple[str, str]:
    """A path as written and as resolved: a link to a store must not open it."""
    return os.path.normpath(text), os.path.realpath(text)
