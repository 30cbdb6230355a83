"""YAML text as plain data, with the position of every key and value.

A settings file uses a small part of YAML: mappings with text keys, lists, numbers, text, true and false.
Anything outside it is reported as a problem. Depth, number of values and the expansion of aliases are
limited, so that no file can exhaust memory or stack.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agent.core.config.problem import Path, SettingPlace, SettingProblem, dotted_key, short_text
from tools.kit.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from tools.kit.yaml_text import MappingNode, Node, ScalarNode

MAX_DEPTH = 32
MAX_NODES = 20_000
"""The limit on values in one file, counted after aliases are expanded."""

_CONTROL = lazy_pattern(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]")
_TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True)
class SettingsDocument:
    """The data of a settings file. `keys` and `values` hold the positions of each entry's key and value."""

    data: dict[str, Any] = field(default_factory=dict)
    keys: dict[Path, SettingPlace] = field(default_factory=dict)
    values: dict[Path, SettingPlace] = field(default_factory=dict)
    problems: tuple[SettingProblem, ...] = ()


class UnusableError(Exception):
    """Raised if a file, or one of its values, cannot be used.

    `message` has no file name; `place` is the position, if known.
    """

    def __init__(self, message: str, place: SettingPlace | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.place = place


def parse(content: bytes, origin: str) -> SettingsDocument:
    """Parse the bytes of a settings file called `origin`. Never raises: faults are in the result's
    `problems`.

    A file that is not YAML gives an empty document; single bad entries are left out.
    """
    try:
        text = decode(content)
        root = _compose(text)
        if root is None:
            return SettingsDocument()
        return _Builder(origin).build(root)
    except UnusableError as refused:
        return SettingsDocument(problems=(SettingProblem(origin, refused.message, refused.place),))


def decode(content: bytes) -> str:
    """Return a settings file's bytes as text without a byte-order mark. Raises `UnusableError`."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start].decode("utf-8-sig", "replace")
        raise UnusableError("this byte is not UTF-8; save the file as UTF-8.", _place_after(before)) from None
    if bad := _CONTROL.search(text):
        name = "a NUL byte" if bad[0] == "\0" else f"the control character U+{ord(bad[0]):04X}"
        raise UnusableError(f"{name} stands here; remove it.", _place_after(text[: bad.start()]))
    return text


def _place_after(text: str) -> SettingPlace:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").rsplit("\n", 1)
    return SettingPlace(text.replace("\r\n", "\n").replace("\r", "\n").count("\n") + 1, len(lines[-1]) + 1)


def _compose(text: str) -> Node | None:
    """Return the node tree of the only document in `text`, None when it is empty. Raises `UnusableError`."""
    from tools.kit.yaml_text import YamlError, YamlForm, compose_yaml

    try:
        return compose_yaml(text, YamlForm("a settings file", MAX_DEPTH, MAX_NODES))
    except YamlError as fault:
        place = SettingPlace(fault.line, fault.column) if fault.line else None
        raise UnusableError(fault.sentence, place) from None


class _Builder:
    """Conversion of a YAML node tree into data. Create a new instance for each tree."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._keys: dict[Path, SettingPlace] = {}
        self._values: dict[Path, SettingPlace] = {}
        self._problems: list[SettingProblem] = []
        self._nodes = 0
        self._open: set[int] = set()

    def build(self, root: Node) -> SettingsDocument:
        from tools.kit.yaml_text import MappingNode, ScalarNode

        if isinstance(root, ScalarNode) and root.tag == _TAG + "null":
            return SettingsDocument()
        if not isinstance(root, MappingNode):
            raise UnusableError("settings are `key: value` lines; this is something else.", _place(root))
        try:
            data = self._mapping(root, ())
        except _UnusableValueError as refused:
            raise UnusableError(f"the file {refused.message}", refused.place) from None
        return SettingsDocument(data, self._keys, self._values, tuple(self._problems))

    def _value(self, node: Node, path: Path) -> Any:
        """Return the data of one node. Raises `UnusableError` if its value cannot be used."""
        from tools.kit.yaml_text import MappingNode, ScalarNode

        self._count(node)
        if len(path) > MAX_DEPTH:
            raise UnusableError(f"aliases nest deeper than {MAX_DEPTH} levels.", _place(node))
        self._values[path] = _place(node)
        if isinstance(node, ScalarNode):
            return _scalar(node)
        with self._inside(node):
            if isinstance(node, MappingNode):
                return self._mapping(node, path)
            _check_tag(node, "seq")
            return [self._value(item, (*path, index)) for index, item in enumerate(node.value)]

    def _mapping(self, node: MappingNode, path: Path) -> dict[str, Any]:
        _check_tag(node, "map")
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _TAG + "merge":
                data |= self._merge_sources(value_node, path)
        own: set[str] = set()
        for key_node, value_node in node.value:
            if key_node.tag != _TAG + "merge":
                self._entry(key_node, value_node, path, data, own)
        return data

    def _entry(
        self, key_node: Node, value_node: Node, path: Path, data: dict[str, Any], own: set[str]
    ) -> None:
        """Read one `key: value` pair into `data` or report a problem. `own` holds the earlier keys."""
        from tools.kit.yaml_text import ScalarNode

        if not isinstance(key_node, ScalarNode):
            self._report("a key must be a single word or text.", _place(key_node), path)
            return
        key = key_node.value
        entry = (*path, key)
        if key in own:
            first = self._keys[entry].line
            name = short_text(dotted_key(entry))
            message = f"`{name}` is given twice; the one on line {first} counts. Remove one."
            self._report(message, _place(key_node), entry)
            return
        try:
            data[key] = self._value(value_node, entry)
            self._keys[entry] = _place(key_node)
            own.add(key)
        except _UnusableValueError as refused:
            self._report(f"`{short_text(dotted_key(entry))}` {refused.message}", refused.place, entry)

    def _merge_sources(self, source: Node, path: Path) -> dict[str, Any]:
        """Return the entries that YAML's `<<` adds. If several mappings share a key, the first counts."""
        from tools.kit.yaml_text import MappingNode, SequenceNode

        sources = source.value if isinstance(source, SequenceNode) else [source]
        data: dict[str, Any] = {}
        for node in reversed(sources):
            if not isinstance(node, MappingNode):
                self._report("`<<` takes a mapping or a list of mappings.", _place(node), path)
                continue
            self._count(node)
            with self._inside(node):
                data |= self._mapping(node, path)
        return data

    def _count(self, node: Node) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise UnusableError(f"aliases expand to more than {MAX_NODES:,} values.", _place(node))

    @contextmanager
    def _inside(self, node: Node) -> Iterator[None]:
        """Mark `node` as being read. Raises `UnusableError` for an alias that leads back into it."""
        if id(node) in self._open:
            raise UnusableError("an alias contains itself here.", _place(node))
        self._open.add(id(node))
        try:
            yield
        finally:
            self._open.discard(id(node))

    def _report(self, message: str, place: SettingPlace | None, path: Path) -> None:
        self._problems.append(SettingProblem(self._origin, message, place, dotted_key(path)))


class _UnusableValueError(UnusableError):
    """Raised if one value is unusable, but the other parts of the file are valid."""


def _place(node: Node) -> SettingPlace:
    return SettingPlace(node.start_mark.line + 1, node.start_mark.column + 1)


def _check_tag(node: Node, kind: str) -> None:
    if node.tag != _TAG + kind:
        raise _UnusableValueError(
            f"carries the tag `{short_text(node.tag.replace(_TAG, '!!'))}`, which is not read.", _place(node)
        )


def _scalar(node: ScalarNode) -> Any:
    """Return the text, number, boolean or None of a scalar node.

    A date is returned as text, because no setting is a date. Raises `_UnusableValueError`.
    """
    from yaml.constructor import SafeConstructor

    kind = node.tag.removeprefix(_TAG)
    if kind in ("str", "timestamp", "value"):
        return node.value
    if kind not in ("null", "bool", "int", "float"):
        _check_tag(node, "str")
    try:
        return SafeConstructor().construct_object(node)
    except (ValueError, OverflowError, KeyError, IndexError):
        meant = "true or false" if kind == "bool" else "a number"
        raise _UnusableValueError(f"has a value that cannot be read as {meant}.", _place(node)) from None
