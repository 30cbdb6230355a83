"""The interface between the core and one platform: incoming data, outgoing messages, and the platform's
limits.

An adapter handles one protocol and makes no decisions. The core decides who may write, what is a command,
which session is meant and what was already sent. Each run makes a new adapter and closes it at the end.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
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
"""How a platform formats text: `markdown` unchanged, `telegram` and `html` (Matrix, e-mail) as HTML, `slack`
as mrkdwn, `whatsapp` in its own markup, `plain` without any, `signal` likewise (styles are separate data).
"""
Unit = Literal["characters", "utf16", "bytes"]
IncomingKind = Literal["message", "edited", "button", "moved"]
FileKind = Literal["image", "voice", "file"]


USUAL_PAUSE = 5.0
"""The pause in seconds if a platform asks for one without giving its length."""
ODD = (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)
"""The exceptions raised by reading an answer of an undocumented form."""


class GatewayError(HermesError):
    """A platform failed to do something; a later try may succeed."""


class BadCredentialsError(GatewayError):
    """The platform refuses the token, so only another token helps. The sentence names the setting."""


class RateLimitedError(GatewayError):
    """The platform asks for a pause before the next request."""

    def __init__(self, wait: float) -> None:
        """Set `wait`, the pause in seconds, limited to the range from 0.1 s to one hour."""
        self.wait = min(max(wait, 0.1), 3_600.0) if not math.isnan(wait) else USUAL_PAUSE
        super().__init__(f"The platform asks to wait {self.wait:g} s.")


class UndeliverableError(GatewayError):
    """The platform will never accept a message, for example because the chat is gone or a file is too
    large.
    """


@dataclass(frozen=True, slots=True)
class Place:
    """The location of a conversation: a chat, and a thread or topic in it on platforms that have them."""

    chat: str
    thread: str = ""

    def __str__(self) -> str:
        return f"{self.chat}/{self.thread}" if self.thread else self.chat


@dataclass(frozen=True, slots=True)
class Sender:
    """The author of a message as the platform guarantees it.

    `id` identifies one person; `name` is only displayed.
    """

    id: str
    name: str = ""
    vouched: bool = True
    """Whether the platform guarantees the sender; if not, the message has no rights and gets no code."""


@dataclass(frozen=True, slots=True)
class IncomingFile:
    """A file attached to a message; `Adapter.fetch` downloads it by its id."""

    id: str
    name: str
    kind: FileKind
    media_type: str = ""
    size: int = 0
    """The size in bytes that the platform gives; 0: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """A message, edit or button press by a user of the platform. Its texts are untrusted and unchanged."""

    id: str
    """The platform's id, the same when it is delivered again, and unique within `place`.

    An edit has the id of the message it changes; a button press has its own.
    """
    kind: IncomingKind = "message"
    place: Place
    sender: Sender
    text: str = ""
    """The text, without the mention of the bot at its beginning."""
    files: tuple[IncomingFile, ...] = ()
    group: bool = False
    """Whether it was written in a group, where others can read the answers."""
    mentioned: bool = True
    """Whether it is addressed to the bot, by name or as a reply; only meaningful in a group."""
    button: str = ""
    """The `Button.value` that was pressed."""
    message: str = ""
    """The id of the bot's message that holds the button or is replied to."""
    token: str = ""
    """The value that `Adapter.acknowledge` needs to confirm a button press."""
    moved_to: str = ""
    """The new id of the chat of `place`, if the kind is `moved`."""
    unreadable: str = ""
    """Why it cannot be read, as a sentence for users with access; empty for a readable message."""

    def to_json(self) -> dict[str, Any]:
        """Return the form in which the store keeps it until a session takes it."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Incoming:
        """Return the message in a result of `to_json`."""
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
    """A choice shown below a message. `value` has at most 60 ASCII bytes."""

    label: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A message to send. `text` is Markdown within the platform's limits; the adapter converts it."""

    text: str
    buttons: tuple[Button, ...] = ()
    reply_to: str = ""
    """The id of the message it answers; empty: none."""
    quiet: bool = False
    """Whether it should cause no notification, as for progress."""


