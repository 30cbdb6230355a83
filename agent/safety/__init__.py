"""The gate that checks every effect, the boundary around commands, and the log of decisions.

It does not depend on sessions: questions to the user go through an object that is passed in.
"""
