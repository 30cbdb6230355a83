"""Files in received messages: images are attached, speech is transcribed, and other files are saved.

A file is saved in `received/` of the workspace under a safe name. Only tools read it later, inside their
sandbox.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING

from agent.core.attachments import size_text
from agent.core.messages import Attachment
from agent.errors import HermesError
from agent.integrations.gateways.adapter import GatewayError, Incoming, IncomingFile
from tools.kit.files import write_new
from tools.text.safe_text import clean

if TYPE_CHECKING:
    from agent.integrations.gateways.ports import ChatSession, Gateway

FOLDER = "received"
MOST = 10
"""The maximum number of files of one message."""
TRIES = 3
_UNSAFE = re.compile(r"[^\w.\-]+")


async def prepare_message(
    gateway: Gateway, session: ChatSession, incoming: Incoming
) -> tuple[str, tuple[Attachment, ...]]:
    """Download the files of a message; return its text for the session and its images."""
    said = [clean(incoming.text)] if incoming.text.strip() else []
    images: list[Attachment] = []
    for file in incoming.files[:MOST]:
        name = clean(file.name).replace("\n", " ")[:80] or file.kind
        try:
            data = await _fetch(gateway, file)
        except GatewayError as error:
            said.append(f"[{file.kind} {name}: it could not be fetched: {error}]")
            continue
        if file.kind == "image":
            try:
                images.append(await asyncio.to_thread(gateway.host.keep_image, data, name))
                continue
            except HermesError as error:
                said.append(f"[{error}]")
        if file.kind == "voice":
            try:
                said.append(await gateway.host.transcribe(data, name, session))
                continue
            except HermesError as error:
                said.append(f"[voice message that could not be written down: {error}]")
        try:
            path = await asyncio.to_thread(_store_file, session.client.workspace, name, data)
        except OSError as error:
            said.append(f"[{file.kind} {name}: it could not be kept: {error.strerror}]")
            continue
        said.append(f"[{file.kind}: {path}, {size_text(len(data))}]")
    text = "\n\n".join(said)
    return text or ("[image]" if images else "[empty message]"), tuple(images)


async def _fetch(gateway: Gateway, file: IncomingFile) -> bytes:
    most = gateway.adapter.limits.fetch_file
    await gateway.wait_until_known()
    for attempt in range(TRIES):
        try:
            return await gateway.adapter.fetch(file, most)
        except GatewayError as error:
            wait = getattr(error, "wait", 0.0) or (0.5 * 2**attempt if _may_pass(error) else None)
            if wait is None or attempt == TRIES - 1:
                raise
            await asyncio.sleep(min(wait, 30.0))
    raise AssertionError


def _may_pass(error: GatewayError) -> bool:
    return type(error) is GatewayError


def _store_file(workspace: Path, name: str, data: bytes) -> str:
    """Write a new file into the folder `received`; return its relative path. Blocks. Raises `OSError`."""
    folder = workspace / FOLDER
    if folder.is_symlink():
        raise OSError(40, "the folder is a link")
    folder.mkdir(mode=0o700, exist_ok=True)
    safe = _UNSAFE.sub("_", Path(name).name).lstrip(".") or "file"
    stem, ending = Path(safe).stem, Path(safe).suffix
    for number in range(1, 1_000):
        path = folder / (safe if number == 1 else f"{stem}-{number}{ending}")
        try:
            write_new(path, data)
            return f"{FOLDER}/{path.name}"
        except FileExistsError:
            continue
    raise OSError(17, "too many files have this name")
