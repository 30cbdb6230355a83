"""Telling text from everything else, by content first and by name second."""

from __future__ import annotations

from pathlib import PurePath

from tools.files.text_files import mark_of

SAMPLE_BYTES = 8192
"""How much of the start of a file decides."""

_SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF87a", "GIF image"),
    (b"GIF89a", "GIF image"),
    (b"%PDF-", "PDF document"),
    (b"PK\x03\x04", "ZIP archive"),
    (b"PK\x05\x06", "ZIP archive"),
    (b"\x1f\x8b", "gzip archive"),
    (b"BZh", "bzip2 archive"),
    (b"\xfd7zXZ\x00", "xz archive"),
    (b"7z\xbc\xaf\x27\x1c", "7z archive"),
    (b"\x28\xb5\x2f\xfd", "Zstandard archive"),
    (b"\x7fELF", "program"),
    (b"\xcf\xfa\xed\xfe", "program"),
    (b"\xca\xfe\xba\xbe", "program"),
    (b"SQLite format 3\x00", "SQLite database"),
    (b"OggS", "Ogg recording"),
    (b"fLaC", "FLAC recording"),
    (b"ID3", "MP3 recording"),
    (b"\x00asm", "WebAssembly module"),
)

# Names that speak even where the first bytes look like some text.
_BY_NAME: dict[str, str] = {
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".ico", ".tiff", ".heic"), "image"),
    **dict.fromkeys((".mp3", ".wav", ".ogg", ".flac", ".m4a", ".aac"), "recording"),
    **dict.fromkeys((".mp4", ".mkv", ".mov", ".avi", ".webm"), "video"),
    **dict.fromkeys((".zip", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar", ".tar", ".zst"), "archive"),
    **dict.fromkeys((".docx", ".xlsx", ".pptx", ".odt", ".ods", ".odp", ".doc", ".xls", ".ppt"), "document"),
    **dict.fromkeys((".pdf", ".epub"), "document"),
    **dict.fromkeys((".so", ".dll", ".dylib", ".exe", ".o", ".a", ".class", ".pyc", ".pyd"), "compiled file"),
    **dict.fromkeys((".woff", ".woff2", ".ttf", ".otf", ".eot"), "font"),
    **dict.fromkeys((".sqlite", ".sqlite3", ".parquet", ".npy", ".npz", ".pkl", ".h5"), "data file"),
    **dict.fromkeys((".safetensors", ".gguf", ".onnx", ".pt"), "model file"),
}

_TEXT_CONTROLS = frozenset(b"\t\n\r\f\b\x1b")
_MAX_CONTROL_SHARE = 0.1


def binary_kind(name: str, sample: bytes) -> str | None:
    """What a file with this name and start is, such as `PNG image`; None for text."""
    if not sample:
        return None
    for signature, kind in _SIGNATURES:
        if sample.startswith(signature):
            # Some signatures are words that could start a text, so the rest has to agree.
            return kind if kind == "PDF document" or not _is_plain(sample) else None
    if mark_of(sample) is not None:
        return None
    named = _BY_NAME.get(PurePath(name).suffix.lower())
    if named is not None and not _is_plain(sample):
        return named
    if b"\0" in sample or _control_share(sample) > _MAX_CONTROL_SHARE:
        return named or "binary file"
    return None


def _is_plain(sample: bytes) -> bool:
    """Whether `sample` is UTF-8 without control bytes. It may end within a character."""
    if _control_share(sample) > 0:
        return False
    try:
        sample.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data" and error.start > len(sample) - 4
    return True


def _control_share(sample: bytes) -> float:
    controls = sum(byte < 32 and byte not in _TEXT_CONTROLS for byte in sample)
    return controls / len(sample)
