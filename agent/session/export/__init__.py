"""Exports of a branch for other people and programs: a patch for git, a page for a browser."""
