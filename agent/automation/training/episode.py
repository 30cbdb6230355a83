"""Episodes of a training environment, their rewards and token ids; and the training of prompt prefixes.

The training of prefixes is a gradient bandit, which needs no GPU. The policy is a softmax over preferences.
After each group of rollouts, the preference of each tried prefix changes by its score minus the mean score so
far (REINFORCE with a baseline).
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from agent.automation.batch.attempt import (
    AssignedTask,
    Conditions,
    ResultFolder,
    TaskResult,
    attempt,
    batch_settings,
    lay_home,
    variables,
)
from agent.automation.batch.run import BatchOptions, run_batch
from agent.automation.batch.task import BatchTask, NumberedTask, read_tasks
from agent.automation.evaluation.suite import read_suite
from agent.core.config.loader import load
from agent.core.home import PRIVATE_FILE, Home
from agent.core.messages import ModeName
from agent.core.store.nodes import Node
from agent.core.store.store import Store
from agent.errors import ConfigError, HermesError
from agent.session.spending.budget import Budget
from tools.kit.files import write_atomically
from tools.text.words import plural

PROVIDER, MODEL = "policy", "policy"


class ActionError(HermesError):
    """Raised if an action is invalid, or not possible now."""


@dataclass(frozen=True, slots=True)
class Observed:
    """The result of an action. `reward` is None before the end, and always if the task has no checks."""

    observation: Mapping[str, Any]
    reward: float | None = None
    done: bool = False

    def to_json(self) -> dict[str, Any]:
        return {"observation": dict(self.observation), "reward": self.reward, "done": self.done}


@dataclass(slots=True)
class _Asked:
    """A model request of the engine that waits for an action."""

    body: Mapping[str, Any]
    answer: asyncio.Future[Mapping[str, Any]]


@dataclass(slots=True)
class EpisodeState:
    """The state of an episode, as `/state` returns it."""

    episode_id: str = ""
    step_count: int = 0
    task: str = ""
    session: str = ""
    done: bool = False
    reward: float | None = None
    outcome: str = ""


@dataclass(slots=True)
class Episode:
    """Runs tasks, one at a time, with the trainer as the model. `number` is part of that model's URL."""

    tasks: Sequence[NumberedTask]
    conditions: Conditions
    number: str = field(default_factory=lambda: secrets.token_hex(8))
    state: EpisodeState = field(default_factory=EpisodeState)
    _asked: asyncio.Queue[_Asked] = field(default_factory=asyncio.Queue)
    _open: _Asked | None = None
    _work: asyncio.Task[TaskResult] | None = None
    _shown: int = 0
    _next: int = 0

    async def reset(self, given: Mapping[str, Any]) -> Observed:
        """Start a task and return the first observation.

        The task is chosen by its name in `task`, by `seed`, or as the next one. Raises `ActionError`.
        """
        task = self._choose_task(given)
        await self.aclose()
        self._asked, self._open, self._shown = asyncio.Queue(), None, 0
        name = str(given.get("episode_id") or secrets.token_hex(8))[:255]
        self.state = EpisodeState(episode_id=name, task=task.label)
        assignment = AssignedTask(
            task=replace(task.task, model=""),
            name=f"{task.task.key[:40]}-{secrets.token_hex(4)}",
            shown=task.label,
            source=task.source,
        )
        self._work = asyncio.create_task(attempt(assignment, self.conditions), name="episode")
        return await self._observe()

    async def step(self, action: Mapping[str, Any]) -> Observed:
        """Use an action as the model's answer; return the engine's next request, or the end.

        Raises `ActionError` if the action is invalid, or no request waits for one.
        """
        if self._work is None or self.state.done:
            raise ActionError("There is no episode; reset first.")
        if self._open is None:
            raise ActionError("The last action is still worked on.")
        message = message_of(action)
        asked, self._open = self._open, None
        self.state.step_count += 1
        if not asked.answer.done():
            asked.answer.set_result(message)
        return await self._observe()

    async def ask(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Wait for the next action, and return it as the answer to a model request of the engine."""
        asked = _Asked(body, asyncio.get_running_loop().create_future())
        await self._asked.put(asked)
        return await asked.answer

    async def aclose(self) -> None:
        """Cancel the current task."""
        work, self._work = self._work, None
        if work is not None and not work.done():
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work

    def _choose_task(self, given: Mapping[str, Any]) -> NumberedTask:
        if name := given.get("task"):
            found = next((each for each in self.tasks if each.label == str(name)), None)
            if found is None:
                known = ", ".join(each.label for each in self.tasks[:20])
                raise ActionError(f"There is no task {str(name)[:80]!r}; there are {known}.")
            return found
        seed = given.get("seed")
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
            raise ActionError("`seed` is a whole number.")
        if seed is not None:
            return self.tasks[seed % len(self.tasks)]
        self._next += 1
        return self.tasks[(self._next - 1) % len(self.tasks)]

    async def _observe(self) -> Observed:
        """Wait until the engine sends its next request or has ended, and return the observation."""
        assert self._work is not None
        waiting = asyncio.ensure_future(self._asked.get())
        try:
            await asyncio.wait({waiting, self._work}, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                self._open = waiting.result()
                return Observed(self._shown_of(self._open.body))
        finally:
            waiting.cancel()
        return self._end(self._work.result())

    def _shown_of(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the new messages in a request; for the first request also the tools."""
        messages = list(body.get("messages") or ())
        first = self._shown == 0
        whole = self._shown >= len(messages)
        observation: dict[str, Any] = {"messages": messages if whole else messages[self._shown :]}
        if whole:
            observation["whole"] = True
        if first:
            observation["tools"] = list(body.get("tools") or ())
        self._shown = len(messages)
        return observation

    def _end(self, result: TaskResult) -> Observed:
        reward = reward_of(result)
        state = self.state
        state.done, state.reward, state.outcome, state.session = True, reward, result.outcome, result.session
        self.conditions.folder.note_ended(result)
        checks = [{"check": each.check, "passed": each.passed} for each in result.checks]
        told = {"messages": [], "outcome": result.outcome, "text": result.text, "checks": checks}
        return Observed(told | {"session": result.session, "error": result.error}, reward, True)


def reward_of(result: TaskResult) -> float | None:
    """Return the share of checks that passed; 0 for an unfinished task, None if no check has a result."""
    if result.outcome != "done":
        return 0.0
    told = [each for each in result.checks if each.passed is not None]
    return sum(bool(each.passed) for each in told) / len(told) if told else None


def message_of(action: Mapping[str, Any]) -> dict[str, Any]:
    """Return the message and token ids in an action: `{message}` as in chat completions, or `{text,
    tool_calls}`.

    Raises `ActionError`.
    """
    given = action.get("message")
    if not isinstance(given, Mapping):
        given = {"content": action.get("text"), "tool_calls": action.get("tool_calls")}
    if given.get("role", "assistant") != "assistant":
        raise ActionError("The `message` of an action has the role assistant.")
    text, calls = given.get("content"), given.get("tool_calls") or []
    if text is not None and not isinstance(text, str):
        raise ActionError("The text of an action is text.")
    if not isinstance(calls, list) or not all(isinstance(each, Mapping) for each in calls):
        raise ActionError("`tool_calls` of an action is a list of objects with `name` and `arguments`.")
    if text is None and not calls:
        raise ActionError("An action has `text`, `tool_calls`, or a `message` with these.")
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [_call(each) for each in calls]
    return {"message": message, "tokens": _tokens_of(action.get("tokens"))}


def _tokens_of(given: object) -> Mapping[str, Any]:
    """Return the token ids of an action; empty if it has none. Raises `ActionError` if they are invalid."""
    if given is None:
        return {}
    told = given if isinstance(given, Mapping) else {}
    prompt, output, logprobs = told.get("prompt"), told.get("output"), told.get("logprobs")
    if (
        not isinstance(output, list)
        or not _numbers(output, int)
        or (prompt is not None and not _numbers(prompt, int))
        or (logprobs is not None and (not _numbers(logprobs) or len(logprobs) != len(output)))
    ):
        raise ActionError(
            "`tokens` of an action has `output`, a list of ids, and may have `prompt`, ids as well, and "
            "`logprobs`, a number for each id of `output`."
        )
    return told


def _numbers(given: Any, kind: Any = int | float) -> bool:
    return isinstance(given, list) and all(
        isinstance(each, kind) and not isinstance(each, bool) for each in given
    )


def _call(given: Mapping[str, Any]) -> dict[str, Any]:
    function = given.get("function")
    body = function if isinstance(function, Mapping) else given
    arguments = body.get("arguments", {})
    return {
        "id": str(given.get("id") or f"call_{secrets.token_hex(4)}"),
        "type": "function",
        "function": {
            "name": str(body.get("name", "")),
            "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
        },
    }


def completion_of(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer as a chat completion, with token ids if the action had them."""
    message, tokens = answer["message"], answer["tokens"]
    choice: dict[str, Any] = {
        "index": 0,
        "message": message,
        "finish_reason": "tool_calls" if message.get("tool_calls") else "stop",
    }
    body: dict[str, Any] = {"object": "chat.completion", "model": MODEL, "choices": [choice]}
    if tokens.get("output") is not None:
        choice["token_ids"] = tokens["output"]
        body["prompt_token_ids"] = tokens.get("prompt")
        if tokens.get("logprobs") is not None:
            choice["logprobs"] = {"content": [{"logprob": each} for each in tokens["logprobs"]]}
        body["usage"] = {
            "prompt_tokens": len(tokens.get("prompt") or ()),
            "completion_tokens": len(tokens["output"]),
        }
    return body


MASKED = -100
"""The value in a mask for a token that the model did not write."""
NO_LOGPROB = 1.0
"""The value instead of a log probability for a token that the model did not write."""


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """A session as the token ids that its model read and wrote.

    `logprobs` is None unless the server returned them for every answer.
    """

    tokens: tuple[int, ...]
    masks: tuple[int, ...]
    logprobs: tuple[float, ...] | None


def sequence_of(path: Sequence[Node]) -> TokenSequence | None:
    """Return the token sequence of a branch; None unless the server returned token ids for every answer.

    The last request contains everything before it. An earlier answer is unmasked only if its original ids
    occur there unchanged. If the chat template tokenized it differently, it stays masked.
    """
    answers = [node for node in path if node.kind == "assistant" and node.data.get("state") != "interrupted"]
    steps = [given for node in answers if isinstance(given := node.data.get("tokens"), Mapping)]
    if not steps or len(steps) < len(answers):
        return None
    if not all(each.get("prompt") and each.get("output") for each in steps):
        return None
    last = steps[-1]
    tokens = [*last["prompt"], *last["output"]]
    masks = [MASKED] * len(tokens)
    probabilities = [NO_LOGPROB] * len(tokens)
    told = all(len(each.get("logprobs") or ()) == len(each["output"]) for each in steps)
    for step in steps:
        begin = len(step["prompt"])
        end = begin + len(step["output"])
        if tokens[:end] == [*step["prompt"], *step["output"]]:
            masks[begin:end] = step["output"]
            if told:
                probabilities[begin:end] = step["logprobs"]
    return TokenSequence(tuple(tokens), tuple(masks), tuple(probabilities) if told else None)


_KEY = "HERMES_POLICY_KEY"
_PATIENCE = 86_400
"""The maximum time in seconds that a trainer may take for an action."""
_MOST_EPISODES = 64


def read_environment(where: str) -> list[NumberedTask]:
    """Return the tasks of an environment: a task file, a suite folder, or a bundled suite.

    Raises `ConfigError` if it cannot be read.
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
    """Episodes that share one result folder. `key` is the secret with which the engine requests actions."""

    tasks: Sequence[NumberedTask]
    folder: ResultFolder
    conditions: Conditions
    address: str
    """The base URL at which the engine requests actions."""
    key: str
    episodes: dict[str, Episode] = field(default_factory=dict)

    def episode(self) -> Episode:
        """Create an episode. Raises `ConfigError` if there are too many."""
        if len(self.episodes) >= _MOST_EPISODES:
            raise ConfigError(f"There are {_MOST_EPISODES} episodes at once already; close one.")
        made = Episode(self.tasks, self.conditions)
        provider = {"base_url": f"{self.address}/policy/{made.number}/v1", "api_key_env": _KEY}
        settings = {**self.conditions.settings, "providers": {PROVIDER: provider}}
        made.conditions = replace(self.conditions, settings=settings)
        self.episodes[made.number] = made
        return made

    async def leave(self, episode: Episode) -> None:
        """Close an episode and cancel its task."""
        self.episodes.pop(episode.number, None)
        await episode.aclose()

    async def aclose(self) -> None:
        for each in list(self.episodes.values()):
            await self.leave(each)

    async def score(self, session: str) -> dict[str, Any]:
        """Return the score of an ended session, with tokens and masks if its actions had token ids.

        Raises `HermesError`.
        """
        result = next((each for each in self.folder.task_results() if each.session == session), None)
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
    """Return an arena whose engine requests actions at the URL `address`. Blocks. Raises `HermesError`."""
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


@dataclass(frozen=True, slots=True)
class BanditStep:
    """One training step: the tried prefixes, their scores, and the new policy."""

    step: int
    task: str
    arms: tuple[int, ...]
    scores: tuple[float, ...]
    probabilities: tuple[float, ...]


def softmax(preferences: Sequence[float]) -> list[float]:
    """Convert preferences to probabilities. Pure."""
    most = max(preferences)
    weights = [math.exp(each - most) for each in preferences]
    return [each / sum(weights) for each in weights]


def update_preferences(
    preferences: Sequence[float], arms: Sequence[int], scores: Sequence[float], baseline: float, rate: float
) -> list[float]:
    """Return the preferences after a group of rollouts, changed along the gradient of the expected score.

    Pure.
    """
    probabilities = softmax(preferences)
    gradient = [0.0] * len(preferences)
    for arm, score in zip(arms, scores, strict=True):
        for each, probability in enumerate(probabilities):
            gradient[each] += (score - baseline) * ((each == arm) - probability)
    return [old + rate * new / len(arms) for old, new in zip(preferences, gradient, strict=True)]


async def train(
    tasks: Sequence[NumberedTask],
    ways: Sequence[str],
    folder: Path,
    options: BatchOptions,
    environ: Mapping[str, str],
    *,
    steps: int,
    size: int,
    rate: float = 2.0,
    seed: int = 0,
    base: Path,
    told: Callable[[BanditStep], None] = lambda step: None,
) -> list[BanditStep]:
    """Train for `steps` steps of `size` rollouts, and return the steps. `ways` are prefixes of the task's
    prompt.

    Calling it again with equal arguments resumes, because random choices depend on the seed and stored
    answers are reused. Raises `HermesError`.
    """
    chance = random.Random(seed)
    preferences, total, count = [0.0] * len(ways), 0.0, 0
    made: list[BanditStep] = []
    left = options.total.tokens
    for step in range(1, steps + 1):
        task = tasks[(step - 1) % len(tasks)]
        arms = chance.choices(range(len(ways)), softmax(preferences), k=size)
        tried = [ways[arm] for arm in arms]
        if left is not None and left <= 0:
            raise _budget_error(options, made)
        within = replace(options, total=replace(options.total, tokens=left))
        results = await _roll_out(task, tried, arms, folder / f"step-{step:04}", within, environ, base)
        if left is not None:
            left -= sum(each.usage.get("input", 0) + each.usage.get("output", 0) for each in results)
        if any(each.outcome == "budget" for each in results):
            raise _budget_error(options, made)
        _refuse_unanswered(step, results)
        scores = [reward_of(each) or 0.0 for each in results]
        baseline = total / count if count else sum(scores) / len(scores)
        preferences = update_preferences(preferences, arms, scores, baseline, rate)
        total, count = total + sum(scores), count + len(scores)
        done = BanditStep(step, task.label, tuple(arms), tuple(scores), tuple(softmax(preferences)))
        made.append(done)
        await asyncio.to_thread(write_steps, folder / "training.jsonl", made)
        told(done)
    return made


def _budget_error(options: BatchOptions, made: Sequence[BanditStep]) -> HermesError:
    """Return the error for an exhausted budget.

    The step is discarded, because interrupted rollouts would count as bad ones.
    """
    return HermesError(
        f"The budget of {plural(options.total.tokens or 0, 'token')} was used up after "
        f"{plural(len(made), 'training step')}; "
        "give more to continue the same training."
    )


def _refuse_unanswered(step: int, results: Sequence[TaskResult]) -> None:
    """Raise `HermesError` if the model answered in no rollout of a step, so that all scores would be zero."""
    if all(each.outcome == "failed" and not each.usage.get("requests") for each in results):
        raise HermesError(
            f"The model answered in no rollout of step {step}, and the training continues with the same line "
            f"once it does: {results[0].error}"
        )


async def _roll_out(
    task: NumberedTask,
    ways: Sequence[str],
    arms: Sequence[int],
    folder: Path,
    options: BatchOptions,
    environ: Mapping[str, str],
    base: Path,
) -> list[TaskResult]:
    numbered = [
        NumberedTask(_with_prefix(task, way, f"{task.task.key[:16]}-{arm}"), place, place, task.source)
        for place, (way, arm) in enumerate(zip(ways, arms, strict=True), 1)
    ]
    results = ResultFolder(folder)
    await run_batch(numbered, results, options, environ, base=base)
    ended = {each.key: each for each in results.task_results()}
    return [ended[each.name] for each in numbered]


def _with_prefix(task: NumberedTask, way: str, key: str) -> BatchTask:
    prompt = f"{way}\n\n{task.task.prompt}" if way else task.task.prompt
    given = {**task.task.given, "prompt": prompt}
    return replace(task.task, prompt=prompt, key=key, given=given)


def write_steps(path: Path, steps: Sequence[Any]) -> None:
    """Write the finished steps of a training, given as data classes, to a file. Blocks. Raises `OSError`.

    If writing fails, the previous file is kept.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(asdict(each)) + "\n" for each in steps)
    write_atomically(path, text.encode(), PRIVATE_FILE, replace_any=True)
