"""The interface between the core and one platform: what comes in, what goes out, and its limits as data.

An adapter speaks one protocol and decides nothing: who may talk, what is a command, which session is meant,
what was sent already are questions of the core. It is made for one run and closed in the end.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from agent.errors import ConfigError, HermesError
from tools.extras import missing as needs_extra
from tools.parts import PartKind
from tools.text.words import one_line

if TYPE_CHECKING:
    from agent.core.config.sections import GatewaySettings


MarkdownForm = Literal["plain", "markdown", "telegram", "slack", "whatsapp", "html", "signal"]
"""How a platform writes bold and code: `markdown` as it is, `telegram` and `html` (Matrix, mail) as HTML,
`slack` as mrkdwn, `whatsapp` with its own marks, `plain` and `signal` without any (Signal styles ranges)."""
Unit = Literal["characters", "utf16", "bytes"]
IncomingKind = Literal["message", "edited", "button", "moved"]
FileKind = Literal["image", "voice", "file"]


class GatewayError(HermesError):
    """Something a platform did not do; it may work later."""


class BadCredentialsError(GatewayError):
    """The platform refuses the token: nothing helps but another one. The sentence names the setting."""


class RateLimitedError(GatewayError):
    """The platform wants to hear nothing for a while."""

    def __init__(self, wait: float) -> None:
        """`wait` in seconds."""
        super().__init__(f"The platform asks to wait {wait:g} s.")
        self.wait = wait


class UndeliverableError(GatewayError):
    """The platform will never take this: a chat that is gone, a person who blocked us, too large a file."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a conversation is: a chat, and a thread or topic in it where the platform has any."""

    chat: str
    thread: str = ""

    def __str__(self) -> str:
        return f"{self.chat}/{self.thread}" if self.thread else self.chat


@dataclass(frozen=True, slots=True)
class Sender:
    """Who wrote, as the platform guarantees. `id` always means one person; `name` is only shown."""

    id: str
    name: str = ""
    vouched: bool = True
    """False: anybody may have written it under this name, so it counts for nobody and no code is told."""


@dataclass(frozen=True, slots=True)
class IncomingFile:
    """A file of a message; `Adapter.fetch` reads it by its id."""

    id: str
    name: str
    kind: FileKind
    media_type: str = ""
    size: int = 0
    """Bytes as the platform tells; 0: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """Something a person did. Texts are as the platform gives them: outside text."""

    id: str
    """The platform's own id of it, the same when it is delivered again, and unique within `place`.

    An edit has the id of the message it changes; a button press one of its own."""
    kind: IncomingKind = "message"
    place: Place
    sender: Sender
    text: str = ""
    """Without the mention of us at its beginning."""
    files: tuple[IncomingFile, ...] = ()
    group: bool = False
    """Whether others read along."""
    mentioned: bool = True
    """In a group: whether it speaks to us, by name or as a reply."""
    button: str = ""
    """The `Button.value` that was pressed."""
    message: str = ""
    """The id of our message that holds the button, or is replied to."""
    token: str = ""
    """What `Adapter.acknowledge` needs of a button press."""
    moved_to: str = ""
    """With the kind `moved`: the id under which the chat of `place` goes on."""
    unreadable: str = ""
    """Why nothing of it can be read, as a sentence for people who may talk; then it is not a message."""

    def to_json(self) -> dict[str, Any]:
        """As it is kept until it has become a turn."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Incoming:
        """What `to_json` wrote."""
        return cls(
            **{
                **data,
                "place": Place(**data["place"]),
                "sender": Sender(**data["sender"]),
                "files": tuple(IncomingFile(**each) for each in data["files"]),
            }
        )


