"""The text of a page as a model reads it: captures, references, lines, and changes."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from tools.kit.lazy_pattern import lazy_pattern
from tools.text.safe_text import clean
from tools.text.words import plural, shorten

_WHOLES = frozenset({"SELECT", "INPUT", "TEXTAREA", "BUTTON", "OBJECT", "CANVAS", "svg", "IMG"})

STYLES = ("cursor", "visibility")
"""The computed styles requested with a layout."""
Box = tuple[float, float, float, float]
"""Left, top, width and height in pixels, from the beginning of the frame's document."""


@dataclass(slots=True, kw_only=True)
class FrameCapture:
    """The captured content of one frame. `children` are frames by the node that contains them."""

    frame: str
    loader: str
    session: str
    url: str = ""
    nodes: list[dict[str, Any]] = field(default_factory=list)
    """The accessibility nodes of the frame, as in the protocol."""
    children: dict[int, FrameCapture] = field(default_factory=dict)
    boxes: dict[int, Box] = field(default_factory=dict)
    clickable: frozenset[int] = frozenset()
    passwords: frozenset[int] = frozenset()
    scroll: tuple[float, float] = (0.0, 0.0)
    height: float = 0.0
    """The height of the whole document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentLayout:
    """The positions of the nodes of one document, by backend node."""

    boxes: dict[int, Box]
    clickable: frozenset[int]
    passwords: frozenset[int]
    scroll: tuple[float, float]
    height: float
    url: str
    title: str
    order: list[int]
    """All nodes in the order of the document."""
    parents: list[int]
    """The index of each node's parent in that order; -1 for none."""
    sizes: list[int]
    """The number of nodes in each node's subtree, including itself."""
    wholes: frozenset[int]
    """Indexes of controls and graphics, whose descendants count as their content."""
    frames: dict[int, str]
    """Frames of the same process by the node that contains them."""
    nodes: Mapping[str, Any]
    """The browser's data on the nodes, by index; texts are indexes into `strings`."""
    drawn: Mapping[str, Any]
    """The browser's data on nodes with a box."""
    strings: list[str]


def is_seen(box: Box, view: Box) -> bool:
    """Return whether a box touches the visible part of a document."""
    left, top, width, height = view
    x, y, wide, high = box
    touches = x < left + width and x + wide >= left and y < top + height and y + high >= top
    return touches and width > 0 and height > 0


def view_inside(box: Box | None, view: Box, scroll: tuple[float, float]) -> Box:
    """Return the visible part of a frame's document, given the frame's box and the visible part of the
    document around it.
    """
    if box is None:
        return (*scroll, 0.0, 0.0)
    left, top = max(box[0], view[0]), max(box[1], view[1])
    right = min(box[0] + box[2], view[0] + view[2])
    bottom = min(box[1] + box[3], view[1] + view[3])
    return (
        scroll[0] + left - box[0],
        scroll[1] + top - box[1],
        max(0.0, right - left),
        max(0.0, bottom - top),
    )


def layouts(snapshot: Mapping[str, Any]) -> dict[str, DocumentLayout]:
    """Return the layouts in an answer to `DOMSnapshot.captureSnapshot` with `STYLES`, by frame id."""
    strings: list[str] = snapshot.get("strings", [])
    documents = snapshot.get("documents", [])
    names = [_string(strings, document.get("frameId", -1)) for document in documents]
    return {name: _layout(document, strings, names) for name, document in zip(names, documents, strict=True)}


