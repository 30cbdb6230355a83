"""Failures of a provider as one `ModelError` with a cause and a fix.

No message ever contains an API key: keys and control characters are removed from a provider's text, and it is
shortened, before the user reads it.
"""

from __future__ import annotations

import json
import math
import os
import re
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from html import unescape
from typing import Any
from urllib.parse import urlsplit

from agent.errors import ModelError, ModelErrorKind
from agent.model.addresses import is_loopback, plain_address
from agent.model.dialect import DEFAULT, Dialect, load
from agent.model.providers import BASE_URL, CUSTOM, KEY
from agent.model.repairs import Refusal, is_overflow, names, window_in
from agent.model.transport.waits import LONGEST_RESET, asked_wait
from tools.kit.lazy_pattern import lazy_pattern
from tools.text.redact import redact
from tools.text.words import shorten

_QUOTA_TEXT = lazy_pattern(
    r"insufficient[_ ](?:quota|credits?|balance|funds)|exceeded your current quota"
    r"|billing[_ ](?:hard[_ ]limit|not[_ ]active)|credit balance is too low|payment required",
    re.IGNORECASE,
)
_FILTER_TEXT = lazy_pattern(
    r"content[_ -]?(?:filter|policy|management)|content exists risk"
    r"|(?:inappropriate|unsafe|sensitive) content"
    r"|data[_ ]?inspection|moderation|flagged|guardrail|considered high risk|safety (?:system|polic)"
    r"|responsibleai|\u654f\u611f\u5185\u5bb9",  # "sensitive content" in Chinese
    re.IGNORECASE,
)

_OUTPUT_TEXT = lazy_pattern(
    r"failed_generation|tool_use_failed|error parsing tool call|error in extracting tool call"
    r"|failed to parse (?:input at pos|tool call arguments)|malformed function call|xml syntax error on line"
    r"|unexpected tokens remaining in message header|tool call validation failed",
    re.IGNORECASE,
)
"""Matches errors of servers that could not parse a call that the model wrote."""

_PAGE = lazy_pattern(r"<(?:!doctype\s+html|html|head|body|center|h1|title)\b[^>]*>", re.IGNORECASE)
_TITLE = lazy_pattern(r"<(?:title|h1)\b[^>]*>(.{1,300}?)</", re.IGNORECASE | re.DOTALL)
_OUTAGE = lazy_pattern(r"\b[45]\d\d\b|gateway|unavailable|time-?out|denied|forbidden|error", re.IGNORECASE)
"""Matches titles of error pages that a gateway quotes; other pages may be part of the conversation."""
_NO_KEY = lazy_pattern(
    r"\bauth(?:entication)?_error\b|\bno api[ _-]?key (?:was )?(?:passed|provided|given|sent)", re.I
)
_NO_MODEL = lazy_pattern(
    r"\b(?:invalid|unknown|no such) model(?: name| id)?\b|\bmodel\b.{1,90}\b(?:does not exist|not found)\b",
    re.I,
)
_ABOUT_THE_PERSON = (401, 402, 404, 405, 407, 410, 413, 429)
"""Statuses that keep their meaning even in the page of a proxy."""

_STATUS_KINDS: dict[int, ModelErrorKind] = {
    401: "auth",
    402: "billing",
    403: "auth",
    404: "not_found",
    405: "not_found",
    408: "timeout",
    409: "overloaded",
    410: "not_found",
    413: "overflow",
    425: "overloaded",
    429: "rate_limit",
}
_WORD_KINDS: tuple[tuple[str, ModelErrorKind], ...] = (
    ("rate_limit", "rate_limit"),
    ("too_many_requests", "rate_limit"),
    ("resource_exhausted", "rate_limit"),
    ("authentication", "auth"),
    ("invalid_api_key", "auth"),
    ("unauthorized", "auth"),
    ("permission", "auth"),
    ("not_found", "not_found"),
    ("timeout", "timeout"),
    ("invalid_request", "bad_request"),
    ("invalid_argument", "bad_request"),
    ("badrequest", "bad_request"),
    ("unsupported", "bad_request"),
)


@dataclass(frozen=True, slots=True)
class Complaint:
    """A provider's description of a failure: a sentence, and its code and type in one lower-case text."""

    text: str
    words: str = ""
    status: int | None = None
    page: str | None = None
    """The title of the web page in it, if there is one: then a proxy answered, not the provider."""


