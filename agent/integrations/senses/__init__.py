"""Images, speech and recordings, messages to people, and smart home devices."""
