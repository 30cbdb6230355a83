"""The interface through which surfaces (user interfaces) use an open session, in this process or another."""
