"""Pictures, speech and recordings, messages to people, and devices of the home."""
