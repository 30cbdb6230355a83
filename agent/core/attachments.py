"""Images attached to messages: checking, storing under their hash, and reading.

The session store holds the name, type, size and hash of an attachment; its bytes are stored once in a private
file of Hermes's home folder, however often they are sent.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent.core.home import PRIVATE_FILE, private_folder
from agent.core.messages import Attachment
from agent.errors import ExitCode, HermesError
from tools.kit.files import write_atomically
from tools.kit.lazy_pattern import lazy_pattern
from tools.text.safe_text import clean

log = logging.getLogger(__name__)

LIMIT = 10_000_000
"""The size in bytes of the largest image that can be attached."""
LONGEST_NAME = 40
LEFT_FOR = 86_400
"""Seconds for which an unreferenced file is kept, because its message may still wait in a queue."""

_HEAD = 16
_HASH = lazy_pattern(r"[0-9a-f]{64}")
_OURS = lazy_pattern(rf"{_HASH.pattern}|\.{_HASH.pattern}\.[0-9a-f]{{8}}")
"""The names of stored images, and of temporary files whose writing was interrupted."""
_MEDIA = {"image/png", "image/jpeg", "image/gif", "image/webp"}


class AttachmentError(HermesError):
    """Raised for an image that cannot be attached or stored."""

    exit_code = ExitCode.USAGE


class NotAnImageError(AttachmentError):
    """Raised for a file that is not an image in a format that models accept."""


def sniff(head: bytes) -> str | None:
    """Return the media type of an image from its first 16 bytes; None if it is not png, jpeg, gif or webp."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    return None


def check(path: Path) -> tuple[str, int]:
    """Return media type and size in bytes of the image at `path`. Raises `AttachmentError`."""
    descriptor, media, size = _open(path)
    os.close(descriptor)
    return media, size


class AttachmentStore:
    """The image files of one home folder. Every method accesses the disk; call it in a worker thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def take(self, path: Path, mention: str = "") -> Attachment:
        """Store the image at `path` and return its description. Raises `AttachmentError` if that fails."""
        media, data = _image(path)
        return self._take(path, media, data, mention)

    @staticmethod
    def digest(path: Path) -> str:
        """Return the SHA-256 under which `take` would store the image at `path`. Raises `AttachmentError` as
        `take` does.
        """
        return hashlib.sha256(_image(path)[1]).hexdigest()

    def keep(self, data: bytes, name: str, mention: str = "") -> Attachment:
        """Store the image `data` and return its description. Raises `AttachmentError` if it is not an image,
        is too large, or cannot be stored.
        """
        media, path = sniff(data[:_HEAD]), Path(name)
        if media is None:
            raise NotAnImageError(f"{short_name(path)} is not a png, jpeg, gif or webp image.")
        if len(data) > LIMIT:
            raise _too_large(path, len(data))
        return self._take(path, media, data, mention)

    def _take(self, path: Path, media: str, data: bytes, mention: str) -> Attachment:
        digest = hashlib.sha256(data).hexdigest()
        self._keep(digest, data)
        return Attachment(short_name(path), media, len(data), digest, _line(mention))

    def read(self, attachment: Attachment) -> bytes:
        """Return the bytes of an attachment; empty if the file is missing or has changed."""
        if not _HASH.fullmatch(attachment.sha256):
            return b""
        try:
            data = (self._folder / attachment.sha256).read_bytes()
        except OSError:
            return b""
        return data if hashlib.sha256(data).hexdigest() == attachment.sha256 else b""

    def any(self) -> bool:
        """Return whether any file is stored."""
        try:
            with os.scandir(self._folder) as found:
                return next(found, None) is not None
        except OSError:
            return False

    def sweep(self, wanted: Collection[str], gone: Mapping[str, float]) -> int:
        """Delete unreferenced images; return their number. Both arguments name images by their SHA-256.

        `wanted` are the images that messages refer to. `gone` are those of deleted messages, with the time of
        their last use (seconds since the epoch). A file that was stored after that time is kept, because it
        may belong to a message that is not stored yet. For the same reason an unreferenced file is kept for a
        day.
        """
        yesterday = time.time() - LEFT_FOR
        swept = 0
        try:
            with os.scandir(self._folder) as found:
                files = [each for each in found if _OURS.fullmatch(each.name) and each.name not in wanted]
        except OSError as error:
            log.warning("images of deleted sessions could not be looked for: %s", error)
            return 0
        for each in files:
            try:
                if each.stat(follow_symlinks=False).st_mtime <= max(gone.get(each.name, 0.0), yesterday):
                    Path(each.path).unlink()
                    swept += 1
            except FileNotFoundError:
                continue
            except OSError as error:
                log.warning("the image %s of a deleted session could not be deleted: %s", each.name, error)
        return swept

    def _keep(self, digest: str, data: bytes) -> None:
        path = private_folder(self._folder) / digest
        try:
            if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == digest:
                # A running sweep must see that the file is needed again.
                os.utime(path)
                return
            write_atomically(path, data, PRIVATE_FILE, replace_any=True)
        except OSError as error:
            reason = error.strerror or str(error)
            raise AttachmentError(
                f"The image cannot be kept in {self._folder}: {reason}; free it or attach nothing."
            ) from error


def records(attachments: Sequence[Attachment]) -> list[dict[str, Any]]:
    """Return attachments as the list of mappings that a node of the session store holds."""
    return [
        {
            "name": each.name,
            "media_type": each.media_type,
            "bytes": each.size,
            "sha256": each.sha256,
            "mention": each.mention,
        }
        for each in attachments
    ]


def attachments_of(data: Mapping[str, Any]) -> tuple[Attachment, ...]:
    """Return the attachments in the data of a user node; invalid entries are left out."""
    found = data.get("attachments")
    read = (_attachment(each) for each in found) if isinstance(found, list) else ()
    return tuple(each for each in read if each is not None)


def label(attachment: Attachment) -> str:
    """Return the label of an attachment on the screen: `[image: chart.png 120 KB]`."""
    return image_label(attachment.name, attachment.size)


def image_label(name: str, size: int) -> str:
    return f"[image: {name} {size_text(size)}]"


def display_text(text: str, attachments: Sequence[Attachment]) -> str:
    """Return a message for display. Each mention of an attachment becomes its name and size; those without a
    mention follow, one a line.
    """
    behind = []
    at = 0
    pieces = []
    for each in attachments:
        place = text.find(each.mention, at) if each.mention else -1
        if place < 0:
            behind.append(label(each))
            continue
        pieces += [text[at:place], label(each)]
        at = place + len(each.mention)
    body = "".join([*pieces, text[at:]])
    return "\n".join(filter(None, [body, *behind]))


def short_name(path: Path) -> str:
    """Return a file's name on one line, shortened in the middle to 40 characters, without brackets."""
    name = _line(path.name).replace("[", "(").replace("]", ")") or "image"
    if len(name) > LONGEST_NAME:
        half = LONGEST_NAME // 2
        name = f"{name[: half - 1]}…{name[-half:]}"
    return name


