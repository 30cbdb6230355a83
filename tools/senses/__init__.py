"""Tools that see, draw, speak, hear and reach devices and people; `agent.integrations.senses` does what they
need."""
