"""The one gate every effect passes, the boundary around commands, and the log of what was decided.

It knows nothing of sessions: what is asked of a person is handed in.
"""
