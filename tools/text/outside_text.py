"""A fence around text that strangers wrote, which the text itself cannot open or close."""

from __future__ import annotations

import re

from tools.text.safe_text import clean

_MARK = re.compile(r"<(\s*/?\s*)outside-text", re.IGNORECASE)


def fenced(text: str, source: str = "") -> str:
    """`text` without control bytes and what cannot be seen, between marks. `source` is an address."""
    named = f' from="{_attribute(source)}"' if source else ""
    return f"<outside-text{named}>\n{inert_marks(clean(text)).strip()}\n</outside-text>"


def fenced_line(text: str) -> str:
    """The same for a title or a description; empty for nothing."""
    line = " ".join(inert_marks(clean(text)).split())
    return f"<outside-text>{line}</outside-text>" if line else ""


def inert_marks(text: str) -> str:
    """`text` in which no mark of the fence is left."""
    return _MARK.sub(r"<\1outside_text", text)


def unfenced(text: str) -> str:
    """What stands between the marks of `fenced` or `fenced_line`; any other text as it is."""
    return re.sub(r"</?outside-text[^>\n]*>", "", text).strip()


def _attribute(source: str) -> str:
    return re.sub(r'["<>\s]', "_", source)[:300]