def read_complaint(body: bytes) -> Complaint:
    """Return the description of a failure in an error body, whether it is JSON, a page or empty."""
    text = body.decode("utf-8", "replace").strip()
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return _plain(f"<html>{text}" if text.startswith("<") else text)
    return complaint_of(data)


def complaint_of(data: Any) -> Complaint:
    """Return the description of a failure in an error object of any usual form."""
    if isinstance(data, list):
        data = next((item for item in data if isinstance(item, dict)), {})
    if not isinstance(data, Mapping):
        return _plain("" if data is None else str(data))
    error = _inner(data)
    if not isinstance(error, Mapping):
        return _plain(str(error))
    text = _sentence(error)
    sources = (error,) if error is data else (error, data)
    words = " ".join(
        str(source[name]).lower()
        for source in sources
        for name in ("code", "type", "status")
        if isinstance(source.get(name), str)
    )
    numbers = (source.get(name) for source in sources for name in ("code", "status", "status_code"))
    status = next((found for number in numbers if (found := _http_status(number)) is not None), None)
    return _plain(text, words, status)


def _plain(text: str, words: str = "", status: int | None = None) -> Complaint:
    """Return a description of a failure. An error page in the text is replaced by its title."""
    page = _PAGE.search(text[:1_000])
    if page is None:
        return Complaint(text, words, status)
    title = _TITLE.search(text[: page.start() + 4_000], page.start())
    before = text[: page.start()].strip().rstrip("-:'\"b ")
    named = " ".join(unescape(re.sub("<[^>]*>", " ", title[1])).split()) if title else ""
    if before and not _OUTAGE.search(named):
        return Complaint(text, words, status)
    return Complaint(f"{before}: {named}" if before else "", words, status, named)


def _inner(data: Mapping[str, Any]) -> Any:
    """Return the part of a body that describes the failure, or the body itself."""
    for name in ("error", "errors", "base_resp"):
        part = data.get(name)
        if name == "errors" and isinstance(part, list):
            part = next((each for each in part if each), None)
        if part:
            return part
    inner = data.get("data")
    return data if not isinstance(inner, Mapping) or data.get("message") else inner


_SENTENCES = ("message", "detail", "msg", "status_msg", "error_msg", "reason")


def _sentence(error: Mapping[str, Any]) -> str:
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, Mapping) else None
    message = next((error[name] for name in _SENTENCES if error.get(name)), "")
    if not isinstance(message, str):
        message = json.dumps(message, ensure_ascii=False)
    return f"{message} ({raw})" if isinstance(raw, str) and raw else message


def _http_status(value: object) -> int | None:
    if isinstance(value, str) and len(value) == 3 and value.isascii() and value.isdigit():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 400 <= value < 600 else None


def kind_of(complaint: Complaint, status: int | None, dialect: Dialect | None = None) -> ModelErrorKind:
    """Return the kind of a failure. `status` is the HTTP status, or None inside a stream."""
    words, text = complaint.words, complaint.text
    dialect = dialect or load(DEFAULT)
    if complaint.page is not None and (status is None or status not in _ABOUT_THE_PERSON):
        return "overloaded"
    if _OUTPUT_TEXT.search(f"{words} {text}"):
        return "bad_reply"
    refusal = Refusal(status or 0, text, words)
    if is_overflow(dialect, refusal):
        return "overflow"
    if _QUOTA_TEXT.search(f"{words} {text}") and (status is None or status < 500):
        return "billing"
    if status in (None, 400, 403, 422) and _FILTER_TEXT.search(f"{words} {text}"):
        return "content_filter"
    if "no_db_connection" in words or (_NO_KEY.search(f"{words} {text}") and status in (None, 400, 500)):
        # LiteLLM's text for an invalid or missing key.
        return "auth"
    if names(dialect, refusal, "drop_image"):
        return "images"
    if status == 400 and (("model" in words and "not_found" in words) or _NO_MODEL.search(text)):
        return "not_found"
    if status is not None:
        if status in _STATUS_KINDS:
            return _STATUS_KINDS[status]
        return "overloaded" if status >= 500 else "bad_request"
    for word, kind in _WORD_KINDS:
        if word in words:
            return kind
    return "overloaded"