@dataclass(frozen=True, slots=True)
class Button:
    """A choice under a message. `value` has at most 60 bytes, ASCII."""

    label: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A message of ours: `text` is markdown that fits the limits; the adapter writes it in its own form."""

    text: str
    buttons: tuple[Button, ...] = ()
    reply_to: str = ""
    """The id of the message it answers; empty: none."""
    quiet: bool = False
    """Whether it should ring nowhere, as progress."""


@dataclass(frozen=True, slots=True)
class OutgoingFile:
    """A file to send. `path` is one of ours, already checked and readable."""

    path: Path
    name: str
    kind: FileKind
    caption: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformLimits:
    """What a platform allows."""

    text: int
    """Length of one message in `unit`."""
    unit: Unit = "characters"
    form: MarkdownForm = "plain"
    edits: bool = False
    """Whether our own messages can be changed."""
    edit_pause: float = 1.5
    """Seconds between two changes of one message."""
    buttons: int = 0
    """Buttons of one message; 0: none, choices are numbered."""
    typing: float = 0.0
    """Seconds a sign of typing lasts; 0: there is none."""
    send_file: int = 0
    """Bytes of the largest file that can be sent; 0: none can."""
    fetch_file: int = 20_000_000
    """Bytes of the largest file that is fetched."""
    keys: bool = False
    """Whether the platform knows `key` of `send` again and sends it once."""


Take = Callable[[Incoming], Awaitable[None]]
"""Returns when it is stored for good: only then may the adapter acknowledge it to the platform."""


@dataclass(frozen=True, slots=True)
class PlatformCall:
    """A request of the platform to an address of ours. Header names are in lower case."""

    method: str
    path: str
    """What follows `/gateways/NAME/`, without query."""
    headers: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """What the platform hears."""

    status: int
    body: bytes = b""
    media_type: str = "text/plain; charset=utf-8"


class Adapter(ABC):
    """One connection to one platform. Every method but `aclose` raises `GatewayError`."""

    limits: PlatformLimits
    title: str
    """The platform, as people and faults call it."""

    def __init__(self, context: GatewayContext, usual_url: str = "", seconds: float = 60.0) -> None:
        """Begin with the address of the settings, or `usual_url`; `seconds` is the patience of requests."""
        self._base = (context.settings.api_url or usual_url).rstrip("/")
        self._http = http_client(seconds)

    @abstractmethod
    async def run(self, take: Take, ready: Callable[[str], None]) -> None:
        """Receive until cancelled; raises when the connection is lost, the core calls it again.

        `ready` hears once per connection who we are there, such as `@name`. Nothing is sent or fetched
        before it was called for the first time; afterwards both may come while no connection is there.
        """

    @abstractmethod
    async def send(self, place: Place, message: Outgoing, key: str) -> str:
        """Send a message; its id there. `key` is the same when it is tried again."""

    @abstractmethod
    async def send_file(self, place: Place, file: OutgoingFile, key: str) -> str:
        """Send a file; the id of its message there."""

    @abstractmethod
    async def fetch(self, file: IncomingFile, most: int) -> bytes:
        """The bytes of a file that came in, `UndeliverableError` for more than `most`."""

    async def edit(self, place: Place, message_id: str, message: Outgoing) -> None:
        """Put another text and other buttons into a message of ours."""
        raise UndeliverableError(f"{self.title} does not change messages.")

    async def typing(self, place: Place) -> None:
        """Show that an answer is being written, where the platform can."""
        return

    async def acknowledge(self, incoming: Incoming, told: str) -> None:
        """Let a button press end that does not end by itself, with a word or two where they are shown."""
        return

    async def hook(self, request: PlatformCall, take: Take) -> CallAnswer:
        """Answer a request to `/gateways/NAME/…` of the service; all it brings is stored when this is 2xx.

        The adapter checks the signature itself: these requests are let in without a token.
        """
        return CallAnswer(404)

    async def aclose(self) -> None:
        """Let go of everything. Never raises."""
        await self._http.aclose()

    async def _read_url(self, url: str, most: int, token: str = "") -> bytes:
        """What a GET gives, `UndeliverableError` beyond `most` bytes. Raises `GatewayError`."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        request = self._http.build_request("GET", url, headers=headers)
        return await fetch_bounded(self._http, request, most, self.title)


