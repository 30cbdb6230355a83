"""The place where episodes are played: its tasks, its home, the conditions that hold for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agent.automation.batch.attempt import Conditions
from agent.automation.batch.folder import batch_settings, lay_home, variables
from agent.automation.batch.results import ResultFolder
from agent.automation.batch.task_file import NumberedTask, read_tasks
from agent.automation.evaluation.suite import read_suite
from agent.automation.training.episode import MODEL, PROVIDER, Episode, reward_of
from agent.automation.training.tokens import sequence_of
from agent.core.config.loader import load
from agent.core.home import Home
from agent.core.messages import ModeName
from agent.core.store.store import Store
from agent.errors import ConfigError
from agent.session.spending.budget import Budget

_KEY = "HERMES_POLICY_KEY"
_PATIENCE = 86_400
"""Seconds that a trainer may take for an action."""
_MOST_EPISODES = 64


def read_environment(where: str) -> list[NumberedTask]:
    """The tasks of an environment: a task file, a folder of a suite, or a suite that ships.

    Raises `ConfigError`.
    """
    path = Path(where)
    if path.is_file():
        return read_tasks(path)
    suite = read_suite(where)
    return [
        NumberedTask(each.task, place, 1, str(each.workspace) if each.workspace is not None else "")
        for place, each in enumerate(suite.tasks, 1)
    ]


@dataclass(slots=True)
class Arena:
    """Episodes over one folder. `key` lets the engine ask for actions, and nobody else."""

    tasks: Sequence[NumberedTask]
    folder: ResultFolder
    conditions: Conditions
    address: str
    """Where the engine asks for actions."""
    key: str
    episodes: dict[str, Episode] = field(default_factory=dict)

    def episode(self) -> Episode:
        """A new place to play. Raises `ConfigError` where there are too many."""
        if len(self.episodes) >= _MOST_EPISODES:
            raise ConfigError(f"There are {_MOST_EPISODES} episodes at once already; close one.")
        made = Episode(self.tasks, self.conditions)
        provider = {"base_url": f"{self.address}/policy/{made.number}/v1", "api_key_env": _KEY}
        settings = {**self.conditions.settings, "providers": {PROVIDER: provider}}
        made.conditions = replace(self.conditions, settings=settings)
        self.episodes[made.number] = made
        return made

    async def leave(self, episode: Episode) -> None:
        """Close an episode."""
        self.episodes.pop(episode.number, None)
        await episode.aclose()

    async def aclose(self) -> None:
        for each in list(self.episodes.values()):
            await self.leave(each)

    async def score(self, session: str) -> dict[str, Any]:
        """What a session got, with token ids and masks if actions came with them. Raises `HermesError`."""
        result = next((each for each in self.folder.ended() if each.session == session), None)
        if result is None:
            raise ConfigError(f"There is no session {session[:80]} here, or it has not ended.")
        async with await Store.open(Home(self.folder.home).database) as store:
            heads = await store.heads(session)
            sequence = sequence_of(await store.path(session, heads[0].name))
        return {
            "score": reward_of(result),
            "tokens": None if sequence is None else list(sequence.tokens),
            "masks": None if sequence is None else list(sequence.masks),
            "logprobs": None if sequence is None or sequence.logprobs is None else list(sequence.logprobs),
        }


def open_arena(
    where: str, folder: Path, environ: Mapping[str, str], address: str, key: str, approve: ModeName | None
) -> Arena:
    """An arena whose engine asks for actions at `address`. Blocks. Raises `HermesError`."""
    home, results = Home.locate(dict(environ)), ResultFolder(folder)
    tasks = read_environment(where)
    try:
        results.prepare()
        lay_home(results.home, home)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be used: {error.strerror}; choose another with -o.") from error
    loaded = load(home, environ)
    settings = {
        **batch_settings(loaded, home, Budget(), "local"),
        "model": {"stall_timeout": _PATIENCE, "retries": 0},
        "subagents": {"depth": 0},
    }
    conditions = Conditions(
        folder=results,
        settings=settings,
        environ={**variables(home, results.home, environ), _KEY: key},
        approve=approve,
        model=f"{PROVIDER}/{MODEL}",
        base=Path(where).absolute().parent,
    )
    return Arena(tasks, results, conditions, address, key)
