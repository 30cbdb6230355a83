"""One session that works: engine, turns, agents, history, spending, and how its services are put together.

It does not know who starts sessions.
"""
