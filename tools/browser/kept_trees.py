"""Parts of accessibility trees that are kept from one look at a page to the next.

A part counts again only while everything that its tree is made of stands in the layout of the page and is as
it was: elements, attributes, texts and styles of the part, and attributes of all that holds it. What may
depend on anything else is asked for each time: fields, references to other elements, elements that the page
defines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tools.browser.capture import DocumentLayout
from tools.browser.frames import FrameInfo


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TELLING = _words(
    "A ABBR ADDRESS ARTICLE ASIDE B BDI BDO BIG BLOCKQUOTE BR BUTTON CAPTION CENTER CITE CODE COL "
    "COLGROUP DD DEL DFN DIV DL DT EM FIGCAPTION FIGURE FONT FOOTER H1 H2 H3 H4 H5 H6 HEADER HGROUP HR "
    "I IMG INS KBD LI MAIN MARK MENU NAV NOBR OL P PICTURE PRE Q S SAMP SECTION SMALL SOURCE SPAN "
    "STRONG SUB SUP TABLE TBODY TD TFOOT TH THEAD TIME TR TT U UL VAR WBR svg g path circle rect line "
    "polyline polygon ellipse defs title text tspan ::before ::after ::marker"
)
"""Elements of which the layout tells all there is to know."""
_POINTING = _words(
    "aria-labelledby aria-describedby aria-owns aria-controls aria-activedescendant aria-details aria- "
    "errormessage aria-flowto popovertarget commandfor command interestfor usemap contenteditable slot "
    "is"
)
"""Attributes by which an element depends on others."""
_CHOSEN = _words("option tab treeitem gridcell row listitem radio menuitemradio")
"""Roles whose state may come from where the focus is."""

Signature = tuple[Any, ...]
Tree = list[dict[str, Any]]


class KeptTrees:
    """The parts of one tab that were in view when it was looked at last."""

    def __init__(self) -> None:
        self.is_trusted = True
        """Whether the page kept still, so that a tree belongs to the layout that was seen before it."""
        self._kept: dict[tuple[str, str, int], tuple[Signature, Tree]] = {}
        self._next: dict[tuple[str, str, int], tuple[Signature, Tree]] = {}
        self._noted: dict[tuple[str, str, int], Signature] = {}

    def known(
        self, info: FrameInfo, layout: DocumentLayout, parts: Sequence[int]
    ) -> tuple[list[Tree], list[int]]:
        """The trees of parts that are as they were, and the places of parts that have to be asked for."""
        reader = _Reader(layout)
        trees: list[Tree] = []
        asked: list[int] = []
        for place in parts:
            key = (info.id, info.loader, layout.order[place])
            signature = reader.signature(place) if self.is_trusted else None
            before = self._kept.get(key)
            if signature is not None and before is not None and before[0] == signature:
                trees.append(before[1])
                self._next[key] = before
                continue
            asked.append(place)
            if signature is not None:
                self._noted[key] = signature
        return trees, asked

    def keep(self, info: FrameInfo, trees: Mapping[int, Tree]) -> None:
        """Keep what was asked for, by the node of the part."""
        for node, tree in trees.items():
            key = (info.id, info.loader, node)
            if tree and key in self._noted:
                self._next[key] = (self._noted[key], tree)

    def forget_others(self) -> None:
        """Forget all but what was in view now."""
        self._kept, self._next = self._next, {}
        self._noted.clear()


class _Reader:
    """Signatures of parts of one layout."""

    def __init__(self, layout: DocumentLayout) -> None:
        self._layout = layout
        nodes, drawn = layout.nodes, layout.drawn
        self._names: list[int] = nodes["nodeName"]
        self._types: list[int] = nodes["nodeType"]
        self._values: list[int] = nodes["nodeValue"]
        self._attributes: list[list[int]] = nodes["attributes"]
        self._shown = {place: at for at, place in enumerate(drawn["nodeIndex"])}
        strings = layout.strings
        self._bad = frozenset(at for at, each in enumerate(strings) if each.lower() in _POINTING)
        self._role = frozenset(at for at, each in enumerate(strings) if each.lower() == "role")
        self._above: dict[int, Signature | None] = {-1: ()}
        # A dialog that is open may shut everything else off.
        self._page = tuple(
            layout.order[place]
            for place, name in enumerate(self._names)
            if strings[name] == "DIALOG" and place in self._shown
        )

    def signature(self, place: int) -> Signature | None:
        """All that the tree of a part is made of; None where it may be made of more."""
        above = self._holding(self._layout.parents[place])
        if above is None:
            return None
        found: list[Any] = [self._page, above]
        for at in range(place, place + self._layout.sizes[place]):
            each = self._one(at)
            if each is None:
                return None
            found.append(each)
        return tuple(found)

    def _holding(self, place: int) -> Signature | None:
        """What holds a part, up to the document."""
        if place not in self._above:
            strings = self._layout.strings
            name = strings[self._names[place]]
            outer = self._holding(self._layout.parents[place])
            if outer is None or name == "LABEL":
                self._above[place] = None
            else:
                # Whether a table is one of data is judged by all of it.
                rows = self._layout.sizes[place] if name == "TABLE" else 0
                attributes = tuple(strings[at] for at in self._attributes[place])
                self._above[place] = (outer, name, attributes, rows)
        return self._above[place]

    def _one(self, place: int) -> Signature | None:
        strings, kind = self._layout.strings, self._types[place]
        at = self._shown.get(place)
        looks: Signature = ()
        if at is not None:
            drawn = self._layout.drawn
            text = drawn["text"][at]
            looks = (strings[text] if text >= 0 else "", *(strings[style] for style in drawn["styles"][at]))
        value = self._values[place]
        node = self._layout.order[place]
        if kind != 1:
            known = kind in (3, 8)
            return (node, strings[value] if value >= 0 else "", looks) if known else None
        attributes = self._attributes[place]
        if strings[self._names[place]] not in _TELLING or self._depends(attributes):
            return None
        return (node, tuple(strings[each] for each in attributes), looks)

    def _depends(self, attributes: Sequence[int]) -> bool:
        strings = self._layout.strings
        for at in range(0, len(attributes) - 1, 2):
            if attributes[at] in self._bad:
                return True
            if attributes[at] in self._role and _CHOSEN & _words(strings[attributes[at + 1]].lower()):
                return True
        return False
