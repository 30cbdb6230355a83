"""Batches of tasks from a file.

Each task is a resumable session with its own folder, and all tasks share one budget.
"""
