"""Going on live from a step of a recorded branch: a new branch of the session ends before that answer."""

from __future__ import annotations

from agent.errors import ConfigError
from agent.replay.replaying import steps_of, until
from agent.store.store import Store


async def branch_before(store: Store, session: str, branch: str, step: int) -> str:
    """Make the branch that ends before the answer of a step, and the one in use; its name.

    Raises `ConfigError` where the branch has no such step.
    """
    path = await store.path(session, branch)
    steps = steps_of(path)
    if not 1 <= step <= steps:
        raise ConfigError(f"There is no step {step}; branch {branch} has {steps}.")
    names = {head.name for head in await store.heads(session)}
    wanted = (f"live-{step}" + (f"-{number}" if number > 1 else "") for number in range(1, len(names) + 2))
    name = next(each for each in wanted if each not in names)
    before = until(path, step)
    await store.fork(session, before[-1].id if before else None, name)
    await store.use_head(session, name)
    return name
