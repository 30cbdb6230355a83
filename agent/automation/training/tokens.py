"""Token sequences of sessions: ids and masks where the server gave ids, else nothing at all. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent.core.store.nodes import Node

MASKED = -100
"""What stands in a mask for a token that the model did not write."""
NO_LOGPROB = 1.0
"""What stands for the log probability of a token that the model did not write."""


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """A session as its model read and wrote it. `logprobs` is None where the server gave none."""

    tokens: tuple[int, ...]
    masks: tuple[int, ...]
    logprobs: tuple[float, ...] | None


def sequence_of(path: Sequence[Node]) -> TokenSequence | None:
    """The sequence of a branch; None unless the server gave the ids of every answer.

    The last request holds all that came before. An earlier answer counts as written by the model where the
    ids it was given with stand there unchanged; where a template wrote them anew, they stay masked.
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
