"""The browser of the machine and of a session, as surfaces see them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.api.lazy import exports

if TYPE_CHECKING:
    from tools.browser.programs import can_confine as can_confine
    from tools.browser.programs import find_browser as find_browser

__getattr__ = exports(__name__, {"tools.browser.programs": "can_confine find_browser"})
