"""Checks of an answer and of what a task left behind, for batches and evaluation."""
