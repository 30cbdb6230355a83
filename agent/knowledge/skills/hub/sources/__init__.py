"""The kinds of skill sources, one per module."""