@dataclass(frozen=True, slots=True)
class OutgoingFile:
    """A file to send. `path` is a copy made by Hermes that is checked and readable."""

    path: Path
    name: str
    kind: FileKind
    caption: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformLimits:
    """The limits of a platform."""

    text: int
    """The maximum length of one message, in `unit`."""
    unit: Unit = "characters"
    form: MarkdownForm = "plain"
    edits: bool = False
    """Whether the bot's own messages can be edited."""
    edit_pause: float = 1.5
    """The minimum number of seconds between two edits of one message."""
    buttons: int = 0
    """The maximum number of buttons of one message; 0: none, so choices are numbered."""
    typing: float = 0.0
    """Seconds that a typing indicator lasts; 0: there is none."""
    send_file: int = 0
    """The maximum size of a file that can be sent, in bytes; 0: none can."""
    fetch_file: int = 20_000_000
    """The maximum size of a file that is downloaded, in bytes."""
    keys: bool = False
    """Whether the platform recognizes a repeated `key` of `send` and sends the message only once."""


Take = Callable[[Incoming], Awaitable[None]]
"""A function that stores a message; only after its return may the adapter confirm it to the platform."""


@dataclass(frozen=True, slots=True)
class PlatformCall:
    """An HTTP request from the platform to an address of Hermes. Header names are in lower case."""

    method: str
    path: str
    """The path after `/gateways/NAME/`, without the query."""
    headers: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """The HTTP response of Hermes to the platform."""

    status: int
    body: bytes = b""
    media_type: str = "text/plain; charset=utf-8"


class Adapter(ABC):
    """One connection to one platform. Every method but `aclose` may raise `GatewayError`."""

    limits: PlatformLimits
    title: str
    """The name of the platform in texts and errors."""

    def __init__(self, context: GatewayContext, usual_url: str = "", seconds: float = 60.0) -> None:
        """Set up the client. `usual_url` is the default address, `seconds` the timeout of requests."""
        self._base = (context.settings.api_url or usual_url).rstrip("/")
        self._http = http_client(seconds)

    @abstractmethod
    async def run(self, take: Take, ready: Callable[[str], None]) -> None:
        """Receive messages until cancelled. Raises `GatewayError` on a lost connection, and is then rerun.

        `ready` is called once per connection with the bot's name on the platform, such as `@name`. The core
        sends and fetches nothing before the first such call. Later it may do both even while the connection
        is down.
        """

    @abstractmethod
    async def send(self, place: Place, message: Outgoing, key: str) -> str:
        """Send a message and return its id on the platform.

        `key` stays the same when the core tries again.
        """

    @abstractmethod
    async def send_file(self, place: Place, file: OutgoingFile, key: str) -> str:
        """Send a file and return the id of its message on the platform; `key` as in `send`."""

    @abstractmethod
    async def fetch(self, file: IncomingFile, most: int) -> bytes:
        """Download a received file. Raises `UndeliverableError` if it has more than `most` bytes."""

    async def edit(self, place: Place, message_id: str, message: Outgoing) -> None:
        """Replace the text and the buttons of a sent message. Raises `UndeliverableError` if unsupported."""
        raise UndeliverableError(f"{self.title} does not change messages.")

    async def typing(self, place: Place) -> None:
        """Show that an answer is being written, if the platform supports it."""
        return

    async def acknowledge(self, incoming: Incoming, told: str) -> None:
        """Confirm a button press on platforms that require it.

        `told` is a short text to show where possible.
        """
        return

    async def hook(self, request: PlatformCall, take: Take) -> CallAnswer:
        """Answer a request to `/gateways/NAME/…` of the service.

        A 2xx answer means that everything in the request is stored. Such requests need no token, so the
        adapter itself must check the signature.
        """
        return CallAnswer(404)

    async def aclose(self) -> None:
        """Close all connections. Never raises."""
        await self._http.aclose()

    async def _read_url(self, url: str, most: int, token: str = "") -> bytes:
        """Return the body of a GET response.

        Raises `GatewayError`; `UndeliverableError` beyond `most` bytes.
        """
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        request = self._http.build_request("GET", url, headers=headers)
        return await fetch_bounded(self._http, request, most, self.title)