def _layout(document: Mapping[str, Any], strings: list[str], frames: list[str]) -> DocumentLayout:
    nodes, layout = document["nodes"], document["layout"]
    backend: list[int] = nodes["backendNodeId"]
    parents: list[int] = nodes["parentIndex"]
    boxes: dict[int, Box] = {}
    pointing: set[int] = set()
    hand = _places(strings, "pointer")
    for place, bounds, styles in zip(layout["nodeIndex"], layout["bounds"], layout["styles"], strict=False):
        left, top, width, height = bounds
        boxes[backend[place]] = (left, top, width, height)
        if styles and styles[0] in hand:
            pointing.add(place)
    # The hand cursor is inherited: the outermost element that shows it is the one meant.
    clickable = {backend[place] for place in pointing if parents[place] not in pointing}
    clickable |= {backend[place] for place in nodes.get("isClickable", {}).get("index", ())}
    names = nodes["nodeName"]
    whole, outer = _places(strings, *_WHOLES), _places(strings, "HTML", "BODY")
    clickable -= {backend[place] for place, name in enumerate(names) if name in outer}
    sizes = [1] * len(backend)
    for place in range(len(backend) - 1, 0, -1):
        if parents[place] >= 0:
            sizes[parents[place]] += sizes[place]
    inner = nodes.get("contentDocumentIndex", {"index": (), "value": ()})
    return DocumentLayout(
        boxes=boxes,
        clickable=frozenset(clickable),
        passwords=frozenset(_passwords(nodes, strings)),
        scroll=(document.get("scrollOffsetX", 0.0), document.get("scrollOffsetY", 0.0)),
        height=document.get("contentHeight", 0.0),
        url=_string(strings, document.get("documentURL", -1)),
        title=_string(strings, document.get("title", -1)),
        order=backend,
        parents=parents,
        sizes=sizes,
        wholes=frozenset(place for place, name in enumerate(names) if name in whole),
        frames={
            backend[place]: frames[value] for place, value in zip(inner["index"], inner["value"], strict=True)
        },
        nodes=nodes,
        drawn=layout,
        strings=strings,
    )


def _passwords(nodes: Mapping[str, Any], strings: list[str]) -> Iterable[int]:
    type_ = _places(strings, "type")
    secret = {place for place, each in enumerate(strings) if each.strip().lower() == "password"}
    if not type_ or not secret:
        return
    for place, attributes in enumerate(nodes.get("attributes", ())):
        for at in range(0, len(attributes) - 1, 2):
            if attributes[at] in type_ and attributes[at + 1] in secret:
                yield nodes["backendNodeId"][place]


def _places(strings: list[str], *wanted: str) -> frozenset[int]:
    """Return the indexes that the `wanted` strings have in the string table."""
    return frozenset(strings.index(each) for each in wanted if each in strings)


def _string(strings: list[str], place: int) -> str:
    return strings[place] if 0 <= place < len(strings) else ""


_FORM = lazy_pattern(r"\W*(?:ref=)?e?(\d{1,9})\W*")


@dataclass(frozen=True, slots=True)
class NodeKey:
    """The identity of an element: its document and its node there."""

    frame: str
    loader: str
    """The load of the frame; another load is another document."""
    node: int
    """Its backend node number in the browser."""


class RefTable:
    """The references of one tab's elements, by which the model names them."""

    def __init__(self) -> None:
        self._numbers: dict[NodeKey, int] = {}
        self._keys: dict[int, NodeKey] = {}
        self._names: dict[str, str] = {}
        self._next = 1

    def ref(self, key: NodeKey) -> str:
        """Return the reference of an element, assigned on first use."""
        number = self._numbers.get(key)
        if number is None:
            number = self._next
            self._next += 1
            self._numbers[key] = number
            self._keys[number] = key
        return f"e{number}"

    def key(self, ref: str) -> NodeKey | None:
        """Return the element of a reference; None if it was never assigned or its document is gone."""
        found = _FORM.fullmatch(ref.strip())
        return None if found is None else self._keys.get(int(found[1]))

    def was_given(self, ref: str) -> bool:
        """Return whether a reference was ever assigned in this tab."""
        found = _FORM.fullmatch(ref.strip())
        return found is not None and 0 < int(found[1]) < self._next

    def keep(self, documents: frozenset[tuple[str, str]]) -> None:
        """Drop the elements of all documents except these, given as pairs of frame and loader."""
        for key in [key for key in self._numbers if (key.frame, key.loader) not in documents]:
            number = self._numbers.pop(key)
            del self._keys[number]
            self._names.pop(f"e{number}", None)

    def name(self, ref: str, text: str) -> None:
        """Record the line in which a reference was last shown."""
        self._names[ref] = text

    def line_of(self, ref: str) -> str:
        """Return the line in which a reference was last shown, or empty."""
        return self._names.get(ref, "")


