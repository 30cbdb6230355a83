"""Screens for the history of a session: timeline, branches, comparison, restoring files."""
