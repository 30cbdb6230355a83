"""Training of a model's weights, with a local endpoint that serves the model to the sessions."""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from agent.automation.batch.run import BatchOptions
from agent.automation.batch.task import NumberedTask
from agent.automation.training.episode import MODEL, PROVIDER, completion_of
from agent.automation.training.rollouts import Completion, RolloutGroup, WeightDatum, data_of, roll_out
from agent.core.home import PRIVATE_FILE
from agent.errors import HermesError

PATH = "/v1/chat/completions"
_MOST_HEAD, _MOST_BODY = 65_536, 32_000_000

Answer = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""What a request body is answered with."""


@dataclass(frozen=True, slots=True)
class PolicyAddress:
    """The address of the endpoint and the key it requires."""

    base_url: str
    key: str


@asynccontextmanager
async def policy_endpoint(answer: Answer) -> AsyncIterator[PolicyAddress]:
    """Serve model requests from this machine that carry the key, until the context exits."""
    key = secrets.token_urlsafe(24)

    async def serve_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
                while await _answer_request(reader, writer, answer, key):
                    pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve_connection, "127.0.0.1", 0, limit=_MOST_HEAD)
    try:
        port = server.sockets[0].getsockname()[1]
        yield PolicyAddress(f"http://127.0.0.1:{port}/v1", key)
    finally:
        server.close()


async def _answer_request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: Answer, key: str
) -> bool:
    """Answer one request. Returns whether the connection stays open."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines[1:])
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    length = headers.get("content-length", "")
    if not length.isascii() or not length.isdigit() or int(length) > _MOST_BODY:
        await _send(writer, 400, {"error": {"message": "A body of a known length is needed."}})
        return False
    body = await reader.readexactly(int(length))
    given = headers.get("authorization", "").removeprefix("Bearer ")
    if not hmac.compare_digest(given.encode(), key.encode()):
        await _send(writer, 401, {"error": {"message": "The key is wrong."}})
    elif lines[0].split(" ")[:2] != ["POST", PATH]:
        await _send(writer, 404, {"error": {"message": "There is no such path."}})
    else:
        try:
            await _send(writer, 200, await answer(json.loads(body)))
        except (HermesError, ValueError) as error:
            await _send(writer, 400, {"error": {"message": str(error)}})
    return True


async def _send(writer: asyncio.StreamWriter, status: int, body: Mapping[str, Any]) -> None:
    text = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} .\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
    writer.write(head.encode() + text)
    await writer.drain()


STEPS = "training.jsonl"
_KEY = "HERMES_POLICY_KEY"
_PATIENCE = 3_600
"""Seconds that an answer of the weights may take."""


class TrainedWeights(Protocol):
    """Weights that can be sampled and trained."""

    async def sample(
        self, messages: Sequence[Mapping[str, Any]], limit: int, temperature: float
    ) -> Completion: ...

    async def learn(self, data: Sequence[WeightDatum], learning_rate: float) -> dict[str, float]: ...

    async def renew(self) -> None: ...

    async def keep(self, name: str) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightPlan:
    """How long to train. `reply` is the maximum number of tokens in an answer."""

    steps: int
    group: int
    tasks: int = 4
    """Tasks of one step."""
    learning_rate: float = 1e-4
    reply: int = 2_048
    temperature: float = 1.0


@dataclass(frozen=True, slots=True)
class WeightStep:
    """One training step: its tasks, scores and training data, and where the weights were saved."""

    step: int
    tasks: tuple[str, ...]
    scores: tuple[tuple[float, ...], ...]
    data: int
    """Rollouts that something was learned from."""
    tokens: int
    figures: Mapping[str, float]
    saved: str


def steps_before(folder: Path) -> list[WeightStep]:
    """Return the steps that are already finished, so that training continues after them. Blocks."""
    try:
        lines = (folder / STEPS).read_text("utf-8").splitlines()
        return [WeightStep(**json.loads(line)) for line in lines]
    except (OSError, ValueError, TypeError):
        return []


