"""The engine of Hermes, in nine districts. Imports no user interface.

Imports go downwards only: api > automation > session > integrations > knowledge > safety > workspace, model
> core. `workspace` and `model` do not know each other; a session knows nobody who starts sessions. `events`
and `errors` are what crosses to surfaces.
"""
