"""One call's way to files: places are resolved, guarded and passed through the gate."""

from __future__ import annotations

from pathlib import Path

from tools.context import ToolContext
from tools.files.credentials import CredentialGuard
from tools.files.paths import resolve, resolve_entry, shown
from tools.results import ToolError
from tools.services.actions import DeletePath, ReadPath, WritePath


class Access:
    """What the tool `tool` may do with files in the call `ctx`. Every method raises `ToolError`."""

    def __init__(self, ctx: ToolContext, tool: str) -> None:
        self._ctx = ctx
        self._tool = tool
        self.guard = CredentialGuard(ctx.options)

    def target(self, text: str) -> Path:
        """The file `text` names, links followed."""
        return resolve(self._located(text), self._ctx.workspace)

    def entry(self, text: str) -> Path:
        """The name `text` leads to, be it a link or not."""
        return resolve_entry(self._located(text), self._ctx.workspace)

    def name(self, path: Path) -> str:
        """`path` as the model reads it."""
        boundary = self._ctx.terminals.boundary
        return shown(path if boundary is None else boundary.called(path), self._ctx.workspace)

    def _located(self, text: str) -> str:
        """`text` as a path of this machine: commands may have a `/tmp` of their own, and mean that."""
        if place := self._ctx.terminals.elsewhere:
            raise ToolError(
                f"Files are on {place}, where commands run, and {self._tool} sees this machine only; use the "
                "terminal tool there, such as `sed -n 1,200p FILE` to read and a heredoc to write."
            )
        boundary = self._ctx.terminals.boundary
        if boundary is None or not text.startswith(("/tmp", "/var/tmp")):
            return text
        try:
            return boundary.locate(text)
        except ValueError:
            # No name of a file; the reason is given where it is resolved.
            return text

    async def permit_read(self, path: Path) -> None:
        self.guard.check_read(path, self.name(path))
        await self._ctx.permit(ReadPath(tool=self._tool, path=path))

    async def permit_write(self, path: Path, *, creates: bool) -> None:
        self.guard.check_write(path, self.name(path))
        await self._ctx.permit(WritePath(tool=self._tool, path=path, creates=creates))

    async def permit_delete(self, path: Path) -> None:
        self.guard.check_write(path, self.name(path))
        await self._ctx.permit(DeletePath(tool=self._tool, path=path))
