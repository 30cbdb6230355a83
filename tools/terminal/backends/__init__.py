"""Backends away from this machine: containers, other hosts, sandboxes of cloud providers."""
