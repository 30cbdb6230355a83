"""The user's permissions: rules by tool and pattern, modes, and the files that hold them."""
