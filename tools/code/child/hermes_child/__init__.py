"""The program that runs one script: standard library only, started as a separate process by the agent.

Modules are imported only when needed: `json`, `socket` and `traceback` each cost as much time as the bare
start of the interpreter.
"""
