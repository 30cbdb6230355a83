"""Deadlines of plugins, in seconds: one that does not keep to them is cut off."""

from __future__ import annotations

LOADING = 10.0
TOOL = 30.0
"""Also for commands and for services that search."""
HOOK = 5.0
"""Also for notes of memory, which a session waits for when it begins."""
MAKING = 180.0
"""A picture, a sound, or what is said in a recording."""
