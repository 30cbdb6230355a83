"""Pictures and sounds told by their first bytes, whatever a service calls them. Pure."""

from __future__ import annotations


def picture_ending(data: bytes) -> str:
    """The ending of a name for a picture; empty for what is none that is read here."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return ".png"
    if data.startswith(b"\xff\xd8\xff"):
        return ".jpg"
    return ".webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else ""


def sound_ending(data: bytes) -> str:
    """The ending of a name for a sound; empty for what is none."""
    if data[:4] == b"RIFF" and data[8:12] == b"WAVE":
        return ".wav"
    if data.startswith(b"OggS"):
        return ".ogg"
    if data.startswith(b"fLaC"):
        return ".flac"
    is_mp3 = data.startswith(b"ID3") or (len(data) > 1 and data[0] == 0xFF and data[1] & 0xE0 == 0xE0)
    return ".mp3" if is_mp3 else ""