@dataclass(frozen=True, slots=True)
class GatewayContext:
    """What an adapter is made of."""

    name: str
    settings: GatewaySettings
    environ: Mapping[str, str]
    """The variables Hermes sees, `.env` of the home included."""
    folder: Path
    """A private folder of its own in the home (made when asked for), for what its library keeps."""

    def secret(self, field: str) -> str:
        """The value of the variable that a setting names, such as `token_env`.

        Raises `BadCredentialsError` if it is not set.
        """
        variable = str(getattr(self.settings, field, ""))
        if value := self.environ.get(variable, "").strip():
            return value
        raise BadCredentialsError(
            f"{self.name} has no token: set the variable {variable or field} with `hermes gateway setup "
            f"{self.name}`."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """A secret that `hermes gateway setup` asks for and keeps in `.env`."""

    field: str
    """The setting with the name of its variable, such as `token_env`."""
    variable: str
    """The variable it has unless the settings name another."""
    asked: str
    """What it is and where it is found, for the question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayKind:
    """One platform. Making it imports no library; `make` may, in a thread."""

    name: str
    title: str
    make: Callable[[GatewayContext], Adapter]
    """Blocking. Raises `BadCredentialsError`, and `ConfigError` for a missing package or setting."""
    secrets: Sequence[Secret] = ()
    fields: Mapping[str, str] = field(default_factory=dict)
    """Further settings that `setup` asks for, with the question."""
    extra: str = ""
    """The extra of the package that brings its library; empty: none is needed."""
    module: str = ""
    """The module whose presence tells that the extra is installed."""


PLATFORMS = PartKind("gateways", "agent.integrations.gateways.platforms")


def gateway_kinds() -> dict[str, GatewayKind]:
    """All of them by name. Imports their modules, none of their libraries."""
    found = (PLATFORMS.load(each).GATEWAY for each in PLATFORMS.files())
    return {each.name: each for each in sorted(found, key=lambda each: each.name)}


def gateway_kind(name: str) -> GatewayKind:
    """One of them. Raises `ConfigError`."""
    kinds = gateway_kinds()
    if name not in kinds:
        raise ConfigError(f"There is no gateway {name[:40]!r}; there are {', '.join(kinds)}.")
    return kinds[name]


def limits_of(name: str) -> PlatformLimits:
    """What a platform allows, without an adapter of it. Raises `ConfigError`."""
    for each in PLATFORMS.files():
        if each.name == name:
            limits: PlatformLimits = PLATFORMS.load(each).LIMITS
            return limits
    raise ConfigError(f"There is no gateway {name[:40]!r}; there are {', '.join(gateway_kinds())}.")


def make_adapter(kind: GatewayKind, context: GatewayContext) -> Adapter:
    """An adapter that is ready to run. Blocking. Raises `ConfigError`, `BadCredentialsError`."""
    if kind.module and find_spec(kind.module) is None:
        raise ConfigError(needs_extra(kind.title, kind.extra))
    return kind.make(context)


if TYPE_CHECKING:
    import httpx2

    HttpClient = httpx2.AsyncClient

ANSWER = 5_000_000
"""Bytes of an answer that is not a file."""


def http_client(seconds: float = 60.0) -> httpx2.AsyncClient:
    """A client; its owner closes it. Imports its package, so it belongs into a thread the first time."""
    import httpx2

    return httpx2.AsyncClient(timeout=httpx2.Timeout(seconds, connect=10.0), follow_redirects=False)


@asynccontextmanager
async def talking(title: str) -> AsyncIterator[None]:
    """Faults of the connection as `GatewayError`."""
    import httpx2

    try:
        yield
    except httpx2.HTTPError as error:
        raise GatewayError(f"{title} cannot be reached ({type(error).__name__}).") from error


async def receive(
    client: httpx2.AsyncClient, request: httpx2.Request, most: int, title: str, beyond: GatewayError
) -> tuple[httpx2.Response, bytes]:
    """An answer and its body. Raises `beyond` where that has more than `most` bytes."""
    async with talking(title):
        response = await client.send(request, stream=True)
        try:
            data = bytearray()
            async for piece in response.aiter_bytes():
                data += piece
                if len(data) > most:
                    raise beyond
        finally:
            await response.aclose()
    return response, bytes(data)


async def fetch_bounded(client: httpx2.AsyncClient, request: httpx2.Request, most: int, title: str) -> bytes:
    """The body of an answer. Raises `UndeliverableError` beyond `most` bytes; see also `raise_for_status`."""
    beyond = UndeliverableError(f"The file is larger than {most:,} bytes.")
    response, data = await receive(client, request, most, title, beyond)
    raise_for_status(response.status_code, response.headers, data, title)
    return data


async def json_call(
    client: httpx2.AsyncClient,
    method: str,
    url: str,
    title: str,
    *,
    body: Any = None,
    raw: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> Any:
    """A JSON request, or one whose bytes are `raw`, and its answer; None where it is empty.

    Raises `GatewayError`.
    """
    sent = raw if body is None else json.dumps(body, ensure_ascii=False).encode()
    head = {"Content-Type": "application/json", **(headers or {})}
    data = await fetch_bounded(
        client, client.build_request(method, url, content=sent, headers=head), ANSWER, title
    )
    if not data.strip():
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise GatewayError(f"{title} answers something else than JSON; check its api_url.") from None


async def answer_of(
    client: httpx2.AsyncClient,
    method: str,
    url: str,
    title: str,
    *,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, Mapping[str, str], bytes]:
    """Status, headers and body of an answer, whatever the status is.

    The address is never told, as it may hold a token.
    Raises `GatewayError`, and `ConfigError` for what cannot be a request.
    """
    import httpx2

    try:
        request = client.build_request(method, url, json=body, headers=dict(headers or {}))
    except (httpx2.InvalidURL, ValueError):
        raise ConfigError(f"Address or token of {title} cannot be part of a request.") from None
    beyond = GatewayError(f"{title} answers far too much; check its api_url.")
    response, data = await receive(client, request, ANSWER, title, beyond)
    return response.status_code, response.headers, data


def raise_for_status(status: int, headers: Mapping[str, str], body: bytes, title: str) -> None:
    """Raise what a status means, with the platform's own words."""
    if status < 300:
        return
    said = one_line(body[:300].decode("utf-8", "replace"))
    if status == 429:
        raise RateLimitedError(_seconds(headers.get("retry-after", ""), body))
    if status == 401:
        raise BadCredentialsError(f"{title} does not take the token; set it again.")
    if 400 <= status < 500 and status not in (408, 425):
        raise UndeliverableError(f"{title} refuses with {status}: {said}")
    raise GatewayError(f"{title} answers {status}: {said}")


def _seconds(header: str, body: bytes) -> float:
    """How long to wait, by the header or, as Matrix tells it, by the body."""
    try:
        told = float(header or json.loads(body)["retry_after_ms"] / 1_000)
    except (ValueError, KeyError, TypeError, RecursionError):
        told = 5.0
    return min(max(told, 0.1), 3_600.0)


def file_kind(media_type: str) -> FileKind:
    """What a file is to us: something to look at, to listen to, or to read. Pure."""
    if media_type.startswith("image/"):
        return "image"
    return "voice" if media_type.startswith("audio/") else "file"


def require_host(url: str, hosts: tuple[str, ...], api_url: str) -> str:
    """The address of a file if it lies with the platform itself, which alone may see the token.

    A name counts with the names below it. Raises `UndeliverableError`.
    """
    host, ours = urlsplit(url).hostname or "", urlsplit(api_url)
    secure = urlsplit(url).scheme == "https"
    if secure and any(host == each or host.endswith(f".{each}") for each in hosts):
        return url
    if api_url and urlsplit(url).netloc == ours.netloc and urlsplit(url).scheme == ours.scheme:
        return url
    raise UndeliverableError("The file does not lie with the platform; it is not fetched.")
