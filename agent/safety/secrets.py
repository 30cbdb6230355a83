"""Names of files that hold keys, passwords and private history."""

from __future__ import annotations

import re
from functools import lru_cache

from agent.safety.reader.marks import GLOBS, UNKNOWN, pattern

_FOLDERS = re.compile(
    r"/(?:\.ssh|\.gnupg|\.aws|\.azure|\.kube|\.password-store|\.docker/config\.json"
    r"|\.config/(?:gcloud|gh|hub|op|rclone|"
    r"doctl|sops|age|configstore)|\.local/share/(?:keyrings|kwalletd)|\.mozilla/firefox"
    r"|\.config/(?:google-chrome|"
    r"chromium|BraveSoftware|microsoft-edge)|\.thunderbird|Library/(?:Keychains|Cookies|Safari|Messages|Mail"
    r"|Application Support/"
    r"(?:Google/Chrome|Firefox|com\.apple\.TCC))|\.electrum|\.bitcoin|\.ethereum|\.config/solana"
    r"|\.terraform\.d/credentials\.tfrc\.json"
    r"|\.oci|\.config/hcloud|\.databrickscfg|\.snowflake|\.cargo/credentials(?:\.toml)?|\.gem/credentials"
    r"|\.m2/settings(?:-security)?\.xml|\.gradle/gradle\.properties|\.composer/auth\.json"
    r"|\.nuget/NuGet\.Config"
    r"|etc/(?:g?shadow-?|sudoers(?:\.d)?|ssh/ssh_host_\w+_key|ssl/private|krb5\.keytab|master\.passwd)"
    r"|run/secrets|var/run/secrets|proc/[^/]+/(?:environ|mem)|proc/kcore|dev/k?mem)(?:/|$)"
)
_NAMES = re.compile(
    r"\.env(?!(?:\.\w+)*\.(?:example|sample|template|dist|defaults?|tpl)$)(?:\..+)?|\.envrc|\.netrc|_netrc"
    r"|\.git-credentials"
    r"|\.pgpass|\.my\.cnf|\.mylogin\.cnf|\.pypirc|\.npmrc|\.yarnrc\.yml|\.s3cfg|\.boto|\.htpasswd"
    r"|\.vault-token"
    r"|\.dockercfg|\.(?:bash|zsh|sh|psql|mysql|python|node_repl|sqlite|rediscli|irb)_history"
    r"|\.lesshst|\.viminfo"
    r"|fish_history|id_(?:rsa|dsa|ecdsa|ed25519)(?:_\w+)?|.*\.(?:pem|p12|pfx|jks|keystore|kdbx|ppk"
    r"|asc|gpg|ovpn|key)"
    r"|credentials(?:\.(?:json|ya?ml|toml|ini|db))?|(?:client_)?secrets?(?:\.(?:json|ya?ml|toml|env|txt))?"
    r"|service[-_]?account.*\.json|terraform\.tfstate(?:\.backup)?|.*\.tfvars|kubeconfig|wallet\.dat"
    r"|logins\.json|com\.apple\.LaunchServices\.QuarantineEvents.*"
    r"|key[34]\.db|auth\.json|\.Xauthority|known_tokens|\.wgetrc|\.curlrc|master\.key",
    re.IGNORECASE,
)
_PUBLIC = re.compile(r"known_hosts|.*\.pub|config\.example", re.IGNORECASE)
# What a pattern such as `.e*` or `~/.s*/id_*` may stand for.
_SAMPLES = (
    ".env",
    ".netrc",
    ".npmrc",
    ".bash_history",
    "id_rsa",
    "id_ed25519",
    "credentials",
    "server.pem",
    "server.key",
)
_SAMPLE_FOLDERS = (".ssh", ".aws", ".gnupg", ".kube")
_has_start = re.compile(r"/\.|/Library/|/etc/|/run/|/var/|/proc/|/dev/").search
"""One of these is in every path that `_FOLDERS` finds something in."""


def is_secret(path: str) -> bool:
    """Whether a marked absolute path is likely to hold secrets, or is a pattern that reaches such a file."""
    name = path.rpartition("/")[2]
    if path.isascii() or not any(mark in path for mark in GLOBS):
        known = _known(name)
        if known is not None:
            return known
        return _has_start(path) is not None and _FOLDERS.search(path) is not None
    return _may_be_secret(path)


@lru_cache(maxsize=2_048)
def _known(name: str) -> bool | None:
    """Whether a file is secret by its name alone; None when that depends on its folder."""
    if _PUBLIC.fullmatch(name):
        return False
    return True if _NAMES.fullmatch(name.replace(UNKNOWN, "")) else None


@lru_cache(maxsize=512)
def _may_be_secret(path: str) -> bool:
    names = path.split("/")
    last = names[-1]
    if last.endswith(".env"):
        return True  # what searches for names takes hidden ones as well
    if len(names) > 3 and _may_be(names[1], "proc") and (_may_be(last, "environ") or _may_be(last, "mem")):
        return True  # of some process
    if any(mark in last for mark in GLOBS) and not _is_wide(last):
        expression = pattern(last)
        if any(expression.fullmatch(sample) for sample in _SAMPLES):
            return True
    elif not _is_wide(last) and _NAMES.fullmatch(last) and not _PUBLIC.fullmatch(last):
        return True
    for place, name in enumerate(names[:-1]):
        if any(mark in name for mark in GLOBS) and not _is_wide(name):
            expression = pattern(name)
            if any(expression.fullmatch(folder) for folder in _SAMPLE_FOLDERS):
                return True
        elif _FOLDERS.search("/" + "/".join(names[max(0, place - 3) : place + 1]) + "/"):
            return True
    return False


def _may_be(name: str, known: str) -> bool:
    """Whether a name that may be a pattern can stand for a known one."""
    return name == known or (
        any(map(name.__contains__, GLOBS)) and pattern(name).fullmatch(known) is not None
    )


def _is_wide(name: str) -> bool:
    """Whether a pattern says nothing about the name, such as `*`; it does not match hidden files."""
    return any(mark in name for mark in GLOBS) and pattern(name).fullmatch("main") is not None
