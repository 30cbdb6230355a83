"""The jobs of the home, as the agent of a session makes and changes them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.automation.schedule.book import CLOSED, JobBook, job_json
from agent.automation.schedule.foreseen import foreseen
from agent.automation.schedule.job import Job
from agent.automation.unattended.commands import UnattendedCommands
from agent.errors import HermesError
from tools.results import ToolError


class SessionJobs:
    """A `JobKeeper`. Jobs made here work in the session's workspace unless they name another folder."""

    def __init__(self, book: JobBook, workspace: Path, commands: UnattendedCommands) -> None:
        """`commands` are what runs scripts and mailers later."""
        self._book = book
        self._workspace = workspace
        self._commands = commands

    async def create(self, wanted: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            return await self._made(await self._book.add({"cwd": str(self._workspace), **wanted}))
        except HermesError as error:
            raise ToolError(str(error)) from error

    async def update(self, job: str, changes: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            return await self._made(await self._book.edit(job, changes))
        except HermesError as error:
            raise ToolError(str(error)) from error

    async def list(self) -> Mapping[str, Any]:
        try:
            found = [await self._with_last(each) for each in await self._book.jobs()]
        except HermesError as error:
            raise ToolError(str(error)) from error
        return {"jobs": found, **self._closed()}

    async def change(self, job: str, action: str) -> Mapping[str, Any]:
        try:
            if action == "run":
                run = await self._book.ask_for(job)
                return {"success": True, "run": run.as_json(), **self._closed()}
            changes = {"pause": self._book.pause, "resume": self._book.resume, "remove": self._book.remove}
            return {"success": True, "job": job_json(await changes[action](job))}
        except HermesError as error:
            raise ToolError(str(error)) from error

    async def _made(self, job: Job) -> Mapping[str, Any]:
        refused = await foreseen(self._commands, job.intent)
        told = {"refused": list(refused)} if refused else {}
        return {"success": True, "job": job_json(job), **told, **self._closed()}

    async def _with_last(self, job: Job) -> dict[str, Any]:
        runs = await self._book.runs(job.id, 1)
        return job_json(job, runs[0] if runs else None)

    def _closed(self) -> dict[str, str]:
        return {} if self._book.is_watched() else {"note": CLOSED}
