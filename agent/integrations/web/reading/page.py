"""A document that was read, as data that crosses to and from the process that reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPage:
    """A document as text. All of it is outside text."""

    kind: str
    """`html`, `pdf`, `docx`, `json`, `feed`, `text`, `code`, or `none` for what cannot be read as text."""
    content: str = ""
    """Markdown, or the text as it is."""
    plain: str = ""
    """The main text without any markup; only where it was asked for."""
    title: str = ""
    date: str = ""
    """When it was published, `YYYY-MM-DD`, as far as it says."""
    language: str = ""
    headings: tuple[tuple[int, str], ...] = ()
    """Where in `content` each heading stands, and what it says."""
    links: tuple[str, ...] = ()
    """Addresses that a page links to, whole, in its order; only where they were asked for."""
    hidden: int = 0
    """Pieces of text that were dropped because nobody would see them."""
    hidden_characters: int = 0
    notes: tuple[str, ...] = ()
    """Sentences about what is missing: `needs browser`, a paywall, pages without text."""
    way: str = ""
    """How a page was read: `article` or `whole`."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ReadPage:
        """The page that `to_json` gave."""
        fields = dict(data)
        fields["headings"] = tuple((int(at), str(text)) for at, text in fields.get("headings", ()))
        fields["links"] = tuple(fields.get("links", ()))
        fields["notes"] = tuple(fields.get("notes", ()))
        return cls(**fields)


class UnreadableError(Exception):
    """A document that cannot be read. The text is a clause that follows its name."""
