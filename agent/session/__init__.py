"""One open session: engine, turns, agents, history, spending, and the assembly of its services.

It knows nothing of the callers that start sessions.
"""
