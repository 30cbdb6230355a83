"""A part of a page as Markdown, with every block of code and every cell of its tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

from agent.integrations.web.reading.code_blocks import CodeBlocks

MOST_HEADINGS = 200
_HEADING = re.compile(r"^(#{1,6}) +(.+?)[ #]*$", re.MULTILINE)
_FENCE = re.compile(r"^(`{3,}|~{3,})", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class WholeText:
    """A part of a page as Markdown, and without its marks."""

    markdown: str
    plain: str


def whole_text(part: Any, url: str = "") -> WholeText:
    """All of `part`, which is changed on the way. Links are whole where `url` is given."""
    from html_to_markdown import ConversionOptions, convert
    from lxml import html

    blocks = CodeBlocks("".join(part.itertext()))
    blocks.take_out(part)
    _flatten_cells(part)
    for link in part.iter("a"):
        href = link.get("href")
        if href is None or href.startswith(("#", "javascript:")) or not "".join(link.itertext()).strip():
            link.attrib.pop("href", None)
            link.tag = "span"
        elif url:
            try:
                link.set("href", urljoin(url, href))
            except ValueError:
                link.tag = "span"
    options = ConversionOptions(
        extract_metadata=False,
        skip_images=True,
        br_in_tables=True,
        autolinks=False,
        escape_misc=False,
        bullets="-",
    )
    found = convert(str(html.tostring(part, encoding="unicode", with_tail=False)), options)
    text = found.content if hasattr(found, "content") else str(found)
    text = re.sub(r"\n{3,}", "\n\n", text or "").strip()
    return WholeText(blocks.put_back(text), blocks.put_back(without_marks(text), plain=True))


def without_marks(content: str) -> str:
    """Markdown without code, as text without its marks, roughly."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", content)
    text = re.sub(r"^\|.*\|$", lambda row: row[0].replace("<br>", " "), text, flags=re.MULTILINE)
    return re.sub(r"^[#>\-*+ |]+|[*`|]+", " ", text, flags=re.MULTILINE)


def headings(content: str) -> tuple[tuple[int, str], ...]:
    """Where each heading of Markdown stands, and its text; lines of code that look like one do not count."""
    found, inside, at = [], "", 0
    for line in content.splitlines(keepends=True):
        if fence := _FENCE.match(line):
            inside = "" if inside and fence[1].startswith(inside) else inside or fence[1]
        elif not inside and (match := _HEADING.match(line.rstrip("\n"))) and len(found) < MOST_HEADINGS:
            found.append((at, f"{match[1]} {match[2][:200]}"))
        at += len(line)
    return tuple(found)


def _flatten_cells(part: Any) -> None:
    """Cells that hold paragraphs or lists as one line of text; a table has one line a row."""
    import lxml.etree as etree

    for cell in [*part.iter("td"), *part.iter("th")]:
        if cell.find(".//table") is not None:
            continue
        for each in list(cell.iter("p", "div", "li", "dd", "dt", "ul", "ol", "dl")):
            if each is not cell:
                before = each.getprevious() is not None or (each.getparent().text or "").strip()
                if before and each.tag not in ("ul", "ol", "dl"):
                    each.addprevious(etree.Element("br"))
                each.tag = "span"
                each.attrib.clear()
