"""Actions on a page: pointing, typing, selecting, and pressing keys."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tools.browser.frames import CdpError, FrameInfo, ancestry
from tools.browser.page_text import NodeKey
from tools.browser.tab import Tab
from tools.results import ToolError

_NAMED: dict[str, tuple[str, int, str]] = {
    "enter": ("Enter", 13, "\r"),
    "tab": ("Tab", 9, ""),
    "escape": ("Escape", 27, ""),
    "backspace": ("Backspace", 8, ""),
    "delete": ("Delete", 46, ""),
    "arrowup": ("ArrowUp", 38, ""),
    "arrowdown": ("ArrowDown", 40, ""),
    "arrowleft": ("ArrowLeft", 37, ""),
    "arrowright": ("ArrowRight", 39, ""),
    "home": ("Home", 36, ""),
    "end": ("End", 35, ""),
    "pageup": ("PageUp", 33, ""),
    "pagedown": ("PageDown", 34, ""),
    "insert": ("Insert", 45, ""),
    "space": (" ", 32, " "),
    **{f"f{number}": (f"F{number}", 111 + number, "") for number in range(1, 13)},
}
_ALSO = {
    "return": "enter",
    "esc": "escape",
    "del": "delete",
    "up": "arrowup",
    "down": "arrowdown",
    "left": "arrowleft",
    "right": "arrowright",
    "pgup": "pageup",
    "pgdn": "pagedown",
    " ": "space",
}
_MODIFIERS = {
    "alt": 1,
    "option": 1,
    "control": 2,
    "ctrl": 2,
    "meta": 4,
    "cmd": 4,
    "command": 4,
    "shift": 8,
}
_COMMANDS = {"a": "selectAll", "c": "copy", "x": "cut", "v": "paste", "z": "undo"}


@dataclass(frozen=True, slots=True)
class KeyPress:
    """A key to press, together with its modifier keys such as Control."""

    key: str
    code: str
    number: int
    text: str
    modifiers: int
    commands: tuple[str, ...] = ()

    def down(self) -> dict[str, object]:
        """Return the parameters of `Input.dispatchKeyEvent` that press the key."""
        kind = "keyDown" if self.text else "rawKeyDown"
        event: dict[str, object] = {**self._common(), "type": kind, "commands": list(self.commands)}
        return event | ({"text": self.text, "unmodifiedText": self.text} if self.text else {})

    def up(self) -> dict[str, object]:
        """Return the parameters of `Input.dispatchKeyEvent` that release the key."""
        return {**self._common(), "type": "keyUp"}

    def _common(self) -> dict[str, object]:
        return {
            "key": self.key,
            "code": self.code,
            "windowsVirtualKeyCode": self.number,
            "modifiers": self.modifiers,
        }


def key_press(name: str) -> KeyPress:
    """Parse a key such as `a` or `Control+Shift+K`. Raises `ValueError` for an unknown key or modifier."""
    plain = name.strip() or name
    *before, last = [plain] if plain in ("+", " ") else plain.replace("++", "+plus").split("+")
    last = "+" if last == "plus" else last
    modifiers = 0
    for each in before:
        if each.strip().lower() not in _MODIFIERS:
            raise ValueError(f"{each!r} is not a modifier; use Control, Alt, Shift or Meta")
        modifiers |= _MODIFIERS[each.strip().lower()]
    lowered = last.lower() if last == " " else last.strip().lower()
    lowered = _ALSO.get(lowered, lowered)
    quiet = bool(modifiers & 7)
    if lowered in _NAMED:
        key, number, text = _NAMED[lowered]
        code = "Space" if key == " " else key
        return KeyPress(key, code, number, "" if quiet else text, modifiers)
    if len(last) != 1:
        raise ValueError(f"{last!r} is not a key; use a character or a name such as Enter, Tab, ArrowDown")
    letter = last.upper() if modifiers & 8 else last
    code = f"Key{last.upper()}" if last.isascii() and last.isalpha() else ""
    code = f"Digit{last}" if last.isdigit() else code
    commands = (_COMMANDS[last.lower()],) if modifiers & 2 and last.lower() in _COMMANDS else ()
    number = ord(last.upper()) if last.isascii() and last.isalnum() else 0
    return KeyPress(letter, code, number, "" if quiet else letter, modifiers, commands)


_BUTTONS = {"left": 1, "right": 2, "middle": 4}
_WRITTEN = {
    "date": "2026-12-31",
    "time": "13:45",
    "datetime-local": "2026-12-31T13:45",
    "month": "2026-12",
    "week": "2026-W53",
    "color": "#ff0000",
    "range": "a number",
}
"""The required format of typed text, by type of field."""


class GoneError(Exception):
    """Raised if the element of a reference is no longer on the page."""


@dataclass(frozen=True, slots=True)
class FoundElement:
    """An element found on the page."""

    ref: str
    key: NodeKey
    session: str
    object_id: str
    infos: dict[str, FrameInfo]


async def find(tab: Tab, ref: str) -> FoundElement:
    """Resolve a reference to its element. Raises `GoneError`, `CdpError`, or `ToolError` if it is unknown."""
    key = tab.table.key(ref)
    if key is None:
        if tab.table.was_given(ref):
            raise GoneError
        raise ToolError(f"There is no element {ref[:40]!r}; use a ref of the newest snapshot, such as e12.")
    infos = await tab.frames.infos()
    info = infos.get(key.frame)
    if info is None or info.loader != key.loader:
        raise GoneError
    try:
        object_id = await tab.frames.resolve(info.session, key.frame, key.loader, key.node)
    except CdpError:
        raise GoneError from None
    return FoundElement(ref, key, info.session, object_id, infos)


async def click(tab: Tab, ref: str, *, button: str = "left", count: int = 1) -> None:
    """Click an element. Raises `GoneError`, and `ToolError` if the click does not reach it."""
    found = await find(tab, ref)
    for is_last in (False, True):
        x, y = await _point(tab, found, guards=True)
        await _press(tab, x, y, button, count)
        if tab.dialog is not None:
            return
        state = await _guarded(tab, found)
        if state is None or (state["hit"] and state["clicked"]):
            return
        if state["hit"]:
            raise ToolError(
                f"{ref} was pressed, but changed or went away before the button was let go; look again."
            )
        if not state["seen"]:
            raise ToolError(f"The click on {ref} reached nothing of the page; look again.")
        if is_last:
            raise ToolError(f"The click on {ref} met {state['other']} instead and was held back; look again.")
        await asyncio.sleep(0.1)


async def _guarded(tab: Tab, found: FoundElement) -> dict[str, Any] | None:
    """Return what the script that watches a click recorded.

    Returns None if a dialog opened or the document was unloaded, perhaps by the click.
    """
    info = found.infos[found.key.frame]
    try:
        answer = await tab.unless_dialog(
            tab.frames.run(info.session, info.id, info.loader, "hermes.guarded()", 5), None
        )
    except CdpError:
        return None
    return answer


async def hover(tab: Tab, ref: str) -> None:
    """Move the pointer onto an element. Raises `GoneError` and `ToolError`."""
    found = await find(tab, ref)
    x, y = await _point(tab, found)
    await _mouse(tab, "mouseMoved", x, y)


async def _point(tab: Tab, found: FoundElement, *, guards: bool = False) -> tuple[float, float]:
    """Scroll to an element and return the point at which to act on it, in window coordinates.

    The scrolling does not count as a change by the action. Raises `GoneError` and `ToolError`.
    """
    try:
        ready = await tab.frames.apply(found.session, found.object_id, "ready", guards)
    except CdpError:
        raise GoneError from None
    if ready.get("gone"):
        raise GoneError
    if covered := ready.get("covered"):
        raise ToolError(f"{found.ref} is covered by {covered}; nothing was clicked.", covered_by=covered)
    if why := ready.get("why"):
        raise ToolError(f"{found.ref} {why}; nothing was clicked.")
    x, y, moved = ready["x"], ready["y"], ready["moved"]
    for info in ancestry(found.infos[found.key.frame], found.infos):
        x, y, also = await _to_outer_frame(tab, found, info, x, y)
        moved = moved or also
    if moved:
        await tab.note_scroll()
    return x, y


async def _to_outer_frame(
    tab: Tab, found: FoundElement, info: FrameInfo, x: float, y: float
) -> tuple[float, float, bool]:
    """Convert a point in a frame to coordinates of the frame around it.

    Returns x, y, and whether the frame around it was scrolled. Raises `GoneError` and `ToolError`.
    """
    owner, session = await tab.frames.owner(info), tab.frames.owner_session(info)
    parent = found.infos[info.parent]
    try:
        if not owner:
            raise CdpError("gone")
        object_id = await tab.frames.resolve(session, parent.id, parent.loader, owner)
        outer: dict[str, Any] = {}
        moved = False
        for _ in range(3):
            outer = await tab.frames.apply(session, object_id, "through", x, y)
            if not outer.get("again"):
                break
            moved = True
    except CdpError:
        raise GoneError from None
    if covered := outer.get("covered"):
        raise ToolError(f"{found.ref} is covered by {covered}; nothing was clicked.", covered_by=covered)
    if "x" not in outer:
        raise ToolError(f"{found.ref} is in a frame that cannot be scrolled into view; nothing was clicked.")
    return outer["x"], outer["y"], moved


async def _press(tab: Tab, x: float, y: float, button: str, count: int) -> None:
    events = [_mouse(tab, "mouseMoved", x, y)]
    for number in range(1, count + 1):
        for kind in ("mousePressed", "mouseReleased"):
            buttons = _BUTTONS[button] if kind == "mousePressed" else 0
            events.append(_mouse(tab, kind, x, y, button=button, buttons=buttons, clickCount=number))
    # The browser keeps their order, and answers to a move alone only with the next picture.
    await asyncio.gather(*events)


async def _mouse(tab: Tab, kind: str, x: float, y: float, **more: Any) -> None:
    event = {"type": kind, "x": x, "y": y, **more}
    await tab.unless_dialog(tab.cdp.call("Input.dispatchMouseEvent", event, tab.session), {})


async def kind_of(tab: Tab, found: FoundElement) -> dict[str, Any]:
    """Return which input an element accepts, with keys such as `text`, `sets`, `password` and `tag`.

    Raises `GoneError`.
    """
    try:
        kind = await tab.frames.apply(found.session, found.object_id, "kind")
    except CdpError:
        raise GoneError from None
    if kind.get("gone"):
        raise GoneError
    return kind


async def type_text(tab: Tab, found: FoundElement, kind: dict[str, Any], text: str) -> None:
    """Replace a field's content with `text`; `kind` is from `kind_of`. Raises `GoneError` and `ToolError`."""
    if kind["sets"]:
        await _fill(tab, found, kind, text)
        return
    if not kind["text"]:
        raise ToolError(f"{found.ref} is a {kind['tag']} and takes no text; nothing was typed.")
    if not await _focus_field(tab, found):
        # Some take the focus only when they are pressed.
        try:
            await click(tab, found.ref)
        except ToolError as error:
            # Fields under a decoration of their own can be typed into all the same.
            if not error.extra.get("covered_by"):
                raise
        if tab.dialog is not None:
            return
        if not await _focus_field(tab, found):
            raise ToolError(f"{found.ref} did not take the focus; nothing was typed.")
    if tab.dialog is not None:
        return
    # Input goes to the process of the frame that has the focus.
    if text:
        await _insert(tab, found.session, text)
    else:
        await _keys(tab, found.session, KeyPress("Delete", "Delete", 46, "", 0))