@dataclass(frozen=True, slots=True)
class GatewayContext:
    """The data from which an adapter is created."""

    name: str
    settings: GatewaySettings
    environ: Mapping[str, str]
    """The environment variables of Hermes, including those of `.env` in its home."""
    folder: Path
    """A private folder of the gateway in the home, created on first use, for data of its library."""

    def secret(self, field: str) -> str:
        """Return the value of the environment variable named by a setting such as `token_env`.

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
    """A secret that `hermes gateway setup` asks for and stores in `.env`."""

    field: str
    """The setting that names its environment variable, such as `token_env`."""
    variable: str
    """The environment variable used unless the settings name another."""
    asked: str
    """A description of the secret and where to find it, for the question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayKind:
    """The description of one platform.

    Creating it imports no library; `make` may, so call that in a thread.
    """

    name: str
    title: str
    make: Callable[[GatewayContext], Adapter]
    """A blocking function that may raise `BadCredentialsError`, and `ConfigError` if something is missing."""
    secrets: Sequence[Secret] = ()
    fields: Mapping[str, str] = field(default_factory=dict)
    """Further settings that `setup` asks for, with the question for each."""
    extra: str = ""
    """The extra that installs its library; empty: none is needed."""
    module: str = ""
    """The module whose presence shows that the extra is installed."""


PLATFORMS = PartKind("gateways", "agent.integrations.gateways.platforms")


def gateway_kinds() -> dict[str, GatewayKind]:
    """Return all platforms by name. Imports their modules but not their libraries."""
    found = (PLATFORMS.load(each).GATEWAY for each in PLATFORMS.files())
    return {each.name: each for each in sorted(found, key=lambda each: each.name)}


def gateway_kind(name: str) -> GatewayKind:
    """Return the platform called `name`. Raises `ConfigError`."""
    kinds = gateway_kinds()
    if name not in kinds:
        raise ConfigError(f"There is no gateway {name[:40]!r}; there are {', '.join(kinds)}.")
    return kinds[name]


def limits_of(name: str) -> PlatformLimits:
    """Return the limits of a platform without creating an adapter. Raises `ConfigError`."""
    for each in PLATFORMS.files():
        if each.name == name:
            limits: PlatformLimits = PLATFORMS.load(each).LIMITS
            return limits
    raise ConfigError(f"There is no gateway {name[:40]!r}; there are {', '.join(gateway_kinds())}.")


def make_adapter(kind: GatewayKind, context: GatewayContext) -> Adapter:
    """Create an adapter that is ready to run. Blocks. Raises `ConfigError` and `BadCredentialsError`."""
    if kind.module and find_spec(kind.module) is None:
        raise ConfigError(needs_extra(kind.title, kind.extra))
    return kind.make(context)


if TYPE_CHECKING:
    import httpx2

    HttpClient = httpx2.AsyncClient

ANSWER = 5_000_000
"""The maximum size in bytes of an answer that is not a file."""


def http_client(seconds: float = 60.0) -> httpx2.AsyncClient:
    """Create an HTTP client, which the caller must close.

    The first call imports the HTTP package, so make it in a thread.
    """
    import httpx2

    return httpx2.AsyncClient(timeout=httpx2.Timeout(seconds, connect=10.0), follow_redirects=False)


@asynccontextmanager
async def talking(title: str) -> AsyncIterator[None]:
    """Turn connection errors inside the block into `GatewayError`."""
    import httpx2

    try:
        yield
    except httpx2.HTTPError as error:
        raise GatewayError(f"{title} cannot be reached ({type(error).__name__}).") from error


def odd_answer(title: str, error: Exception) -> GatewayError:
    """Return the error for an answer of an unknown form, the reading of which raised one of `ODD`."""
    return GatewayError(f"{title} answers in a form that is not known ({type(error).__name__}).")


