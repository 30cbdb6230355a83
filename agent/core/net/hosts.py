"""The list of hosts that may be reached without asking: the built-in list and the user's entries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from agent.core.net.addresses import canonical, readings
from tools.kit.lazy_pattern import lazy_pattern

PORTS = frozenset({80, 443})
"""The ports of an entry that names none."""
_FILE = Path(__file__).with_name("hosts.yaml")
_PORT = lazy_pattern(r":(\d{1,5}|\*)\Z")


@dataclass(frozen=True, slots=True)
class HostEntry:
    """One entry of a host list. `name` is in canonical form."""

    name: str
    below: bool = False
    """True if the entry includes every name below `name`, and not `name` itself."""
    port: int | None = None
    """The port; None means ports 80 and 443, and 0 means every port."""

    def covers(self, host: str, port: int) -> bool:
        """Return whether the entry includes `port` of the canonical `host`."""
        is_host = host.endswith(f".{self.name}") if self.below else host == self.name
        return is_host and (port in PORTS if self.port is None else self.port in (0, port))


def entry(text: str) -> HostEntry:
    """Parse `example.org`, `*.example.org` or either with `:8443` or `:*`.

    Raises `ValueError`; its text is the rest of a sentence, such as "has a port that does not exist".
    """
    plain = text.strip()
    if "://" in plain or "/" in plain or "@" in plain:
        raise ValueError("is an address of a page; give the host alone, such as example.org")
    host, port = plain, None
    is_bare = plain.count(":") > 1 and not plain.startswith("[")
    if not is_bare and (found := _PORT.search(plain)):
        host = plain[: found.start()]
        port = 0 if found[1] == "*" else int(found[1])
        if found[1] != "*" and not 0 < port < 65_536:
            raise ValueError("has a port that does not exist")
    below = host.startswith("*.")
    host = host.removeprefix("*.")
    name = canonical(host)
    if below and (readings(name) or "." not in name):
        raise ValueError("is too wide: a pattern stands for the names below a domain")
    return HostEntry(name, below, port)


class HostList:
    """A set of host entries; the cost of a lookup does not grow with their number."""

    def __init__(self, entries: Iterable[HostEntry]) -> None:
        self._by_name: dict[str, list[HostEntry]] = {}
        for each in entries:
            self._by_name.setdefault(each.name, []).append(each)

    def lists(self, host: str, port: int) -> bool:
        """Return whether `port` of a canonical host is on the list, so that the user is not asked."""
        name = host
        while True:
            if any(each.covers(host, port) for each in self._by_name.get(name, ())):
                return True
            _, dot, name = name.partition(".")
            if not dot:
                return False


@cache
def groups() -> dict[str, tuple[str, ...]]:
    """Return the names of the built-in list by kind: `packages`, `code`, `documentation`. The file is read
    once.
    """
    from tools.kit.yaml_text import load_table

    data = load_table(_FILE)
    return {kind: tuple(names) for kind, names in data.items()}


@cache
def _entries() -> tuple[HostEntry, ...]:
    """Return the built-in list. It is cached, because a batch run opens a session for every task."""
    return tuple(entry(name) for names in groups().values() for name in names)


def host_list(own: Iterable[str] = ()) -> HostList:
    """Return the built-in list together with the user's `own` entries. Invalid entries are ignored."""
    entries = list(_entries())
    for text in own:
        try:
            entries.append(entry(text))
        except ValueError:
            continue
    return HostList(entries)


def own_networks(own: Iterable[str]) -> HostList:
    """Return the hosts that the user's list names without a wildcard; their addresses may be in the user's
    own network.
    """
    found: list[HostEntry] = []
    for text in own:
        try:
            each = entry(text)
        except ValueError:
            continue
        if not each.below:
            found.append(each)
    return HostList(found)


def services(own: Iterable[str]) -> tuple[int, ...]:
    """Return the ports of this machine that the user's list names, as in `localhost:5432`."""
    found: dict[int, None] = {}
    for text in own:
        try:
            each = entry(text)
        except ValueError:
            continue
        if each.name in ("localhost", "127.0.0.1") and not each.below and each.port:
            found[each.port] = None
    return tuple(found)
