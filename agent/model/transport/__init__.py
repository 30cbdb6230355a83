"""Requests and streams: getting one complete reply, despite network failures."""
