"""Notes that outlive a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.knowledge.memory.entries import MemoryOperation as MemoryOperation
    from agent.knowledge.memory.entries import MemoryWriteError as MemoryWriteError
    from agent.knowledge.memory.entries import preview as preview
    from agent.knowledge.memory.entries import usage as usage
    from agent.knowledge.memory.files import MemoryContents as MemoryContents
    from agent.knowledge.memory.files import MemoryFile as MemoryFile
    from agent.knowledge.memory.files import MemoryFileError as MemoryFileError
    from agent.knowledge.memory.origins import Origin as Origin
    from agent.knowledge.memory.scopes import SCOPES as SCOPES
    from agent.knowledge.memory.scopes import Scope as Scope
    from agent.knowledge.memory.service import MemoryFiles as MemoryFiles
    from agent.knowledge.memory.service import vetted as vetted
    from agent.session.conversation.session_prompt import memory_files as memory_files
    from agent.session.wiring.plugin_memory import kept_elsewhere as kept_elsewhere

__getattr__ = exports(
    __name__,
    {
        "agent.session.wiring.plugin_memory": "kept_elsewhere",
        "agent.knowledge.memory.entries": "MemoryOperation MemoryWriteError preview usage",
        "agent.knowledge.memory.files": "MemoryContents MemoryFile MemoryFileError",
        "agent.knowledge.memory.origins": "Origin",
        "agent.knowledge.memory.scopes": "SCOPES Scope",
        "agent.knowledge.memory.service": "MemoryFiles vetted",
        "agent.session.conversation.session_prompt": "memory_files",
    },
)
