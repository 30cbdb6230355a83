"""The gate (the permission check for every effect), the sandbox around commands, and the log of decisions.

It does not depend on sessions: questions to the user go through an object that is passed in.
"""
