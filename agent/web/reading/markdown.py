"""A part of a page as Markdown, with every block of code and every cell of its tables."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urljoin

MOST_HEADINGS = 200
_LANGUAGE = re.compile(
    r"(?:^|[\s])(?:language|lang|highlight|brush:?\s*|highlight-source|sourceCode)[-_ ]?([A-Za-z0-9+#_-]+)"
)
_NO_LANGUAGE = frozenset(
    ["default", "text", "none", "plaintext", "notranslate", "source", "plain", "code", "console-output"]
)
_HEADING = re.compile(r"^(#{1,6}) +(.+?)[ #]*$", re.MULTILINE)
_FENCE = re.compile(r"^(`{3,}|~{3,})", re.MULTILINE)
_NUMBERS = ("linenos", "lineno", "ln")


def whole_markdown(part: Any, url: str = "") -> str:
    """All of `part`, which is changed on the way. Links are whole where `url` is given."""
    from html_to_markdown import ConversionOptions, convert
    from lxml import html

    _flatten_code(part)
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
    return re.sub(r"\n{3,}", "\n\n", text or "").strip()


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


def _flatten_code(part: Any) -> None:
    """Blocks of code as one plain text each, numbers of lines and marks of colour gone."""
    import lxml.etree as etree

    for table in list(part.iter("table")):
        if _is_listing(table):
            lines = [_code_text(row[-1]) for row in table.iter("tr") if len(row)]
            blocks = list(table.iter("pre"))
            text = _code_text(blocks[-1]) if blocks else "\n".join(line.rstrip("\n") for line in lines)
            language = _language(blocks[-1]) if blocks else _language(table)
            _replace(table, _block(etree, text, language or _language(table)))
    for block in list(part.iter("pre")):
        if block.getparent() is not None or block is part:
            text, language = _code_text(block), _language(block)
            for child in list(block):
                block.remove(child)
            block.attrib.clear()
            block.text = None
            block.append(_code(etree, text, language))


def _is_listing(table: Any) -> bool:
    """Whether a table only puts numbers beside lines of code."""
    classes = table.get("class") or ""
    if re.search(
        r"highlighttable|rouge-table|lntable|hljs-ln|js-file-line-container|codehilitetable", classes
    ):
        return True
    return table.find(".//td[@class='linenos']") is not None


def _block(etree: Any, text: str, language: str) -> Any:
    block = etree.Element("pre")
    block.append(_code(etree, text, language))
    return block


def _code(etree: Any, text: str, language: str) -> Any:
    code = etree.Element("code")
    if language:
        code.set("class", f"language-{language}")
    code.text = text.strip("\n")
    return code


def _code_text(block: Any) -> str:
    """The text of a block, a line for each of its lines."""
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
        if any(f" {each} " in classes for each in _NUMBERS) or element.tag in ("button", "style"):
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


def _flatten_cells(part: Any) -> None:
    """Cells that hold paragraphs, lists or code as one line of text; a table has one line a row."""
    import lxml.etree as etree

    for cell in [*part.iter("td"), *part.iter("th")]:
        if cell.find(".//table") is not None:
            continue
        for pre in list(cell.iter("pre")):
            code = etree.Element("code")
            code.text = " ".join("".join(pre.itertext()).split("\n")).strip()
            _replace(pre, code)
        for each in list(cell.iter("p", "div", "li", "dd", "dt", "ul", "ol", "dl")):
            if each is not cell:
                before = each.getprevious() is not None or (each.getparent().text or "").strip()
                if before and each.tag not in ("ul", "ol", "dl"):
                    each.addprevious(etree.Element("br"))
                each.tag = "span"
                each.attrib.clear()


def _replace(old: Any, new: Any) -> None:
    new.tail, old.tail = old.tail, None
    old.getparent().replace(old, new)
