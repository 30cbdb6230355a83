"""A separate process for each server, so that nothing a server sends can block the user interface."""
