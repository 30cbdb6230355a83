"""The learnings of a project as something that can be recalled."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from agent.core.store.store import Store
from agent.errors import StoreError
from agent.knowledge.learnings.learning import Learning, Status
from agent.knowledge.learnings.store import LearningStore
from agent.knowledge.memory.scopes import project_id, project_root
from agent.knowledge.recall.sources import Passage

_TOLD: tuple[Status, ...] = ("learning", "candidate")
"""Those that were retired or are stale would mislead."""

_MOST = 300


class RecalledLearnings:
    """What failed before in this project, or everywhere, and what worked. None of another project."""

    name = "learnings"

    def __init__(self, store: Store, workspace: Path) -> None:
        self._store = store
        self._workspace = workspace
        self._project: str | None = None

    async def passages(self) -> Sequence[Passage]:
        if self._project is None:
            self._project = await asyncio.to_thread(lambda: project_id(project_root(self._workspace)))
        try:
            found = await LearningStore(self._store.database, self._project).listed(_TOLD, limit=_MOST)
        except StoreError:
            return ()
        return [_passage(each) for each in found]


def _passage(learning: Learning) -> Passage:
    texts = (learning.error_type, learning.error, learning.fix, learning.context, *learning.tags)
    return Passage(
        title=learning.pattern,
        text="\n".join(filter(None, texts)),
        created=learning.updated_at,
        session=learning.session,
        node=learning.node or 0,
        kind=learning.status,
    )
