"""Weights trained at Tinker (extra `tinker`): rollouts are sampled from them, scored groups change them.

The package's client is asked by name only, as it is an extra; its calls block and run in threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

from agent.automation.training.rollouts import RolloutGroup
from agent.automation.training.tokens import MASKED, TokenSequence
from agent.errors import ConfigError, HermesError
from tools.extras import missing

MISSING = missing("Training weights", "tinker")
LOSS = "importance_sampling"
_Answer = TypeVar("_Answer")


class TinkerError(HermesError):
    """Tinker cannot be reached, or does not take what it is given."""


@dataclass(frozen=True, slots=True)
class Completion:
    """What the weights wrote, with the ids they read and wrote."""

    text: str
    prompt: tuple[int, ...]
    output: tuple[int, ...]
    logprobs: tuple[float, ...]
    is_whole: bool
    """Whether it ended by itself, not at the limit."""


@dataclass(frozen=True, slots=True)
class WeightDatum:
    """A rollout as a training datum: each entry tells of one token and the one that follows it."""

    tokens: tuple[int, ...]
    targets: tuple[int, ...]
    logprobs: tuple[float, ...]
    advantages: tuple[float, ...]


def data_of(groups: Sequence[RolloutGroup]) -> list[WeightDatum]:
    """The data of groups whose scores differ: what a rollout got above the mean of its group. Pure.

    Tokens that the model did not write have no advantage, so that nothing is learned from them.
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
    """One model at Tinker: sampled from, trained, kept. All methods raise `TinkerError`."""

    def __init__(self, tinker: Any, service: Any, client: Any, tokenizer: Any) -> None:
        self._tinker = tinker
        self._service = service
        self._client = client
        self._tokenizer = tokenizer
        self._sampler: Any = None

    @classmethod
    async def open(cls, base_model: str, rank: int, seed: int, saved: str = "") -> TinkerWeights:
        """Weights beside a base model, or those that were kept at `saved`. Raises `ConfigError` as well."""
        try:
            tinker = import_module("tinker")
        except ImportError:
            raise ConfigError(MISSING) from None

        def opened() -> TinkerWeights:
            service = tinker.ServiceClient(display_name="hermes")
            if saved:
                client = service.create_training_client_from_state_with_optimizer(saved)
            else:
                client = service.create_lora_training_client(base_model, rank=rank, seed=seed)
            client = client.result() if hasattr(client, "result") else client
            return cls(tinker, service, client, client.get_tokenizer())

        found = await _asked(tinker, opened)
        await found.renew()
        return found

    async def aclose(self) -> None:
        """End the session at Tinker; what was kept stays."""
        await asyncio.to_thread(lambda: self._service.close().result())

    async def renew(self) -> None:
        """Sample from the weights as they are now."""
        self._sampler = await _asked(
            self._tinker, lambda: self._client.save_weights_and_get_sampling_client().result()
        )

    async def sample(
        self, messages: Sequence[Mapping[str, Any]], limit: int, temperature: float
    ) -> Completion:
        """The next message of a conversation of plain texts, of at most so many tokens."""
        types, sampler = self._tinker.types, self._sampler

        def sampled() -> Completion:
            prompt = self._prompt(messages)
            wanted = types.SamplingParams(max_tokens=limit, temperature=temperature)
            asked = sampler.sample(types.ModelInput.from_ints(prompt), 1, wanted)
            (sequence,) = asked.result().sequences
            output = tuple(int(each) for each in sequence.tokens)
            text = self._tokenizer.decode(output, skip_special_tokens=True)
            logprobs = tuple(float(each) for each in sequence.logprobs or ())
            return Completion(text, tuple(prompt), output, logprobs, sequence.stop_reason == "stop")

        return await _asked(self._tinker, sampled)

    def _prompt(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        given = [{"role": each["role"], "content": str(each.get("content") or "")} for each in messages]
        made = self._tokenizer.apply_chat_template(
            given, add_generation_prompt=True, tokenize=True, return_dict=False
        )
        return [int(each) for each in made]

    async def learn(self, data: Sequence[WeightDatum], learning_rate: float) -> dict[str, float]:
        """Take one step with these data; the figures that the service gives."""
        types, client = self._tinker.types, self._client

        def learned() -> dict[str, float]:
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

        return await _asked(self._tinker, learned)

    async def keep(self, name: str) -> str:
        """Keep weights and optimizer at the service; where they are."""
        return await _asked(
            self._tinker, lambda: str(self._client.save_state(name, overwrite=True).result().path)
        )


async def _asked(tinker: Any, work: Callable[[], _Answer]) -> _Answer:
    try:
        return await asyncio.to_thread(work)
    except tinker.TinkerError as error:
        raise TinkerError(f"Tinker: {str(error)[:300]}") from error
    except (OSError, ValueError) as error:
        raise TinkerError(f"Tinker: {type(error).__name__}: {str(error)[:300]}") from error
