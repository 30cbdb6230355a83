"""Skills from outside: search, quarantine, checks, installation and monitoring."""
