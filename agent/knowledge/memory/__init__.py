"""Memory: short notes that outlive a session, about the person, the machine and the project."""
