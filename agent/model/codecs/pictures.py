"""Images of a message on the wire: content parts where a model reads them, a sentence where it does not."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Container
from dataclasses import replace

from agent.core.messages import Image, Message
from agent.model.dialect import ImageRules

COUNTED = 5_000
"""Characters an image counts for in estimates: about 1,250 tokens, whatever its file weighs."""

NOT_READ = "this model does not read images"
GONE = "its file is gone"
REFUSED = "this model refused it, or takes no more of them"

_STEP = 3 * 65_536
"""Bytes encoded at once: small, so that other threads get their turn; a multiple of 3."""


def without_images(message: Message, reason: str = NOT_READ) -> Message:
    """The message with a sentence in place of each image."""
    return _told(message, [(image, reason) for image in message.images]) if message.images else message


def with_fitting(message: Message, images: ImageRules, left_out: Container[str]) -> Message:
    """The message with a sentence in place of each image that the model does not take: none, one that is
    too large, or one whose SHA-256 is among `left_out`."""
    if not images.taken:
        return without_images(message)
    refused: list[tuple[Image, str]] = []
    for image in message.images:
        if image.attachment.sha256 in left_out:
            refused.append((image, REFUSED))
        elif images.bytes and image.attachment.size > images.bytes:
            refused.append((image, f"this model takes {images.bytes:,} bytes at most"))
    if not refused:
        return message
    gone = [image for image, _ in refused]
    return replace(
        _told(message, refused), images=tuple(image for image in message.images if image not in gone)
    )


def without_lost(message: Message) -> Message:
    """The message with a sentence in place of each image whose bytes are not there."""
    lost = [(image, GONE) for image in message.images if not image.data]
    if not lost:
        return message
    return replace(_told(message, lost), images=tuple(image for image in message.images if image.data))


def content_parts(text: bytes, images: tuple[Image, ...]) -> bytes:
    """The `content` of a message with images. `text` is a JSON string, or empty for none.

    Put together by hand: base64 needs no escaping, and an encoder would hold up everything else.
    """
    parts = [b'{"type":"text","text":' + text + b"}"] if text else []
    for image in images:
        kind = json.dumps(f"data:{image.attachment.media_type};base64,").encode()
        parts.append(b'{"type":"image_url","image_url":{"url":' + kind[:-1] + base64_of(image.data) + b'"}}')
    return b"[" + b",".join(parts) + b"]"


def surplus(message: Message) -> int:
    """By how many bytes the images of a message are larger on the wire than what they count for."""
    return sum((len(image.data) + 2) // 3 * 4 - COUNTED for image in message.images if image.data)


def _told(message: Message, images: list[tuple[Image, str]]) -> Message:
    sentences = [f"[image: {image.attachment.name}, not sent: {reason}]" for image, reason in images]
    body = [message.content] if message.content.strip() else []
    return replace(message, content="\n".join([*body, *sentences]), images=())


def base64_of(data: bytes) -> bytes:
    """`data` as base64, in pieces that give other threads their turn."""
    return b"".join(b64encode(data[at : at + _STEP]) for at in range(0, len(data), _STEP))
