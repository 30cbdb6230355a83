"""Hosts that may be read from and asked about unasked: documentation and the registries' own pages.

Nobody who could be told something by a request reads the logs of these hosts: the names are whole,
fixed and belong to publishers of documentation and to package registries (`agent/core/net/hosts.yaml`).
What may be looked up also holds code hosts, well-known sites and names reserved for examples. Names
below a foreign domain could carry data out. Whether the network is open is asked for on its own.
"""

from __future__ import annotations

import re
from functools import cache

from agent.core.net.hosts import groups
from agent.safety.reader.marks import words

_LOOKED_UP = words(
    "google.com www.google.com cloudflare.com one.one.one.one dns.google python.org rust-lang.org golang.org "
    "npmjs.com www.npmjs.com debian.org ubuntu.org ubuntu.com kernel.org microsoft.com apple.com amazon.com "
    "wikipedia.org docker.io 1.1.1.1 1.0.0.1 8.8.8.8 8.8.4.4 9.9.9.9 localhost ::1 "
    "example.com example.org example.net www.example.com"
)
"""May be named in a command unasked; the proxy asks before it connects."""
_LOCAL = re.compile(r"localhost|127(?:\.\d{1,3}){3}|::1|0\.0\.0\.0")


def is_known(host: str) -> bool:
    """Whether a host is on the list, or is this machine."""
    return is_local(host) or host in _LOOKED_UP or any(host in names for names in _listed().values())


def is_local(host: str) -> bool:
    """Whether a name or address is that of this machine."""
    return host.endswith(".localhost") or _LOCAL.fullmatch(host) is not None


def is_listed(host: str) -> bool:
    """Whether reading there tells nobody anything: pages of documentation and of packages.

    A server of this machine is none of them, as what its own projects run may act on any request.
    """
    listed = _listed()
    return host in listed["documentation"] or host in listed["packages"]


@cache
def _listed() -> dict[str, frozenset[str]]:
    return {kind: frozenset(names) for kind, names in groups().items()}
