"""The process that makes vectors from word pieces; `agent.knowledge.recall.embedding` starts it.

Reading the weights holds the interpreter lock for a tenth of a second, which must not delay typing. The
answer to a request begins with a byte for the kind of result: vectors, or the reason for a failure.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.core.worker_child import answer_orders

if TYPE_CHECKING:
    import numpy

    Vectors = numpy.ndarray
    """One row per text, of length 1 or 0, as 32-bit numbers."""

WEIGHTS = "weights/l2_supercat_256.safetensors"
TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
MADE, FAILED = b"+", b"-"
FORMATS = {"exact": "<f4", "packed": "<f2"}
"""The formats of vectors: for comparing, and for storing."""

_NICENESS = 10


def main() -> None:
    """Answer requests until the parent process closes the pipe."""
    os.nice(_NICENESS)
    answer_orders(_answer)


def _answer(order: dict[str, Any], data: bytes) -> bytes:
    try:
        weights, tokenizer = _load_model(Path(order["place"]))
        vectors = _means(weights, tokenizer, json.loads(data))
    except Exception as error:
        # Both libraries raise types of their own, and plain `Exception`, for files they cannot read.
        return FAILED + str(error).encode("utf-8", "replace")
    return MADE + vectors.astype(FORMATS[order["format"]]).tobytes()


@cache
def _load_model(place: Path) -> tuple[Any, Any]:
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    (weights,) = load_file(str(place / WEIGHTS)).values()
    return weights, Tokenizer.from_file(str(place / TOKENIZER))


def _means(weights: Any, tokenizer: Any, texts: Sequence[str]) -> Vectors:
    import numpy

    found = numpy.zeros((len(texts), weights.shape[1]), numpy.float32)
    for at, text in enumerate(texts):
        pieces = [
            each for each in tokenizer.encode(text, add_special_tokens=False).ids if each < len(weights)
        ]
        if pieces:
            found[at] = weights[pieces].mean(axis=0, dtype=numpy.float32)
    return unit(found)


def unit(vectors: Vectors) -> Vectors:
    """Return the vectors scaled to length 1; zero vectors stay unchanged. Pure."""
    import numpy

    lengths = numpy.linalg.norm(vectors, axis=1, keepdims=True)
    lengths[lengths == 0] = 1
    return (vectors / lengths).astype(numpy.float32)
