"""Checkpoints: the file changes of every step in a workspace, recorded for viewing and undoing."""