def is_complaint(payload: Mapping[str, Any]) -> bool:
    """Return whether an object in an answer reports an error and is not a piece of the answer."""
    if payload.get("error"):
        return True
    if payload.get("choices") is not None:
        return False
    if payload.get("object") == "error" or payload.get("type") == "error" or "detail" in payload:
        return True
    base = payload.get("base_resp")
    if isinstance(base, Mapping) and base.get("status_code"):
        return True
    if payload.get("error_code") and payload.get("error_msg"):
        return True
    # The data of an event called `error` is the complaint itself.
    return isinstance(payload.get("message"), str) and bool(payload.keys() & {"type", "code"})


DETAIL = 300
"""The maximum number of characters of a provider's text in a message."""

_KEY_LIKE = lazy_pattern(
    r"\b(?:sk|pk|rk|key|gsk|xai|hf|nvapi|AIza)[-_][^\s\"',;]{6,}|\bBearer\s+\S+|\S*\*{3,}\S*"
)

_TOOLS_TEXT = lazy_pattern(
    r"(?:not|n't) support (?:tools?|function|tool use)|tool choice requires|enable-auto-tool-choice"
    r"|support tool use",
    re.IGNORECASE,
)
_NOWHERE = lazy_pattern(
    r"^\W*(?:(?:404|error|page|path|route|resource|url|endpoint|the|requested|file)\b\W*)*"
    r"(?:(?:was |is )?not found|does not exist|nothing here)?\W*$"
    r"|\b(?:invalid|unknown|unrecognized) (?:request )?(?:url|path|endpoint|route)"
    r"|cannot (?:post|get)\b|no (?:such |matching )?(?:route|path|handler|url)\b|method not allowed",
    re.IGNORECASE,
)
"""Matches answers from an address that does not exist; other sentences are about the model."""

_BEHIND = lazy_pattern(
    r"\blitellm\.(?!RateLimit)\w+: (?:litellm\.\w+: )?\w+Exception\b|\bprovider returned error\b",
    re.IGNORECASE,
)
"""Matches texts of gateways that quote the provider behind them."""
_OF_THE_GATEWAY = ("auth", "billing", "not_found")
"""Kinds of failures that then concern the gateway's own key, account or settings."""


