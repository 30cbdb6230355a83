"""A process that spends from a ceiling until that is reached: prints what it was given.

python -m tests.agent.session.spending.spender STORE CEILING SEED [session] [together | hang]

The ceiling is that of the day, with `session` that of one session which all such processes work on. With
`together` it says when it has taken something, and continues after a line of input.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from random import Random

from agent.core.event_data import Usage
from agent.core.store.store import Store
from agent.model.catalog import UNKNOWN
from agent.session.spending.budget import Budget, BudgetReachedError
from agent.session.spending.request_log import request_log_of
from agent.session.spending.request_table import Payer
from agent.session.spending.spending import Spending, session_ceilings


async def spend(path: Path, ceiling: int, seed: int, how: set[str]) -> int:
    chance, given, hang = Random(seed), 0, "hang" in how
    budget, session = Budget(tokens=ceiling), "one" if "session" in how else str(seed)
    async with await Store.open(path) as store:
        ceilings = (None, session_ceilings(budget, session)) if "session" in how else (budget, None)
        spending = Spending(store.database, lambda _: UNKNOWN, *ceilings)
        request_log = request_log_of(
            spending, Payer(session=session, project="p", agent="main", model="m"), UNKNOWN
        )
        while True:
            try:
                entry = await request_log.open(chance.randint(1, 400), chance.randint(100, 900), 50)
            except BudgetReachedError as error:
                if not error.may_pass or hang:
                    break
                await asyncio.sleep(0.01)
                continue
            if hang:
                print(entry.input + entry.output, flush=True)
                await asyncio.sleep(60)
            if "together" in how:
                how = set()
                print("ready", flush=True)
                await asyncio.to_thread(sys.stdin.readline)
            await asyncio.sleep(chance.random() * 0.005)
            usage = Usage(chance.randint(0, entry.input), chance.randint(0, entry.output))
            given += (usage.input or 0) + (usage.output or 0)
            request_log.close(entry, usage)
            await spending.wait_for_writes()
    return given


if __name__ == "__main__":
    store, ceiling, seed, *rest = sys.argv[1:]
    print(asyncio.run(spend(Path(store), int(ceiling), int(seed), set(rest))))
