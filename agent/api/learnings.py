"""Learnings: what failed and what worked, as a person looks through it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from agent.knowledge.learnings.book import LearningBook as LearningBook
    from agent.knowledge.learnings.book import LearningChange as LearningChange
    from agent.knowledge.learnings.book import learning_book as learning_book
    from agent.knowledge.learnings.learning import STATUSES as STATUSES
    from agent.knowledge.learnings.learning import Learning as Learning
    from agent.knowledge.learnings.learning import Status as Status
    from agent.knowledge.learnings.learning_store import matching as matching
    from agent.knowledge.learnings.record import record as record
    from agent.knowledge.learnings.record import standing as standing
    from tools.services.learning_notes import LearningNote as LearningNote

__getattr__ = exports(
    __name__,
    {
        "agent.knowledge.learnings.book": "LearningBook LearningChange learning_book",
        "agent.knowledge.learnings.learning": "STATUSES Learning Status",
        "agent.knowledge.learnings.learning_store": "matching",
        "agent.knowledge.learnings.record": "record standing",
        "tools.services.learning_notes": "LearningNote",
    },
)
