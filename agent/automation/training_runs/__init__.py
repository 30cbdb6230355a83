"""Training runs that a session's agent starts and follows: configuration, processes, records."""
