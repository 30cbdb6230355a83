"""The interface by which surfaces use an open session, in this process or in another."""
