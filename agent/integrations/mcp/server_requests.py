"""Requests that servers send: forms and URLs for the user, and questions for the model."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from agent.core.event_data import FormReply
from agent.core.messages import Message
from agent.errors import ConfigError, HermesError
from agent.integrations.mcp.server import RefusedError
from agent.model.transport.reply import ASIDE, ModelRoute, ask_aside
from agent.model.usage import Meter
from agent.safety.gate import Gate
from tools.context import Asker
from tools.results import DeniedError
from tools.services.actions import SampleModel
from tools.text.redact import is_secret_name
from tools.text.safe_text import clean, reveal

FieldKind = Literal["text", "number", "integer", "yes-no", "choice", "choices"]
MOST_FIELDS = 50
_YES, _NO = frozenset({"yes", "y", "true", "on", "1"}), frozenset({"no", "n", "false", "off", "0"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """One field of a form."""

    name: str
    kind: FieldKind
    label: str
    required: bool = False
    default: Any = None
    choices: tuple[tuple[str, str], ...] = ()
    """Values, each with the label that the user sees."""
    format: str = ""
    minimum: float | None = None
    maximum: float | None = None

    @property
    def title(self) -> str:
        """The field's label, without its description."""
        return self.label.partition(": ")[0]

    @property
    def default_text(self) -> str:
        """The default as the user would type it; empty if there is none."""
        if self.default is None:
            return ""
        match self.kind:
            case "yes-no":
                return "yes" if self.default is True else "no"
            case "choice":
                return next((label for value, label in self.choices if value == self.default), "")
            case "choices" if isinstance(self.default, list):
                chosen = {str(each) for each in self.default}
                return ", ".join(label for value, label in self.choices if value in chosen)
        return clean(str(self.default))[:200]

    @property
    def is_secret(self) -> bool:
        """Whether the field seems to ask for a secret. The user is then warned."""
        return is_secret_name(self.name) or is_secret_name(self.label.replace(" ", "_"))

    def value(self, text: str) -> Any:
        """Convert typed text to the field's type. Raises `ConfigError`, which names what is accepted."""
        typed = text.strip()
        match self.kind:
            case "choice":
                return self._choice_value(typed)
            case "choices":
                return [self._choice_value(part.strip()) for part in typed.split(",") if part.strip()]
            case "yes-no" if typed.lower() in _YES | _NO:
                return typed.lower() in _YES
            case "number" | "integer":
                return self._number(typed)
            case "text":
                return typed
        raise ConfigError(f"{self.title} takes yes or no.")

    def _choice_value(self, typed: str) -> str:
        for value, label in self.choices:
            if typed in (value, label):
                return value
        raise ConfigError(f"{self.title} takes one of: {', '.join(label for _, label in self.choices)}.")

    def _number(self, typed: str) -> float | int:
        try:
            number = int(typed) if self.kind == "integer" else float(typed)
        except ValueError:
            kind = "a whole number" if self.kind == "integer" else "a number"
            raise ConfigError(f"{self.title} takes {kind}.") from None
        if self.minimum is not None and number < self.minimum:
            raise ConfigError(f"{self.title} takes {self.minimum:g} or more.")
        if self.maximum is not None and number > self.maximum:
            raise ConfigError(f"{self.title} takes {self.maximum:g} or less.")
        return number


def form_fields(schema: Mapping[str, Any]) -> tuple[FormField, ...]:
    """Return up to `MOST_FIELDS` fields of a form in order. Entries that are not fields are skipped."""
    properties = schema.get("properties")
    required = schema.get("required")
    wanted = (
        frozenset(each for each in required if isinstance(each, str))
        if isinstance(required, list)
        else frozenset()
    )
    if not isinstance(properties, Mapping):
        return ()
    entries = list(properties.items())[:MOST_FIELDS]
    return tuple(_field(name, each, name in wanted) for name, each in entries if isinstance(each, Mapping))


