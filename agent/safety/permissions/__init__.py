"""Permissions of the person: rules by tool and pattern, modes, and the file that holds them."""
