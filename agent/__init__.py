"""The engine of Hermes, in nine packages. It does not depend on any user interface.

Imports go downwards only: api > automation > session > integrations > knowledge > safety > workspace, model >
core. `workspace` and `model` do not import each other; a session does not depend on the callers that start
sessions. `events` and `errors` are shared with the surfaces (user interfaces).
"""
