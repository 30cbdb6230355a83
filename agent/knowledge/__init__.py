"""The input of a model besides the conversation: context, memory, learnings, skills, past sessions.

The package does not depend on turns or on integrations.
"""
