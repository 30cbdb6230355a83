"""The output limit of a request, chosen so that the request fits the remaining budget."""

from __future__ import annotations

from agent.model.catalog import ModelInfo
from agent.model.usage import most_cost


def fit_output(info: ModelInfo, most_input: int, wanted: int, room: int | None, funds: float | None) -> int:
    """Return the number of output tokens, at most `wanted`, that fits with `most_input` tokens of input.

    Negative if not even the input fits. `room` (tokens) and `funds` (US dollars) are what is left; None means
    unlimited.
    """
    output = wanted if room is None else min(wanted, room - most_input)
    return output if funds is None else min(output, _affordable(info, most_input, output, funds))


def _affordable(info: ModelInfo, most_input: int, wanted: int, funds: float) -> int:
    """Return the number of output tokens that the remaining money buys; `wanted` if they have no price."""
    cost = most_cost(most_input, 0, info)
    price = info.output_price
    if cost is None or not price:
        return wanted
    # One less: rounding must not leave a fraction of a cent too little.
    return min(wanted, int((funds - cost) / price * 1_000_000) - 1)
