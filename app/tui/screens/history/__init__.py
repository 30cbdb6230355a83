"""The history of a session: timeline, branches, comparison, restoring files."""