@contextmanager
def reading(title: str) -> Iterator[None]:
    """Turn the errors raised inside the block by an answer of unknown form into `GatewayError`."""
    try:
        yield
    except ODD as error:
        raise odd_answer(title, error) from error


async def receive(
    client: httpx2.AsyncClient, request: httpx2.Request, most: int, title: str, beyond: GatewayError
) -> tuple[httpx2.Response, bytes]:
    """Send a request; return the response and its body.

    Raises `GatewayError`, and `beyond` if the body has more than `most` bytes.
    """
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
    """Send a request; return the body of the response.

    Raises `UndeliverableError` beyond `most` bytes; see also `raise_for_status`.
    """
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
    """Send `body` as JSON, or the bytes in `raw`, and return the parsed JSON response; None if that is empty.

    Raises `GatewayError`.
    """
    sent = raw if body is None else json.dumps(body, ensure_ascii=False).encode()
    head = {"Content-Type": "application/json", **(headers or {})}
    request = client.build_request(method, url, content=sent, headers=head)
    response, data = await receive(client, request, ANSWER, title, GatewayError(f"{title} answers too much."))
    raise_for_status(response.status_code, response.headers, data, title)
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
    """Send a request; return status, headers and body of the response, whatever the status is.

    Errors never contain the URL, because it may include a token. Raises `GatewayError`, and `ConfigError` if
    the request is invalid.
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
    """Raise the matching error, with the platform's own message, for an HTTP status of 300 or more."""
    if status < 300:
        return
    said = one_line(body[:300].decode("utf-8", "replace"))
    if status == 429:
        raise RateLimitedError(asked_pause(headers, body))
    if status == 401 and not is_page(body):
        raise BadCredentialsError(f"{title} does not take the token; set it again.")
    if 400 <= status < 500 and status not in (407, 408, 425) and not is_page(body):
        raise UndeliverableError(status_sentence(f"{title} refuses with", status, said))
    raise GatewayError(status_sentence(f"{title} answers", status, said))


def is_page(body: bytes) -> bool:
    """Return whether a body is an HTML page, as a proxy in front of the platform sends it. Pure."""
    return body.lstrip()[:1] == b"<"


def is_object(body: bytes) -> bool:
    """Return whether a body is a JSON object, which the platform sends and a proxy hardly does. Pure."""
    try:
        return isinstance(json.loads(body), dict)
    except (ValueError, RecursionError):
        return False


def status_sentence(start: str, status: int, said: str) -> str:
    """Return a sentence about a status, with the platform's own message if there is one."""
    return f"{start} {status}{f': {said}' if said else ''}".rstrip(".") + "."


def asked_pause(headers: Mapping[str, Any], body: bytes = b"") -> float:
    """Return the seconds to wait that an answer with the status 429 asks for."""
    from agent.model.transport.waits import asked_wait

    named = {str(name): str(value) for name, value in headers.items()}
    told = asked_wait(named, 429, body.decode("utf-8", "replace"))
    return USUAL_PAUSE if told is None else told


def file_kind(media_type: str) -> FileKind:
    """Return the kind of file that a media type means: an image, a recording or another file. Pure."""
    if media_type.startswith("image/"):
        return "image"
    return "voice" if media_type.startswith("audio/") else "file"


def require_host(url: str, hosts: tuple[str, ...], api_url: str) -> str:
    """Return the URL of a file if the platform itself hosts it: only the platform may receive the token.

    Subdomains of `hosts` are accepted too. Raises `UndeliverableError`.
    """
    host, ours = urlsplit(url).hostname or "", urlsplit(api_url)
    secure = urlsplit(url).scheme == "https"
    if secure and any(host == each or host.endswith(f".{each}") for each in hosts):
        return url
    if api_url and urlsplit(url).netloc == ours.netloc and urlsplit(url).scheme == ours.scheme:
        return url
    raise UndeliverableError("The file is not stored by the platform; it is not fetched.")
