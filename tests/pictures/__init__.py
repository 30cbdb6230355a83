"""Draws every screen of the application, so that somebody can look at all of them."""
