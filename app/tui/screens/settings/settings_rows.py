"""The settings as rows: what each is called, what it holds, where that comes from. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from app.tui.commands.keys import ALIASES, Keys, bindables
from app.tui.screens.settings.preferences import takes_effect_at_once
from widgets.key_names import shown_key

if TYPE_CHECKING:
    from agent.core.config.layers import SettingSource
    from agent.core.config.loader import LoadedSettings
    from agent.core.config.problem import Path as KeyPath

Kind = Literal["heading", "switch", "choice", "text", "keys", "fixed"]

TITLES = {
    "model": "Model",
    "providers": "Providers",
    "agent": "Agent",
    "context": "Context",
    "terminal": "Terminal",
    "tools": "Tools",
    "approvals": "Approvals",
    "local": "Model on this machine",
    "display": "Display",
    "watcher": "Watcher",
    "keys": "Keys",
}
MASK = "••••"
OWN_FILE, PROJECT_FILE = "config.yaml", ".hermes/config.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingRow:
    """One line of the settings screen."""

    key: str
    """The dotted key; of a heading, the section."""
    name: str
    """The key as it is shown below its heading."""
    kind: Kind
    value: str = ""
    """What is in force, as one text without secrets."""
    given: str | None = None
    """What to begin with when it is edited; None when that would show a secret."""
    default: str = ""
    help: str = ""
    takes: str = ""
    origin: str = ""
    """Where the value comes from; empty for a default."""
    overridden: str = ""
    """Why the person's own file does not count here; empty when it does."""
    is_own: bool = False
    """Whether the person's own file holds it."""
    choices: tuple[str, ...] = ()

    @property
    def effect(self) -> str:
        """When a change is felt."""
        return "at once" if takes_effect_at_once(self.key) else "next session"

    @property
    def searched(self) -> str:
        """What a filter looks through."""
        return f"{self.key} {self.value} {self.origin or 'default'} {self.help}"


def rows(loaded: LoadedSettings, own: LoadedSettings, keys: Keys) -> list[SettingRow]:
    """All settings, section by section. `own` is what the person's file alone says."""
    from agent.core.config.schema import Settings

    found: list[SettingRow] = []
    for section in Settings.model_fields:
        members = list(_members(section, loaded, own, keys))
        about = "none yet · hermes config set providers.NAME.base_url ADDRESS"
        note = about if section == "providers" and not members else ""
        title = TITLES.get(section, section.capitalize())
        searched = " ".join([title, *(row.searched for row in members)])
        found.append(SettingRow(key=section, name=title, kind="heading", value=note, help=searched))
        found += members
    return found


def _members(section: str, loaded: LoadedSettings, own: LoadedSettings, keys: Keys) -> Iterator[SettingRow]:
    from agent.core.config import setting_names as names
    from agent.core.config.schema import Settings

    if section == "keys":
        yield from _key_rows(loaded, own, keys)
        return
    for path in _paths((section,), Settings.model_fields[section].annotation, _value_at(loaded, (section,))):
        field = names.field_at(path)
        if field is not None:
            yield _setting(path, field, loaded, own)


def _paths(path: KeyPath, annotation: Any, value: Any) -> Iterator[KeyPath]:
    """The settings below `path`; of what a person names, those that are there."""
    from agent.core.config import setting_names as names

    if section := names.section_of(annotation):
        for name, field in section.model_fields.items():
            yield from _paths((*path, name), field.annotation, _member(value, name))
    elif names.section_of(entry := names.entry_of(annotation)) is not None:
        for name in value or {}:
            yield from _paths((*path, name), entry, _member(value, name))
    else:
        yield path


def _setting(path: KeyPath, field: Any, loaded: LoadedSettings, own: LoadedSettings) -> SettingRow:
    from agent.core.config import setting_names as names
    from agent.core.config.reference import default

    key = ".".join(map(str, path))
    value = _value_at(loaded, path)
    kind, choices = _kind(field.annotation)
    secret = names.is_secret(path)
    shown = _text(value, secret=secret)
    return SettingRow(
        key=key,
        name=key.partition(".")[2],
        kind="fixed" if secret else kind,
        value=shown,
        given=None if secret else _given(_value_at(own, path)),
        default=default(field).strip("`"),
        help=field.description or "",
        takes=names.takes(field),
        origin=_origin(_source(loaded, path)),
        overridden=_overridden(path, loaded, own, secret=secret),
        is_own=_source(own, path) is not None,
        choices=choices,
    )


