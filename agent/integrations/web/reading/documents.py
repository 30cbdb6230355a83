"""Text extraction from PDF, DOCX, feeds, JSON and plain text."""

from __future__ import annotations

import io
import json
import re
from typing import Any
from urllib.parse import unquote, urlsplit

from agent.integrations.web.reading.html import decode, read_html
from agent.integrations.web.reading.markdown import headings
from agent.integrations.web.reading.passages import ReadPage, UnreadableError
from tools.text.words import plural

MOST_PAGES = 2_000
_MOST_ENTRIES = 200
_UNPACKED = 100_000_000
"""The maximum size of an unpacked DOCX file, in bytes."""
_CODE = {
    "py": "python", "js": "javascript", "ts": "typescript", "tsx": "tsx", "jsx": "jsx", "c": "c", "h": "c",
    "cc": "cpp", "cpp": "cpp", "hpp": "cpp", "rs": "rust", "go": "go", "java": "java", "kt": "kotlin",
    "rb": "ruby", "php": "php", "sh": "bash", "bash": "bash", "zsh": "bash", "sql": "sql", "toml": "toml",
    "yaml": "yaml", "yml": "yaml", "ini": "ini", "css": "css", "scss": "scss", "lua": "lua", "pl": "perl",
    "swift": "swift", "cs": "csharp", "scala": "scala", "r": "r", "jl": "julia", "ex": "elixir",
    "hs": "haskell", "diff": "diff", "patch": "diff", "xml": "xml", "proto": "protobuf", "cmake": "cmake",
}  # fmt: skip
_CODE_TYPES = re.compile(
    r"(?:text|application)/(?:x-)?(python|javascript|typescript|shellscript|sh|rust|c|java|css|toml|yaml|xml)\b"
)


def read_document(
    data: bytes,
    content_type: str = "",
    url: str = "",
    *,
    wants_plain: bool = False,
    wants_links: bool = False,
) -> ReadPage:
    """Read a document of a supported type, found by content and media type. Raises `UnreadableError`."""
    kind = content_type.partition(";")[0].strip().lower()
    name = unquote(urlsplit(url).path.rpartition("/")[2])
    suffix = name.rpartition(".")[2].lower() if "." in name else ""
    head = data[:1_024].lstrip()
    if head.startswith(b"%PDF-") or kind == "application/pdf":
        return _pdf(data)
    if data.startswith(b"PK\x03\x04"):
        if "wordprocessingml" in kind or suffix == "docx" or b"word/" in data:
            return _docx(data)
        raise UnreadableError("is an archive, which is not read")
    if kind.startswith(("image/", "audio/", "video/", "font/")) or _is_binary(data):
        what = kind if "/" in kind else "a file of bytes"
        raise UnreadableError(f"is not text ({what[:60]}), so it is not read")
    text, _ = decode(data, content_type)
    start = text[:2_000].lstrip("\ufeff \t\r\n").lower()
    if (
        kind in ("text/html", "application/xhtml+xml")
        or start.startswith(("<!doctype html", "<html"))
        or (kind == "" and re.match(r"<(?:!doctype|html|head|body|div|p|article|main|section)\b", start))
    ):
        return read_html(text, url, wants_plain=wants_plain, wants_links=wants_links)
    if re.search(r"<(?:rss|feed|rdf:rdf)[\s>]", start) and start.startswith("<"):
        found = _feed(text)
        if found is not None:
            return found
    if (
        kind.endswith(("/json", "+json"))
        or suffix == "json"
        or (start[:1] in "[{" and kind in ("", "text/plain"))
    ):
        found = _json(text)
        if found is not None:
            return found
    return _text(text, kind, suffix, name)


def _pdf(data: bytes) -> ReadPage:
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    try:
        reader = PdfReader(io.BytesIO(data), strict=False)
        if reader.is_encrypted and not reader.decrypt(""):
            raise UnreadableError("is locked by a password")
        count = len(reader.pages)
        about = reader.metadata or {}
        title, made = str(about.get("/Title") or ""), str(about.get("/CreationDate") or "")
    except UnreadableError:
        raise
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError) as error:
        raise UnreadableError(f"is a damaged PDF ({type(error).__name__})") from error
    pieces, empty = [], 0
    for number in range(min(count, MOST_PAGES)):
        try:
            text = reader.pages[number].extract_text() or ""
        except Exception:  # fonts and streams of strangers fail in any way there is
            text = ""
        empty += not text.strip()
        pieces.append(f"## Page {number + 1}\n\n{text.strip()}")
    notes = []
    if empty:
        notes.append(f"no text, perhaps pictures of it, on {empty} of {plural(count, 'page')}")
    if count > MOST_PAGES:
        notes.append(f"only the first {MOST_PAGES:,} of {count:,} pages were read")
    content = "\n\n".join(pieces)
    dated = re.match(r"D:(\d{4})(\d{2})(\d{2})", made)
    return ReadPage(
        kind="pdf",
        content=content,
        plain=re.sub(r"^## Page \d+\n", "", content, flags=re.MULTILINE),
        title=" ".join(title.split())[:300],
        date="-".join(dated.groups()) if dated else "",
        headings=headings(content),
        notes=tuple(notes),
    )


