"""The list of hosts that are reached unasked: ours as data, and a person's own beside it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from agent.core.net.addresses import canonical, readings

PORTS = frozenset({80, 443})
"""Ports that an entry without one stands for."""
_FILE = Path(__file__).with_name("hosts.yaml")
_PORT = re.compile(r":(\d{1,5}|\*)\Z")


@dataclass(frozen=True, slots=True)
class HostEntry:
    """One line of a list. `name` is canonical."""

    name: str
    below: bool = False
    """Whether it stands for every name below `name`, and not for `name` itself."""
    port: int | None = None
    """None: ports 80 and 443; 0: every port."""

    def covers(self, host: str, port: int) -> bool:
        """Whether the entry stands for `port` of the canonical `host`."""
        is_host = host.endswith(f".{self.name}") if self.below else host == self.name
        return is_host and (port in PORTS if self.port is None else self.port in (0, port))


def entry(text: str) -> HostEntry:
    """Read `example.org`, `*.example.org` or either with `:8443` or `:*`.

    Raises `ValueError` with a clause that says what is wrong.
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
    """Answers whether a host is on the list; the cost does not grow with its length."""

    def __init__(self, entries: Iterable[HostEntry]) -> None:
        self._by_name: dict[str, list[HostEntry]] = {}
        for each in entries:
            self._by_name.setdefault(each.name, []).append(each)

    def lists(self, host: str, port: int) -> bool:
        """Whether `port` of a canonical host is reached unasked."""
        name = host
        while True:
            if any(each.covers(host, port) for each in self._by_name.get(name, ())):
                return True
            _, dot, name = name.partition(".")
            if not dot:
                return False


@cache
def groups() -> dict[str, tuple[str, ...]]:
    """The names of our own list by kind: `packages`, `code`, `documentation`. Reads the file once."""
    from tools.kit.yaml_text import load_table

    data = load_table(_FILE)
    return {kind: tuple(names) for kind, names in data.items()}


@cache
def _entries() -> tuple[HostEntry, ...]:
    """Our own list, read once: a batch opens a session for every task."""
    return tuple(entry(name) for names in groups().values() for name in names)


def host_list(own: Iterable[str] = ()) -> HostList:
    """Our list with a person's `own` entries beside it; what cannot be read there lists nothing."""
    entries = list(_entries())
    for text in own:
        try:
            entries.append(entry(text))
        except ValueError:
            continue
    return HostList(entries)


def own_networks(own: Iterable[str]) -> HostList:
    """What a person's list names one by one: such a host may lie in a network of theirs."""
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
    """Ports of this machine that a person's list names, as `localhost:5432`."""
    found: dict[int, None] = {}
    for text in own:
        try:
            each = entry(text)
        except ValueError:
            continue
        if each.name in ("localhost", "127.0.0.1") and not each.below and each.port:
            found[each.port] = None
    return tuple(found)
