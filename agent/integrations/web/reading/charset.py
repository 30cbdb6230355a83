"""Bytes as text: the character set that a document has, by all that says so. Pure."""

from __future__ import annotations

import codecs
import re

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
"""Names that browsers read as a wider set (WHATWG Encoding Standard)."""
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
    """A document as text, and the name of its character set."""
    for mark, name in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(name, "replace"), name
    head = data[:_LOOKED_AT]
    declared = [match[1] for match in (_HEADER.search(content_type),) if match]
    declared += [match[1].decode() for match in (_XML.search(head), _META.search(head)) if match]
    for name in declared:
        known = _known(name)
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


def _known(name: str) -> str | None:
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
