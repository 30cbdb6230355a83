"""Reading and writing files for the image, sound and message tools, under the rules of the file tools."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from tools.context import ToolContext
from tools.files.access import Access, explain
from tools.files.committing import ChangedMeanwhile, commit
from tools.files.planning import Write
from tools.kit.files import entry_status, read_bytes, require_file
from tools.results import ToolError
from tools.senses.services import GeneratedFile

_MANY = 1_000


async def read_file(
    context: ToolContext, tool: str, path: str, largest: int, *, inside: bool = False
) -> tuple[bytes, str]:
    """Read a file given to a tool; return its bytes and the last part of its path. Raises `ToolError`.

    With `inside`, the file must be in the workspace after all links are followed.
    """
    access = await asyncio.to_thread(Access, context, tool)
    place = await asyncio.to_thread(access.target, path)
    if inside and not place.is_relative_to(await asyncio.to_thread(context.workspace.resolve)):
        raise ToolError(f"{path[:200]} does not lie in the workspace; copy it there first.")
    await access.permit_read(place)

    def read() -> bytes:
        try:
            status = entry_status(place)
            if status is None:
                raise ToolError(f"{access.name(place)} is not there; check the path.")
            require_file(status)
            if status.st_size > largest:
                raise ToolError(
                    f"{access.name(place)} has {status.st_size / 1_000_000:.0f} MB, more than the "
                    f"{largest // 1_000_000} MB that are read."
                )
            return read_bytes(place, largest)[0]
        except OSError as error:
            raise explain(error, f"read {access.name(place)}") from error

    return await asyncio.to_thread(read), place.name


async def keep(
    context: ToolContext, tool: str, made: GeneratedFile, path: str, folder: str, title: str
) -> str:
    """Write a generated file to `path`, or to `folder` under a name made from `title`; return its shown path.
    The write belongs to the current step, so it can be undone. Raises `ToolError`.
    """
    access = await asyncio.to_thread(Access, context, tool)
    place = await asyncio.to_thread(access.target, path) if path else None
    if place is None:
        place = await asyncio.to_thread(_free, context.workspace / folder, title, made.ending)
    elif place.suffix.lower() != made.ending and not _alike(place.suffix.lower(), made.ending):
        place = place.with_name(place.name + made.ending)
    if await asyncio.to_thread(entry_status, place) is not None:
        raise ToolError(f"{access.name(place)} is there already; choose another path.")
    await access.permit_write(place, creates=True)
    try:
        await asyncio.to_thread(commit, (Write(place, made.data),), access.name)
    except ChangedMeanwhile:
        raise ToolError(f"{access.name(place)} came to be meanwhile; choose another path.") from None
    return access.name(place)


def _alike(one: str, other: str) -> bool:
    return {one, other} <= {".jpg", ".jpeg"}


def _free(folder: Path, title: str, ending: str) -> Path:
    """Return an unused path in the folder, named after `title`. Raises `ToolError` if there are too many."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:40].strip("-") or "untitled"
    for number in range(1, _MANY):
        place = folder / f"{words}{'' if number == 1 else f'-{number}'}{ending}"
        if not place.exists():
            return place
    raise ToolError(f"{folder.name}/ holds very many files of this name; give a path.")
