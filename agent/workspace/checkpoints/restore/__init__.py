"""Taking files back to an earlier position: planned, shown, carried out, and itself a step."""