async def _fill(tab: Tab, found: FoundElement, kind: dict[str, Any], text: str) -> None:
    """Set a field that takes no free text, such as a date. Raises `GoneError` and `ToolError`."""
    if kind["disabled"] or kind["readonly"]:
        raise ToolError(
            f"{found.ref} is {'disabled' if kind['disabled'] else 'read-only'}; nothing was typed."
        )
    try:
        is_set = await tab.unless_dialog(tab.frames.apply(found.session, found.object_id, "fill", text), True)
    except CdpError:
        raise GoneError from None
    if not is_set:
        raise ToolError(f"{found.ref} takes a {kind['type']}, written like {_WRITTEN[kind['type']]}.")


async def _focus_field(tab: Tab, found: FoundElement) -> bool:
    """Focus a field; return whether that worked or a dialog opened. Raises `GoneError` and `ToolError`."""
    try:
        state = await tab.unless_dialog(tab.frames.apply(found.session, found.object_id, "enter"), None)
    except CdpError:
        raise GoneError from None
    if state is None:
        return True
    if state.get("gone"):
        raise GoneError
    if why := state.get("why"):
        raise ToolError(f"{found.ref} {why}; nothing was typed.")
    if state["moved"]:
        await tab.note_scroll()
    return bool(state["focused"])


