"""Bare addresses in markdown, looked for only where there can be one."""

from __future__ import annotations

from linkify_it import LinkifyIt


class BareLinks(LinkifyIt):
    """Finds `http://…`, `ftp://…` and `mailto:…`; a name such as `main.py` or `me@host` is not an address.

    Each text is searched for its marks first. The patterns of the base class, made for all scripts, cost
    a sixth of the parsing of a paragraph without any address.
    """

    def __init__(self) -> None:
        super().__init__()
        self.set({"fuzzy_link": False, "fuzzy_email": False})

    def pretest(self, text: str) -> bool:
        """Whether there may be an address."""
        return "//" in text or "mailto:" in text.lower()

    def test(self, text: str) -> bool:
        """Whether there is an address."""
        return self.pretest(text) and super().test(text)
