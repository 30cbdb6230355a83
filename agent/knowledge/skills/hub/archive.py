"""Reading archives that may be hostile: nothing is written, and nothing grows beyond its limits."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator

from agent.knowledge.skills.hub.bundle import SKILL_FILES, STRICT, Limits, SkillFile, check_count, safe_path
from agent.knowledge.skills.hub.problems import HubRefusedError
from tools.text.words import brief

_TAR_OVERHEAD = 2_048
"""Bytes of headers and padding per file of a tar archive."""
_MOST_ENTRIES = 5_000
"""Entries of an archive that are looked at, folders included."""
_ENCRYPTED = 0x1


def unpack(data: bytes, limits: Limits = STRICT) -> tuple[SkillFile, ...]:
    """The files of a `.zip`, `.tar.gz` or `.tar`, told apart by their content.

    One folder around everything is taken off. Raises `HubRefusedError`.
    """
    if data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        files = tuple(_zip(data, limits))
    elif data.startswith(b"\x1f\x8b"):
        files = tuple(_tar(_inflated(data, limits), limits))
    elif data[257:262] == b"ustar":
        files = tuple(_tar(data, limits))
    else:
        raise HubRefusedError("What was delivered is neither a .zip nor a .tar.gz archive.")
    return _without_wrapper(files)


def _without_wrapper(files: tuple[SkillFile, ...]) -> tuple[SkillFile, ...]:
    tops = {file.path.split("/", 1)[0] for file in files}
    if len(tops) != 1 or any("/" not in file.path or file.path in SKILL_FILES for file in files):
        return files
    return tuple(
        SkillFile(file.path.split("/", 1)[1], file.content, executable=file.executable) for file in files
    )


def _zip(data: bytes, limits: Limits) -> Iterator[SkillFile]:
    total = count = 0
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            _check_entries(len(members))
            for member in members:
                # The name as it stands in the archive: zipfile turns separators around and cuts at NUL.
                name = member.orig_filename
                if member.is_dir():
                    safe_path(name.rstrip("/"))
                    continue
                _check_zip_member(member, name)
                left = min(limits.each, limits.total - total)
                with archive.open(member) as opened:
                    content = opened.read(left + 1)
                count += 1
                total += len(content)
                check_count(count, total, len(content), name, limits)
                yield SkillFile(safe_path(name), content, executable=bool(member.external_attr >> 16 & 0o111))
    except (zipfile.BadZipFile, zipfile.LargeZipFile, zlib.error, EOFError, OSError) as error:
        raise HubRefusedError(f"The archive is damaged: {brief(error)}.") from None
    except (NotImplementedError, RuntimeError, ValueError, MemoryError) as error:
        raise HubRefusedError(f"The archive cannot be read: {brief(error)}.") from None


def _check_zip_member(member: zipfile.ZipInfo, name: str) -> None:
    mode = member.external_attr >> 16
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        raise HubRefusedError(f"{brief(name)} in the archive is a link or a device, which is not taken.")
    if member.flag_bits & _ENCRYPTED:
        raise HubRefusedError("The archive is encrypted.")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise HubRefusedError("The archive is packed in a way that is not taken; use plain zip.")


def _inflated(data: bytes, limits: Limits) -> bytes:
    """The content of a gzip stream, up to what a skill with its tar headers can take."""
    most = limits.total + (limits.files + 200) * _TAR_OVERHEAD
    stream = zlib.decompressobj(zlib.MAX_WBITS | 16)
    try:
        content = stream.decompress(data, most + 1)
    except zlib.error as error:
        raise HubRefusedError(f"The archive is damaged: {brief(error)}.") from None
    if len(content) > most:
        raise HubRefusedError(f"The archive unpacks to more than {limits.total:,} bytes.")
    if not stream.eof:
        raise HubRefusedError("The archive is cut off.")
    return content


def _tar(data: bytes, limits: Limits) -> Iterator[SkillFile]:
    total = count = looked = 0
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            while (member := archive.next()) is not None:
                looked += 1
                _check_entries(looked)
                name = member.name.removeprefix("./")
                if member.isdir():
                    if name not in ("", "."):
                        safe_path(name.rstrip("/"))
                    continue
                if not member.isreg() or member.issparse():
                    raise HubRefusedError(
                        f"{brief(name)} in the archive is a link or a device, which is not taken."
                    )
                count += 1
                total += member.size
                check_count(count, total, member.size, name, limits)
                opened = archive.extractfile(member)
                content = opened.read() if opened is not None else b""
                if len(content) != member.size:
                    raise HubRefusedError("The archive is cut off.")
                yield SkillFile(safe_path(name), content, executable=bool(member.mode & 0o111))
    except (tarfile.TarError, EOFError, OSError, ValueError) as error:
        raise HubRefusedError(f"The archive is damaged: {brief(error)}.") from None


def _check_entries(count: int) -> None:
    if count > _MOST_ENTRIES:
        raise HubRefusedError(f"The archive has more than {_MOST_ENTRIES:,} entries.")