async def _insert(tab: Tab, session: str, text: str) -> None:
    await tab.unless_dialog(tab.cdp.call("Input.insertText", {"text": text}, session), {})


async def _keys(tab: Tab, session: str, key: KeyPress) -> None:
    await tab.unless_dialog(tab.cdp.call("Input.dispatchKeyEvent", key.down(), session), {})
    if tab.dialog is None:
        await tab.unless_dialog(tab.cdp.call("Input.dispatchKeyEvent", key.up(), session), {})


async def press(tab: Tab, key: KeyPress, ref: str = "") -> None:
    """Press a key, on an element if one is given. Raises `GoneError` and `ToolError`."""
    session = tab.session
    if ref:
        found = await find(tab, ref)
        session = found.session
        try:
            await tab.cdp.call("DOM.focus", {"objectId": found.object_id}, session)
        except CdpError as error:
            raise ToolError(f"{ref} cannot take the focus ({error}); nothing was pressed.") from None
    await _keys(tab, session, key)


async def select(tab: Tab, ref: str, values: Sequence[str]) -> list[str]:
    """Select options of a list by label or value; return them. Raises `GoneError` and `ToolError`."""
    found = await find(tab, ref)
    try:
        done = await tab.unless_dialog(
            tab.frames.apply(found.session, found.object_id, "choose", list(values)), {"chosen": []}
        )
    except CdpError:
        raise GoneError from None
    if done.get("gone"):
        raise GoneError
    if why := done.get("why"):
        raise ToolError(f"{ref} {why}; nothing was chosen.")
    if "missing" in done:
        raise ToolError(
            f"{ref} has no option {done['missing']!r}; nothing was chosen.", options=done["options"]
        )
    return list(done["chosen"])


