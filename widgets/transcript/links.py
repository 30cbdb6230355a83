"""Detection of bare URLs in markdown, only where they are possible."""

from __future__ import annotations

from linkify_it import LinkifyIt


class BareLinks(LinkifyIt):
    """A finder of `http://…`, `ftp://…` and `mailto:…`; names such as `main.py` or `me@host` are not links.

    Each text is searched for these prefixes first. The base class's patterns, made for all scripts, take a
    sixth of the parsing time of a paragraph without links.
    """

    def __init__(self) -> None:
        super().__init__()
        self.set({"fuzzy_link": False, "fuzzy_email": False})

    def pretest(self, text: str) -> bool:
        """Return whether there may be a link."""
        return "//" in text or "mailto:" in text.lower()

    def test(self, text: str) -> bool:
        """Return whether there is a link."""
        return self.pretest(text) and super().test(text)
