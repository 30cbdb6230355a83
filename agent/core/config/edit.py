"""Changing one setting in `config.yaml` and nothing more: comments, order and layout are preserved.

The edit is a small piece of text at a known position. The result is parsed again and must differ in exactly
this setting; otherwise nothing is written, and the error says what to change by hand.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, get_args

from agent.core.config import setting_names, settings_file
from agent.core.config.document import SettingsDocument, UnusableError, decode, parse
from agent.core.config.layers import SettingsLayer, lookup, merge_layers
from agent.core.config.problem import Path, dotted_key
from agent.core.config.schema import SettingsSection
from agent.core.home import PRIVATE_FILE, Home
from agent.errors import ConfigError
from tools.kit.files import write_atomically

if TYPE_CHECKING:
    from tools.kit.yaml_text import MappingNode, Node, ScalarNode

_WIDE = 1_000_000
"""A line width that no value reaches, so that no line is wrapped."""


def set_setting(
    home: Home, key: str, text: str, require_known: Callable[[Path, Any], object] = lambda path, value: None
) -> Any:
    """Set the dotted `key` in `config.yaml` to the value of `text`, and return that value.

    `require_known` raises `ConfigError` for a name that does not exist, where the schema accepts any name.
    The text `null` removes a key that cannot be null, so that its default applies. Raises `ConfigError` if
    the key is unknown, the value is not allowed, or the file cannot be changed safely; the file is then
    unchanged.
    """
    path = _setting(key)
    field = setting_names.field_at(path)
    has_default = field is not None and not field.is_required() and not setting_names.is_nullable(field)
    if text.strip() == "null" and field is not None and has_default:
        unset_setting(home, key)
        return field.get_default(call_default_factory=True)
    value = _value(path, text)
    with _lock_and_read(home) as before:
        document = parse(before or b"", home.config.name)
        _require_allowed(document, path, value)
        require_known(path, value)
        _write(home, before, set_value(before or b"", path, value))
    return value


def setting_value(key: str, text: str) -> Any:
    """Return the value that `text` has for the dotted `key`, without writing it or checking its range.

    Raises `ConfigError` when the key is unknown or is a section.
    """
    return _value(_setting(key), text)


def unset_setting(home: Home, key: str) -> bool:
    """Remove the dotted `key` from `config.yaml`, so that its default applies; return False if it was unset.

    Raises `ConfigError` if the key is unknown or the file cannot be changed safely; it is then unchanged.
    """
    return drop_entry(home, _setting(key)) is not None


def put_entry(home: Home, path: Path, value: Any) -> None:
    """Set a setting or a whole entry, such as a server, at `path` of `config.yaml`.

    Raises `ConfigError` if the value is not allowed or the file cannot be changed safely; it is then
    unchanged.
    """
    with _lock_and_read(home) as before:
        _require_allowed(parse(before or b"", home.config.name), path, value)
        _write(home, before, set_value(before or b"", path, value))


def drop_entry(home: Home, path: Path) -> Callable[[], None] | None:
    """Remove what is at `path` from `config.yaml`; return a function that restores it, or None if missing.

    Raises `ConfigError` if the file cannot be changed safely.
    """
    with _lock_and_read(home) as before:
        data = parse(before, home.config.name).data if before else {}
        if not before or not _holds(data, path):
            return None
        _write(home, before, unset_value(before, path))
    return lambda: put_entry(home, path, lookup(data, path))


@contextmanager
def _lock_and_read(home: Home) -> Iterator[bytes | None]:
    """Lock the file against other Hermes processes and yield its content. Raises `ConfigError`."""
    try:
        with settings_file.lock_and_read(home.config) as before:
            yield before
    except settings_file.UnreadableSettingsError as error:
        raise ConfigError(f"{home.config} cannot be changed: {error}.") from None
    except OSError as error:
        raise ConfigError(f"{home.config} cannot be changed: {error.strerror or error}.") from error


def _write(home: Home, before: bytes | None, after: bytes) -> None:
    if settings_file.read_file(home.config) != before:
        raise ConfigError(f"{home.config} was changed by someone else just now; try again.")
    try:
        write_atomically(home.config, after, PRIVATE_FILE)
    except OSError as error:
        raise ConfigError(f"Cannot write {home.config}: {error.strerror or error}.") from error


def set_value(content: bytes, path: Path, value: Any) -> bytes:
    """Return `content` with one setting changed. Raises `ConfigError` if that cannot be done safely."""
    from tools.kit.yaml_text import YamlError

    before = _sound(content)
    expected = _with(before.data, path, value)
    try:
        text = decode(content)
        edited = _set_entry(text, path, value)
        after = parse(edited.encode(), "config.yaml")
        kept = not [problem for problem in after.problems if not problem.key]
    except (UnusableError, _CannotEditError, UnicodeEncodeError, YamlError):
        edited, after, kept = "", SettingsDocument(), False
    if not kept or after.data != expected:
        lines = "\n".join(_block(path, value, 0))
        raise ConfigError(
            f"`{dotted_key(path)}` cannot be set without disturbing the file. "
            f"Set it by hand; the lines are:\n{lines}"
        )
    return _encode(edited, content)


def unset_value(content: bytes, path: Path) -> bytes:
    """Return `content` without one setting. Raises `ConfigError` if that cannot be done safely."""
    from tools.kit.yaml_text import YamlError

    before = _sound(content)
    try:
        edited = _remove_entry(decode(content), path, before.data)
        after = parse(edited.encode(), "config.yaml")
        kept = not [problem for problem in after.problems if not problem.key]
    except (UnusableError, _CannotEditError, UnicodeEncodeError, YamlError):
        edited, after, kept = "", SettingsDocument(), False
    if not kept or _without_empty(after.data) != _without_empty(_without(before.data, path)):
        place = before.keys.get(path)
        where = f" (line {place.line})" if place else ""
        raise ConfigError(
            f"`{dotted_key(path)}` cannot be taken out without disturbing the file. Do it by hand{where}."
        )
    return _encode(edited, content)


def _sound(content: bytes) -> SettingsDocument:
    """Parse the file and return it. Raises `ConfigError` if it is broken as a whole."""
    before = parse(content, "config.yaml")
    broken = [problem for problem in before.problems if not problem.key]
    if broken:
        raise ConfigError(f"{broken[0]} Fix that first; nothing was changed.")
    return before


def _encode(text: str, original: bytes) -> bytes:
    """Return `text` as bytes, with a byte-order mark if the original file had one."""
    mark = b"\xef\xbb\xbf" if original.startswith(b"\xef\xbb\xbf") else b""
    return mark + text.encode()


class _CannotEditError(Exception):
    """Raised if the layout of the file at a position is not supported."""


def _setting(key: str) -> Path:
    path = setting_names.split(key)
    annotation = setting_names.type_at(path)
    if section := setting_names.section_of(annotation):
        raise ConfigError(f"`{key}` is a section; set one of {_members(key, section)}.")
    if setting_names.section_of(setting_names.entry_of(annotation)) is not None:
        raise ConfigError(f"`{key}` holds sections; name one of them and a key: {key}.NAME.KEY.")
    return path


def _members(key: str, section: type[SettingsSection]) -> str:
    return ", ".join(f"`{key}.{name}`" for name in section.model_fields)


def _value(path: Path, text: str) -> Any:
    """Return the value that `text` from a shell has for the setting at `path`; it is validated later."""
    annotation = setting_names.type_at(path)
    if annotation is str:
        return text
    # Before YAML reads `off` and `on` as booleans.
    choices = [word for each in (annotation, *get_args(annotation)) for word in get_args(each)]
    if text.strip() in choices:
        return text.strip()
    if setting_names.takes_list(annotation) and not text.lstrip().startswith("["):
        return [item.strip() for item in text.split(",") if item.strip()]
    read = parse(f"value: {text}".encode(errors="replace"), "")
    return read.data["value"] if set(read.data) == {"value"} and not read.problems else text


def _require_allowed(document: SettingsDocument, path: Path, value: Any) -> None:
    changed = SettingsDocument(_with(document.data, path, value))
    for problem in merge_layers([SettingsLayer("config.yaml", changed)]).problems:
        if f"{dotted_key(path)}.".startswith(f"{problem.key}."):
            raise ConfigError(problem.message[0].upper() + problem.message[1:])


def _with(data: dict[str, Any], path: Path, value: Any) -> dict[str, Any]:
    """Return a copy of `data` with `value` at `path`. A plain value where a section is needed is replaced."""
    result = copy.deepcopy(data)
    inner = result
    for part in path[:-1]:
        if not isinstance(inner.get(str(part)), dict):
            inner[str(part)] = {}
        inner = inner[str(part)]
    inner[str(path[-1])] = value
    return result


def _without(data: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return a copy of `data` without the value at `path`. Raises `KeyError` if it has none."""
    result = copy.deepcopy(data)
    del lookup(result, path[:-1])[path[-1]]
    return result