async def train_weights(
    tasks: Sequence[NumberedTask],
    weights: TrainedWeights,
    folder: Path,
    options: BatchOptions,
    environ: Mapping[str, str],
    plan: WeightPlan,
    *,
    base: Path,
    told: Callable[[WeightStep], None] = lambda step: None,
) -> list[WeightStep]:
    """Train the weights. Calling it again resumes after the last saved step. Raises `HermesError`."""

    async def answer(body: Mapping[str, Any]) -> Mapping[str, Any]:
        limit = min(plan.reply, body.get("max_tokens") or body.get("max_completion_tokens") or plan.reply)
        made = await weights.sample(body["messages"], limit, plan.temperature)
        tokens = {"prompt": list(made.prompt), "output": list(made.output), "logprobs": list(made.logprobs)}
        message = {"role": "assistant", "content": made.text}
        completion = completion_of({"message": message, "tokens": tokens})
        if not made.is_whole:
            completion["choices"][0]["finish_reason"] = "length"
        return completion

    made = await asyncio.to_thread(steps_before, folder)
    left = None if options.total.tokens is None else options.total.tokens - sum(each.tokens for each in made)
    async with policy_endpoint(answer) as address:
        for number in range(len(made) + 1, plan.steps + 1):
            if left is not None and left <= 0:
                raise HermesError(f"The tokens of the training were used up after {len(made)} steps.")
            within = replace(options, model=f"{PROVIDER}/{MODEL}", total=replace(options.total, tokens=left))
            few = min(plan.tasks, len(tasks))
            chosen = [tasks[((number - 1) * few + each) % len(tasks)] for each in range(few)]
            place = folder / f"step-{number:04}"
            groups = await _roll_out(chosen, place, within, environ, plan.group, address, base)
            step = await _learn(number, groups, weights, plan)
            made.append(step)
            left = None if left is None else left - step.tokens
            await asyncio.to_thread(_write, folder / STEPS, made)
            told(step)
    return made


async def _roll_out(
    tasks: Sequence[NumberedTask],
    folder: Path,
    options: BatchOptions,
    environ: Mapping[str, str],
    size: int,
    address: PolicyAddress,
    base: Path,
) -> list[RolloutGroup]:
    """Run the rollouts of one step with the trained model, and return the groups."""
    groups: list[RolloutGroup] = []

    async def each(group: RolloutGroup) -> None:
        groups.append(group)

    # Chat templates of weights in training know plain texts best, so calls travel as text.
    provider = {"base_url": address.base_url, "api_key_env": _KEY, "tool_mode": "text"}
    settings = {
        "providers": {PROVIDER: provider},
        "model": {"token_ids": True, "stall_timeout": _PATIENCE, "retries": 0},
        "subagents": {"depth": 0},
    }
    numbered = [replace(task, place=place) for place, task in enumerate(tasks, 1)]
    await roll_out(
        *(numbered, size, folder, options, {**environ, _KEY: address.key}, each),
        base=base,
        settings=settings,
    )
    return groups


async def _learn(
    number: int, groups: Sequence[RolloutGroup], weights: TrainedWeights, plan: WeightPlan
) -> WeightStep:
    """Take one training step with the results of the rollouts.

    Raises `HermesError` if a rollout was interrupted, because it would count as a bad one, or if it has no
    token ids.
    """
    rollouts = [each for group in groups for each in group.rollouts]
    failed = next((each.result for each in rollouts if each.result.outcome in ("budget", "failed")), None)
    if failed is not None:
        raise HermesError(f"Step {number}: a rollout of {failed.id} ended early: {failed.error}")
    if not all(group.has_tokens for group in groups):
        raise HermesError(f"Step {number}: a rollout has no token ids, so nothing can be learned from it.")
    data = data_of(groups)
    figures: dict[str, float] = {}
    if data:
        figures = await weights.learn(data, plan.learning_rate)
        await weights.renew()
    return WeightStep(
        step=number,
        tasks=tuple(group.task for group in groups),
        scores=tuple(tuple(each.score for each in group.rollouts) for group in groups),
        data=len(data),
        tokens=sum(each.result.usage.get(kind, 0) for each in rollouts for kind in ("input", "output")),
        figures=figures,
        saved=await weights.keep(f"hermes-step-{number:04}"),
    )


def _write(path: Path, steps: Sequence[WeightStep]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(asdict(each)) + "\n" for each in steps), "utf-8")
    path.chmod(PRIVATE_FILE)
