"""Learnings of one project, in the store. Each method is one short transaction on its thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from agent.core.store.connection import Database
from agent.knowledge.learnings import learning_table as table
from agent.knowledge.learnings.learning import Learning, Status
from agent.knowledge.learnings.signature import EVERYWHERE


class LearningStore:
    """What is known in a project, and everywhere. All methods raise `StoreError`."""

    def __init__(
        self, database: Database, project: str, *, promote_after: int = 2, most_candidates: int = 300
    ) -> None:
        """`promote_after` is how often a candidate has to work to become a learning by itself (0: never)."""
        self._database = database
        self.project = project
        self._promote_after = promote_after
        self._most_candidates = most_candidates

    async def for_calls(self, calls: Sequence[str]) -> list[Learning]:
        """What is known of calls with these keys, the surest first."""
        return await self._database.read(lambda c: table.for_calls(c, calls, self.project))

    async def for_failure(self, key: str) -> list[Learning]:
        """What is known of failures with this signature, the surest first."""
        return await self._database.read(lambda c: table.for_failure(c, key, self.project))

    async def of_program(self, programs: Sequence[str]) -> list[Learning]:
        """What somebody wrote down about these programs."""
        return await self._database.read(lambda c: table.of_program(c, programs, self.project))

    async def keep(self, learning: Learning, calls: Iterable[str] = ()) -> Learning:
        """Write one down, or add it to what says the same. `calls` are the keys of calls that failed so."""
        keys = tuple(calls)

        def work(connection: table.Connection) -> Learning:
            kept = table.keep(connection, learning, keys, self._promote_after)
            if kept.status == "candidate":
                table.thin_out(connection, kept.project, self._most_candidates)
            return kept

        return await self._database.write(work)

    async def replace(self, learning: Learning, calls: Iterable[str] = ()) -> Learning:
        """Write one down in place of what has its number, and of what says the same."""
        keys = tuple(calls)

        def work(connection: table.Connection) -> Learning:
            table.link(connection, learning, keys)
            return table.become_one(connection, learning)

        return await self._database.write(work)

    async def happened(
        self,
        learning: int,
        *,
        used: int = 0,
        confirmed: int = 0,
        refuted: int = 0,
        depends: Mapping[str, str] | None = None,
    ) -> Learning | None:
        """Add to what happened with one; None if it is gone. `depends` are new stamps, if there are."""

        def work(connection: table.Connection) -> Learning | None:
            return table.count(
                connection,
                learning,
                used=used,
                confirmed=confirmed,
                refuted=refuted,
                depends=depends,
                promote_after=self._promote_after,
            )

        return await self._database.write(work)

    async def set_status(self, learning: int, status: Status) -> Learning | None:
        """Change what one counts as; None if it is gone."""
        return await self._database.write(lambda c: table.set_status(c, learning, status))

    async def get(self, learning: int) -> Learning | None:
        """One by its number, if it holds here."""
        found = await self._database.read(lambda c: table.get(c, learning))
        return found if found is not None and found.project in (self.project, EVERYWHERE) else None

    async def listed(
        self, statuses: Sequence[Status] = (), *, all_projects: bool = False, limit: int = 1_000
    ) -> list[Learning]:
        """Those that hold here (or all there are), the surest and newest first; -1 is no limit."""
        projects = None if all_projects else (self.project, EVERYWHERE)
        return await self._database.read(lambda c: table.listed(c, projects, statuses, limit))

    async def search(
        self, query: str, statuses: Sequence[Status] = (), *, all_projects: bool = False, limit: int = 10
    ) -> list[Learning]:
        """Those in which most words of `query` occur, best first; all of them for an empty one."""
        found = await self.listed(statuses, all_projects=all_projects)
        return matching(found, query)[:limit]

    async def remove(self, learning: int) -> bool:
        """Forget one; False if there is none of that number."""
        return await self._database.write(lambda c: table.remove(c, learning))


def matching(learnings: Sequence[Learning], query: str) -> list[Learning]:
    """Learnings by how many words of the query they hold; equal ones in their order. Pure."""
    wanted = query.lower().split()
    if not wanted:
        return list(learnings)
    scored = [(sum(word in text for word in wanted), each) for each in learnings for text in [_text(each)]]
    return [each for score, each in sorted(scored, key=lambda pair: -pair[0]) if score]


def _text(learning: Learning) -> str:
    parts = (
        *(learning.pattern, learning.error_type, learning.fix, learning.context, learning.program),
        *(learning.subcommand, learning.error, *learning.tags),
    )
    return " ".join(parts).lower()
