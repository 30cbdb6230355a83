"""A pair of tags around outside text, which the text itself cannot open or close."""

from __future__ import annotations

import re

from tools.kit.lazy_pattern import lazy_pattern
from tools.text.safe_text import clean

_MARK = lazy_pattern(r"<(\s*/?\s*)outside-text", re.IGNORECASE)


def fenced(text: str, source: str = "") -> str:
    """Return `text` between `<outside-text>` tags, without control and invisible characters.

    `source` is the address that the text comes from.
    """
    named = f' from="{_attribute(source)}"' if source else ""
    return f"<outside-text{named}>\n{disable_tags(clean(text)).strip()}\n</outside-text>"


def fenced_line(text: str) -> str:
    """Return a title or a description on one line between the tags; empty for an empty one."""
    line = " ".join(disable_tags(clean(text)).split())
    return f"<outside-text>{line}</outside-text>" if line else ""


def disable_tags(text: str) -> str:
    """Return `text` with all `<outside-text>` tags in it disabled."""
    return _MARK.sub(r"<\1outside_text", text)


def unfenced(text: str) -> str:
    """Return `text` without the tags of `fenced` or `fenced_line`, and without blanks around it."""
    return re.sub(r"</?outside-text[^>\n]*>", "", text).strip()


def _attribute(source: str) -> str:
    return re.sub(r'["<>\s]', "_", source)[:300]