def _docx(data: bytes) -> ReadPage:
    import zipfile

    import mammoth

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(each.file_size for each in archive.infolist()) > _UNPACKED:
                raise UnreadableError(f"unpacks to more than {_UNPACKED // 1_000_000} MB")
        found = mammoth.convert_to_html(
            io.BytesIO(data), convert_image=mammoth.images.img_element(_no_picture)
        )
    except UnreadableError:
        raise
    except Exception as error:
        raise UnreadableError(f"is a damaged document ({type(error).__name__})") from error
    from lxml import html

    from agent.integrations.web.reading.markdown import whole_text

    tree = html.fromstring(f"<main>{found.value}</main>") if found.value.strip() else None
    content = "" if tree is None else whole_text(tree).markdown
    return ReadPage(kind="docx", content=content, plain=content, headings=headings(content))


def _no_picture(_: Any) -> dict[str, str]:
    return {"src": ""}


def _feed(text: str) -> ReadPage | None:
    import lxml.etree as etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, recover=True, huge_tree=False)
    try:
        root = etree.fromstring(text.encode("utf-8", "replace"), parser)
    except (etree.XMLSyntaxError, ValueError):
        root = None
    if root is None:
        return None
    found: list[str] = []
    entries = [each for each in root.iter() if _local(each) in ("item", "entry")]
    for each in entries[:_MOST_ENTRIES]:
        fields: dict[str, str] = {}
        for child in each:
            name = _local(child)
            value = (child.get("href") or "") if name == "link" and child.get("href") else _content(child)
            fields.setdefault(name, value)
        link, title = fields.get("link", ""), " ".join(fields.get("title", "").split()) or "(without a title)"
        date = (
            fields.get("pubdate")
            or fields.get("published")
            or fields.get("updated")
            or fields.get("date")
            or ""
        )
        body = (
            fields.get("encoded")
            or fields.get("content")
            or fields.get("description")
            or fields.get("summary")
            or ""
        )
        found.append(
            "\n\n".join(filter(None, [f"## {title}", " · ".join(filter(None, [date, link])), _prose(body)]))
        )
    notes = (
        [f"{len(entries) - _MOST_ENTRIES:,} more entries were left out"]
        if len(entries) > _MOST_ENTRIES
        else []
    )
    titles = [_content(each) for each in root.iter() if _local(each) == "title"]
    content = "\n\n".join(found)
    return ReadPage(
        kind="feed",
        content=content,
        plain=content,
        title=" ".join((titles or [""])[0].split())[:300],
        headings=headings(content),
        notes=tuple(notes),
    )


def _local(element: Any) -> str:
    return element.tag.rpartition("}")[2].lower() if isinstance(element.tag, str) else ""


def _content(element: Any) -> str:
    return "".join(element.itertext()).strip()


def _prose(text: str) -> str:
    if "<" not in text:
        return text
    try:
        return read_html(f"<html><body><main>{text}</main></body></html>").content
    except UnreadableError:
        return ""


def _json(text: str) -> ReadPage | None:
    try:
        data = json.loads(text.lstrip("\ufeff"))
    except (ValueError, RecursionError):
        return None
    content = json.dumps(data, ensure_ascii=False, indent=1) if len(text) < 5_000_000 else text
    return ReadPage(kind="json", content=content, plain=content)


def _text(text: str, kind: str, suffix: str, name: str) -> ReadPage:
    text = text.lstrip("\ufeff").replace("\r\n", "\n")
    language = _CODE.get(suffix, "")
    if not language and (match := _CODE_TYPES.match(kind)):
        language = match[1]
    if language:
        return ReadPage(kind="code", content=text, plain=text, title=name)
    is_markdown = suffix in ("md", "markdown", "mdx") or kind in ("text/markdown", "text/x-markdown")
    return ReadPage(
        kind="text", content=text, plain=text, title=name, headings=headings(text) if is_markdown else ()
    )


def _is_binary(data: bytes) -> bool:
    head = data[:4_096]
    if head.startswith((b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")) or not head:
        return False
    control = sum(each < 9 or (13 < each < 32 and each != 27) for each in head)
    return b"\0" in head or control > len(head) // 20
