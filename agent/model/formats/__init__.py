"""The built-in wire formats. Each file here is one and declares itself as `FORMAT`."""
