"""Answers of a server as the model gets them: text, data, and files for what is no text.

Texts that are too long and everything that is no text are written to files of the session, so that
what crosses to Hermes is small.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import mimetypes
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.text.safe_text import clean

_DEEPEST = 100
"""Levels of data that are read."""
LONGEST_TEXT = 100_000
"""Characters of text that cross; a longer one lies in a file."""
PREVIEW = 1_500
MOST_PARTS = 1_000
"""Parts of one answer that are looked at."""


def call_result(answer: Mapping[str, Any], files: Path) -> dict[str, Any]:
    """The result of a tool; `error` holds its text where it says that it failed."""
    result = parts_result(answer.get("content") or [], files)
    data = cleaned(answer.get("structuredContent"))
    if data is not None and not _says_the_same(result.get("content", ""), data):
        result["data"] = _bounded(data, files)
    if answer.get("isError"):
        result["error"] = result.pop("content", "") or "The tool failed and did not say why."
    return result


def cleaned(data: Any, depth: int = 0) -> Any:
    """Data of a server with every text in it as `clean` leaves it; what is nested too deep is cut. Pure."""
    if isinstance(data, str):
        return clean(data)
    if depth > _DEEPEST:
        return "[… nested deeper than is read]"
    if isinstance(data, Mapping):
        return {clean(str(key)): cleaned(value, depth + 1) for key, value in data.items()}
    if isinstance(data, list):
        return [cleaned(each, depth + 1) for each in data]
    return data


def resource_result(answer: Mapping[str, Any], files: Path) -> dict[str, Any]:
    """The contents of a resource."""
    contents = answer.get("contents") or []
    return parts_result([{"type": "resource", "resource": each} for each in contents], files)


def prompt_result(answer: Mapping[str, Any], files: Path) -> dict[str, Any]:
    """The messages of a prompt, as role and text each."""
    messages = []
    for each in (answer.get("messages") or [])[:MOST_PARTS]:
        part = parts_result([each.get("content") or {}], files)
        messages.append({"role": each.get("role", "user"), **part})
    return {"description": cleaned(answer.get("description") or ""), "messages": messages}


def parts_result(parts: Sequence[Any], files: Path) -> dict[str, Any]:
    """Parts of an answer put together, each kind under a name of its own."""
    texts: list[str] = []
    found: dict[str, list[Any]] = {}
    for part in parts[:MOST_PARTS]:
        match part.get("type") if isinstance(part, Mapping) else None:
            case "text":
                texts.append(clean(str(part.get("text", ""))))
            case "image" | "audio" as kind:
                name = "images" if kind == "image" else "sounds"
                found.setdefault(name, []).append(_saved(part.get("data"), part.get("mimeType"), files))
            case "resource":
                resource = part.get("resource") or {}
                if isinstance(resource.get("text"), str):
                    texts.append(clean(f"[resource {resource.get('uri', '')}]\n{resource['text']}"))
                else:
                    saved = _saved(resource.get("blob"), resource.get("mimeType"), files)
                    found.setdefault("resources", []).append(
                        {"uri": cleaned(resource.get("uri", "")), **saved}
                    )
            case "resource_link":
                link = {key: part[key] for key in ("uri", "name", "description", "mimeType") if part.get(key)}
                found.setdefault("links", []).append(cleaned(link))
            case _:
                texts.append("[a part of a kind that is not known]")
    if len(parts) > MOST_PARTS:
        texts.append(f"[… {len(parts) - MOST_PARTS:,} further parts were left out]")
    result: dict[str, Any] = _text("\n".join(texts), files) if texts else {}
    return {**result, **found}


def _text(text: str, files: Path) -> dict[str, Any]:
    if len(text) <= LONGEST_TEXT:
        return {"content": text}
    path = _write(text.encode("utf-8", "replace"), ".txt", files)
    return {
        "content": text[:PREVIEW],
        "characters": len(text),
        "full_result": str(path),
        "hint": "The whole text is in that file; read_file or search it.",
    }


def _bounded(data: Any, files: Path) -> Any:
    text = json.dumps(data, ensure_ascii=False, default=str)
    if len(text) <= LONGEST_TEXT:
        return data
    return {
        "full_result": str(_write(text.encode("utf-8", "replace"), ".json", files)),
        "characters": len(text),
    }


def _says_the_same(text: str, data: Any) -> bool:
    """Whether the text is the data once more, as servers send it for older clients."""
    alone = data["result"] if isinstance(data, Mapping) and list(data) == ["result"] else data
    if alone == text:
        return True
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return said in (data, alone)


def _saved(encoded: Any, media_type: Any, files: Path) -> dict[str, Any]:
    """Something that is no text as a file."""
    kind = clean(media_type) if isinstance(media_type, str) else "application/octet-stream"
    try:
        data = base64.b64decode(encoded if isinstance(encoded, str) else "", validate=True)
    except (binascii.Error, ValueError):
        return {"type": kind, "problem": "it was not sent as base64 and is left out"}
    ending = mimetypes.guess_extension(kind.partition(";")[0].strip()) or ".bin"
    return {"path": str(_write(data, ending, files)), "type": kind, "bytes": len(data)}


def _write(data: bytes, ending: str, files: Path) -> Path:
    files.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = files / f"mcp-{hashlib.sha256(data).hexdigest()[:16]}{ending}"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    return path
