"""The service behind `hermes serve`: sessions for browsers, phones and other programs."""
