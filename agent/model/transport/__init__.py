"""Requests and streams: one complete reply, despite network failures."""
