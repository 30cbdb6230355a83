"""Kinds of files by their media types."""

from __future__ import annotations

from urllib.parse import urlsplit

from agent.integrations.gateways.adapter import FileKind, UndeliverableError


def file_kind(media_type: str) -> FileKind:
    """What a file is to us: something to look at, to listen to, or to read. Pure."""
    if media_type.startswith("image/"):
        return "image"
    return "voice" if media_type.startswith("audio/") else "file"


def require_host(url: str, hosts: tuple[str, ...], api_url: str) -> str:
    """The address of a file if it lies with the platform itself, which alone may see the token.

    A name counts with the names below it. Raises `UndeliverableError`.
    """
    host, ours = urlsplit(url).hostname or "", urlsplit(api_url)
    secure = urlsplit(url).scheme == "https"
    if secure and any(host == each or host.endswith(f".{each}") for each in hosts):
        return url
    if api_url and urlsplit(url).netloc == ours.netloc and urlsplit(url).scheme == ours.scheme:
        return url
    raise UndeliverableError("The file does not lie with the platform; it is not fetched.")
