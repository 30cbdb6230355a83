"""One call's way to files: places are resolved, guarded and passed through the gate."""

from __future__ import annotations

from pathlib import Path

from tools.actions import DeletePath, ReadPath, WritePath
from tools.context import ToolContext
from tools.files.credentials import Guard
from tools.files.paths import resolve, resolve_entry, shown


class Access:
    """What the tool `tool` may do with files in the call `ctx`. Every method raises `ToolError`."""

    def __init__(self, ctx: ToolContext, tool: str) -> None:
        self._ctx = ctx
        self._tool = tool
        self.guard = Guard(ctx.options)

    def target(self, text: str) -> Path:
        """The file `text` names, links followed."""
        return resolve(text, self._ctx.workspace)

    def entry(self, text: str) -> Path:
        """The name `text` leads to, be it a link or not."""
        return resolve_entry(text, self._ctx.workspace)

    def name(self, path: Path) -> str:
        """`path` as the model reads it."""
        return shown(path, self._ctx.workspace)

    async def permit_read(self, path: Path) -> None:
        self.guard.check_read(path, self.name(path))
        await self._ctx.permit(ReadPath(tool=self._tool, path=path))

    async def permit_write(self, path: Path, *, creates: bool) -> None:
        self.guard.check_write(path, self.name(path))
        await self._ctx.permit(WritePath(tool=self._tool, path=path, creates=creates))

    async def permit_delete(self, path: Path) -> None:
        self.guard.check_write(path, self.name(path))
        await self._ctx.permit(DeletePath(tool=self._tool, path=path))
