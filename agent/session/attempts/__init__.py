"""Parallel attempts (`/attempts`): one message worked on by several branches at once."""