LONGEST = 240
"""The character limit for one name or value."""
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
"""Roles without meaning; their content is shown instead."""
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
    """One line of a page's text. `seen` tells whether it is in the visible part of the page."""

    depth: int
    text: str
    ref: str = ""
    seen: bool = True
    below: bool = False
    """Whether it is below the view, if it is not in view."""

    @property
    def indented(self) -> str:
        return " " * min(self.depth, 12) + self.text


@dataclass(slots=True)
class _Run:
    """The state while a page is read, including the lines collected so far."""

    table: RefTable
    lines: list[PageLine] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _In:
    """The frame being read."""

    capture: FrameCapture
    nodes: Mapping[str, dict[str, Any]]
    view: Box
    """The visible part of its document."""


def page_lines(capture: FrameCapture, width: float, height: float, table: RefTable) -> list[PageLine]:
    """Return all lines of a page with a window of this size, including those out of view."""
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
    # A tree as deep as the page likes: kept on a list, so that no page exhausts the stack.
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
    """Return the line of a node and its name; None for a node that gets no line."""
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
        seen, below = _visibility(inside, node)
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
    seen, below = _visibility(inside, node)
    return PageLine(depth, text, ref, seen, below), name


def _text(run: _Run, inside: _In, node: Mapping[str, Any], depth: int, above: str) -> None:
    text = _name(node)
    if not text.strip("|•·–—-:*()[]{}<>,.;/\\ ") or (above and text in above):
        return
    seen, below = _visibility(inside, node)
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
    seen, below = _visibility(inside, node)
    name = _name(node)
    place = len(run.lines)
    run.lines.append(PageLine(depth, f'frame "{_cut(name)}"' if name else "frame", "", seen, below))
    box = inside.capture.boxes.get(node["backendDOMNodeId"])
    _frame(run, child, view_inside(box, inside.view, child.scroll), depth + 1)
    if len(run.lines) == place + 1:
        run.lines.pop()


def _visibility(inside: _In, node: Mapping[str, Any]) -> tuple[bool, bool]:
    """Return whether a node is in view, and whether it is below the view.

    A node without a box has the values of its parent.
    """
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
    """Return the cells of a table row on one line.

    Returns an empty text if the row contains an element that can be acted on.
    """
    if _holds_actions(inside, node):
        return ""
    cells = [inside.nodes[child] for child in node.get("childIds", ()) if child in inside.nodes]
    return " | ".join(_name(cell) or _content(inside, cell) for cell in cells)


def _content(inside: _In, node: Mapping[str, Any]) -> str:
    """Return the text in a node, cut after `LONGEST`; empty if something in it can be acted on."""
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


VIEW = 6_000
"""The character limit for the visible part of a page, about 1,500 tokens."""
FULL = 20_000
"""The character limit for a whole page."""
_MOST_COMPARED = 600
_GONE = 40
_MOST_FOUND = 20
_NEAR = 4
"""Lines after a found text that are searched for something to act on."""


@dataclass(frozen=True, slots=True)
class PageView:
    """The text of a page at one moment. `document` is different for each load of the page."""

    document: str
    lines: tuple[PageLine, ...]
    elsewhere: frozenset[str] = frozenset()
    """References of elements on the page that are out of view and have no line."""

    def in_view(self) -> list[str]:
        """Return the lines in view, indented."""
        return [line.indented for line in self.lines if line.seen]

    def whole(self) -> str:
        """Return all lines, as written to disk."""
        return "\n".join(line.indented for line in self.lines)

    def refs(self) -> frozenset[str]:
        """Return the references of everything that can be acted on."""
        return frozenset(line.ref for line in self.lines if line.ref) | self.elsewhere


