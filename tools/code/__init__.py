"""execute_code: scripts in a child process that call tools over a private socket."""
