"""The list of hosts: what an entry stands for, and what it does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.config.schema import SandboxSettings
from agent.core.net.addresses import canonical, readings
from agent.core.net.hosts import HostEntry, HostList, entry, groups, host_list, own_networks, services

LABEL = st.from_regex(r"[a-z][a-z0-9-]{0,8}[a-z0-9]", fullmatch=True)


def test_our_own_list_is_well_formed_and_holds_no_address():
    names = [name for kind in groups().values() for name in kind]
    assert set(groups()) == {"packages", "code", "documentation"} and len(names) > 100
    assert len(set(names)) == len(names)
    for name in names:
        read = entry(name)
        assert read.port is None and not readings(read.name) and "." in read.name


@pytest.mark.parametrize("host", ["pypi.org", "files.pythonhosted.org", "github.com", "docs.python.org"])
def test_listed_hosts_are_reached_on_the_usual_ports_only(host: str):
    ours = host_list()
    assert ours.lists(host, 443) and ours.lists(host, 80)
    assert not ours.lists(host, 22) and not ours.lists(host, 8443)


@pytest.mark.parametrize(
    "host", ["example.org", "evil-pypi.org", "pypi.org.example.org", "x.pypi.org", "org", "1.1.1.1", "::1"]
)
def test_what_only_looks_like_a_listed_host_is_not_listed(host: str):
    assert not host_list().lists(host, 443)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("example.org", HostEntry("example.org")),
        (" Example.ORG. ", HostEntry("example.org")),
        ("example.org:8443", HostEntry("example.org", port=8443)),
        ("example.org:*", HostEntry("example.org", port=0)),
        ("*.example.org", HostEntry("example.org", below=True)),
        ("*.example.org:22", HostEntry("example.org", below=True, port=22)),
        ("münchen.de", HostEntry("xn--mnchen-3ya.de")),
        ("[2606:4700::1]:443", HostEntry("2606:4700::1", port=443)),
        ("2606:4700::1", HostEntry("2606:4700::1")),
        ("1.1.1.1:53", HostEntry("1.1.1.1", port=53)),
    ],
)
def test_an_entry_is_read(text: str, expected: HostEntry):
    assert entry(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "*",
        "*.org",
        "*.",
        "https://example.org",
        "example.org/x",
        "a@b.org",
        "example.org:0",
        "example.org:65536",
        *["*.1.1.1.1", "exa mple.org", "ex*mple.org", "example.org:http"],
    ],
)
def test_an_entry_that_means_nothing_or_too_much_is_refused(text: str):
    with pytest.raises(ValueError, match=r"^(is|has|ends)"):
        entry(text)


@pytest.mark.thorough
@given(st.lists(LABEL, min_size=2, max_size=5), st.integers(1, 65_535))
def test_a_pattern_stands_for_all_names_below_and_not_for_its_own(labels: list[str], port: int):
    name = canonical(".".join(labels))
    below = HostList([entry(f"*.{name}:*")])
    assert below.lists(f"a.{name}", port) and below.lists(f"a.b.{name}", port)
    assert not below.lists(name, port) and not below.lists(f"a{name}", port)
    exact = HostList([entry(f"{name}:{port}")])
    assert exact.lists(name, port) and not exact.lists(f"a.{name}", port)
    assert not exact.lists(name, port % 65_535 + 1)


def test_a_person_adds_hosts_of_their_own():
    own = host_list(["internal.example.org:8443", "*.example.net"])
    assert own.lists("internal.example.org", 8443) and own.lists("a.example.net", 443)
    assert own.lists("pypi.org", 443)


def test_only_hosts_that_are_named_one_by_one_may_lie_in_a_private_network():
    own = own_networks(["index.example.org:8443", "*.example.net", "10.0.0.5:80", "pypi.org"])
    assert own.lists("index.example.org", 8443) and own.lists("10.0.0.5", 80) and own.lists("pypi.org", 443)
    assert not own.lists("a.example.net", 443) and not own.lists("index.example.org", 443)
    assert not own.lists("files.pythonhosted.org", 443)


def test_services_of_this_machine_are_named_by_their_port():
    own = [
        "localhost:5432",
        "127.0.0.1:6379",
        "localhost",
        "localhost:*",
        "example.org:1",
        "*.org",
        "localhost:5432",
    ]
    assert services(own) == (5432, 6379)


def test_a_host_in_the_settings_that_cannot_be_read_says_why():
    assert SandboxSettings(hosts=["example.org"]).hosts == ["example.org"]
    with pytest.raises(ValueError, match="too wide"):
        SandboxSettings(hosts=["*.org"])
