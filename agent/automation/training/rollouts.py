"""Rollouts for training, and the training of a model's weights with them at Tinker."""

from __future__ import annotations

import asyncio
import hmac
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, TypeVar

from agent.automation.batch.attempt import ResultFolder, TaskResult
from agent.automation.batch.run import BatchOptions, BatchProgress, run_batch
from agent.automation.batch.task import NumberedTask
from agent.automation.training.episode import (
    MASKED,
    MODEL,
    PROVIDER,
    TokenSequence,
    completion_of,
    reward_of,
    sequence_of,
    write_steps,
)
from agent.core.home import Home
from agent.core.store.store import Store
from agent.errors import ConfigError, HermesError
from agent.session.export.trajectories import openai_messages
from tools.extras import missing
from tools.text.words import plural


@dataclass(frozen=True, slots=True)
class Rollout:
    """One attempt at a task. `sequence` is None if the server returned no token ids."""

    result: TaskResult
    score: float
    sequence: TokenSequence | None
    messages: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class RolloutGroup:
    """All attempts at one task."""

    task: str
    rollouts: tuple[Rollout, ...]

    @property
    def tells(self) -> bool:
        """True if the scores differ; only then the group is useful for training."""
        return len({each.score for each in self.rollouts}) > 1

    @property
    def has_tokens(self) -> bool:
        return all(each.sequence is not None for each in self.rollouts)

    def scored_data(self, env_id: int) -> dict[str, Any]:
        """Return the group in the form of the Atropos trajectory API.

        All its rollouts must have token ids (`has_tokens`).
        """
        sequences = [each.sequence for each in self.rollouts if each.sequence is not None]
        told = all(each.logprobs is not None for each in sequences)
        return {
            "tokens": [list(each.tokens) for each in sequences],
            "masks": [list(each.masks) for each in sequences],
            "scores": [each.score for each in self.rollouts],
            "messages": [[_api_message(message) for message in each.messages] for each in self.rollouts],
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
    """Attempt every task `size` times. `each` is awaited with a group once all its attempts have ended.

    `settings` are those of the sessions. Calling it again with equal arguments resumes. Raises `HermesError`.
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

    def take_progress(progress: BatchProgress) -> None:
        if progress.last is not None:
            take(progress.last)

    for result in await asyncio.to_thread(lambda: list(results.task_results())):
        if result.outcome in ("done", "denied"):
            take(result)

    async def hand_on() -> None:
        while (place := await groups.get()) is not None:
            found = ended[place]
            rollouts = await _rollouts(results, [found[name] for name in sorted(found)])
            shown = next(task.label for task in tasks if task.place == place)
            await each(RolloutGroup(shown, rollouts))

    handing = asyncio.create_task(hand_on())
    more = settings or ({"model": {"token_ids": True}} if token_ids else {})
    running = asyncio.create_task(
        run_batch(numbered, results, options, environ, base=base, told=take_progress, more=more)
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


def _api_message(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message in the API's form, which always has `content`."""
    return {**message, "content": message.get("content") or ""}


MISSING = missing("Training weights", "tinker")
LOSS = "importance_sampling"
_Answer = TypeVar("_Answer")


class TinkerError(HermesError):
    """Raised if Tinker cannot be reached or rejects the data."""


@dataclass(frozen=True, slots=True)
class Completion:
    """Text that the model wrote, with the token ids it read and wrote."""

    text: str
    prompt: tuple[int, ...]
    output: tuple[int, ...]
    logprobs: tuple[float, ...]
    is_whole: bool
    """True if the model ended the text, False if the token limit did."""


@dataclass(frozen=True, slots=True)
class WeightDatum:
    """A rollout as training data. Each entry has a token, the next one, and its advantage."""

    tokens: tuple[int, ...]
    targets: tuple[int, ...]
    logprobs: tuple[float, ...]
    advantages: tuple[float, ...]


def data_of(groups: Sequence[RolloutGroup]) -> list[WeightDatum]:
    """Return the training data of groups whose scores differ. Pure.

    The advantage of a rollout is its score minus the group's mean. Tokens that the model did not write have
    the advantage 0, so that nothing is learned from them.
    """
    found: list[WeightDatum] = []
    for group in groups:
        if not group.tells:
            continue
        mean = sum(each.score for each in group.rollouts) / len(group.rollouts)
        for each in group.rollouts:
            if each.sequence is not None and len(each.sequence.tokens) > 1:
                found.append(_datum(each.sequence, each.score - mean))
    return found


def _datum(sequence: TokenSequence, advantage: float) -> WeightDatum:
    written = [mask != MASKED for mask in sequence.masks[1:]]
    given = (sequence.logprobs or (0.0,) * len(sequence.tokens))[1:]
    return WeightDatum(
        tokens=sequence.tokens[:-1],
        targets=sequence.tokens[1:],
        logprobs=tuple(each if own else 0.0 for each, own in zip(given, written, strict=True)),
        advantages=tuple(advantage if own else 0.0 for own in written),
    )


class TinkerWeights:
    """One model at Tinker that can be sampled, trained and saved.

    All methods raise `TinkerError`.
    """

    def __init__(self, tinker: Any, service: Any, client: Any, tokenizer: Any) -> None:
        self._tinker = tinker
        self._service = service
        self._client = client
        self._tokenizer = tokenizer
        self._sampler: Any = None

    @classmethod
    async def open(cls, base_model: str, rank: int, seed: int, saved: str = "") -> TinkerWeights:
        """Create weights for a base model, or load those saved at `saved`. Also raises `ConfigError`."""
        try:
            tinker = import_module("tinker")
        except ImportError:
            raise ConfigError(MISSING) from None

        def open_client() -> TinkerWeights:
            service = tinker.ServiceClient(display_name="hermes")
            if saved:
                client = service.create_training_client_from_state_with_optimizer(saved)
            else:
                client = service.create_lora_training_client(base_model, rank=rank, seed=seed)
            client = client.result() if hasattr(client, "result") else client
            return cls(tinker, service, client, client.get_tokenizer())

        found = await _call_tinker(tinker, open_client)
        await found.renew()
        return found

    async def aclose(self) -> None:
        """End the session at Tinker. Saved weights remain."""
        await asyncio.to_thread(lambda: self._service.close().result())

    async def renew(self) -> None:
        """Use the current weights for sampling from now on."""
        self._sampler = await _call_tinker(
            self._tinker, lambda: self._client.save_weights_and_get_sampling_client().result()
        )

    async def sample(
        self, messages: Sequence[Mapping[str, Any]], limit: int, temperature: float
    ) -> Completion:
        """Return the model's next message in a plain-text conversation, of at most `limit` tokens."""
        types, sampler = self._tinker.types, self._sampler

        def sample_once() -> Completion:
            prompt = self._prompt(messages)
            wanted = types.SamplingParams(max_tokens=limit, temperature=temperature)
            asked = sampler.sample(types.ModelInput.from_ints(prompt), 1, wanted)
            (sequence,) = asked.result().sequences
            output = tuple(int(each) for each in sequence.tokens)
            text = self._tokenizer.decode(output, skip_special_tokens=True)
            logprobs = tuple(float(each) for each in sequence.logprobs or ())
            return Completion(text, tuple(prompt), output, logprobs, sequence.stop_reason == "stop")

        return await _call_tinker(self._tinker, sample_once)

    def _prompt(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        given = [{"role": each["role"], "content": str(each.get("content") or "")} for each in messages]
        made = self._tokenizer.apply_chat_template(
            given, add_generation_prompt=True, tokenize=True, return_dict=False
        )
        return [int(each) for each in made]

    async def learn(self, data: Sequence[WeightDatum], learning_rate: float) -> dict[str, float]:
        """Take one training step with these data, and return Tinker's metrics."""
        types, client = self._tinker.types, self._client

        def train_once() -> dict[str, float]:
            made = [
                types.Datum(
                    model_input=types.ModelInput.from_ints(list(each.tokens)),
                    loss_fn_inputs={
                        "target_tokens": list(each.targets),
                        "logprobs": list(each.logprobs),
                        "advantages": list(each.advantages),
                    },
                )
                for each in data
            ]
            # Both are asked for before either is waited for: they take one turn at the service.
            backward = client.forward_backward(made, LOSS)
            stepped = client.optim_step(types.AdamParams(learning_rate=learning_rate))
            figures = dict(backward.result().metrics)
            return figures | dict(stepped.result().metrics or {})

        return await _call_tinker(self._tinker, train_once)

    async def keep(self, name: str) -> str:
        """Save the weights and the state of the optimizer at Tinker, and return their path there."""
        return await _call_tinker(
            self._tinker, lambda: str(self._client.save_state(name, overwrite=True).result().path)
        )


async def _call_tinker(tinker: Any, work: Callable[[], _Answer]) -> _Answer:
    try:
        return await asyncio.to_thread(work)
    except tinker.TinkerError as error:
        raise TinkerError(f"Tinker: {str(error)[:300]}") from error
    except (OSError, ValueError) as error:
        raise TinkerError(f"Tinker: {type(error).__name__}: {str(error)[:300]}") from error


PATH = "/v1/chat/completions"
_MOST_HEAD, _MOST_BODY = 65_536, 32_000_000

Answer = Callable[[Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Returns the body of the response to a request body."""


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
    """Answer one request. Returns True if the connection stays open."""
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
"""The maximum time in seconds for an answer of the model."""


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
    """The extent of a training. `reply` is the maximum number of tokens in an answer."""

    steps: int
    group: int
    tasks: int = 4
    """The number of tasks in each step."""
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
    """The number of rollouts that were used as training data."""
    tokens: int
    figures: Mapping[str, float]
    saved: str


def steps_before(folder: Path) -> list[WeightStep]:
    """Return the finished steps, after which training continues; empty if the file is unreadable. Blocks."""
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
    """Train, and return all steps. A new call resumes after the last saved one. Raises `HermesError`."""

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
                used = plural(len(made), "step")
                raise HermesError(f"The tokens of the training were used up after {used}.")
            within = replace(options, model=f"{PROVIDER}/{MODEL}", total=replace(options.total, tokens=left))
            few = min(plan.tasks, len(tasks))
            chosen = [tasks[((number - 1) * few + each) % len(tasks)] for each in range(few)]
            place = folder / f"step-{number:04}"
            groups = await _roll_out(chosen, place, within, environ, plan.group, address, base)
            step = await _learn(number, groups, weights, plan)
            made.append(step)
            left = None if left is None else left - step.tokens
            await asyncio.to_thread(write_steps, folder / STEPS, made)
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
    """Take one training step with the results of the rollouts, save the weights, and return the step.

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
