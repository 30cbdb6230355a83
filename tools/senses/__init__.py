"""Tools for images, speech, devices and messages, implemented by `agent.integrations.senses`."""
