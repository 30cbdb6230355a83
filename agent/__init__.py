"""The engine of Hermes, in nine packages. Imports no user interface.

Imports go downwards only: api > automation > session > integrations > knowledge > safety > workspace, model
> core. `workspace` and `model` do not import each other; a session knows nothing of the callers that start
sessions. `events` and `errors` are shared with the surfaces.
"""
