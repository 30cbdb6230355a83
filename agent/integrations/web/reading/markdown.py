"""Conversion of a part of a page to Markdown, keeping all code blocks and table cells."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

_LANGUAGE = re.compile(
    r"(?:^|\s)(?:(?:language|lang|brush:?\s*|sourceCode)[-_ ]?|highlight(?:-source)?[-_ ])([A-Za-z0-9+#_-]+)"
)
_NO_LANGUAGE = frozenset(
    ["default", "text", "none", "plaintext", "notranslate", "source", "plain", "code", "console-output"]
)
_NUMBERS = ("linenos", "lineno", "ln", "gutter", "line-numbers-rows", "line-number", "hljs-ln-numbers")
"""Classes of elements that contain line numbers."""
_LISTINGS = re.compile(
    r"highlighttable|rouge-table|lntable|hljs-ln|js-file-line-container|codehilitetable|syntaxhighlighter"
)
_DIGITS = re.compile(r"[\d\s.:|]*\d[\d\s.:|]*")


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """The lines of a code block, without trailing line breaks, and the language that the page states."""

    text: str
    language: str


class CodeBlocks:
    """The code blocks removed from one page, by the placeholder words that replace them."""

    def __init__(self, text: str) -> None:
        self._word = "codeblock"
        while self._word in text:
            self._word += "x"
        self._blocks: list[CodeBlock] = []

    def take_out(self, part: Any) -> None:
        """Replace every code block below `part` by a placeholder word.

        Line numbers and highlighting are dropped.
        """
        import lxml.etree as etree

        for table in reversed(list(part.iter("table"))):
            if table is not part and table.getparent() is None:
                continue
            if _is_listing(table):
                _replace(table, self._paragraph(etree, _listing(table)))
            elif any(_lines(pre) > 1 for pre in table.iter("pre")):
                _unfold(etree, table)
        for block in list(part.iter("pre")):
            if block.getparent() is None and block is not part:
                continue
            found = CodeBlock(_code_text(block).strip("\n"), _language(block))
            if next(block.iterancestors("td", "th"), None) is not None:
                inline = etree.Element("code")
                inline.text = found.text.strip()
                _replace(block, inline)
            elif block is part:
                for child in list(block):
                    block.remove(child)
                block.tag, block.text = "div", None
                block.append(self._paragraph(etree, found))
            else:
                _replace(block, self._paragraph(etree, found))

    def put_back(self, text: str, plain: bool = False) -> str:
        """Return a text with each placeholder replaced by its code block, inside fences or, with `plain`,
        without.
        """

        def block_at(match: re.Match[str]) -> str:
            number = int(match[1])
            if number >= len(self._blocks):
                return match[0]
            block = self._blocks[number]
            before = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
            indent = before[: len(before) - len(before.lstrip(" \t"))]
            lines = block.text.split("\n")
            if not plain:
                ticks = "`" * (max((len(run) for run in re.findall(r"`{3,}", block.text)), default=2) + 1)
                lines = [ticks + block.language, *lines, ticks]
            body = f"\n{indent}".join(lines) if indent else "\n".join(lines)
            # Text in the same line, such as the mark of a list, stays in a line of its own.
            start = f"\n\n{indent}" if before.strip() else ""
            end = "" if match.end() == len(text) or text[match.end()] == "\n" else f"\n\n{indent}"
            return f"{start}{body}{end}"

        return re.sub(rf"{self._word}(\d+)z", block_at, text)

    def _paragraph(self, etree: Any, block: CodeBlock) -> Any:
        paragraph = etree.Element("p")
        paragraph.text = f"{self._word}{len(self._blocks)}z"
        self._blocks.append(block)
        return paragraph


def _is_listing(table: Any) -> bool:
    """Return whether a table only shows line numbers beside lines of code."""
    if _LISTINGS.search(table.get("class") or "") or table.find(".//td[@class='linenos']") is not None:
        return True
    rows = list(table.iter("tr"))
    if not rows or table.find(".//th") is not None or table.find(".//table") is not None:
        return False
    return all(
        len(row) == 2
        and _DIGITS.fullmatch("".join(row[0].itertext())) is not None
        and (_lines(row[0]) > 1 or row[0].get("data-line-number") is not None or _has_numbers(row[0]))
        and (row[1].tag == "pre" or row[1].find(".//pre") is not None or row[1].find(".//code") is not None)
        for row in rows
    )


def _has_numbers(cell: Any) -> bool:
    """Return whether a cell, or an element in it, has a class name used for line numbers."""
    return any(set(_NUMBERS) & set((each.get("class") or "").split()) for each in cell.iter())


def _listing(table: Any) -> CodeBlock:
    """Return the code in a table with line numbers."""
    blocks = [block for block in table.iter("pre") if not _is_gutter(block)]
    rows = [_code_text(row[-1]).rstrip("\n") for row in table.iter("tr") if len(row)]
    text = _code_text(blocks[0]) if len(blocks) == 1 else "\n".join(rows)
    language = next((found for each in (*blocks, table) if (found := _language(each))), "")
    return CodeBlock(text.strip("\n"), language)


def _is_gutter(block: Any) -> bool:
    """Return whether a block has only line numbers, by its class name or by another block in its row."""
    names = {
        name
        for each in (block, *block.iterancestors("td", "div"))
        for name in (each.get("class") or "").split()
    }
    if names & set(_NUMBERS):
        return True
    row = next(block.iterancestors("tr"), None)
    others = [] if row is None else [each for each in row.iter("pre") if each is not block]
    return bool(others) and _DIGITS.fullmatch("".join(block.itertext())) is not None


def _unfold(etree: Any, table: Any) -> None:
    """Replace a table with multi-line code in its cells by a list of its cells, each below its heading."""
    heads: list[str] = []
    whole = etree.Element("div")
    for row in table.iter("tr"):
        cells = [cell for cell in row if cell.tag in ("td", "th")]
        if cells and all(cell.tag == "th" for cell in cells):
            heads = [" ".join("".join(cell.itertext()).split()) for cell in cells]
            continue
        for number, cell in enumerate(cells):
            if number < len(heads) and heads[number]:
                label = etree.SubElement(etree.SubElement(whole, "p"), "strong")
                label.text = heads[number]
            below = etree.SubElement(whole, "div")
            below.text = cell.text
            below.extend(list(cell))
    _replace(table, whole)


def _lines(element: Any) -> int:
    return _code_text(element).strip("\n").count("\n") + 1


def _code_text(block: Any) -> str:
    """Return the text of a code block with its line breaks."""
    pieces: list[str] = []

    def add(text: str | None) -> None:
        if text:
            pieces.append(text)

    def end_line() -> None:
        if pieces and not pieces[-1].endswith("\n"):
            pieces.append("\n")

    def walk(element: Any) -> None:
        if not isinstance(element.tag, str):
            return
        classes = f" {element.get('class') or ''} "
        if element is not block and any(f" {each} " in classes for each in _NUMBERS):
            return
        if element.tag in ("button", "style", "script"):
            return
        is_line = element is not block and (
            element.tag in ("div", "li", "tr", "p") or " token-line " in classes
        )
        if is_line:
            end_line()
        add("\n" if element.tag == "br" else "")
        add(element.text)
        for child in element:
            walk(child)
            add(child.tail)
        if is_line:
            end_line()

    walk(block)
    return "".join(pieces).replace("\xa0", " ").replace("\r\n", "\n")


def _language(block: Any) -> str:
    around = [block, *block.iter("code")]
    parent = block.getparent()
    for _ in range(3):
        if parent is None:
            break
        around.append(parent)
        parent = parent.getparent()
    for each in around:
        found = each.get("data-lang") or each.get("data-language") or ""
        if not found and (match := _LANGUAGE.search(each.get("class") or "")):
            found = match[1]
        if not found and each is block and (names := (each.get("class") or "").split()):
            found = "rust" if "rust" in names else ""
        if re.fullmatch(r"[A-Za-z0-9+#_-]{1,20}", found) and found.lower() not in _NO_LANGUAGE:
            return "python" if found in ("python3", "ipython3", "pycon") else found.lower()
    return ""


def _replace(old: Any, new: Any) -> None:
    new.tail, old.tail = old.tail, None
    old.getparent().replace(old, new)


MOST_HEADINGS = 200
_HEADING = re.compile(r"^(#{1,6}) +(.+?)[ #]*$", re.MULTILINE)
_FENCE = re.compile(r"^(`{3,}|~{3,})", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class WholeText:
    """A part of a page as Markdown and as plain text."""

    markdown: str
    plain: str


def whole_text(part: Any, url: str = "") -> WholeText:
    """Return all of `part`, which is changed, as text. Relative links become absolute if `url` is given."""
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
    """Return Markdown as approximate plain text; it must contain no code blocks."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", content)
    text = re.sub(r"^\|.*\|$", lambda row: row[0].replace("<br>", " "), text, flags=re.MULTILINE)
    return re.sub(r"^[#>\-*+ |]+|[*`|]+", " ", text, flags=re.MULTILINE)


def headings(content: str) -> tuple[tuple[int, str], ...]:
    """Return position and text of each Markdown heading, at most `MOST_HEADINGS`.

    Lines of code that look like headings are ignored.
    """
    found, inside, at = [], "", 0
    for line in content.splitlines(keepends=True):
        if fence := _FENCE.match(line):
            inside = "" if inside and fence[1].startswith(inside) else inside or fence[1]
        elif not inside and (match := _HEADING.match(line.rstrip("\n"))) and len(found) < MOST_HEADINGS:
            found.append((at, f"{match[1]} {match[2][:200]}"))
        at += len(line)
    return tuple(found)


def _flatten_cells(part: Any) -> None:
    """Reduce paragraphs and lists in table cells to one line, so that each table row is one line."""
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
