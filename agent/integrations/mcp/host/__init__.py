"""The process that speaks to one server, so that nothing a server sends holds up the screen."""
