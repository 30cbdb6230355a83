"""Screens for stored sessions: the list, and search over all of them."""
