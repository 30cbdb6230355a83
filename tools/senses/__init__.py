"""Tools for vision, drawing, speech, hearing, devices and messages; `agent.integrations.senses`
serves them.
"""
