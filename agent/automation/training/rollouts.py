"""Groups of rollouts: each task several times, with the model that is trained, scored by its checks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agent.automation.batch.results import ResultFolder, TaskResult
from agent.automation.batch.run import BatchOptions, BatchProgress, run_batch
from agent.automation.batch.task_file import NumberedTask
from agent.automation.training.episode import reward_of
from agent.automation.training.tokens import TokenSequence, sequence_of
from agent.core.home import Home
from agent.core.store.store import Store
from agent.session.export.trajectories import openai_messages


@dataclass(frozen=True, slots=True)
class Rollout:
    """One try at a task. `sequence` is None where the server gave no token ids."""

    result: TaskResult
    score: float
    sequence: TokenSequence | None
    messages: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class RolloutGroup:
    """All tries at one task."""

    task: str
    rollouts: tuple[Rollout, ...]

    @property
    def tells(self) -> bool:
        """Whether its scores differ, so that something can be learned from it."""
        return len({each.score for each in self.rollouts}) > 1

    @property
    def has_tokens(self) -> bool:
        return all(each.sequence is not None for each in self.rollouts)

    def scored_data(self, env_id: int) -> dict[str, Any]:
        """The group as the trajectory API of Atropos takes it. Only with `has_tokens`."""
        sequences = [each.sequence for each in self.rollouts if each.sequence is not None]
        told = all(each.logprobs is not None for each in sequences)
        return {
            "tokens": [list(each.tokens) for each in sequences],
            "masks": [list(each.masks) for each in sequences],
            "scores": [each.score for each in self.rollouts],
            "messages": [[_said(message) for message in each.messages] for each in self.rollouts],
            "inference_logprobs": [list(each.logprobs or ()) for each in sequences] if told else None,
            "env_id": env_id,
        }


async def roll_out(
    tasks: Sequence[NumberedTask],
    size: int,
    folder: Path,
    options: BatchOptions,
    environ: Mapping[str, str],
    each: Callable[[RolloutGroup], Awaitable[None]],
    *,
    base: Path,
    token_ids: bool = True,
    settings: Mapping[str, Any] | None = None,
) -> None:
    """Work on every task `size` times; `each` is awaited with a group once all of its tries have ended.

    `settings` are those of its sessions. The same again goes on where it was stopped. Raises `HermesError`.
    """
    results = ResultFolder(folder)
    numbered: list[NumberedTask] = []
    for task in tasks:
        own = replace(task.task, key=f"{task.place}-{task.task.key[:16]}")
        numbered += [NumberedTask(own, task.place, number, task.source) for number in range(1, size + 1)]
    places = {each.name: each.place for each in numbered}
    ended: dict[int, dict[str, TaskResult]] = {}
    groups: asyncio.Queue[int | None] = asyncio.Queue()

    def take(result: TaskResult) -> None:
        place = places.get(result.key)
        if place is None:
            return
        of_task = ended.setdefault(place, {})
        whole = len(of_task) == size
        of_task[result.key] = result
        if len(of_task) == size and not whole:
            groups.put_nowait(place)

    def told(progress: BatchProgress) -> None:
        if progress.last is not None:
            take(progress.last)

    for result in await asyncio.to_thread(lambda: list(results.ended())):
        if result.outcome in ("done", "denied"):
            take(result)

    async def hand_on() -> None:
        while (place := await groups.get()) is not None:
            found = ended[place]
            rollouts = await _rollouts(results, [found[name] for name in sorted(found)])
            shown = next(task.shown for task in tasks if task.place == place)
            await each(RolloutGroup(shown, rollouts))

    handing = asyncio.create_task(hand_on())
    more = settings or ({"model": {"token_ids": True}} if token_ids else {})
    running = asyncio.create_task(
        run_batch(numbered, results, options, environ, base=base, told=told, more=more)
    )
    try:
        done, _ = await asyncio.wait({handing, running}, return_when=asyncio.FIRST_COMPLETED)
        if handing in done:
            await handing
        await running
        groups.put_nowait(None)
        await handing
    finally:
        for task in (handing, running):
            task.cancel()
        await asyncio.gather(handing, running, return_exceptions=True)


async def _rollouts(folder: ResultFolder, results: Sequence[TaskResult]) -> tuple[Rollout, ...]:
    made = []
    async with await Store.open(Home(folder.home).database) as store:
        for result in results:
            path = []
            if result.session:
                heads = await store.heads(result.session)
                path = await store.path(result.session, heads[0].name)
            messages = openai_messages(path)["messages"]
            made.append(Rollout(result, reward_of(result) or 0.0, sequence_of(path), messages))
    return tuple(made)


def _said(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message as the API wants it: `content` is never missing."""
    return {**message, "content": message.get("content") or ""}
