"""Work with nobody there: jobs on a schedule, batches, evaluation, training.

It starts sessions, and no session knows of it.
"""
