"""What the person allows and forbids: rules by tool and pattern, modes, and the file that holds them."""
