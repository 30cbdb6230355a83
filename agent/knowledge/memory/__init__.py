"""Memory: short notes that outlive a session, about the user, the machine and the project."""