def filled_form(
    fields: Sequence[FormField], texts: Mapping[str, str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of a form from the texts typed into it, and the errors, both by field name."""
    values: dict[str, Any] = {}
    wrong: dict[str, str] = {}
    for field in fields:
        text = texts.get(field.name, "").strip()
        if not text:
            if field.required:
                wrong[field.name] = f"{field.title} is needed."
            continue
        try:
            same = field.default is not None and text == field.default_text
            values[field.name] = field.default if same else field.value(text)
        except ConfigError as error:
            wrong[field.name] = str(error)
    return values, wrong


def form_defaults(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the default values of a form by field name."""
    return {field.name: field.default for field in form_fields(schema) if field.default is not None}


def _field(name: str, given: Mapping[str, Any], required: bool) -> FormField:
    kind, choices = _kind(given)
    label = clean(str(given.get("title") or name))[:200]
    described = clean(str(given.get("description") or ""))[:500]
    return FormField(
        name=name,
        kind=kind,
        label=f"{label}: {described}" if described else label,
        required=required,
        default=given.get("default"),
        choices=choices,
        format=clean(str(given.get("format") or "")),
        minimum=_limit(given.get("minimum")),
        maximum=_limit(given.get("maximum")),
    )


def _kind(given: Mapping[str, Any]) -> tuple[FieldKind, tuple[tuple[str, str], ...]]:
    kind = given.get("type")
    if kind == "array":
        items = given.get("items")
        return "choices", _choices(items) if isinstance(items, Mapping) else ()
    if choices := _choices(given):
        return "choice", choices
    kinds: dict[Any, FieldKind] = {"boolean": "yes-no", "integer": "integer", "number": "number"}
    return kinds.get(kind, "text"), ()


def _choices(given: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return value and label of each choice, from any of the forms that a schema may use."""
    for key in ("oneOf", "anyOf"):
        if isinstance(listed := given.get(key), list):
            pairs = [(each.get("const"), each.get("title")) for each in listed if isinstance(each, Mapping)]
            return tuple(
                (str(value), clean(str(title or value))) for value, title in pairs if value is not None
            )
    values = given.get("enum")
    if not isinstance(values, list):
        return ()
    names = given.get("enumNames")
    labels = names if isinstance(names, list) and len(names) == len(values) else values
    return tuple((str(value), clean(str(label))) for value, label in zip(values, labels, strict=True))


def _limit(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


LONGEST_REQUEST = 2_000
"""The maximum number of characters of a server's message that are shown."""
_DECLINE, _OPENED = "Decline", "Done, continue"


class FormAsker(Asker):
    """An interface to ask the user that can also show a form."""

    @abstractmethod
    async def fill_in(self, server: str, message: str, fields: Sequence[FormField]) -> FormReply: ...


async def ask_person(asker: FormAsker, server: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Ask the user; return the `action` (accept, decline or cancel) and the `content` of the form."""
    message = clean(str(params.get("message") or ""))[:LONGEST_REQUEST]
    if params.get("mode") == "url":
        return await _address(asker, server, message, str(params.get("url") or ""))
    schema = params.get("requestedSchema")
    return await _form(asker, server, message, form_fields(schema if isinstance(schema, Mapping) else {}))


def with_defaults(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the answer that accepts a form with all its defaults. A URL to open is declined."""
    if params.get("mode") == "url":
        return {"action": "decline"}
    schema = params.get("requestedSchema")
    return {"action": "accept", "content": form_defaults(schema if isinstance(schema, Mapping) else {})}


async def _address(asker: FormAsker, server: str, message: str, url: str) -> Mapping[str, Any]:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return {"action": "decline"}
    question = (
        f"The MCP server {server} asks you to open a page of {parts.hostname} in your browser.\n{message}\n\n"
        f"{reveal(url)}"
    )
    answer = await asker.ask(question, (_OPENED, _DECLINE), False)
    return {"action": _action(answer.outcome, answer.text)}


async def _form(
    asker: FormAsker, server: str, message: str, fields: tuple[FormField, ...]
) -> Mapping[str, Any]:
    reply = await asker.fill_in(server, message, fields)
    match reply.outcome:
        case "answered":
            return {"action": "accept", "content": dict(reply.values)}
        case "declined":
            return {"action": "decline"}
    return {"action": "cancel"}


def _action(outcome: str, text: str) -> str:
    if outcome == "answered":
        return "decline" if text == _DECLINE else "accept"
    return "decline" if outcome == "declined" else "cancel"


MOST_TOKENS = 4_096
"""The maximum number of tokens of an answer, whatever the server asks for."""
LONGEST = 200_000
"""The maximum number of characters of a question."""
_SHOWN = 1_000


class Sampling:
    """Requests of servers to one model of the session."""

    def __init__(
        self, route: ModelRoute, meter: Meter, gate: Gate, may_ask: Callable[[], bool], retries: int = 1
    ) -> None:
        """Set up the requests. `may_ask` returns whether the user is present, or a budget limits the cost."""
        self._route = route
        self._meter = meter
        self._gate = gate
        self._may_ask = may_ask
        self._retries = retries

    async def ask(self, server: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the model's answer to a server's messages. Raises `RefusedError`."""
        messages = _messages(params.get("messages"))
        system = clean(str(params.get("systemPrompt") or ""))
        if sum(len(each.content) for each in messages) + len(system) > LONGEST:
            raise RefusedError(f"the question has more than {LONGEST:,} characters")
        if not self._may_ask():
            raise RefusedError("nobody is there and budget.session bounds nothing, so the model is not asked")
        shown = " ".join(messages[-1].content.split())[:_SHOWN]
        try:
            await self._gate.permit(SampleModel(tool="sampling", server=server, text=shown))
        except DeniedError as error:
            raise RefusedError(f"the user did not allow it: {clean(str(error))[:300]}") from error
        wanted = params.get("maxTokens")
        tokens = min(wanted, MOST_TOKENS) if isinstance(wanted, int) and wanted > 0 else MOST_TOKENS
        try:
            system = system or "You answer a question of a tool server."
            reply = await ask_aside(self._route, system, messages, tokens, self._retries)
        except TimeoutError:
            raise RefusedError(f"the model gave no answer within {ASIDE:g} s") from None
        except HermesError as error:
            raise RefusedError(f"the model could not be asked: {clean(str(error))[:200]}") from error
        self._meter.add_aside(reply.usage, self._route.name)
        return {
            "role": "assistant",
            "content": {"type": "text", "text": reply.text},
            "model": self._route.name,
            "stopReason": "maxTokens" if reply.finish == "length" else "endTurn",
        }


def _messages(given: Any) -> list[Message]:
    """Return the messages of a server's request. Raises `RefusedError` for content that is not text."""
    if not isinstance(given, Sequence) or not given:
        raise RefusedError("it asked nothing")
    found = []
    for each in given:
        parts = each.get("content") if isinstance(each, Mapping) else None
        listed = parts if isinstance(parts, list) else [parts]
        texts = [part.get("text") if isinstance(part, Mapping) else None for part in listed]
        if any(not isinstance(text, str) for text in texts):
            raise RefusedError("only questions in text are passed on")
        text = "\n".join(clean(str(text)) for text in texts)
        found.append(Message("assistant" if each.get("role") == "assistant" else "user", text))
    return found