def _kind(annotation: Any) -> tuple[Kind, tuple[str, ...]]:
    """How a setting of this type is changed, and what there is to choose from."""
    if annotation is bool:
        return "switch", ("true", "false")
    if get_origin(annotation) is Literal:
        return "choice", tuple(map(str, get_args(annotation)))
    parts = [part for part in get_args(annotation) if part is not NoneType]
    if NoneType in get_args(annotation) and len(parts) == 1 and get_origin(parts[0]) is Literal:
        return "choice", (*map(str, get_args(parts[0])), "unset")
    return "text", ()


def _key_rows(loaded: LoadedSettings, own: LoadedSettings, keys: Keys) -> Iterator[SettingRow]:
    """Everything that can have keys, and what the file says beyond that."""
    wishes = loaded.settings.keys
    for id, each in bindables().items():
        by_default = " ".join(map(shown_key, each.keys)) or "none"
        said = next((name for name in (id, *_aliases(id)) if name in wishes), id)
        yield _key_row(said, each.name, keys.of(id), by_default, loaded, own)
    for id in wishes:
        if ALIASES.get(id, id) not in bindables():
            yield _key_row(id, "There is no such command.", (), "none", loaded, own)


def _aliases(id: str) -> list[str]:
    return [other for other, meant in ALIASES.items() if meant == id]


def _key_row(
    id: str,
    name: str,
    in_force: tuple[str, ...],
    by_default: str,
    loaded: LoadedSettings,
    own: LoadedSettings,
) -> SettingRow:
    path = ("keys", id)
    return SettingRow(
        key=f"keys.{id}",
        name=id,
        kind="keys",
        value=" ".join(map(shown_key, in_force)) or "none",
        given=own.settings.keys.get(id, ", ".join(in_force)),
        default=by_default,
        help=name,
        takes="keys as `ctrl+l` or `f5`, parted by commas; nothing for none",
        origin=_origin(_source(loaded, path)),
        overridden=_overridden(path, loaded, own),
        is_own=_source(own, path) is not None,
    )


# Values and where they come from


def _member(value: Any, name: object) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, str(name), None)


def _value_at(loaded: LoadedSettings, path: KeyPath) -> Any:
    value: Any = loaded.settings
    for part in path:
        value = _member(value, part)
    return value


def _source(loaded: LoadedSettings, path: KeyPath) -> SettingSource | None:
    """Where a setting comes from; a mapping comes from where its first entry does."""
    direct = loaded.sources.get(path)
    below = (source for at, source in loaded.sources.items() if at[: len(path)] == path)
    return direct or next(below, None)


def _origin(source: SettingSource | None) -> str:
    if source is None:
        return ""
    if source.place is None:
        return source.origin
    where = "project" if source.origin == PROJECT_FILE else source.origin
    return f"{where}:{source.place.line}"


def _overridden(path: KeyPath, loaded: LoadedSettings, own: LoadedSettings, *, secret: bool = False) -> str:
    source, mine = _source(loaded, path), _source(own, path)
    if source is None or source.origin == OWN_FILE:
        return ""
    if source.origin == PROJECT_FILE:
        why, end = f"This project sets it ({source})", "the project no longer does"
    else:
        why, end = f"The variable {source.origin} sets it", "the variable is gone"
    if mine is None:
        return f"{why}. A change is written to your file and counts once {end}."
    return f"{why}; your own {_text(_value_at(own, path), secret=secret)} ({mine}) counts once {end}."


def _text(value: Any, *, secret: bool = False) -> str:
    """A value as one line; what looks like a secret is masked."""
    from tools.text.redact import redact
    from widgets.rows.row_text import one_line

    if value is None:
        return "unset"
    if value in ("", [], {}):
        return "empty"
    if secret:
        return MASK
    if isinstance(value, list):
        return one_line(redact(", ".join(map(str, value))))
    return one_line(redact(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)))


def _given(value: Any) -> str | None:
    """What an editor begins with; None when it would show something secret."""
    from tools.text.redact import redact

    if value is None:
        return ""
    if isinstance(value, list):
        text = (
            ", ".join(map(str, value)) if all("," not in str(item) for item in value) else json.dumps(value)
        )
    else:
        text = value if isinstance(value, str) else json.dumps(value)
    return text if redact(text) == text else None
