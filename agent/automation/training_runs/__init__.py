"""Training as the agent of a session starts and follows it: configuration, processes, their records."""
