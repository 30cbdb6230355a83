"""A suite for agents that speak the Agent Client Protocol: schema, dialogues, generated exchanges."""
