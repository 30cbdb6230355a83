"""Checks of an answer and of the files of a task, for batches and evaluation."""