def _holds(data: dict[str, Any], path: Path) -> bool:
    try:
        lookup(data, path)
    except KeyError:
        return False
    return True


def _without_empty(data: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of `data` without empty sections and null values."""
    pruned = {key: _without_empty(value) if isinstance(value, dict) else value for key, value in data.items()}
    return {key: value for key, value in pruned.items() if value not in (None, {})}


def _remove_entry(text: str, path: Path, data: dict[str, Any]) -> str:
    """Return `text` without the lines of `path`. Raises `_CannotEditError` if its layout is not supported."""
    from tools.kit.yaml_text import MappingNode, compose_exact

    node = compose_exact(text)
    pair: tuple[Node, Node] | None = None
    for depth, part in enumerate(path):
        if not isinstance(node, MappingNode):
            raise _CannotEditError
        if node.flow_style:
            left = lookup(_without(data, path), path[:depth])
            return _replace(text, node, left, "\n")
        pair = next((pair for pair in node.value if pair[0].value == part), None)
        if pair is None:
            raise _CannotEditError
        node = pair[1]
    assert pair is not None
    key, value = pair
    start = text.rfind("\n", 0, key.start_mark.index) + 1
    end = _end(value)
    if text[start : key.start_mark.index].strip():
        raise _CannotEditError
    if text[end - 1] != "\n":
        line_end = text.find("\n", end)
        stop = len(text) if line_end < 0 else line_end + 1
        if (rest := text[end:stop].strip()) and not rest.startswith("#"):
            raise _CannotEditError
        end = stop
    return text[:start] + text[end:]


def _set_entry(text: str, path: Path, value: Any) -> str:
    """Return `text` with the entry at `path` replaced or inserted. Raises `_CannotEditError`."""
    from tools.kit.yaml_text import MappingNode, ScalarNode, compose_exact

    root = compose_exact(text)
    newline = "\r\n" if "\r\n" in text else "\n"
    if root is None:
        return _insert_lines(text, len(text), _block(path, value, 0), newline)
    node, flow = root, False
    for depth, part in enumerate(path):
        if not isinstance(node, MappingNode):
            raise _CannotEditError
        flow = flow or bool(node.flow_style)
        pair = next((pair for pair in node.value if pair[0].value == part), None)
        if pair is None:
            return _insert(text, node, path[depth:], value, flow, newline)
        key, node = pair
        if depth < len(path) - 1 and isinstance(node, ScalarNode):
            return _open_section(text, key, node, path[depth + 1 :], value, flow, newline)
    return _replace(text, node, value, newline)


def _insert(text: str, node: MappingNode, path: Path, value: Any, flow: bool, newline: str) -> str:
    """Return `text` with an entry added to a section that has other entries."""
    if flow:
        entry = f"{_flow(path[0])}: {_flow_nested(path[1:], value)}"
        at = _end(node.value[-1][1]) if node.value else node.start_mark.index + 1
        return text[:at] + (", " if node.value else "") + entry + text[at:]
    column = node.value[0][0].start_mark.column
    at = _end(node.value[-1][1])
    if column == 0 and "\n..." not in text[at:]:
        at = len(text)  # below comments at the end of the file, since they belong to the entries above them
    elif text[at - 1] != "\n":
        line_end = text.find("\n", at)
        at = len(text) if line_end < 0 else line_end + 1
    return _insert_lines(text, at, _block(path, value, column), newline)


def _open_section(
    text: str, key: Node, node: ScalarNode, path: Path, value: Any, flow: bool, newline: str
) -> str:
    """Return `text` with a first entry in an empty section (`terminal:`). Raises `_CannotEditError`."""
    start, end = node.start_mark.index, node.end_mark.index
    if node.tag != "tag:yaml.org,2002:null":
        raise _CannotEditError
    if flow or start != end:
        space = " " if start == end else ""
        return text[:start] + space + _flow_nested(path, value) + text[end:]
    line_end = text.find("\n", start)
    at = len(text) if line_end < 0 else line_end + 1
    return _insert_lines(text, at, _block(path, value, key.start_mark.column + 2), newline)


def _replace(text: str, node: Node, value: Any, newline: str) -> str:
    """Return `text` with the text of `node` replaced by `value`. Raises `_CannotEditError`."""
    from tools.kit.yaml_text import MappingNode, ScalarNode, SequenceNode

    start, end = node.start_mark.index, _end(node)
    old = text[start:end]
    if isinstance(node, ScalarNode):
        if start == end:
            return f"{text[:start]} {_flow(value)}{text[start:]}"
        tail = newline if node.style in ("|", ">") and old.endswith("\n") else ""
        return text[:start] + _flow(value) + tail + text[end:]
    if not isinstance(node, SequenceNode | MappingNode) or "#" in old:
        raise _CannotEditError
    if isinstance(node, MappingNode) and not node.flow_style:
        raise _CannotEditError
    if not node.flow_style and isinstance(value, list) and value:
        gap = newline + " " * node.start_mark.column
        return text[:start] + gap.join(f"- {_flow(item)}" for item in value) + text[end:]
    return text[:start] + _flow(value) + text[end:]


def _end(node: Node) -> int:
    """Return the index after the last character of `node`. A block collection ends with its last entry."""
    from tools.kit.yaml_text import CollectionNode, MappingNode

    if isinstance(node, CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(node, MappingNode) else last)
    return node.end_mark.index


def _insert_lines(text: str, at: int, lines: list[str], newline: str) -> str:
    piece = newline.join(lines) + newline
    before = text[:at]
    if before and not before.endswith("\n"):
        before += newline
    return before + piece + text[at:]


def _block(path: Path, value: Any, indent: int) -> list[str]:
    """Return the lines of an entry with its sections, such as `terminal:` and below it ` timeout: 60`."""
    lines = [f"{' ' * (indent + 2 * depth)}{_flow(part)}:" for depth, part in enumerate(path)]
    lines[-1] += f" {_flow(value)}"
    return lines


def _flow_nested(path: Path, value: Any) -> str:
    nested = value
    for part in reversed(path):
        nested = {str(part): nested}
    return _flow(nested)


def _flow(value: Any) -> str:
    """Return `value` on one line, quoted if YAML would read it as something else."""
    from tools.kit.yaml_text import dump_scalar

    return dump_scalar(value, default_flow_style=True, allow_unicode=True, width=_WIDE, sort_keys=False)