async def scroll(tab: Tab, across: float, down: float, ref: str = "") -> dict[str, Any]:
    """Scroll the page, or the container of an element; return the new position.

    `across` and `down` are in widths and heights of the view. Raises `GoneError`, `ToolError` and `CdpError`.
    """
    if ref:
        found = await find(tab, ref)
        try:
            return await tab.frames.apply(found.session, found.object_id, "scroll", across, down)
        except CdpError:
            raise GoneError from None
    infos = await tab.frames.infos()
    root = next(iter(infos.values()))
    script = f"hermes.scroll(document.elementFromPoint(innerWidth / 2, innerHeight / 2), {across}, {down})"
    return await tab.frames.run(root.session, root.id, root.loader, script)


async def upload(tab: Tab, ref: str, paths: Sequence[str]) -> None:
    """Upload files to a field, or without `ref` to the open chooser. Raises `GoneError` and `ToolError`."""
    if not ref:
        chooser = tab.chooser
        if chooser is None:
            raise ToolError("The page has asked for no file; give the ref of its field for files.")
        tab.chooser = None
        params = {"files": list(paths), "backendNodeId": chooser.get("backendNodeId")}
        await tab.cdp.call("DOM.setFileInputFiles", params, chooser["session"])
        return None
    found = await find(tab, ref)
    kind = await kind_of(tab, found)
    if kind["tag"] == "input" and kind["type"] == "file":
        params = {"files": list(paths), "objectId": found.object_id}
        await tab.cdp.call("DOM.setFileInputFiles", params, found.session)
        return None
    # A button that opens the chooser.
    tab.chooser = None
    await click(tab, ref)
    for _ in range(20):
        if tab.chooser is not None:
            return await upload(tab, "", paths)
        await asyncio.sleep(0.05)
    raise ToolError(f"{ref} opens no chooser for files; nothing was uploaded.")
