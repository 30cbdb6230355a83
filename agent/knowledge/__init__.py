"""Everything a model is told beside the conversation: context, memory, learnings, skills, the past.

It knows nothing of turns and of integrations.
"""
