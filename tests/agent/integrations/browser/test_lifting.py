"""Which requests reach an address that the person's own rules open, and which do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.core.home import Home
from agent.integrations.browser.profile import Lifting, Origin, lifted_origins
from agent.safety.permissions.policy import Permissions

DEV: Origin = ("http", "localhost", 3000)


@pytest.mark.parametrize(
    ("rule", "origins"),
    [
        ("fetch(http://localhost:3000/**): allow", {DEV}),
        ("fetch(http://127.0.0.1:3000/**): allow", {("http", "127.0.0.1", 3000)}),
        ("fetch(https://192.168.1.5:8443/**): allow", {("https", "192.168.1.5", 8443)}),
        ("fetch(http://localhost:3000/**): ask", set()),
        ("fetch(http://*:3000/**): allow", set()),
        ("fetch: allow", set()),
        ("fetch(http://dev.example.org:3000/**): allow", set()),
        ("fetch(http://169.254.169.254/**): allow", set()),
    ],
)
def test_only_an_address_that_a_rule_spells_out_is_lifted(
    tmp_path: Path, rule: str, origins: set[Origin]
) -> None:
    home = Home(tmp_path)
    home.permissions.write_text(f"rules:\n  {rule}\n")
    assert lifted_origins(Permissions(home, tmp_path).current().rules.rules) == origins


@pytest.mark.parametrize(
    ("headers", "passes"),
    [
        ({"sec-fetch-site": "none"}, True),
        ({"sec-fetch-site": "same-origin", "referer": "http://localhost:3000/a"}, True),
        ({"sec-fetch-site": "cross-site", "referer": "https://example.org/"}, False),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"sec-fetch-site": "same-origin", "origin": "http://localhost:3000"}, True),
        ({"origin": "null"}, False),
        ({"origin": "http://localhost:3000", "referer": "https://example.org/"}, False),
    ],
)
def test_a_request_passes_by_where_it_comes_from(headers: dict[str, str], passes: bool) -> None:
    lifting = Lifting()
    lifting.set(frozenset({DEV}))
    lifting.expect("http://localhost:3000/")
    assert lifting.allows("localhost", 3000, headers, is_tunnel=False) is passes
    assert not lifting.allows("localhost", 3001, headers, is_tunnel=False)


def test_what_the_model_did_not_open_is_not_reached_by_a_redirect() -> None:
    lifting = Lifting()
    lifting.set(frozenset({DEV}))
    lifting.expect("https://example.org/")
    assert not lifting.allows("localhost", 3000, {"sec-fetch-site": "none"}, is_tunnel=False)


def test_a_socket_in_a_tunnel_tells_its_origin_first() -> None:
    lifting = Lifting()
    lifting.set(frozenset({DEV}))
    assert lifting.allows("localhost", 3000, {}, is_tunnel=True)
    assert lifting.allows_inside("localhost", 3000, {"origin": "http://localhost:3000"})
    assert not lifting.allows_inside("localhost", 3000, {"origin": "https://example.org"})
    assert not lifting.allows_inside("localhost", 3000, {})
    assert not lifting.allows_inside("localhost", 3000, None)
