"""Settings: schema, files, environment, trust."""
