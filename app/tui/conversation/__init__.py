"""The conversation on the screen: the open session, its events, and the messages sent to it."""
