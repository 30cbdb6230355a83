"""Backends on other machines: containers, other hosts, sandboxes of cloud providers."""
