"""Requests and streams: one complete reply, whatever the network does."""
