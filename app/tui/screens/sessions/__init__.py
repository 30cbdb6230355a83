"""Stored sessions: the list, and search over all of them."""
