"""Tools that see, draw, speak, hear and reach devices and people; `agent.senses` does what they need."""
