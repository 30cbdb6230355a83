"""The model that judges answers of a batch: its requests count for the ceilings of the batch."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from agent.automation.checks.check import CheckResult
from agent.automation.checks.judge import open_judge
from agent.core.config.loader import load
from agent.core.home import Home
from agent.core.store.connection import Database
from agent.errors import HermesError
from agent.model.transport.reply import ModelRoute
from agent.session.spending.budget import Budget, BudgetAccount, BudgetReachedError
from agent.session.spending.metering import Metering, day_budget, total_budget
from agent.session.spending.prices import prices_of
from agent.session.spending.request_table import SIDE
from agent.session.spending.spending import Spending


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchJudge:
    """Judges with `model`, or with the usual one. `settings` are those of the sessions of the batch."""

    home: Home
    environ: Mapping[str, str]
    settings: Mapping[str, Any]
    model: str

    async def meets(self, prompt: str, rubric: Any, answer: str, database: Database) -> CheckResult:
        """Whether an answer meets a rubric. A model that cannot be asked is told in the result.

        `database` is the store of the batch. Raises `BudgetReachedError` at a ceiling of the batch.
        """
        loaded = await asyncio.to_thread(load, self.home, self.environ, chosen=self.settings)
        ceilings = loaded.settings.budget
        spending = Spending(
            database,
            prices_of(loaded.settings, self.environ),
            day_budget(ceilings),
            total=total_budget(ceilings),
        )
        # Without a session: what a task may use is for its own agent.
        metering = Metering(spending, BudgetAccount("the judge", Budget()), "", "", {})

        def metered(route: ModelRoute) -> ModelRoute:
            return replace(route, client=metering.client(route.client, route.name, SIDE))

        try:
            async with open_judge(loaded, self.home, self.model, metered) as judge:
                return await judge.meets(prompt, rubric, answer)
        except BudgetReachedError:
            raise
        except HermesError as error:
            return CheckResult("judge", None, str(error))
        finally:
            await spending.settled()
