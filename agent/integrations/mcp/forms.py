"""Forms that servers ask a person to fill in: fields, defaults, and what was typed as values. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from agent.errors import ConfigError
from tools.text.redact import is_secret_name
from tools.text.safe_text import clean

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
    """Values with what a person reads."""
    format: str = ""
    minimum: float | None = None
    maximum: float | None = None

    @property
    def title(self) -> str:
        """What it is called, without its description."""
        return self.label.partition(": ")[0]

    @property
    def default_text(self) -> str:
        """Its default as a person would type it."""
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
        """Whether it seems to ask for a secret, of which a person is warned."""
        return is_secret_name(self.name) or is_secret_name(self.label.replace(" ", "_"))

    def value(self, text: str) -> Any:
        """What was typed, as the field takes it. Raises `ConfigError` with what it takes."""
        typed = text.strip()
        match self.kind:
            case "choice":
                return self._chosen(typed)
            case "choices":
                return [self._chosen(part.strip()) for part in typed.split(",") if part.strip()]
            case "yes-no" if typed.lower() in _YES | _NO:
                return typed.lower() in _YES
            case "number" | "integer":
                return self._number(typed)
            case "text":
                return typed
        raise ConfigError(f"{self.title} takes yes or no.")

    def _chosen(self, typed: str) -> str:
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
    """The fields of a form, in its order; what is no field of a form is passed over."""
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
    """What was typed into a form, by name: the values, and what is wrong with the others."""
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
    """A form filled in with nothing but its defaults."""
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
    """Values and labels, in any of the ways in which a schema lists them."""
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
