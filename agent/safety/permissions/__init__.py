"""The user's permissions: rules by tool and pattern, modes, and the file that holds them."""
