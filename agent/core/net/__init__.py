"""Network access of sandboxed commands: listed hosts, refused addresses, and the proxy."""
