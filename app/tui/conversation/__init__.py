"""The conversation on the screen: the open session, its events, what is sent to it."""
