"""Files that hold secrets or guard the system, and that tools leave alone.

This is a list of well-known places, a guard against accidents. The gate decides
everything else, and the sandbox is what confines commands.
"""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterable, Iterator, Mapping
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


def _regex(pattern: str) -> str:
    return re.escape(pattern).replace(r"\*", "[^/]*")


def _exactly(patterns: Iterable[str]) -> re.Pattern[str]:
    """Matches the names that fit one of the patterns."""
    return re.compile(f"(?:{'|'.join(map(_regex, patterns))})\\Z", re.IGNORECASE)


def _at_or_below(patterns: Iterable[str]) -> re.Pattern[str]:
    """Matches the paths that fit one of the patterns, and all paths below them."""
    return re.compile(f"(?:{'|'.join(map(_regex, patterns))})(?:/|\\Z)", re.IGNORECASE)


_IS_SECRET_NAME = _exactly(_SECRET_NAMES)
_IS_PUBLIC_NAME = _exactly(_PUBLIC_NAMES)
_IS_SECRET_IN_HOME = _at_or_below(_SECRET_IN_HOME)
_IS_READABLE_IN_HOME = _exactly(_READABLE_IN_HOME)
_IS_SECRET_IN_SYSTEM = _at_or_below(_SECRET_IN_SYSTEM)
_IS_GUARDED_IN_HOME = _at_or_below((*_GUARDED_IN_HOME, ".ssh"))
_IS_GUARDED_IN_SYSTEM = _at_or_below(_GUARDED_IN_SYSTEM)


_FOREIGN_HOME = re.compile(r"/(?:home|Users)/[^/]+/")


class CredentialGuard:
    """Which paths are off limits, for one set of options. Making one looks at the disk."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        homes = _homes()
        self._homes = tuple(f"{home}/" for home in homes)
        places = [form for text in options.get(PROTECTED_OPTION, ()) for form in _both_forms(str(text))]
        places += _linked_stores(homes)
        self._protected = frozenset(places)

    def hides(self, path: Path) -> bool:
        """Whether the content of `path` (resolved) is kept from the model."""
        text = str(path)
        if self._is_protected(text) or _IS_SECRET_IN_SYSTEM.match(text):
            return True
        below = self._below_home(text)
        if below is not None and _IS_SECRET_IN_HOME.match(below):
            return not _IS_READABLE_IN_HOME.match(below)
        name = path.name
        return bool(_IS_SECRET_NAME.match(name)) and not _IS_PUBLIC_NAME.match(name)

    def check_read(self, path: Path, shown: str) -> None:
        """Raise `ToolError` if `path` may not be read."""
        if self.hides(path):
            raise ToolError(
                f"{shown} holds credentials and is not shown; ask the user for the one value you need."
            )

    def check_write(self, path: Path, shown: str) -> None:
        """Raise `ToolError` if `path` may not be created, changed or deleted."""
        if self.hides(path):
            raise ToolError(f"{shown} holds credentials and is not changed; ask the user to edit it.")
        text = str(path)
        below = self._below_home(text)
        if _IS_GUARDED_IN_SYSTEM.match(text) or (below is not None and _IS_GUARDED_IN_HOME.match(below)):
            raise ToolError(f"{shown} guards the system and is not changed; ask the user to edit it.")

    def _is_protected(self, text: str) -> bool:
        while self._protected and text not in ("", "/"):
            if text in self._protected:
                return True
            text = text.rpartition("/")[0]
        return False

    def _below_home(self, text: str) -> str | None:
        """The part of a path below some user's home folder, or None."""
        for home in self._homes:
            if text.startswith(home):
                return text[len(home) :]
        foreign = _FOREIGN_HOME.match(text)
        return text[foreign.end() :] if foreign else None


def _homes() -> tuple[str, ...]:
    """The home folders of this user and of root, as written and as resolved."""
    homes = ["/root", os.environ.get("HOME", "")]
    try:
        homes.append(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        pass
    forms = {form for home in homes if home for form in _both_forms(home)}
    return tuple(sorted(forms - {"/"}))


def _linked_stores(homes: Iterable[str]) -> Iterator[str]:
    """Where the stores of the user really are, if a link stands in their usual place."""
    for home in homes:
        for store in _SECRET_IN_HOME:
            place = home
            for part in store.split("/"):
                place = f"{place}/{part}"
                if os.path.islink(place):  # noqa: PTH114 - a Path for each would take longer than the look
                    yield os.path.realpath(f"{home}/{store}")
                    break


def _both_forms(text: str) -> tuple[str, str]:
    """A path as written and as resolved: a link to a store must not open it."""
    return os.path.normpath(text), os.path.realpath(text)
