"""The one interface by which surfaces reach the engine.

Application, command line and every later surface import from the engine only this package,
`agent.events` and `agent.errors`. Its modules read what they name when it is first asked for,
so that naming a type costs nothing at start-up.
"""