def size_text(size: int) -> str:
    """Return a number of bytes for display: `840 B`, `120 KB`, `2.4 MB`."""
    if size < 1_000:
        return f"{size} B"
    if size < 999_500:
        return f"{size / 1_000:.0f} KB"
    return f"{size / 1_000_000:.1f} MB"


def _image(path: Path) -> tuple[str, bytes]:
    """Return the media type and the bytes of the image at `path`. Raises `AttachmentError`."""
    descriptor, media, _ = _open(path)
    with os.fdopen(descriptor, "rb") as file:
        try:
            data = file.read(LIMIT + 1)
        except OSError as error:
            raise _unreadable(path, error) from error
    if len(data) > LIMIT:
        raise _too_large(path, len(data))
    return media, data


def _open(path: Path) -> tuple[int, str, int]:
    """Open the image at `path`; return the descriptor, the media type and the size in bytes.

    Raises `AttachmentError`. A pipe is refused without waiting.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise NotAnImageError(f"{short_name(path)} is not a file; attach a png, jpeg, gif or webp image.")
        media = sniff(os.pread(descriptor, _HEAD, 0))
        if media is None:
            raise NotAnImageError(
                f"{short_name(path)} is not a png, jpeg, gif or webp image; mention it as @path instead."
            )
        if status.st_size > LIMIT:
            raise _too_large(path, status.st_size)
    except OSError as error:
        os.close(descriptor)
        raise _unreadable(path, error) from error
    except HermesError:
        os.close(descriptor)
        raise
    return descriptor, media, status.st_size


def _unreadable(path: Path, error: OSError | ValueError) -> AttachmentError:
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return AttachmentError(f"{short_name(path)} cannot be attached: {reason}; check the path.")


def _too_large(path: Path, size: int) -> AttachmentError:
    return AttachmentError(
        f"{short_name(path)} has {size_text(size)}, more than the {size_text(LIMIT)} "
        "that can be attached; scale it down."
    )


def _attachment(record: Any) -> Attachment | None:
    if not isinstance(record, Mapping):
        return None
    name, media, digest = record.get("name"), record.get("media_type"), record.get("sha256")
    size, mention = record.get("bytes"), record.get("mention", "")
    if not isinstance(name, str) or media not in _MEDIA or not isinstance(size, int):
        return None
    if not isinstance(digest, str) or not _HASH.fullmatch(digest):
        return None
    return Attachment(
        short_name(Path(name)),
        media,
        max(size, 0),
        digest,
        _line(mention) if isinstance(mention, str) else "",
    )


def _line(text: str) -> str:
    """Return text from outside as one line without control characters."""
    return " ".join(clean(text).split("\n")).replace("\t", " ")
