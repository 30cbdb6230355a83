"""The layout of the conversation and its side panes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget

from themes.skin import Skin
from widgets.background import Backdrop, BlankContainer
from widgets.palette import Palette
from widgets.panes.arrangement import Arrangement, Mode, PaneWant, jump_keys, mode_for, share, side_width
from widgets.panes.pane import EVERY_PANE, BarPart, Divider, Pane, PaneBar, RegionRule
from widgets.rows.row_text import fit_keys, letters

STEP = 2
MARGIN = 3
"""Cells of the line that stay visible on both sides of a text on it."""
MAIN = "conversation"


class Workbench(BlankContainer):
    """A layout with `main` at the left and `panes` in a column at its right, separated by rules, not boxes.

    Below 100 columns `bar` replaces the column; below 60 only the conversation is shown. A pane opened then
    covers the conversation until esc.
    """

    DEFAULT_CSS = """
    Workbench { layout: vertical; height: 1fr; }
    Workbench > #workbench-middle { layout: horizontal; height: 1fr; layers: base over; }
    Workbench #workbench-main { layer: base; width: 1fr; height: 1fr; }
    Workbench Divider { layer: base; }
    Workbench #workbench-side { layer: base; height: 1fr; }
    Workbench #workbench-side.-over { layer: over; width: 100%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("less_than_sign", "resize_side(1)", "Wider panes", show=False, id="workbench.wider"),
        Binding(
            "greater_than_sign", "resize_side(-1)", "Narrower panes", show=False, id="workbench.narrower"
        ),
        Binding("escape", "close_pane", "Back", show=False, id="workbench.close_pane"),
    ]

    class StateChanged(Message):
        """Width or folding was changed by hand; `state` should be stored."""

        def __init__(self, state: dict[str, Any]) -> None:
            super().__init__()
            self.state = state

    def __init__(
        self, main: Widget, panes: Sequence[Pane], bar: PaneBar, *, room: Size | None = None
    ) -> None:
        """`room` is the expected size for a correct first layout; by default the terminal's size."""
        super().__init__()
        self.palette = Palette(Skin())
        self.panes = tuple(panes)
        self.bar = bar
        self.opened: Pane | None = None
        """The pane that covers the conversation; None if there is none."""
        self._main = main
        self._expected = room
        self._veiled = False
        self._wished = Arrangement().width
        self._jump: dict[str, Callable[[], object]] | None = None
        self._targets: dict[str, Widget] = {}
        self._came_from: Widget | None = None
        self._top = RegionRule(mark="┬")
        self._bottom = RegionRule(mark="┴")
        self._divider = Divider()
        self._middle = BlankContainer(id="workbench-main")
        self._side = Backdrop(id="workbench-side")
        self._rules = [RegionRule(background="surface") for _ in self.panes[1:]]

    def compose(self) -> ComposeResult:
        # Arranged before anything is mounted, so that the first layout is the right one.
        self._arrange()
        yield self._top
        with BlankContainer(id="workbench-middle"):
            with self._middle:
                yield self._main
            yield self._divider
            with self._side:
                for index, pane in enumerate(self.panes):
                    if index:
                        yield self._rules[index - 1]
                    yield pane
        yield self._bottom
        yield self.bar

    # Methods for the application

    def use(self, palette: Palette) -> None:
        """Draw everything but the main area in the colours of another skin."""
        self.palette = palette
        for part in (self._top, self._bottom, self._divider, self.bar, *self._rules, *self.panes):
            part.use(palette)
        self._side.styles.background = palette.skin.colors["surface"]
        self._tell_keys()

    def state(self) -> dict[str, Any]:
        """Return the user's layout as data for `restore`."""
        return {"width": self._wished, "folded": [pane.label for pane in self.panes if pane.folded]}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a stored layout. Invalid values, as in an edited file, are ignored."""
        folded = frozenset(pane.label for pane in self.panes if pane.folded)
        self._wished, folded = Arrangement(self._wished, folded).with_state(state)
        for pane in self.panes:
            pane.folded = pane.label in folded
        self._arrange()

    def set_hidden(self, hidden: bool) -> None:
        """Hide the panes of the column and show its background, or show them again."""
        self._veiled = hidden
        self._arrange()

    @property
    def vacant(self) -> bool:
        """True if no pane has anything to show."""
        return bool(self.panes) and all(pane.vacant for pane in self.panes)

    def add_jump_target(self, label: str, widget: Widget) -> None:
        """Add an outside widget, such as the prompt, as a jump target."""
        self._targets[label] = widget

    def open(self, label: str) -> None:
        """Show the pane `label` and focus it; if it is vacant in the side column, show its hint instead."""
        pane = next((pane for pane in self.panes if pane.label == label), None)
        if pane is None:
            return
        pane.wake()
        if self.mode == "wide" and pane.vacant:
            # The pane has no room next to the others; opening it shows the reason.
            self.notify(pane.empty, markup=False)
            return
        if self.mode == "wide":
            pane.folded = False
            self._arrange()
            self.call_after_refresh(pane.focus)
            return
        if self.opened is None and self.screen.focused is not self:
            self._came_from = self.screen.focused
        self.opened = pane
        self._arrange()
        self.call_after_refresh(pane.focus)

    @property
    def mode(self) -> Mode:
        """The way panes are shown at the present width."""
        return mode_for(self._room.width)

    @property
    def _room(self) -> Size:
        """Return the widget's size, or the expected one before the first layout."""
        return self.size or self._expected or self.app.size

    # Keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action is enabled: esc only if a pane covers the conversation or is focused."""
        return self.opened is not None or self._side.has_focus_within if action == "close_pane" else True

    def action_close_pane(self) -> None:
        """Return to the previous focus; from a side pane to the first jump target."""
        if self.opened is None and self._came_from is None:
            self._came_from = next(iter(self._targets.values()), None)
        self.opened = None
        self._arrange()
        self._focus_back()

    def action_resize_side(self, direction: int) -> None:
        if self.mode == "wide":
            self._set_width(side_width(self._wished, self.size.width) + direction * STEP, remember=True)

    def action_jump(self) -> None:
        """Show a letter on every pane and wait for one."""
        if self._jump is not None:
            return
        shown = [pane for pane in self.panes if not pane.vacant]
        keys = jump_keys([*(pane.label for pane in shown), MAIN, *self._targets])
        self._jump = {}
        hint = Text(" ", self.palette.style("dim"))
        for name, key in keys.items():
            self._jump[key] = self._jump_to(name)
            if self.mode != "bare" and name not in (MAIN, *self._targets):
                continue
            hint.append_text(self._mark_key(name, key)).append("  ", self.palette.style("text"))
        self._bottom.show_hint(hint.append("esc ", self.palette.style("dim")))
        for pane in shown:
            pane.jump_key = keys.get(pane.label, "")
            pane.repaint()
        self._tell_bar()
        if self.opened is None:
            self._came_from = self.screen.focused
        self.can_focus = True
        self.focus()

    def _mark_key(self, name: str, key: str) -> Text:
        """Return the name with its key marked, or with the key in front if it is not a letter of the name."""
        mark, rest = self.palette.style("background", "accent", bold=True), self.palette.style("text")
        at = name.find(key)
        if at < 0:
            return Text.assemble((key, mark), (f" {name}", rest))
        return Text.assemble((name[:at], rest), (key, mark), (name[at + 1 :], rest))

    def _jump_to(self, name: str) -> Callable[[], object]:
        if name in self._targets:
            return self._targets[name].focus
        return self._focus_main if name == MAIN else lambda: self.open(name)

    def on_key(self, event: events.Key) -> None:
        if self._jump is None:
            return
        event.stop()
        event.prevent_default()
        go = self._jump.get(event.key)
        self._end_jump()
        (go or self._focus_back)()

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """Return whether the workbench uses a key: in jump mode, those shown on the panes."""
        return self._jump is not None and key in self._jump

    def on_blur(self) -> None:
        if self._jump is not None:
            self._end_jump()

    def on_descendant_focus(self) -> None:
        self._tell_keys()

    def on_descendant_blur(self) -> None:
        self._tell_keys()

    def on_transcript_scrolled(self) -> None:
        self._tell_keys()

    def keys_shown(self) -> frozenset[str]:
        """Return the characters shown as commands for the focused widget."""
        return letters(self._keys())

    def _keys(self) -> str:
        """Return the key hints of the focused part, as far as they fit."""
        part = self.screen.focused if self.is_attached else None
        if self._jump is not None or part is None or self not in part.ancestors_with_self:
            return ""
        own = getattr(part, "KEYS", "")
        if isinstance(part, Pane):
            own = own + EVERY_PANE if part.count else ""
        return fit_keys(own, self._room.width - 2 * MARGIN) if own else ""

    def _tell_keys(self) -> None:
        """Show the key hints of the focused part below the panes."""
        keys = self._keys()
        if self._jump is None and (keys or self._bottom.hint):
            self._bottom.show_hint(Text(f" {keys} ", self.palette.style("dim")) if keys else Text())

    def _end_jump(self) -> None:
        self._jump = None
        self.can_focus = False
        self._bottom.show_hint(Text())
        for pane in self.panes:
            if pane.jump_key:
                pane.jump_key = ""
                pane.repaint()
        self._tell_bar()

    def _focus_back(self) -> None:
        back, self._came_from = self._came_from, None
        if back is not None and back.is_attached and back.focusable:
            back.focus()
        else:
            self._focus_main()

    def uncover(self) -> None:
        """Close the pane that covers the conversation, without moving the focus."""
        if self.opened is not None:
            self.opened = None
            self._arrange()

    def _focus_main(self) -> None:
        self.uncover()
        inside = self._middle.walk_children(Widget)
        target = next((widget for widget in inside if widget.focusable), None)
        if target is not None:
            target.focus()

    # Events

    def on_mount(self) -> None:
        self.use(self.palette)

    def on_resize(self) -> None:
        if self.mode == "wide" and self.opened is not None:
            self.opened = None
        self._arrange()

    def on_pane_reshaped(self, event: Pane.Reshaped) -> None:
        event.stop()
        self._arrange()

    def on_pane_fold_asked(self, event: Pane.FoldAsked) -> None:
        event.stop()
        event.pane.folded = not event.pane.folded
        event.pane.repaint()
        self._arrange()
        self.post_message(self.StateChanged(self.state()))

    def on_pane_bar_chosen(self, event: PaneBar.Chosen) -> None:
        event.stop()
        self.open(event.name)

    def on_divider_dragged(self, event: Divider.Dragged) -> None:
        event.stop()
        self._set_width(self.region.right - event.screen_x - 1, remember=event.done)

    def _set_width(self, width: int, *, remember: bool) -> None:
        self._wished = side_width(width, self.size.width)
        self._arrange()
        if remember:
            self.post_message(self.StateChanged(self.state()))

    # Arranging

    def _arrange(self) -> None:
        """Lay out every pane. Only changed values are set, so an unchanged layout costs nothing."""
        if not self.is_attached:
            return
        vacant = self.vacant
        wide = self.mode == "wide" and not vacant
        width = side_width(self._wished, self._room.width)
        over = self.opened is not None
        self._side.set_class(over, "-over")
        _set(self._side, "width", "100%" if over else width)
        self._show(self._side, wide or over)
        self._show(self._divider, wide)
        self._show(self.bar, self.mode == "bar" and not vacant)
        joint = self._room.width - width - 1 if wide else None
        self._top.join(joint)
        self._bottom.join(joint)
        for pane in self.panes:
            if pane.over != (pane is self.opened):
                pane.over = pane is self.opened
                pane.repaint()
        self._stack(width if wide else self._room.width)
        self._tell_bar()

    def _stack(self, width: int) -> None:
        """Set the heights of the panes in the column, and the rules between them."""
        height = max(self._room.height - 2 - (self.mode == "bar"), 0)
        if self._veiled:
            heights = [0] * len(self.panes)
        elif self.opened is not None:
            heights = [height if pane is self.opened else 0 for pane in self.panes]
        else:
            heights = self._heights(height, width)
        joints: list[int] = []
        y = 0
        for index, (pane, lines) in enumerate(zip(self.panes, heights, strict=True)):
            if index:
                ruled = lines > 0 and y > 0
                self._show(self._rules[index - 1], ruled)
                if ruled:
                    joints.append(y)
                    y += 1
            self._show(pane, lines > 0)
            if lines:
                _set(pane, "height", lines)
            y += lines
        self._divider.join(joints)

    def _heights(self, height: int, width: int) -> list[int]:
        shown = [pane for pane in self.panes if not pane.vacant]
        wants = [
            PaneWant(0 if pane.folded else pane.wanted_lines(width), pane.FLEXIBLE, pane.folded)
            for pane in shown
        ]
        lines = dict(zip((pane.label for pane in shown), share(height, wants), strict=True))
        return [lines.get(pane.label, 0) for pane in self.panes]

    def _show(self, widget: Widget, shown: bool) -> None:
        if widget.display != shown:
            widget.display = shown

    def _tell_bar(self) -> None:
        self.bar.show(
            [BarPart(pane.label, pane.summary(), pane.jump_key) for pane in self.panes if not pane.vacant]
        )


def _set(widget: Widget, dimension: str, value: int | str) -> None:
    """Set width or height only if it differs: a layout is expensive."""
    wanted = value if isinstance(value, str) else str(value)
    if str(getattr(widget.styles, dimension)) != wanted:
        setattr(widget.styles, dimension, value)
