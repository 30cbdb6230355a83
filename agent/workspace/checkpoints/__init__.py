"""Checkpoints: every step's changes to the files of a workspace, kept to be looked at and taken back."""
