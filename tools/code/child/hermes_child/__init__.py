"""The program that runs one script. It stands alone: standard library only, started beside the agent.

Nothing here is imported before it is needed: `json`, `socket` and `traceback`
each cost as much time as the bare start of the interpreter.
"""
