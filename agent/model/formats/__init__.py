"""The built-in wire formats. Each file here declares one as `FORMAT`."""
