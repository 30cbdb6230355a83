"""Going on live from a step of a recorded branch: a new branch of the session ends before that answer."""

from __future__ import annotations

from collections.abc import Sequence

from agent.core.store.nodes import Node
from agent.core.store.store import Store
from agent.errors import ConfigError
from agent.session.replay.replaying import steps_of, until
from tools.text.safe_text import clean


def check_step(path: Sequence[Node], branch: str, step: int) -> None:
    """Raise `ConfigError` where a branch has no such step."""
    steps = steps_of(path)
    if not 1 <= step <= steps:
        raise ConfigError(f"There is no step {step}; branch {clean(branch)} has {steps}.")


async def branch_before(store: Store, session: str, branch: str, step: int) -> str:
    """Make the branch that ends before the answer of a step, and the one in use; its name.

    Raises `ConfigError` where the branch has no such step.
    """
    path = await store.path(session, branch)
    check_step(path, branch, step)
    names = {head.name for head in await store.heads(session)}
    wanted = (f"live-{step}" + (f"-{number}" if number > 1 else "") for number in range(1, len(names) + 2))
    name = next(each for each in wanted if each not in names)
    before = until(path, step)
    await store.fork(session, before[-1].id if before else None, name)
    await store.use_head(session, name)
    return name
