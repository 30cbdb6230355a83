"""The part of a page that it is about, and whether code, tables and definitions make up much of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from agent.integrations.web.reading.hidden import _remove

_PLACES = (
    "//main",
    "//*[@role='main']",
    "//*[contains(concat(' ', @class, ' '), ' markdown-body ')]",
    "//div[contains(concat(' ', @class, ' '), ' md-content ')]",
    "//div[contains(concat(' ', @class, ' '), ' theme-doc-markdown ')]",
    "//div[contains(concat(' ', @class, ' '), ' rst-content ')]",
    "//div[contains(concat(' ', @class, ' '), ' bodywrapper ')]",
    "//*[@id='main-content']",
    "//article",
    "//*[@id='content']",
    "//*[@id='main']",
)
_AROUND = frozenset(
    ["nav", "footer", "form", "button", "dialog", "select", "textarea", "audio", "video", "canvas"]
)
_ROLES = frozenset(
    ["navigation", "search", "contentinfo", "banner", "complementary", "menu", "menubar", "toolbar"]
)
_NAMES = re.compile(
    r"(?:^|\s)(?:headerlink|anchor-link|hash-link|anchor|anchorjs-link|permalink|copybtn|copy-button|clipboard|"
    r"breadcrumbs?|theme-doc-breadcrumbs|sidebar|sphinxsidebar|toc|table-of-contents|md-nav|md-sidebar|"
    r"edit-this-page|md-source|md-feedback|page-nav|pagination|prev-next|prevnext|related|skip-link|"
    r"announcement|cookie[\w-]*|share[\w-]*|social[\w-]*|newsletter[\w-]*|advert[\w-]*|ad|ads|linenos|lineno|"
    r"line-numbers-rows|md-clipboard|sub-heading-link|doc-anchor|src|toggle-wrapper|theme-toggle)(?:\s|$)",
    re.IGNORECASE,
)
_GENERATORS = re.compile(
    r"sphinx|mkdocs|docusaurus|rustdoc|docfx|javadoc|doxygen|hugo.*docs|jekyll.*docs|pdoc|vitepress|mdbook|gitbook|"
    r"read the docs|typedoc|antora|asciidoctor",
    re.IGNORECASE,
)
_SHARE = 0.12
"""The share of code, tables and definitions from which on a page is read whole."""


@dataclass(frozen=True, slots=True)
class MainPart:
    """Where the matter of a page stands."""

    element: Any
    text: str
    is_reference: bool
    """Whether what matters may be code, tables or definitions, which an extractor of articles loses."""


def main_part(tree: Any) -> MainPart:
    """Find it. The tree stays as it is; the part is a copy without what merely surrounds it."""
    from copy import deepcopy

    body = tree.find("body")
    body = tree if body is None else body
    whole = len(_text(body))
    chosen = body
    for place in _PLACES:
        found = [each for each in tree.xpath(place) if each is not body]
        if not found:
            continue
        best = max(found, key=lambda each: len(_text(each)))
        if len(_text(best)) >= 0.2 * whole:
            chosen = best
            break
    part = deepcopy(chosen)
    part.tail = None
    _prune(part)
    text = _text(part)
    return MainPart(part, text, _is_reference(tree, part, len(text)))


def _prune(part: Any) -> None:
    for each in list(part.iter()):
        if each is part or not isinstance(each.tag, str) or each.getparent() is None:
            continue
        is_around = (
            each.tag in _AROUND
            or each.get("role") in _ROLES
            or (_NAMES.search(each.get("class") or "") is not None and not _holds_matter(each))
            or (
                each.tag == "aside"
                and "admonition" not in (each.get("class") or "")
                and not _holds_matter(each)
            )
            or (each.tag == "header" and each.find(".//h1") is None)
        )
        if is_around:
            _remove(each)


def _holds_matter(element: Any) -> bool:
    """Whether something called like a frill holds code or a table after all."""
    return (
        element.tag in ("pre", "table", "code", "tr", "td") and "linenos" not in (element.get("class") or "")
    ) or (element.find(".//pre") is not None and "linenos" not in (element.get("class") or ""))


def _is_reference(tree: Any, part: Any, length: int) -> bool:
    generator = " ".join(
        each.get("content") or ""
        for each in tree.iter("meta")
        if (each.get("name") or "").lower() == "generator"
    )
    if _GENERATORS.search(generator):
        return True
    blocks = [len(_text(each)) for each in part.iter("pre")]
    tables = [_table(each) for each in part.iter("table")]
    lists = [len(_text(each)) for each in part.iter("dl")]
    if len(blocks) >= 2 or any(each >= 200 for each in blocks):
        return True
    return length > 0 and sum(blocks) + sum(tables) + sum(lists) > _SHARE * length


def _table(table: Any) -> int:
    """Characters of a table of data; 0 for one that only lays out."""
    if table.find(".//table") is not None or table.get("role") in ("presentation", "none"):
        return 0
    rows = [len(row.findall("td")) + len(row.findall("th")) for row in table.iter("tr")]
    if len(rows) < 2 or max(rows, default=0) < 2 or sum(rows) < 4:
        return 0
    return len(_text(table))


def _text(element: Any) -> str:
    return " ".join("".join(element.itertext()).split())
