"""A page as lines of text, from its accessibility trees: what a person sees, with references. Pure.

Each line is one thing: `button "Save" [ref=e12] [disabled]`. Frames and shadow roots stand where they
are shown. Boxes without meaning are left out, their content is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tools.browser.capture import Box, FrameCapture, is_seen, view_inside
from tools.browser.refs import NodeKey, RefTable
from tools.text.safe_text import clean
from tools.text.words import shorten

LONGEST = 240
"""Characters of one name or value that are shown."""
_OPTIONS = 12
_MOST_ABOVE = 8
_MASK = "••••"

_INTERACTIVE = frozenset(
    [
        "button",
        "link",
        "textbox",
        "searchbox",
        "combobox",
        "checkbox",
        "radio",
        "switch",
        "slider",
        "spinbutton",
        "option",
        "menuitem",
        "menuitemcheckbox",
        "menuitemradio",
        "tab",
        "treeitem",
        "listbox",
        "Date",
        "DateTime",
        "InputTime",
        "ColorWell",
        "DisclosureTriangle",
        "PopUpButton",
        "ToggleButton",
    ]
)
_PLAIN = frozenset(
    [
        "none",
        "generic",
        "GenericContainer",
        "LabelText",
        "LayoutTable",
        "LayoutTableRow",
        "LayoutTableCell",
        "LayoutTableColumn",
        "paragraph",
        "Paragraph",
        "InlineTextBox",
        "Section",
        "Pre",
        "Abbr",
        "DescriptionListDetail",
        "emphasis",
        "strong",
        "superscript",
        "subscript",
        "code",
        "mark",
        "time",
        "rowgroup",
        "FigureCaption",
        "Legend",
        "RubyText",
        "Ruby",
        "presentation",
        "list",
        "DescriptionList",
        "DescriptionListTerm",
        "term",
        "definition",
        "deletion",
        "insertion",
        "blockquote",
    ]
)
"""Roles that say nothing by themselves: what is in them is shown in their place."""
_SILENT = frozenset(["InlineTextBox", "ListMarker", "LineBreak", "separator", "Splitter"])
_SHORT = {
    "RootWebArea": "page",
    "columnheader": "header",
    "rowheader": "header",
    "gridcell": "cell",
    "DisclosureTriangle": "button",
    "PopUpButton": "button",
    "ToggleButton": "button",
    "StaticText": "text",
    "Iframe": "frame",
    "IframePresentational": "frame",
    "Date": "date field",
    "DateTime": "date field",
    "InputTime": "time field",
    "ColorWell": "colour field",
    "image": "img",
}
_ITEMS = frozenset({"listitem", "row", "cell", "gridcell", "columnheader", "rowheader", "LayoutTableCell"})
_EDITABLE = frozenset({"textbox", "searchbox", "combobox", "spinbutton", "slider", "Date", "DateTime"})


@dataclass(frozen=True, slots=True)
class PageLine:
    """One line. `seen` tells whether it lies in the part of the page that is shown now."""

    depth: int
    text: str
    ref: str = ""
    seen: bool = True
    below: bool = False
    """Whether it lies below that part, if it does not lie in it."""

    @property
    def shown(self) -> str:
        return " " * min(self.depth, 12) + self.text


@dataclass(slots=True)
class _Run:
    """What is being put together."""

    table: RefTable
    lines: list[PageLine] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _In:
    """The frame that is being read."""

    capture: FrameCapture
    nodes: Mapping[str, dict[str, Any]]
    view: Box
    """The part of its document that is shown."""


def page_lines(capture: FrameCapture, width: float, height: float, table: RefTable) -> list[PageLine]:
    """All lines of a page whose window has this size, off-screen ones too."""
    run = _Run(table)
    view = (*capture.scroll, width, height)
    _frame(run, capture, view, 0)
    return run.lines


def _frame(run: _Run, capture: FrameCapture, view: Box, depth: int) -> None:
    nodes = {node["nodeId"]: node for node in capture.nodes}
    root = next((node for node in capture.nodes if not node.get("parentId")), None)
    if root is not None:
        inside = _In(capture, nodes, view)
        for child in root.get("childIds", ()):
            _node(run, inside, child, depth, "")


def _node(run: _Run, inside: _In, id: str, depth: int, above: str) -> None:
    # A tree as deep as the page likes: kept on a list, as no page may exhaust the stack.
    stack: list[tuple[str, int, str]] = [(id, depth, above)]
    while stack:
        id, depth, above = stack.pop()
        node = inside.nodes.get(id)
        if node is None:
            continue
        role, backend = _role(node), node.get("backendDOMNodeId", 0)
        children = node.get("childIds", ())
        if role in _SILENT:
            continue
        if backend in inside.capture.children:
            _child_frame(run, inside, node, depth)
            continue
        if role == "StaticText":
            _text(run, inside, node, depth, above)
            continue
        if role == "LabelText":
            # What a field is called is said with the field.
            above = " ".join(
                filter(None, (above, *(_name(each) for each in _below(inside, node) if _acts(each))))
            )
        made = None if node.get("ignored") else _line(run, inside, node, role, depth)
        if made is None:
            stack += [(child, depth, above) for child in reversed(children)]
            continue
        line, name = made
        run.lines.append(line)
        if role in ("combobox", "PopUpButton") and any(
            _role(inside.nodes.get(child, {})) == "MenuListPopup" for child in children
        ):
            continue
        if role in _EDITABLE and role != "combobox":
            continue
        stack += [(child, depth + 1, name) for child in reversed(children)]


def _line(
    run: _Run, inside: _In, node: Mapping[str, Any], role: str, depth: int
) -> tuple[PageLine, str] | None:
    """The line of a node, and what it is called; None for one that says nothing by itself."""
    capture, backend = inside.capture, node.get("backendDOMNodeId", 0)
    properties = _properties(node)
    name = _name(node)
    is_click = backend in capture.clickable
    acts = role in _INTERACTIVE or (bool(properties.get("focusable")) and role not in ("RootWebArea",))
    plain = role in _PLAIN or not role
    if (
        not acts
        and is_click
        and (plain or role in ("image", "listitem", "row", "cell", "heading", "gridcell"))
    ):
        acts = True
        if plain:
            role = "clickable"
            name = name or _content(inside, node)
            if not name and _holds_actions(inside, node):
                return None
    elif plain and not acts:
        return None
    elif plain:
        role, name = "clickable", name or _content(inside, node)
        if not name and _holds_actions(inside, node):
            return None
    if acts and not name and role in _ITEMS:
        name = _content(inside, node)
    if role == "image" and not name and not acts:
        return None
    if role in _ITEMS and not acts:
        name = _cells(inside, node) if role == "row" else name or _content(inside, node)
        if not name:
            return None
        seen, below = _seen(inside, node)
        text = f"- {_cut(name, 2 * LONGEST)}" if role != "row" else f"row: {_cut(name, 2 * LONGEST)}"
        return PageLine(depth, text, "", seen, below), name
    ref = run.table.ref(NodeKey(capture.frame, capture.loader, backend)) if acts and backend else ""
    words = [_SHORT.get(role, role)]
    if name:
        words.append(f'"{_cut(name)}"')
    if ref:
        words.append(f"[ref={ref}]")
    words += _states(role, properties)
    value = _value(inside, node, role)
    text = " ".join(words) + (f": {value}" if value else "")
    seen, below = _seen(inside, node)
    return PageLine(depth, text, ref, seen, below), name


def _text(run: _Run, inside: _In, node: Mapping[str, Any], depth: int, above: str) -> None:
    text = _name(node)
    if not text.strip("|•·–—-:*()[]{}<>,.;/\\ ") or (above and text in above):
        return
    seen, below = _seen(inside, node)
    last = run.lines[-1] if run.lines else None
    if last is not None and last.depth == depth and last.text.startswith("text: ") and last.seen == seen:
        # Pieces of one sentence, parted by markup only.
        joined = f"{last.text} {text}"
        if len(joined) <= 4 * LONGEST:
            run.lines[-1] = PageLine(depth, joined, "", seen, below)
            return
    run.lines.append(PageLine(depth, f"text: {_cut(text, 4 * LONGEST)}", "", seen, below))


def _child_frame(run: _Run, inside: _In, node: Mapping[str, Any], depth: int) -> None:
    child = inside.capture.children[node["backendDOMNodeId"]]
    seen, below = _seen(inside, node)
    name = _name(node)
    place = len(run.lines)
    run.lines.append(PageLine(depth, f'frame "{_cut(name)}"' if name else "frame", "", seen, below))
    box = inside.capture.boxes.get(node["backendDOMNodeId"])
    _frame(run, child, view_inside(box, inside.view, child.scroll), depth + 1)
    if len(run.lines) == place + 1:
        run.lines.pop()


def _seen(inside: _In, node: Mapping[str, Any]) -> tuple[bool, bool]:
    """Whether a node is in view, and whether it lies below; what has no place is where its holder is."""
    box = None
    at: Mapping[str, Any] | None = node
    for _ in range(_MOST_ABOVE):
        if at is None or box is not None:
            break
        box = inside.capture.boxes.get(at.get("backendDOMNodeId", 0))
        at = inside.nodes.get(at.get("parentId", ""))
    if box is None:
        return True, False
    is_in_view = is_seen(box, inside.view)
    return is_in_view, not is_in_view and box[1] >= inside.view[1] + inside.view[3]


def _below(inside: _In, node: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    stack = list(reversed(node.get("childIds", ())))
    count = 0
    while stack and count < 400:
        found = inside.nodes.get(stack.pop())
        if found is None:
            continue
        count += 1
        yield found
        stack += reversed(found.get("childIds", ()))


def _holds_actions(inside: _In, node: Mapping[str, Any]) -> bool:
    for each in _below(inside, node):
        backend = each.get("backendDOMNodeId", 0)
        if _role(each) in _INTERACTIVE or backend in inside.capture.clickable:
            return True
        if backend in inside.capture.children:
            return True
    return False


def _acts(node: Mapping[str, Any]) -> bool:
    return _role(node) in _INTERACTIVE


def _cells(inside: _In, node: Mapping[str, Any]) -> str:
    """The cells of a row in one line; empty where something in it can be acted on."""
    if _holds_actions(inside, node):
        return ""
    cells = [inside.nodes[child] for child in node.get("childIds", ()) if child in inside.nodes]
    return " | ".join(_name(cell) or _content(inside, cell) for cell in cells)


def _content(inside: _In, node: Mapping[str, Any]) -> str:
    """The text of what a node holds, without what can be acted on by itself."""
    if _holds_actions(inside, node):
        return ""
    pieces, size = [], 0
    for each in _below(inside, node):
        if _role(each) == "StaticText":
            pieces.append(_name(each))
            size += len(pieces[-1])
            if size > LONGEST:
                break
    return " ".join(filter(None, pieces))


def _value(inside: _In, node: Mapping[str, Any], role: str) -> str:
    if role not in _EDITABLE and role not in ("listbox", "ColorWell", "InputTime", "progressbar", "meter"):
        return ""
    value = _plain(node.get("value", {}).get("value"))
    if node.get("backendDOMNodeId") in inside.capture.passwords or (value and not value.strip("•")):
        # Not even how long it is.
        return _MASK if value else ""
    text = f'"{_cut(value)}"' if value else ""
    if role in ("combobox", "PopUpButton"):
        options = [_name(each) for each in _below(inside, node) if _role(each) == "option"]
        if options:
            more = f" | … {len(options) - _OPTIONS} more" if len(options) > _OPTIONS else ""
            text += f" of ({' | '.join(_cut(each, 60) for each in options[:_OPTIONS])}{more})"
    return text.strip()


def _states(role: str, properties: Mapping[str, Any]) -> list[str]:
    found = []
    for name in ("checked", "pressed"):
        if (value := properties.get(name)) not in (None, "false", False):
            found.append(f"[{name}]" if value in ("true", True) else f"[{name}={value}]")
    for name in ("selected", "disabled", "required", "readonly", "multiline", "modal", "busy"):
        if properties.get(name) in (True, "true"):
            found.append(f"[{name}]")
    if (expanded := properties.get("expanded")) is not None and role not in ("combobox",):
        found.append("[expanded]" if expanded else "[collapsed]")
    if properties.get("invalid") not in (None, "false", False):
        found.append("[invalid]")
    if role == "heading" and (level := properties.get("level")):
        found.append(f"[level={level}]")
    return found


def _properties(node: Mapping[str, Any]) -> dict[str, Any]:
    return {each["name"]: each.get("value", {}).get("value") for each in node.get("properties", ())}


def _role(node: Mapping[str, Any]) -> str:
    return str(node.get("role", {}).get("value") or "")


def _name(node: Mapping[str, Any]) -> str:
    return _plain(node.get("name", {}).get("value"))


def _plain(value: Any) -> str:
    return clean(" ".join(str("" if value is None else value).split()))


def _cut(text: str, most: int = LONGEST) -> str:
    return shorten(text, most)
