"""One open session: engine, turns, agents, history, spending, and the assembly of its services. The package
does not depend on the callers that start sessions.
"""
