"""Bare addresses: those that linkify-it finds without guessing, and no others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from linkify_it import LinkifyIt

from widgets.transcript.links import BareLinks

EXACT = LinkifyIt().set({"fuzzy_link": False, "fuzzy_email": False})
OURS = BareLinks()
PIECES = [
    *("http:", "HTTPS:", "ftp:", "//", "/", ":", "mailto:", "MailTo:", "ma\u0131lto:", "ſ", "example.org"),
    *("a@b.org", "@", ".", " ", "main.py", "(", ")", "?q=1", "漢", "\n", "_", "www.x.org", "x"),
]


def found(links: LinkifyIt, text: str) -> list[tuple[str, int, int]]:
    return [(link.url, link.index, link.last_index) for link in links.match(text) or []]


@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
def test_the_same_addresses_are_found_as_by_looking_with_all_patterns(text: str) -> None:
    assert OURS.test(text) == EXACT.test(text)
    assert found(OURS, text) == found(EXACT, text)
    assert OURS.pretest(text) or not EXACT.test(text)


def test_addresses_of_every_kind_are_found() -> None:
    text = "see http://example.org, FTP://example.org/x and MAILTO:me@example.org"
    assert [url for url, _, _ in found(OURS, text)] == [
        "http://example.org",
        "FTP://example.org/x",
        "MAILTO:me@example.org",
    ]


def test_names_that_look_like_addresses_are_none() -> None:
    assert not any(map(OURS.test, ("main.py", "me@example.org", "www.example.org", "a:b", "C:/x")))
