"""Search services, one for each file."""
