"""Text of a page that nobody would see: taken out of its tree and counted.

Orders to a model are hidden so. What opens by a click (tabs, folded parts) is seen and stays.
"""

from __future__ import annotations

import re
from typing import Any

import lxml.etree as etree

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
    """Take out of the tree `root` what is hidden; the pieces and characters of it.

    Tags without text of their own (scripts, styles) are taken out uncounted.
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
    """Whether text has the colour of what it stands on; a page without a colour is white."""
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
            return False  # a style sheet may give it any ground
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
    """Classes and ids that a style sheet of the page itself hides, as far as single names do."""
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
    """Take an element out and leave the text behind it."""
    parent = element.getparent()
    if tail := element.tail:
        before = element.getprevious()
        if before is None:
            parent.text = (parent.text or "") + tail
        else:
            before.tail = (before.tail or "") + tail
    parent.remove(element)