def snapshot(view: PageView, *, full: bool, path: str = "") -> str:
    """Return the lines in view, or the full page, cut to the limit `VIEW` or `FULL`."""
    lines = [line.indented for line in view.lines] if full else view.in_view()
    text = _fit_text(lines, FULL if full else VIEW, path)
    hidden = [] if full else [line for line in view.lines if not line.seen]
    return text + _outside(hidden, path) if hidden else text or "(the page is empty)"


def matching(view: PageView, query: str) -> str:
    """Return up to `_MOST_FOUND` lines with all words of `query`, in view or not.

    If any have exactly this name, only those. A line without a reference is followed by the lines after it.
    """
    words = query.casefold().split()
    lines = view.lines
    places = [at for at, line in enumerate(lines) if all(word in line.text.casefold() for word in words)]
    exact = [at for at in places if f'"{query.casefold()}"' in lines[at].text.casefold()]
    chosen: dict[int, None] = {}
    for at in exact or places:
        chosen[at] = None
        if not lines[at].ref:
            near = takewhile(lambda place: lines[place].ref, range(at + 1, min(at + 1 + _NEAR, len(lines))))
            chosen |= dict.fromkeys(near)
    shown = list(chosen)[:_MOST_FOUND]
    if not shown:
        return f"(no line of the page has {query!r})"
    text = "\n".join(lines[at].text for at in shown)
    more = len(chosen) - len(shown)
    return f"{text}\n… {more} more; use more words" if more else text


def delta(before: PageView, after: PageView, path: str = "") -> str | None:
    """Return what changed in view, each line with `+`; None if so much changed that the page should be shown
    again.
    """
    if before.document != after.document:
        return None
    old, new = before.in_view(), after.in_view()
    if old == new:
        gone = _gone_line(before, after)
        return gone or "(nothing in view has changed)"
    if len(old) > _MOST_COMPARED or len(new) > _MOST_COMPARED:
        known = set(old)
        added = [line for line in new if line not in known]
    else:
        matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
        added = [
            line
            for kind, _, _, start, end in matcher.get_opcodes()
            if kind in ("insert", "replace")
            for line in new[start:end]
        ]
    if len(added) * 10 > len(new) * 9 and len(new) > 12:
        return None
    text = _fit_text([f"+{line}" for line in added], VIEW, path)
    missing = _gone_line(before, after)
    lost = len(set(old) - set(new))
    if not added and not missing:
        return f"({plural(lost, 'line')} went out of view)" if lost else "(only the order has changed)"
    return "\n".join(filter(None, (text, missing)))


def _gone_line(before: PageView, after: PageView) -> str:
    left = {line.ref for line in before.lines if line.ref and line.seen} - after.refs()
    numbers = sorted(left, key=lambda ref: int(ref[1:]))
    more = f" and {len(numbers) - _GONE} more" if len(numbers) > _GONE else ""
    return f"gone: {' '.join(numbers[:_GONE])}{more}" if numbers else ""


def _fit_text(lines: Sequence[str], most: int, path: str) -> str:
    size, kept = 0, 0
    for line in lines:
        size += len(line) + 1
        if size > most:
            break
        kept += 1
    text = "\n".join(lines[:kept])
    if kept == len(lines):
        return text
    where = f"; all of it: {path}" if path else ""
    return f"{text}\n… {plural(len(lines) - kept, 'more line')}{where}"


def _outside(lines: Sequence[PageLine], path: str) -> str:
    below = sum(1 for line in lines if line.below)
    above = len(lines) - below
    sides = ((above, "above or beside"), (below, "below"))
    said = [f"{plural(count, 'line')} {side}" for count, side in sides if count]
    where = f"; all of it: {path}" if path else ""
    return f"\n(out of view: {', '.join(said)}{where})"
