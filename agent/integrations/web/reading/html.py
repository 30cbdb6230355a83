"""Conversion of an HTML page to Markdown: only its article, or all main content if code and tables matter."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

import lxml.etree as etree

from agent.integrations.web.reading.markdown import CodeBlocks, headings, whole_text, without_marks
from agent.integrations.web.reading.passages import ReadPage, UnreadableError

_STYLE = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|font-size\s*:\s*0(?:px|pt|em|rem|%)?\s*(?:;|!|$)"
    r"|opacity\s*:\s*0?\.?0+\s*(?:;|!|$)|text-indent\s*:\s*-\d{3,}|(?:left|top|right)\s*:\s*-\d{4,}"
    r"|clip\s*:\s*rect\(\s*0|clip-path\s*:\s*inset\(\s*(?:50|100)%|transform\s*:\s*scale\(\s*0\s*\)",
    re.IGNORECASE,
)
_NO_SIZE = re.compile(r"(?<![\w-])(?:max-)?(?:width|height)\s*:\s*[01](?:px)?\s*(?:;|!|$)", re.IGNORECASE)
_CLIPPED = re.compile(r"overflow(?:-[xy])?\s*:\s*(?:hidden|clip)", re.IGNORECASE)
_COLOUR = re.compile(r"(?<![\w-])color\s*:\s*([^;!]+)", re.IGNORECASE)
_BACKGROUND = re.compile(r"background(?:-color)?\s*:\s*([^;!]+)", re.IGNORECASE)
_RULES = re.compile(r"([^{}]{1,400})\{([^{}]{1,2000})\}")
_SIMPLE = re.compile(r"\s*[A-Za-z0-9]*([.#][A-Za-z_][\w-]*)\s*")
_TABS = re.compile(
    r"(?:^|[\s_-])(?:tab|tabs|tabbed|tabpanel|accordion|collapse|collapsible|dropdown-content|details)"
)
_NAMED = {"white": "ffffff", "black": "000000", "red": "ff0000", "transparent": "transparent"}
_MOST_RULES = 5_000
_WITHOUT_TEXT = frozenset(
    ["script", "style", "noscript", "template", "head", "title", "meta", "link", "svg", "iframe"]
)
_ZERO_SIZE = ["sr-only", "visually-hidden", "visuallyhidden", "screen-reader-text", "screenreader-only"]


def drop_hidden(root: Any) -> tuple[int, int]:
    """Remove hidden elements from the tree `root`; return their number and how many characters they had.

    Tags without visible text, such as scripts and styles, are removed but not counted.
    """
    hiding = _hiding_names(root)
    gone: list[tuple[Any, bool]] = []
    for element in root.iter():
        if element.tag is etree.Comment:
            gone.append((element, bool((element.text or "").strip()) and not _is_condition(element.text)))
        elif not isinstance(element.tag, str):
            gone.append((element, False))
        elif element.tag in _WITHOUT_TEXT:
            if element.tag not in ("head", "title", "noscript"):
                gone.append((element, False))
        elif _is_hidden(element, hiding):
            gone.append((element, True))
    pieces = characters = 0
    for element, counts in gone:
        if element.getparent() is None or not _is_below(element, root):
            continue
        if counts:
            text = element.text if element.tag is etree.Comment else "".join(_texts(element))
            length = len(" ".join((text or "").split()))
            pieces += bool(length)
            characters += length
        _remove(element)
    return pieces, characters


def _texts(element: Any) -> Any:
    for each in element.iter():
        if isinstance(each.tag, str) and each.tag not in ("script", "style"):
            yield each.text or ""
        if each is not element:
            yield each.tail or ""


def _is_condition(text: str | None) -> bool:
    return (text or "").lstrip().startswith("[if ")


def _is_below(element: Any, root: Any) -> bool:
    while element is not None:
        if element is root:
            return True
        element = element.getparent()
    return False


def _is_hidden(element: Any, hiding: frozenset[str]) -> bool:
    if element.tag in ("html", "body"):
        return False
    given = element.attrib
    classes = (given.get("class") or "").lower()
    names = classes.split()
    style = given.get("style") or ""
    is_folded = (
        ("hidden" in given and given["hidden"] != "until-found")
        or ("display" in style.lower() and re.search(r"display\s*:\s*none", style, re.IGNORECASE) is not None)
        or any(f".{name}" in hiding for name in names)
        or f"#{given.get('id')}" in hiding
    )
    if is_folded:
        return not (given.get("role") == "tabpanel" or _TABS.search(classes) is not None)
    if any(name in _ZERO_SIZE for name in names):
        return True
    if style and (_STYLE.search(style) or _is_tiny(style) or _is_invisible(element, style)):
        return True
    return element.tag == "input" and given.get("type") == "hidden"


def _is_tiny(style: str) -> bool:
    return _NO_SIZE.search(style) is not None and _CLIPPED.search(style) is not None


def _is_invisible(element: Any, style: str) -> bool:
    """Return whether text has the colour of its background, which is white unless the page sets another."""
    found = _COLOUR.search(style)
    if found is None:
        return False
    colour = _colour(found[1])
    if colour == "transparent":
        return True
    while element is not None:
        if behind := _BACKGROUND.search(element.get("style") or ""):
            return _colour(behind[1]) == colour
        if element.get("bgcolor"):
            return _colour(element.get("bgcolor")) == colour
        if element.get("class") and element.tag not in ("p", "span", "font", "b", "i", "em", "a"):
            return False  # a style sheet may give it any background
        element = element.getparent()
    return colour == "ffffff"


def _colour(text: str) -> str:
    word = text.strip().lower().split("!")[0].strip()
    if match := re.match(r"rgba?\(\s*(\d+)[\s,]+(\d+)[\s,]+(\d+)(?:[\s,/]+([\d.]+))?", word):
        if match[4] is not None and float(match[4].rstrip(".") or 0) == 0:
            return "transparent"
        return "".join(f"{min(255, int(match[n])):02x}" for n in (1, 2, 3))
    word = word.split()[0].lstrip("#") if word else ""
    if len(word) == 3 and re.fullmatch(r"[0-9a-f]{3}", word):
        word = "".join(each * 2 for each in word)
    return _NAMED.get(word, word)


def _hiding_names(root: Any) -> frozenset[str]:
    """Return the classes and ids that the page's own style sheets hide.

    Only selectors with one name are supported.
    """
    found: set[str] = set()
    count = 0
    for sheet in root.iter("style"):
        if "media" in sheet.attrib and "screen" not in sheet.get("media") and "all" not in sheet.get("media"):
            continue
        text = re.sub(
            r"/\*.*?\*/|@media[^{]*print[^{]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}",
            "",
            sheet.text or "",
            flags=re.DOTALL,
        )
        for match in _RULES.finditer(text):
            count += 1
            if count > _MOST_RULES:
                return frozenset(found)
            if re.search(r"display\s*:\s*none|visibility\s*:\s*hidden", match[2], re.IGNORECASE):
                for each in match[1].split(","):
                    if name := _SIMPLE.fullmatch(each):
                        found.add(name[1] if name[1].startswith("#") else name[1].lower())
    return frozenset(found)


def _remove(element: Any) -> None:
    """Remove an element but keep the text after it."""
    parent = element.getparent()
    if tail := element.tail:
        before = element.getprevious()
        if before is None:
            parent.text = (parent.text or "") + tail
        else:
            before.tail = (before.tail or "") + tail
    parent.remove(element)


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
"""The share of code, tables and definitions from which a page is converted as a whole."""


@dataclass(frozen=True, slots=True)
class MainPart:
    """The element with the main content of a page."""

    element: Any
    text: str
    is_reference: bool
    """Whether the page may consist of code, tables or definitions, which an article extractor loses."""


def main_part(tree: Any) -> MainPart:
    """Return the main content of a page.

    It is a copy without navigation and similar parts; the tree stays unchanged.
    """
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
    """Return whether an element named like navigation or decoration still contains code or a table."""
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
    """Return the number of characters in a data table; 0 for a table that is only used for layout."""
    if table.find(".//table") is not None or table.get("role") in ("presentation", "none"):
        return 0
    rows = [len(row.findall("td")) + len(row.findall("th")) for row in table.iter("tr")]
    if len(rows) < 2 or max(rows, default=0) < 2 or sum(rows) < 4:
        return 0
    return len(_text(table))


def _text(element: Any) -> str:
    return " ".join("".join(element.itertext()).split())


MOST_LINKS = 5_000
NEEDS_BROWSER = (
    "needs browser: the page is put together by scripts, so little or nothing of it can be read here"
)
_PAYWALL = "paywall: only the beginning can be read without signing in"
_SHORT = 600
"""The number of characters below which a page with scripts may need a browser."""
_ARTICLE_SHARE, _LEAST = 0.05, 200
"""The share and number of characters below which an extracted article is rejected. News pages often have a
short article among much else: a share of a quarter loses 0.05 of F1 (docs/developing/benchmarks.md).
"""
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
    """Return an HTML page as text. Raises `UnreadableError` if the text is not HTML at all."""
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
    """The metadata in the head of a page."""

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
    """Return Markdown without the needless backslashes before underscores inside words.

    Code stays unchanged.
    """
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


_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_META = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]{2,40})", re.IGNORECASE)
_XML = re.compile(rb"^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([A-Za-z0-9_.:-]{2,40})")
_HEADER = re.compile(r"charset\s*=\s*[\"']?([A-Za-z0-9_.:-]{2,40})", re.IGNORECASE)
_BROWSERS = {"iso8859-1": "cp1252", "ascii": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874"}
"""Character sets that browsers read as a larger one (WHATWG Encoding Standard), with that one."""
_TAIWAN_KOREA_CHINA = {
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
    "shift_jis": "cp932",
}
_LOOKED_AT = 4_096
_GUESSED_BY = 64_000


def decode(data: bytes, content_type: str = "") -> tuple[str, str]:
    """Return the text of a document and the name of its character set, declared or guessed."""
    for mark, name in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(name, "replace"), name
    head = data[:_LOOKED_AT]
    declared = [match[1] for match in (_HEADER.search(content_type),) if match]
    declared += [match[1].decode() for match in (_XML.search(head), _META.search(head)) if match]
    for name in declared:
        known = _find_codec(name)
        if known is None:
            continue
        if known.startswith("utf-16") and b"\0" not in head:
            known = "utf-8"  # it says so in bytes that prove otherwise
        text = data.decode(known, "replace")
        if known == "utf-8" and text.count("\N{REPLACEMENT CHARACTER}") > max(3, len(text) // 200):
            break
        return text, known
    try:
        return data.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        guessed = _guess(data[:_GUESSED_BY])
        return data.decode(guessed, "replace"), guessed


def _find_codec(name: str) -> str | None:
    try:
        found = codecs.lookup(name.strip().lower()).name
    except LookupError:
        return None
    if found in (
        "hex",
        "base64",
        "zlib",
        "bz2",
        "rot13",
        "uu",
        "quopri",
        "idna",
        "punycode",
        "unicode_escape",
    ):
        return None
    return _BROWSERS.get(found) or _TAIWAN_KOREA_CHINA.get(found, found)


def _guess(data: bytes) -> str:
    from charset_normalizer import from_bytes

    best = from_bytes(data, steps=5, chunk_size=512).best()
    return "cp1252" if best is None else best.encoding
