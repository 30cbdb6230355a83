"""The limit of an answer, so that its request fits what is left."""

from __future__ import annotations

from agent.model.catalog import ModelInfo
from agent.model.usage import most_cost


def fit_output(info: ModelInfo, most_input: int, wanted: int, room: int | None, funds: float | None) -> int:
    """Output tokens, at most `wanted`, beside `most_input` tokens of input. Below zero: not even these fit.

    `room` are tokens and `funds` US dollars that are left; None: as many as wanted.
    """
    output = wanted if room is None else min(wanted, room - most_input)
    return output if funds is None else min(output, _affordable(info, most_input, output, funds))


def _affordable(info: ModelInfo, most_input: int, wanted: int, funds: float) -> int:
    """Output tokens that the rest of the money buys; as many as wanted where they have no price."""
    cost = most_cost(most_input, 0, info)
    price = info.output_price
    if cost is None or not price:
        return wanted
    # One less: what is left after divisions must not be a fraction of a cent too little.
    return min(wanted, int((funds - cost) / price * 1_000_000) - 1)
