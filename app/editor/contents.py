"""Messages of an editor as Hermes takes them: one text, and images."""

from __future__ import annotations

import base64
import binascii
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from acp import schema

from agent.core.attachments import AttachmentStore
from agent.core.messages import Attachment
from agent.errors import ConfigError
from tools.text.safe_text import clean
from tools.text.words import one_line

MOST_CONTEXT = 400_000
"""Characters of embedded files that go with one message."""
_FENCES = re.compile(r"`{3,}")
_ENDINGS = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}


@dataclass(frozen=True, slots=True)
class EditorMessage:
    """What the person said in the editor."""

    text: str
    images: tuple[tuple[str, bytes], ...] = ()
    """Name and bytes of each."""


def read(blocks: Sequence[Any]) -> EditorMessage:
    """A message put together from its blocks. Raises `ConfigError` for what cannot be taken. Pure."""
    said: list[str] = []
    embedded: list[str] = []
    images: list[tuple[str, bytes]] = []
    room = MOST_CONTEXT
    for block in blocks:
        match block:
            case schema.TextContentBlock():
                said.append(block.text)
            case schema.ImageContentBlock():
                images.append((_image_name(block), _decoded(block.data)))
            case schema.ResourceContentBlock():
                said.append(_link(block.uri, block.title or block.name))
            case schema.EmbeddedResourceContentBlock():
                resource = block.resource
                said.append(_link(resource.uri, ""))
                if isinstance(resource, schema.TextResourceContents):
                    text = resource.text
                    room -= len(text)
                    if room < 0:
                        raise ConfigError(
                            f"The files in this message have more than {MOST_CONTEXT:,} characters; name "
                            "them instead, and the agent reads what it needs."
                        )
                    embedded.append(_fenced(resource.uri, text))
                elif (resource.mime_type or "") in _ENDINGS:
                    images.append((_named(resource.uri), _decoded(resource.blob)))
                else:
                    embedded.append(f"`{_named(resource.uri)}` holds bytes that are no text.")
            case _:
                raise ConfigError("Hermes takes text, images and files; sound was not announced.")
    text = "".join(said)
    if embedded:
        text = "\n\n".join([text, *embedded])
    return EditorMessage(text, tuple(images))


def kept(store: AttachmentStore, images: Sequence[tuple[str, bytes]]) -> tuple[Attachment, ...]:
    """Images taken into the home. Writes files; raises `AttachmentError` for what is no image."""
    found: list[Attachment] = []
    with tempfile.TemporaryDirectory(prefix="hermes-acp-") as folder:
        for number, (name, data) in enumerate(images):
            path = Path(folder) / str(number) / Path(name).name
            path.parent.mkdir()
            path.write_bytes(data)
            found.append(store.take(path))
    return tuple(found)


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise ConfigError("An image of the message is not encoded as base64.") from None


def _image_name(block: schema.ImageContentBlock) -> str:
    if block.uri:
        return _named(block.uri)
    return f"image{_ENDINGS.get(block.mime_type, '')}"


def _named(uri: str) -> str:
    path = clean(unquote(urlsplit(uri).path)) if _is_address(uri) else clean(uri)
    return path.rstrip("/").rsplit("/", 1)[-1][:120] or "file"


def _is_address(uri: str) -> bool:
    try:
        return bool(urlsplit(uri).scheme)
    except ValueError:
        return False


def _link(uri: str, name: str) -> str:
    """A mention that a person and a model can read: the path of a file, any other address as it is."""
    shown = one_line(name) or _named(uri)
    where = clean(unquote(urlsplit(uri).path)) if uri.startswith("file://") else clean(uri)
    return f"[{shown}]({where})"


def _fenced(uri: str, text: str) -> str:
    longest = max((len(each) for each in _FENCES.findall(text)), default=2)
    fence = "`" * (longest + 1)
    where = clean(unquote(urlsplit(uri).path)) if uri.startswith("file://") else clean(uri)
    return f"Contents of {where}:\n{fence}\n{text}\n{fence}"
