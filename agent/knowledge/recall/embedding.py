"""Vectors of texts, made by a provider or by a local package."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

from agent.core.net.door import WebClient, WebError, WebLimits, WebRequest
from agent.errors import HermesError
from agent.knowledge.recall.static_child import FAILED, FORMATS, MADE, TOKENIZER, WEIGHTS, unit
from agent.model.addresses import below, is_loopback
from agent.model.transport.failures import Failures
from tools.extras import add_hint
from tools.kit.children import WorkerError, WorkerProcess
from tools.text.redact import redact

if TYPE_CHECKING:
    from agent.knowledge.recall.static_child import Vectors
    from agent.model.providers import Target


class EmbeddingError(HermesError):
    """An error while making vectors. The message is one sentence with the cause and the fix."""


class Embedder(Protocol):
    """A source of vectors. Vectors of different sources or models are never compared."""

    @property
    def space(self) -> str:
        """The name of the vector space. Vectors of different spaces cannot be compared."""
        ...

    @property
    def is_remote(self) -> bool:
        """Whether texts leave this machine, which takes time and may cost something."""
        ...

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> Vectors:
        """Return one vector for each text; set `question` for queries. Raises `EmbeddingError`."""
        ...

    async def packed(self, texts: Sequence[str]) -> Sequence[bytes]:
        """Return the vectors in stored form: 16-bit numbers, least significant byte first. Raises
        `EmbeddingError`.
        """
        ...

    async def aclose(self) -> None:
        """Close connections and processes."""
        ...


def as_kept(vectors: Vectors) -> Sequence[bytes]:
    """Return the stored form of each vector. Pure."""
    return [row.astype("<f2").tobytes() for row in vectors]


TIME_LIMIT = 20.0
"""The time limit for the answer of a provider, in seconds."""
_LIMITS = WebLimits(size=32 << 20, unpacked=32 << 20, seconds=TIME_LIMIT, redirects=0)
_AT_ONCE = 64
"""The maximum number of texts in one request."""
_CHARS_SENT = 4_000
"""The maximum number of characters sent of one text."""
_DIMENSIONS = 8_192


class EndpointEmbedder:
    """A source of vectors that asks one model of one provider for them. Secrets in the texts are masked."""

    is_remote = True

    def __init__(self, target: Target, secrets: Mapping[str, str]) -> None:
        self._target = target
        self._secrets = secrets
        self.space = f"{target.provider}/{target.model}"

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> Vectors:
        import numpy

        found: list[list[float]] = []
        for start in range(0, len(texts), _AT_ONCE):
            some = [
                redact(text, self._secrets)[:_CHARS_SENT] or " " for text in texts[start : start + _AT_ONCE]
            ]
            found += await self._request_vectors(some)
            if len({len(row) for row in found}) > 1:
                raise self._nonsense("vectors of different lengths")
        if not found:
            return numpy.zeros((0, 1), numpy.float32)
        vectors = numpy.asarray(found, numpy.float32)
        if not numpy.isfinite(vectors).all():
            raise self._nonsense("numbers that are none")
        return unit(vectors)

    async def packed(self, texts: Sequence[str]) -> Sequence[bytes]:
        return as_kept(await self.embed(texts))

    async def _request_vectors(self, texts: Sequence[str]) -> list[list[float]]:
        target = self._target
        failures = Failures(
            provider=target.provider,
            base_url=target.base_url,
            key_hint=target.key_hint,
            api_key=target.api_key,
            secrets=target.secrets,
            stall_timeout=TIME_LIMIT,
        )
        body = {"model": target.model, "input": list(texts), "encoding_format": "float"}
        headers = {**target.request_headers(), "Content-Type": "application/json"}
        request = WebRequest(
            url=below(target.base_url, "embeddings"),
            method="POST",
            headers=headers,
            body=json.dumps(body).encode(),
            own=target.base_url,
            kept=False,
        )
        try:
            answer = await self._web_client().fetch(request)
        except WebError as error:
            raise EmbeddingError(f"{self.space} makes no vectors: {error}") from error
        if answer.status >= 300:
            raise EmbeddingError(str(failures.refusal_error(answer.status, answer.headers, answer.body)))
        try:
            return _vectors(json.loads(answer.body), len(texts))
        except (ValueError, RecursionError) as error:
            raise self._nonsense(str(error)) from error

    def _web_client(self) -> WebClient:
        if not is_loopback(self._target.base_url) and not self._target.base_url.startswith("https://"):
            raise EmbeddingError(
                f"{self._target.base_url} is not encrypted; texts are only sent to https:// addresses "
                "and to this machine."
            )
        return WebClient(secrets=self._secrets, limits=_LIMITS)

    def _nonsense(self, what: str) -> EmbeddingError:
        return EmbeddingError(
            f"{self.space} answered with no usable vectors ({what}); choose a model for embeddings "
            "in recall.embeddings."
        )

    async def aclose(self) -> None:
        """Do nothing: no connection stays open between two requests."""


def _vectors(answer: Any, count: int) -> list[list[float]]:
    """Parse the vectors in an answer, in the order of the texts. Raises `ValueError`. Pure."""
    rows = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(rows, list) or len(rows) != count:
        raise ValueError("not one vector for each text")
    found: dict[int, list[float]] = {}
    for place, row in enumerate(rows):
        vector = row.get("embedding") if isinstance(row, dict) else None
        at = row.get("index", place) if isinstance(row, dict) else place
        if not isinstance(vector, list) or not 0 < len(vector) <= _DIMENSIONS:
            raise ValueError("a vector of no usable length")
        if not all(isinstance(each, int | float) for each in vector):
            raise ValueError("numbers that are none")
        found[at] = vector
    if sorted(found) != list(range(count)):
        raise ValueError("not one vector for each text")
    return [found[at] for at in range(count)]


PACKAGE = "wordllama"
INSTALL_MEANING = add_hint("semantic")
"""The command that installs the package."""

_CHARS = 2_000
"""The number of characters of a text that count, because further ones hardly change a mean."""
_SECONDS = 20.0
"""The time limit of one request, in seconds; reading the weights takes a quarter of a second."""


def folder() -> Path | None:
    """Return the folder of the installed package; None if it is missing or incomplete."""
    spec = importlib.util.find_spec(PACKAGE)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        if (Path(place) / WEIGHTS).is_file() and (Path(place) / TOKENIZER).is_file():
            return Path(place)
    return None


_IDLE = 15.0
"""Seconds without a request after which the process of an embedder ends."""


class StaticEmbedder:
    """A source of vectors in a local process, which starts in half a second and takes 30 µs a text.

    The process needs 80 MB until it has been idle for a while.
    """

    space = "wordllama/l2_supercat_256"
    is_remote = False

    def __init__(self, place: Path, *, idle: float = _IDLE) -> None:
        self._place = place
        # A pool of threads would compete with what a person types.
        environ = {"TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._worker = WorkerProcess(
            "agent.knowledge.recall.static_child", seconds=_SECONDS, idle=idle, environ=environ
        )

    async def embed(self, texts: Sequence[str], *, question: bool = False) -> Vectors:
        # A question keeps its function words: the vectors were made of whole sentences.
        told = await self._ask_worker(texts, "exact")
        import numpy

        return numpy.frombuffer(told, FORMATS["exact"]).reshape(len(texts), -1)

    async def packed(self, texts: Sequence[str]) -> Sequence[bytes]:
        if not texts:
            return ()
        told = await self._ask_worker(texts, "packed")
        size = len(told) // len(texts)
        return [told[start : start + size] for start in range(0, len(told), size)]

    async def _ask_worker(self, texts: Sequence[str], form: str) -> bytes:
        data = json.dumps([text[:_CHARS] for text in texts]).encode()
        try:
            answer = await self._worker.ask({"place": str(self._place), "format": form}, data)
        except (TimeoutError, WorkerError) as error:
            raise EmbeddingError(
                f"The process that makes vectors failed ({error or 'too slow'}); it starts again."
            ) from error
        kind, told = answer[:1], answer[1:]
        if kind != MADE:
            reason = told.decode("utf-8", "replace") if kind == FAILED else "no answer"
            raise EmbeddingError(
                f"The vectors in {self._place} cannot be read ({reason}); run {INSTALL_MEANING} again."
            )
        return told

    async def aclose(self) -> None:
        await self._worker.close()


_shared: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Path, StaticEmbedder]] = WeakKeyDictionary()


def shared_embedder(place: Path) -> StaticEmbedder:
    """Return the embedder shared by all sessions of an event loop, because each has a large process.

    When a session closes it, the process ends between two requests. The next request starts the process
    again.
    """
    try:
        known = _shared.setdefault(asyncio.get_running_loop(), {})
    except RuntimeError:
        return StaticEmbedder(place)
    return known.setdefault(place, StaticEmbedder(place))
