"""The code of the separate process per server, so that no server can block the user interface."""
