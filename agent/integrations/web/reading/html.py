"""A page of HTML as Markdown: its article, or all of its main part where code and tables matter."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin, urlsplit

from agent.integrations.web.reading.code_blocks import CodeBlocks
from agent.integrations.web.reading.hidden import drop_hidden
from agent.integrations.web.reading.main_part import main_part
from agent.integrations.web.reading.markdown import headings, whole_text, without_marks
from agent.integrations.web.reading.page import ReadPage, UnreadableError

MOST_LINKS = 5_000
NEEDS_BROWSER = (
    "needs browser: the page is put together by scripts, so little or nothing of it can be read here"
)
_PAYWALL = "paywall: only the beginning can be read without signing in"
_SHORT = 600
"""Characters below which a page with scripts may be one that they put together."""
_ARTICLE_SHARE, _LEAST = 0.05, 200
"""Share and number of characters below which an article is not believed. A short article among much else is
usual in the news: a share of a quarter loses five hundredths of F1 there (docs/developing/benchmarks.md)."""
_MOUNTS = frozenset(["root", "app", "__next", "__nuxt", "___gatsby", "svelte", "react-root", "q-app"])
_ENABLE = re.compile(
    r"(?:enable|requires?|turn on|activate|need)\W+(?:\w+\W+){0,3}(?:javascript|js\b)"
    r"|javascript\W+(?:\w+\W+){0,4}(?:disabled|required|enabled)|checking your browser|just a moment\.\.\.",
    re.IGNORECASE,
)
_LOCKED = re.compile(
    r"(?:subscribe|sign in|log in|register)\W+(?:\w+\W+){0,3}to (?:continue|keep|read)|"
    r"this (?:article|content|story) is (?:for|available to|reserved for) (?:subscribers|members)|"
    r"already a subscriber",
    re.IGNORECASE,
)


def read_html(text: str, url: str = "", *, wants_plain: bool = False, wants_links: bool = False) -> ReadPage:
    """Read a page. Raises `UnreadableError` for what is no HTML at all."""
    tree = _tree(text)
    about = _About(tree)
    links = tuple(_links(tree, url)) if wants_links else ()
    scripts = sum(1 for _ in tree.iter("script"))
    said = " ".join(" ".join(each.itertext()) for each in tree.iter("noscript"))[:5_000]
    mounts = any(each.get("id") in _MOUNTS and not _words(each) for each in tree.iter("div", "main", "body"))
    pieces, characters = drop_hidden(tree)
    body = tree.find("body")
    visible = _words(tree if body is None else body)
    part = main_part(tree)
    content, plain, way = "", "", "whole"
    if not part.is_reference:
        blocks = CodeBlocks("".join(tree.itertext()))
        blocks.take_out(tree)
        content, way = blocks.put_back(_article(tree, url)), "article"
        if (
            len(without_marks(content)) < max(_LEAST, _ARTICLE_SHARE * len(part.text))
            and len(part.text) > _SHORT
        ):
            content = ""
        elif wants_plain:
            plain = blocks.put_back(_plain(tree, url), plain=True)
    if not content.strip():
        whole = whole_text(part.element, url)
        content, plain, way = whole.markdown, whole.plain, "whole"
    notes = []
    if len(visible) < _SHORT and (
        mounts or _ENABLE.search(said) or (scripts > 2 and _ENABLE.search(visible))
    ):
        notes.append(NEEDS_BROWSER)
    elif characters > 2_000 and characters > 2 * len(visible):
        notes.append("needs browser: most of the text is hidden until a script shows it, and was left out")
    if about.is_locked or _LOCKED.search(visible[-3_000:] if len(visible) > 3_000 else visible):
        notes.append(_PAYWALL)
    return ReadPage(
        kind="html",
        content=content,
        plain=plain if wants_plain else "",
        title=about.title,
        date=about.date,
        language=(tree.get("lang") or "")[:12],
        headings=headings(content),
        links=links,
        hidden=pieces,
        hidden_characters=characters,
        notes=tuple(notes),
        way=way,
    )


def _tree(text: str) -> Any:
    from lxml import html
    from lxml.etree import ParserError, XMLSyntaxError

    parser = html.HTMLParser(encoding="utf-8", huge_tree=False, remove_pis=True)
    try:
        # The declaration of a character set in the text itself no longer holds.
        root = html.document_fromstring(
            re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f]", "", text).encode("utf-8", "replace"), parser
        )
    except (ParserError, XMLSyntaxError, ValueError) as error:
        raise UnreadableError("is empty or no page that can be read") from error
    return root


class _About:
    """What a page says of itself in its head."""

    def __init__(self, tree: Any) -> None:
        given = {}
        for meta in tree.iter("meta"):
            name = (meta.get("property") or meta.get("name") or meta.get("itemprop") or "").lower()
            given.setdefault(name, " ".join((meta.get("content") or "").split()))
        title = tree.find(".//title")
        own = " ".join("".join(title.itertext()).split()) if title is not None else ""
        self.title = (given.get("og:title") or own)[:300]
        stated = [
            given.get(name, "") for name in ("article:published_time", "datepublished", "date", "dc.date")
        ]
        self.is_locked = given.get("article:content_tier", "").lower() in ("locked", "metered")
        for script in tree.iter("script"):
            if (script.get("type") or "").lower() == "application/ld+json" and len(
                script.text or ""
            ) < 500_000:
                for each in _objects(script.text or ""):
                    stated.append(str(each.get("datePublished") or ""))
                    if str(each.get("isAccessibleForFree", "")).lower().rsplit("/", 1)[-1] == "false":
                        self.is_locked = True
        dates = (re.match(r"\d{4}-\d{2}-\d{2}", text) for text in stated)
        self.date = next((match[0] for match in dates if match), "")


def _objects(text: str) -> Iterator[dict[str, Any]]:
    try:
        left = [json.loads(text)]
    except (ValueError, RecursionError):
        return
    for _ in range(2_000):
        if not left:
            return
        each = left.pop()
        if isinstance(each, dict):
            yield each
            left.extend(each.values())
        elif isinstance(each, list):
            left.extend(each)


def _article(tree: Any, url: str) -> str:
    import trafilatura

    found = trafilatura.extract(
        tree,
        url=url or None,
        output_format="markdown",
        include_links=True,
        include_tables=True,
        include_comments=False,
    )
    return _with_underscores(found or "")


def _with_underscores(content: str) -> str:
    """Markdown in which names are written as they are: within a word an underscore marks nothing."""
    pieces = re.split(r"(^```.*?^```$|`[^`\n]*`)", content, flags=re.MULTILINE | re.DOTALL)
    return "".join(
        each if each.startswith("`") else re.sub(r"(?<=\w)\\_(?=\w)", "_", each) for each in pieces
    )


def _plain(tree: Any, url: str) -> str:
    import trafilatura

    return trafilatura.extract(tree, url=url or None, include_comments=False) or ""


def _links(tree: Any, url: str) -> Iterator[str]:
    base = tree.find(".//base")
    start = urljoin(url, base.get("href", "")) if base is not None else url
    seen: set[str] = set()
    for each in tree.iter("a", "area"):
        href = (each.get("href") or "").strip()
        if not href or "nofollow" in (each.get("rel") or "").lower().split():
            continue
        try:
            found = urljoin(start, href).partition("#")[0]
            usable = urlsplit(found).scheme in ("http", "https")
        except ValueError:
            continue
        if usable and found not in seen and len(seen) < MOST_LINKS:
            seen.add(found)
            yield found


def _words(element: Any) -> str:
    return " ".join("".join(_visible(element)).split())


def _visible(element: Any) -> Iterator[str]:
    for each in element.iter():
        if isinstance(each.tag, str) and each.tag not in ("script", "style", "noscript", "template", "title"):
            yield each.text or ""
        yield " "
        if each is not element:
            yield each.tail or ""
