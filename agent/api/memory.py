"""Notes that outlive a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.assembly.plugin_memory import kept_elsewhere as kept_elsewhere
    from agent.memory.entries import MemoryOperation as MemoryOperation
    from agent.memory.entries import MemoryWriteError as MemoryWriteError
    from agent.memory.entries import preview as preview
    from agent.memory.entries import usage as usage
    from agent.memory.files import MemoryContents as MemoryContents
    from agent.memory.files import MemoryFile as MemoryFile
    from agent.memory.files import MemoryFileError as MemoryFileError
    from agent.memory.origins import Origin as Origin
    from agent.memory.scopes import SCOPES as SCOPES
    from agent.memory.scopes import Scope as Scope
    from agent.memory.service import MemoryFiles as MemoryFiles
    from agent.memory.service import vetted as vetted
    from agent.sessions.session_prompt import memory_files as memory_files

__getattr__ = exports(
    __name__,
    {
        "agent.assembly.plugin_memory": "kept_elsewhere",
        "agent.memory.entries": "MemoryOperation MemoryWriteError preview usage",
        "agent.memory.files": "MemoryContents MemoryFile MemoryFileError",
        "agent.memory.origins": "Origin",
        "agent.memory.scopes": "SCOPES Scope",
        "agent.memory.service": "MemoryFiles vetted",
        "agent.sessions.session_prompt": "memory_files",
    },
)
