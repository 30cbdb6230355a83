"""Network egress: listed hosts, refused addresses, and the proxy."""