def _proxy_variable(url: str) -> str:
    """Return the variable that sends requests to this address through a proxy; empty if none does."""
    # Imported here, as it costs a start much, and this is for failures only.
    from urllib.request import proxy_bypass

    parts = urlsplit(url)
    if is_loopback(url) or proxy_bypass(parts.hostname or ""):
        return ""
    names = [name for kind in (parts.scheme, "all") for name in (f"{kind}_proxy", f"{kind}_proxy".upper())]
    return next((name for name in names if os.environ.get(name)), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """Turns the failures of one provider into errors for the user.

    `provider` is empty for an address that is not a provider yet; `title` is the name of the wire format;
    `key_hint` names the environment variable that holds the key; `stall_timeout` is in seconds.
    """

    title: str = "chat completions"
    provider: str
    base_url: str
    key_hint: str
    api_key: str
    stall_timeout: float
    secrets: tuple[str, ...] = ()
    """Further secrets that messages must not show."""

    def refusal_error(
        self, status: int, headers: Mapping[str, str], body: bytes, dialect: Dialect | None = None
    ) -> ModelError:
        """Return the error for an unsuccessful HTTP status.

        The first call is slow, because it compiles regular expressions.
        """
        if 300 <= status < 400:
            target = headers.get("location", "")
            shown = self.clean(plain_address(target)) or "nowhere"
            return ModelError(
                "not_found",
                f"{self.provider} redirects {self.address} to {shown}; "
                f"set the right address: {self.setting('base_url', 'URL')}.",
                status=status,
            )
        complaint = read_complaint(body)
        wait = asked_wait(headers, status, body.decode("utf-8", "replace"))
        return self._error(complaint, status, wait, dialect or load(DEFAULT))

    def in_stream(self, payload: Mapping[str, Any]) -> ModelError:
        """Return the error for a failure reported in the middle of an answer."""
        complaint = complaint_of(payload)
        dialect = load(DEFAULT)
        limited = kind_of(complaint, complaint.status, dialect) == "rate_limit"
        wait = asked_wait({}, 429, complaint.text) if limited else None
        return self._error(complaint, complaint.status, wait, dialect)

    def cut_error(self, reason: str = "") -> ModelError:
        """Return the error for an answer that ended too early."""
        because = f" ({self.clean(reason)})" if reason else ""
        return ModelError(
            "cut", f"The answer of {self.provider} broke off before it was complete{because}; try again."
        )

    def bad_reply(self, what: str, found: str = "") -> ModelError:
        """Return the error for a response that is not a reply.

        `what` describes the response, `found` quotes it.
        """
        shown = f": {self.clean(found)}" if found.strip() else ""
        return ModelError(
            "bad_reply",
            f"{self.provider} at {self.address} sent {what}{shown}; if this stays, check "
            f"providers.{self.provider}.base_url (it ends in /v1 as a rule).",
        )

    def transport(self, error: BaseException) -> ModelError:
        """Return the error for a failed connection, from an exception of the HTTP library or one caused by
        it.
        """
        chain = list(_causes(error))
        names = {type(cause).__name__ for cause in chain}
        if any(isinstance(cause, ssl.SSLError) for cause in chain):
            failed = next(cause for cause in chain if isinstance(cause, ssl.SSLError))
            reason = self.clean(failed.reason or str(failed))
            mend = "it may speak http:// only; check the address"
            if "CERTIFICATE" in reason:
                mend = "name a file with its authority's certificate in SSL_CERT_FILE, or check the address"
            return self._unreachable(f"the secure connection failed ({reason})", mend)
        if any(isinstance(cause, socket.gaierror) for cause in chain):
            return self._unreachable("the host name is unknown", "check the network and the address")
        if "ConnectTimeout" in names:
            return self._unreachable("nobody answered in time", "check the network and the address")
        if "ConnectError" in names or "ProxyError" in names:
            # By number, as asyncio's own text repeats the address.
            number = next((cause.errno for cause in chain if isinstance(cause, OSError) and cause.errno), 0)
            reason = os.strerror(number).lower() if number else ""
            reason = reason or ("the proxy refused" if "ProxyError" in names else "no connection")
            start = "start the server, or " if is_loopback(self.base_url) else ""
            return self._unreachable(self.clean(reason), f"{start}check the network and the address")
        if names & {"UnsupportedProtocol", "InvalidURL", "LocalProtocolError"}:
            return self._unreachable("the address or a header is malformed", "correct it")
        if names & {"ReadTimeout", "WriteTimeout", "PoolTimeout"}:
            return ModelError(
                "timeout",
                f"{self.provider} sent nothing for {self.stall_timeout:g} s; "
                "try again, or raise model.stall_timeout.",
            )
        if "DecodingError" in names:
            return self.bad_reply("an answer that cannot be decompressed")
        return self.cut_error("connection lost")

    @property
    def address(self) -> str:
        """The base URL without secrets."""
        return self.clean(plain_address(self.base_url))

    def setting(self, name: str, value: str) -> str:
        """Return the shell command that changes a setting of this provider, or the variable that holds it."""
        if (self.provider, name, self.key_hint) == (CUSTOM, "base_url", KEY):
            return BASE_URL
        return f"`hermes config set providers.{self.provider}.{name} {value}`"

    def _unreachable(self, reason: str, mend: str) -> ModelError:
        setting = f" ({self.setting('base_url', 'URL')})" if self.provider else ""
        who = f"{self.provider} at {self.address}" if self.provider else self.address
        if variable := _proxy_variable(self.base_url):
            who, mend, setting = f"{who} through a proxy", f"correct {variable}, or unset it", ""
        return ModelError("unreachable", f"Cannot reach {who}: {reason}; {mend}{setting}.")

    def _error(
        self, complaint: Complaint, status: int | None, wait: float | None, dialect: Dialect
    ) -> ModelError:
        kind = kind_of(complaint, status, dialect)
        detail = self.clean(complaint.text)
        code = f" (HTTP {status})" if status is not None else ""
        cause, mend = self._cause(kind, status, detail), self._mend(kind, status, detail)
        if kind == "rate_limit" and wait is not None and wait > LONGEST_RESET:
            hours, minutes = divmod(math.ceil(wait / 60), 60)
            mend = mend.replace("later", f"in {hours} h {minutes} min" if hours else f"in {minutes} min")
        shown = detail or self.clean(complaint.page or "")
        said = f": {shown.rstrip('.')}" if shown else ""
        if not detail and complaint.page is not None and kind == "overloaded" and (status or 500) < 500:
            cause = f"A proxy or a firewall in front of {self.provider} refused the request"
        return ModelError(
            kind,
            f"{cause}{code}{said}; {mend}.",
            status=status,
            retry_after=wait,
            limit=window_in(dialect, complaint.text) if kind == "overflow" else None,
            # The text of a page is not about the request: nothing is learned from it.
            said=complaint.text if complaint.page is None else "",
            words=complaint.words if complaint.page is None else "",
        )

    def _cause(self, kind: ModelErrorKind, status: int | None, detail: str) -> str:
        if kind in _OF_THE_GATEWAY and _BEHIND.search(detail):
            return f"The gateway {self.provider} was refused by the provider behind it"
        match kind:
            case "auth" if status == 403:
                return f"{self.provider} refused access"
            case "auth" if not self.api_key:
                return f"{self.provider} wants an API key"
            case "auth":
                return f"{self.provider} refused the API key"
            case "billing":
                return f"The account at {self.provider} has no credit left"
            case "rate_limit":
                return f"{self.provider} limits the rate of requests"
            case "overloaded":
                return f"{self.provider} had a failure of its own"
            case "timeout":
                return f"{self.provider} gave up waiting"
            case "overflow":
                return "The conversation is larger than the model's window"
            case "not_found" if "model" in detail.lower() and not _TOOLS_TEXT.search(detail):
                return f"{self.provider} does not know the model"
            case "not_found" if not _NOWHERE.search(detail):
                return f"{self.provider} does not offer the model as it was asked for"
            case "not_found":
                return f"There is no {self.title} API at {self.address}"
            case "content_filter":
                return f"{self.provider} refused the content of the conversation"
            case "images":
                return f"{self.provider} does not take an image of the conversation"
            case "bad_reply":
                return f"{self.provider} could not read a call that the model wrote"
            case _:
                return f"{self.provider} refused the request"

    def _mend(self, kind: ModelErrorKind, status: int | None, detail: str) -> str:
        if kind in _OF_THE_GATEWAY and _BEHIND.search(detail):
            return (
                "your own key is not what is wrong: the operator of the gateway has to correct its settings, "
                "or choose another model: `hermes --model NAME`"
            )
        match kind:
            case "auth" if status == 403:
                return f"check what the account and the key in {self.key_hint or 'use'} may do"
            case "auth" if self.key_hint:
                return f"put a valid key into {self.key_hint} (in the terminal: /model, then e)"
            case "auth":
                return f"name the variable that holds the key: {self.setting('api_key_env', 'VARIABLE')}"
            case "billing":
                return "top up the account or choose another model: `hermes --model NAME`"
            case "overflow":
                return "shorten the message, or choose a model with a larger window: `hermes --model NAME`"
            case "bad_request" | "not_found" if _TOOLS_TEXT.search(detail):
                return f"let the calls travel as text: {self.setting('tool_mode', 'text')}"
            case "not_found" if not _NOWHERE.search(detail):
                return "choose one it offers: `hermes --model NAME`"
            case "not_found":
                return f"set its address, which ends in /v1 as a rule: {self.setting('base_url', 'URL')}"
            case "content_filter":
                return "rephrase the request or choose another model: `hermes --model NAME`"
            case "images":
                return "choose a model that reads images: `hermes --model NAME`"
            case "bad_request":
                return "change the named setting or choose another model: `hermes --model NAME`"
            case "overloaded" if self.key_hint and not self.api_key and self.provider != "custom":
                # Some gateways fail internally without a key.
                unsent = f"no key was sent, as {self.key_hint} is not set: set it, or"
                return f"{unsent} try again later or choose another model: `hermes --model NAME`"
            case _:
                return "try again later or choose another model: `hermes --model NAME`"

    def clean(self, text: str) -> str:
        """Return a provider's `text` for display: on one line, shortened, without keys."""
        for secret in (self.api_key, *self.secrets):
            text = text.replace(secret, "[key]") if len(secret) > 3 else text
        text = _KEY_LIKE.sub("[key]", redact(text[: DETAIL * 4]))
        text = " ".join("".join(char if char.isprintable() else " " for char in text).split())
        return shorten(text, DETAIL)


def _causes(error: BaseException | None) -> list[BaseException]:
    """Return `error` and its causes, at most 50, with exception groups expanded."""
    found: list[BaseException] = []
    waiting = [error]
    while waiting and len(found) < 50:
        current = waiting.pop()
        if current is None or any(current is known for known in found):
            continue
        found.append(current)
        waiting.append(current.__cause__ or current.__context__)
        if isinstance(current, BaseExceptionGroup):
            waiting.extend(current.exceptions)
    return found
